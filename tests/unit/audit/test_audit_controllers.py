"""Rules about the metadata quorum: its size, its racks, and who keeps up by the leader's clock."""

from typing import Any

import pytest

from counterpoise.audit.facts import AuditFacts
from counterpoise.errors import ClusterError
from counterpoise.model.inspection import Quorum
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity
from tests.support.audits import facts, findings_of, healthy, quorum, snapshot_of

RULES = (
    "quorum-size",
    "quorum-one-rack",
    "quorum-static",
    "quorum-voter-lags",
    "quorum-no-margin",
    "controllers-combined",
    "quorum-observer-lags",
)


def given(state: Quorum | None, racks: str = "1=a 2=b 3=c", **changes: Any) -> AuditFacts:
    cluster = healthy(racks=racks)
    cluster.quorum = state
    return facts(cluster, **changes)


def subjects(rule: str, found: AuditFacts) -> list[tuple[str, Severity]]:
    return [(finding.subject, finding.severity) for finding in findings_of(rule, found)]


@pytest.mark.parametrize(
    ("voters", "expected"),
    [
        ((101,), [("quorum", Severity.CRITICAL)]),
        ((101, 102), [("quorum", Severity.CRITICAL)]),
        ((101, 102, 103), []),
        ((101, 102, 103, 104), [("quorum", Severity.WARNING)]),
        (tuple(range(101, 106)), []),
        (tuple(range(101, 108)), [("quorum", Severity.INFO)]),
    ],
)
def test_one_voter_an_even_number_and_more_than_five(
    voters: tuple[int, ...], expected: list[object]
) -> None:
    assert subjects("quorum-size", given(quorum(voters))) == expected


def test_the_threshold_of_voters_is_the_policys() -> None:
    audit = AuditPolicy(thresholds={"quorum-size": {"most": 7}})
    assert findings_of("quorum-size", given(quorum(tuple(range(101, 108))), audit=audit)) == ()


@pytest.mark.parametrize(
    ("voters", "racks", "named", "expected"),
    [
        pytest.param((1, 2, 3), "1=a 2=b 3=c", {}, [], id="combined and spread"),
        pytest.param((1, 2, 3), "1=a 2=a 3=a", {}, [Severity.WARNING], id="all in one"),
        pytest.param((1, 2, 3), "1=a 2=a 3=c", {}, [Severity.INFO], id="a majority in one"),
        pytest.param((1, 2, 3), "1=a 2=b 3", {}, [Severity.UNKNOWN], id="a rack is missing"),
        pytest.param((1, 2, 3), "1=a 2=a 3", {}, [Severity.INFO], id="enough is known"),
        pytest.param(
            (101, 102, 103), "1=a 2=b 3=c", {}, [Severity.UNKNOWN], id="nobody named the racks"
        ),
        pytest.param(
            (101, 102, 103),
            "1=a 2=b 3=c",
            {101: "a", 102: "b", 103: "c"},
            [],
            id="named by the policy",
        ),
        pytest.param(
            (101, 102, 103),
            "1 2 3",
            {101: "a", 102: "a", 103: "a"},
            [Severity.WARNING],
            id="named as one",
        ),
        pytest.param((1,), "1=a 2=b 3=c", {}, [], id="one voter is a finding of its own"),
    ],
)
def test_racks_of_voters(
    voters: tuple[int, ...], racks: str, named: dict[int, str], expected: list[Severity]
) -> None:
    found = given(quorum(voters), racks, audit=AuditPolicy(controller_racks=named))
    assert [severity for _, severity in subjects("quorum-one-rack", found)] == expected


@pytest.mark.parametrize(
    ("directory_id", "is_static"),
    [
        (None, True),
        ("00000000-0000-0000-0000-000000000000", True),
        ("AAAAAAAAAAAAAAAAAAAAAA", True),
        ("5f9d1c52-3c53-4b3e-8e5f-0d8d9d8f5b11", False),
    ],
)
def test_voters_without_a_directory_id_are_static(
    directory_id: str | None, is_static: bool
) -> None:
    assert bool(findings_of("quorum-static", given(quorum(directory_id=directory_id)))) is is_static


def test_a_voter_lags_by_the_clock_of_the_leader() -> None:
    found = given(quorum(seconds_behind={102: 40.0, 103: 9.0}))
    finding = findings_of("quorum-voter-lags", found)[0]
    assert (finding.subject, finding.severity) == ("controller 102", Severity.WARNING)
    assert "40 s ago" in finding.summary
    assert len(findings_of("quorum-voter-lags", found)) == 1
    never = given(quorum(seconds_behind={102: None}))
    assert "since that one leads" in findings_of("quorum-voter-lags", never)[0].summary


def test_no_voter_to_spare_is_critical() -> None:
    rule = "quorum-no-margin"
    assert subjects(rule, given(quorum(seconds_behind={102: 40.0}))) == [
        ("quorum", Severity.CRITICAL)
    ]
    five = tuple(range(101, 106))
    assert subjects(rule, given(quorum(five, seconds_behind={102: 40.0}))) == []
    assert subjects(rule, given(quorum(five, seconds_behind={102: 40.0, 104: None}))) == [
        ("quorum", Severity.CRITICAL)
    ]
    # An even number has little to spare in health, too: that is said once, elsewhere.
    assert subjects(rule, given(quorum((101, 102)))) == []


def test_observers_that_lag_are_brokers_and_dead_ones_are_findings_of_another_rule() -> None:
    cluster = healthy()
    cluster.quorum = quorum(observers=(1, 2, 3), seconds_behind={2: 60.0, 3: 60.0})
    cluster.kill_broker(3)
    assert subjects("quorum-observer-lags", facts(cluster)) == [("broker 2", Severity.WARNING)]
    assert subjects("quorum-voter-lags", facts(cluster)) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_quorum_that_could_not_be_asked_is_unknown(rule: str) -> None:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    cluster.fail_next("describe_quorum", ClusterError("the metadata quorum: not allowed"))
    finding = findings_of(rule, facts(cluster, snapshot=snapshot))[0]
    assert finding.severity is Severity.UNKNOWN
    assert "not allowed" in finding.summary


@pytest.mark.parametrize("rule", ["quorum-voter-lags", "quorum-observer-lags", "quorum-no-margin"])
def test_a_leader_that_tells_no_times_leaves_lags_unknown(rule: str) -> None:
    found = given(quorum(seconds_behind=dict.fromkeys((101, 102, 103))))
    assert subjects(rule, found) == [("quorum", Severity.UNKNOWN)]

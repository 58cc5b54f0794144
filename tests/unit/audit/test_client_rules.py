"""Rules about groups and quotas: where a group is judged, and what is not known."""

from dataclasses import replace

import pytest

from counterpoise.audit.auditing import chosen_rules
from counterpoise.audit.facts import AuditFacts
from counterpoise.errors import InputError
from counterpoise.model.inspection import ConsumerGroup, InspectionItem
from counterpoise.model.severity import Severity
from tests.support import audit_pairs as on
from tests.support.audits import facts, findings_of, healthy

GROUP_RULES = ("group-near-retention", "group-lost-records", "group-abandoned")


def seen(given: AuditFacts) -> dict[str, Severity]:
    return {rule: one.severity for rule in GROUP_RULES for one in findings_of(rule, given)}


def with_group(given: AuditFacts, group: ConsumerGroup) -> AuditFacts:
    inspection = replace(given.inspection, groups={1: (group,), 2: (), 3: ()})
    return replace(given, inspection=inspection)


def test_size_alone_deletes_what_is_not_read() -> None:
    """The log of 100 MB has 900 records: 720 of them are 80 % of a retention.bytes as large."""
    assert seen(on.group(280, size=100_000_000)) == {"group-near-retention": Severity.WARNING}
    assert seen(on.group(281, size=100_000_000)) == {}


def test_a_group_keeps_the_offsets_of_a_topic_that_it_has_left() -> None:
    lost = on.group(98, members=1)
    commits = lost.groups[0].commits
    left = ConsumerGroup("shop", "Stable", 1, ("payments",), commits)
    moving = replace(left, state="PreparingRebalance", topics=())
    assert seen(with_group(lost, left)) == {}
    assert seen(with_group(lost, moving)) == {"group-lost-records": Severity.WARNING}


def test_offsets_that_no_leader_tells_are_not_known() -> None:
    lost = on.group(98, members=1)
    given = replace(lost, inspection=replace(lost.inspection, logs={}))
    assert seen(given) == dict.fromkeys(GROUP_RULES, Severity.UNKNOWN)


def test_the_groups_of_a_silent_broker_are_not_known_and_the_others_are_judged() -> None:
    lost = on.group(98, members=1)
    inspection = replace(
        lost.inspection,
        groups={1: lost.groups, 2: ()},
        unavailable={InspectionItem.GROUPS: "no answer from broker 3"},
    )
    found = findings_of("group-lost-records", replace(lost, inspection=inspection))
    assert [one.severity for one in found] == [Severity.WARNING, Severity.UNKNOWN]
    assert "broker 3" in found[1].summary


def test_without_groups_there_is_nothing_to_judge() -> None:
    cluster = healthy()
    cluster.groups = []
    assert seen(facts(cluster)) == {}


def test_topics_that_may_not_be_read_are_not_known_beside_what_hangs() -> None:
    given = on.transactions(2)
    hanging = given.inspection.transactions
    assert hanging is not None
    unread = replace(hanging, unread_topics={"bills": "no leader", "audit": "no leader"})
    inspection = replace(given.inspection, transactions=unread)
    found = findings_of("transactions-hanging", replace(given, inspection=inspection))
    assert [one.severity for one in found] == [Severity.WARNING, Severity.UNKNOWN]
    assert found[0].fix[2].endswith(" abort --topic orders --partition 0 --start-offset 10")
    assert "audit, bills: no leader" in found[1].summary


def test_a_rule_by_its_name_alone_is_run_by_no_pattern() -> None:
    named = "transactions-hanging"
    for wanted in ((), ("*",), ("group-*",)):
        assert named not in [rule.id for rule in chosen_rules(wanted, ())]
    assert [rule.id for rule in chosen_rules((named,), ())] == [named]
    assert chosen_rules((named,), (named,)) == ()
    with pytest.raises(InputError, match=f'did you mean "{named}"'):
        chosen_rules(("transactions-*",), ())

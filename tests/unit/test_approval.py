"""Two people for a plan that lowers a replication factor: what counts as two, and what the words
say until then.
"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from counterpoise.access import (
    check_granted,
    check_would_count,
    people_needed,
    people_to_ask,
    standing_approvals,
    why_two_people,
)
from counterpoise.errors import ConfigurationError, NotApprovedError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import Person
from counterpoise.model.policy import AccessPolicy, ApprovalPolicy, ClusterPolicy
from counterpoise.model.request import Goal
from counterpoise.model.run import Run, RunState
from counterpoise.settings import parse_settings
from tests.support.decisions import ALICE, BOB, CAROL
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
LOWERING = plan_by_hand(
    cluster("orders-0: 1 2", racks="1 2"),
    Goal.REPLICATION_FACTOR,
    move("orders-0", "1 2", "1"),
    replication_factor=1,
)
PLAN = LOWERING.fingerprint
RUN = Run("run", "demo", PLAN, "p", RunState.APPROVED, "", NOW, None, "airflow:carol")


def word(
    by: str,
    decision: Decision = Decision.GRANTED,
    *,
    fingerprint: str = PLAN,
    rate: int = 1_000_000,
    expires_at: datetime = NOW + timedelta(hours=1),
) -> Approval:
    return Approval(
        "run",
        fingerprint,
        decision,
        f"airflow:{by}",
        "why",
        NOW - timedelta(hours=2),
        rate,
        expires_at,
    )


def test_two_people_are_needed_where_replicas_are_given_up_and_one_elsewhere() -> None:
    snapshot = cluster("orders-0: 1 2\npayments-0: 1", racks="1 2 3")
    raised = plan_by_hand(
        snapshot, Goal.REPLICATION_FACTOR, move("payments-0", "1", "1 2"), replication_factor=2
    )
    mixed = plan_by_hand(
        snapshot, Goal.REPLICATION_FACTOR, *raised.moves, move("orders-0", "1 2", "1")
    )
    assert (people_needed(raised), people_needed(mixed)) == (1, 2)


@pytest.mark.parametrize(
    ("policy", "goal", "because"),
    [
        (ApprovalPolicy(), Goal.REMOVE_BROKERS, ""),
        (ApprovalPolicy(critical=True), Goal.LEADERS, "is for a critical cluster"),
        (ApprovalPolicy(two_people_above_bytes=999), Goal.REBALANCE, "copies more than 999 B"),
        (ApprovalPolicy(two_people_above_bytes=1000), Goal.REBALANCE, ""),
    ],
)
def test_a_policy_asks_for_two_people(policy: ApprovalPolicy, goal: Goal, because: str) -> None:
    snapshot = cluster("orders-0: 1 2", racks="1 2 3")
    plan = plan_by_hand(snapshot, goal, move("orders-0", "1 2", "3 2", size=1000))
    assert people_needed(plan, policy) == (2 if because else 1)
    assert why_two_people(plan, policy).startswith(because)
    assert people_needed(plan) == 1
    if because:
        with pytest.raises(NotApprovedError, match=because):
            check_granted(
                ClusterPolicy(approval=policy),
                replace(RUN, fingerprint=plan.fingerprint),
                plan,
                [word("alice", fingerprint=plan.fingerprint)],
                NOW,
            )


def test_the_later_of_two_yes_decides_the_rate() -> None:
    words = [word("alice", rate=1_000_000), word("bob", rate=5_000_000)]
    assert check_granted(ClusterPolicy(), RUN, LOWERING, words, NOW) == words[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([word("alice")], "2 different people .* until now .* alice did"),
        ([word("alice"), word("alice")], "until now .* alice did"),
        ([word("alice", expires_at=NOW), word("bob")], "until now .* bob did"),
        (
            [word("alice", fingerprint="sha256:other"), word("bob")],
            "until now .* bob did",
        ),
        (
            [word("alice"), word("bob", Decision.REJECTED), word("bob")],
            "until now .* bob did",
        ),
        ([word("alice"), word("bob"), word("carol", Decision.REJECTED)], "was rejected by carol"),
    ],
    ids=["one", "the same twice", "one expired", "for another plan", "undone by a no", "a last no"],
)
def test_what_does_not_count_as_two_people(words: list[Approval], says: str) -> None:
    with pytest.raises(NotApprovedError, match=says):
        check_granted(ClusterPolicy(), RUN, LOWERING, words, NOW)


def test_whoever_said_yes_is_not_asked_again_and_somebody_has_to_be_left() -> None:
    policy = ClusterPolicy(access=AccessPolicy(approve=("alice", "bob")))
    assert people_to_ask(policy, CAROL, [ALICE], needed=2) == ("bob",)
    assert people_to_ask(ClusterPolicy(), CAROL, [ALICE], needed=2) == ()
    alone = ClusterPolicy(access=AccessPolicy(approve=("alice",)))
    with pytest.raises(RefusedError, match="names nobody but alice"):
        people_to_ask(alone, CAROL, [ALICE], needed=2)


@pytest.mark.parametrize(
    ("before", "by", "says"),
    [
        ("", ALICE, ""),
        ("alice", ALICE, "alice approved this plan, so another Airflow user has to"),
        ("alice", Person.airflow("ALICE"), "approved this plan, so another Airflow user has to"),
        ("alice", Person.system("bob"), "approved by the Airflow user alice: another Airflow"),
        ("alice", BOB, ""),
        ("alice bob", ALICE, ""),
        ("alice bob", Person.system("bob"), "approved by the Airflow user alice"),
    ],
)
def test_what_is_taken_as_an_answer_counts_when_the_run_starts(
    before: str, by: Person, says: str
) -> None:
    """Whoever may not answer is told when they answer, and not by `execute`."""
    words = [word(name) for name in before.split()]
    policy = ClusterPolicy()

    def answer() -> None:
        check_would_count(policy, RUN, words, NOW, needed=2, by=by)

    if says:
        with pytest.raises(RefusedError, match=says):
            answer()
        return
    answer()
    standing = standing_approvals(
        policy, RUN, [*words, replace(word("x"), by=by.recorded)], NOW, needed=2
    )
    assert standing[-1].person == by
    assert len(standing) == len({*before.split(), by.name})


@pytest.mark.parametrize(
    ("access", "approval", "says"),
    [
        ("{approve: [alice]}", "{critical: yes}", "critical asks for two people"),
        ("{approve: [alice, ALICE]}", "{critical: yes}", "critical asks for two people"),
        ("{approve: ['airflow:a', 'system:b']}", "{critical: yes}", "critical asks for two people"),
        ("{approve: ['airflow:a', b]}", "{critical: yes}", ""),
        ("{approve: ['group:one']}", "{two_people_above: 1TB}", "two_people_above asks for two"),
        ("{approve: [alice]}", "{critical: no}", ""),
        ("{approve: ['group:two']}", "{critical: yes}", ""),
        ("{}", "{critical: yes}", ""),
    ],
)
def test_a_policy_that_could_never_approve_is_refused(
    access: str, approval: str, says: str
) -> None:
    text = (
        "groups: {one: [alice], two: [alice, bob]}\n"
        "clusters: {demo: {connection: x, "
        f"policy: {{access: {access}, approval: {approval}}}}}}}\n"
    )
    if not says:
        parse_settings(text, where="clusters.yaml")
        return
    with pytest.raises(ConfigurationError, match=says) as caught:
        parse_settings(text, where="clusters.yaml")
    assert len(caught.value.complaints) == 1

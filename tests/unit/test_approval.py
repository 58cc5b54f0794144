"""Two people for a plan that lowers a replication factor: what counts as two, and what the words
say until then.
"""

from datetime import UTC, datetime, timedelta

import pytest

from counterpoise.access import people_to_ask
from counterpoise.approval import approvers_in_force, granted_approval, people_needed
from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import People, Person
from counterpoise.model.policy import ApprovalPolicy, ClusterPolicy
from counterpoise.model.request import Goal
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
PLAN = "sha256:this"


def word(
    by: str,
    decision: Decision = Decision.GRANTED,
    *,
    fingerprint: str = PLAN,
    rate: int = 1_000_000,
    expires_at: datetime = NOW + timedelta(hours=1),
) -> Approval:
    return Approval(
        "run", fingerprint, decision, by, "why", NOW - timedelta(hours=2), rate, expires_at
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


def test_the_later_of_two_yes_decides_the_rate() -> None:
    words = [word("alice", rate=1_000_000), word("bob", rate=5_000_000)]
    assert granted_approval(words, PLAN, NOW, people=2) == words[1]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([word("alice")], "2 different people .* until now alice did"),
        ([word("alice"), word("alice")], "until now alice did"),
        ([word("alice", expires_at=NOW), word("bob")], "until now bob did"),
        ([word("alice", fingerprint="sha256:other"), word("bob")], "until now bob did"),
        ([word("alice"), word("bob", Decision.REJECTED), word("bob")], "until now bob did"),
        ([word("alice"), word("bob"), word("carol", Decision.REJECTED)], "was rejected by carol"),
    ],
    ids=["one", "the same twice", "one expired", "for another plan", "undone by a no", "a last no"],
)
def test_what_does_not_count_as_two_people(words: list[Approval], says: str) -> None:
    with pytest.raises(NotApprovedError, match=says):
        granted_approval(words, PLAN, NOW, people=2)


def test_whoever_said_yes_is_not_asked_again_and_somebody_has_to_be_left() -> None:
    in_force = approvers_in_force([word("alice"), word("bob"), word("alice")])
    assert in_force == (Person("alice"), Person("bob"))
    carol, people = Person("carol"), People()
    policy = ClusterPolicy(approval=ApprovalPolicy(approvers=("alice", "bob")))
    assert people_to_ask(policy, people, carol, [Person("alice")]) == ("bob",)
    assert people_to_ask(ClusterPolicy(), people, carol, [Person("alice")]) == ()
    alone = ClusterPolicy(approval=ApprovalPolicy(approvers=("alice",)))
    with pytest.raises(RefusedError, match="names nobody but alice"):
        people_to_ask(alone, people, carol, [Person("alice")])

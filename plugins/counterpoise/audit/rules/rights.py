"""Rights: which goals the operator's principal can carry out here, by probing. Nothing is changed
by it.

    elect leaders: CLUSTER_AUTHORIZATION_FAILED        # no leaders, no demote-brokers, no rebalance

Limits: says what the cluster refuses, not why; a managed service refuses some of it to everybody.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from counterpoise.audit.commands import kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Need, Rule, Sighting, evidence, unknown
from counterpoise.model.inspection import Asked
from counterpoise.model.request import PLANNED_GOALS, Goal
from counterpoise.model.severity import Severity

_CLUSTER: Final = "cluster"
_COPYING: Final = (
    Goal.ADD_BROKERS,
    Goal.REMOVE_BROKERS,
    Goal.REBALANCE,
    Goal.REPLICATION_FACTOR,
    Goal.REPAIR,
)
_ELECTING: Final = (
    Goal.LEADERS,
    Goal.DEMOTE_BROKERS,
    Goal.REBALANCE,
    Goal.ADD_BROKERS,
    Goal.REMOVE_BROKERS,
)

# By the names of the operations that the probe has (a test holds them together): what cannot be
# done without them, and the operation of Kafka's ACLs that allows them.
GOALS_WITHOUT: Final[Mapping[str, tuple[Goal, ...]]] = {
    "set a broker's throttle rate": _COPYING,
    "set a topic's throttle lists": _COPYING,
    "reassign partitions": PLANNED_GOALS,
    "elect leaders": _ELECTING,
}
_ALLOWED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "set a broker's throttle rate": ("--operation", "AlterConfigs", "--cluster"),
    "set a topic's throttle lists": ("--operation", "AlterConfigs", "--topic", "*"),
    "reassign partitions": ("--operation", "Alter", "--cluster"),
    "elect leaders": ("--operation", "Alter", "--cluster"),
}


def _refused(facts: AuditFacts) -> Iterator[Sighting]:
    refused = facts.inspection.refused
    if refused is None:
        yield unknown(
            _CLUSTER,
            facts.inspection.unanswered.get(Asked.PERMISSIONS, "permissions were not asked"),
        )
        return
    if not refused:
        return
    lost = {goal for operation in refused for goal in GOALS_WITHOUT.get(operation, PLANNED_GOALS)}
    left = [str(goal) for goal in PLANNED_GOALS if goal not in lost]
    needed = dict.fromkeys(
        _ALLOWED_BY[operation] for operation in refused if operation in _ALLOWED_BY
    )
    yield Sighting(
        _CLUSTER,
        f"the operator's principal may not {' and not '.join(sorted(refused))}; goals that remain: "
        f"{', '.join(left) or 'none'}",
        evidence(
            ("operation", "the cluster's answer", "goals that need it"),
            [
                (
                    operation,
                    reason,
                    ", ".join(map(str, GOALS_WITHOUT.get(operation, PLANNED_GOALS))),
                )
                for operation, reason in sorted(refused.items())
            ],
        ),
        fix=tuple(
            kafka("kafka-acls", "--add", "--allow-principal", "User:PRINCIPAL", *words)
            for words in needed
        ),
    )


RULES: Final = (
    Rule(
        "rights-refused",
        Area.RIGHTS,
        Severity.INFO,
        title="Goals that this principal may not carry out",
        why="A plan that cannot be throttled, submitted or finished fails in the middle of the night in which it "
        "was to run; it is better to know on a working day.",
        how="Grant what is missing, or leave those goals alone: a managed service allows some of this to nobody.",
        source="https://kafka.apache.org/documentation/#operations_resources_and_protocols",
        look=_refused,
        needs=frozenset({Need.INSPECTION}),
    ),
)

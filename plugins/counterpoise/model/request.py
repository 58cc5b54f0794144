"""What a plan is requested to do: the goal, for which topics and brokers, at what cost.

    scope, budget = Scope(excluded_topics=("audit-*",)), Budget(max_bytes=10**12)
    PlanRequest(Goal.ADD_BROKERS, (7, 8), scope=scope, budget=budget)

Topic patterns are names in which `*` stands for any text and `?` for one character.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from counterpoise.model.policy import BalancePolicy
from counterpoise.model.topic_patterns import matching


class Goal(StrEnum):
    ADD_BROKERS = "add-brokers"
    REMOVE_BROKERS = "remove-brokers"
    DEMOTE_BROKERS = "demote-brokers"
    LEADERS = "leaders"
    REBALANCE = "rebalance"
    REPLICATION_FACTOR = "replication-factor"
    REPAIR = "repair"
    IMPORTED = "imported"


# What a plan for the goal does: in the form, the help of the command line and the page of a plan.
GOAL_TEXTS: Final[Mapping[Goal, str]] = {
    Goal.ADD_BROKERS: "the named brokers get their share; the others receive nothing",
    Goal.REMOVE_BROKERS: "the named brokers are emptied; only what they hold moves",
    Goal.DEMOTE_BROKERS: "the named brokers lead nothing, and keep their replicas",
    Goal.LEADERS: "leaders are spread evenly; replicas are reordered, no data moves",
    Goal.REBALANCE: "racks, leaders, replicas and bytes are evened out over all brokers",
    Goal.REPLICATION_FACTOR: "each partition gets the wanted number of replicas; none moves",
    Goal.REPAIR: "replicas on dead brokers are copied to other brokers",
    Goal.IMPORTED: "the targets of a reassignment JSON are reached",
}
GOALS_WITH_BROKERS: Final = frozenset({Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.DEMOTE_BROKERS})
PLANNED_GOALS: Final = tuple(goal for goal in Goal if goal is not Goal.IMPORTED)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a plan may touch.

    Empty includes mean everything; what is excluded is excluded from those.
    """

    topics: tuple[str, ...] = ()  # patterns
    excluded_topics: tuple[str, ...] = ()  # patterns
    broker_ids: tuple[int, ...] = ()  # only these send, receive and change what they lead
    excluded_broker_ids: tuple[int, ...] = ()

    def may_touch_broker(self, broker_id: int) -> bool:
        is_included = not self.broker_ids or broker_id in self.broker_ids
        return is_included and broker_id not in self.excluded_broker_ids

    def topics_in(
        self, topics: Iterable[str], policy: BalancePolicy | None = None
    ) -> frozenset[str]:
        """Return those of the topics that the scope includes and no policy excludes."""
        topics = frozenset(topics)
        excluded_by_policy = policy.excluded_topics if policy else ()
        included = matching(self.topics or ("*",), topics)
        return included - matching((*excluded_by_policy, *self.excluded_topics), topics)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a plan may copy; None is no limit."""

    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    goal: Goal
    broker_ids: tuple[int, ...] = ()  # of the goals that name brokers
    policy: BalancePolicy = field(default_factory=BalancePolicy)
    scope: Scope = field(default_factory=Scope)
    budget: Budget = field(default_factory=Budget)
    replication_factor: int | None = None  # of the goal of that name

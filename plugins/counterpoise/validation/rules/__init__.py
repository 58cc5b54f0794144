"""The rules that a plan must keep, whoever made it. Small functions; `RULES` is all of them.

    find_violations(plan, snapshot, policy)    # () means that the plan may be shown for approval

A rule yields one complaint per offending subject. Its name is the function's name. A new rule is a
function in one of the files here and its line in `RULES`.
"""

from collections.abc import Callable, Iterator
from typing import Final

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.validation.rules.document import (
    before_values_hold,
    changes_something,
    known_partition,
    of_this_snapshot,
    partition_named_once,
    reason_when_empty,
    same_topic,
)
from counterpoise.validation.rules.figures import figures_agree
from counterpoise.validation.rules.goals import (
    demoted_brokers_lead_nothing,
    leaders_move_no_bytes,
    old_brokers_receive_nothing,
    only_dead_replicas_move,
    only_drained_replicas_move,
    removed_brokers_end_empty,
)
from counterpoise.validation.rules.limits import (
    budget_respected,
    constraints_kept,
    disks_not_overfilled,
    excluded_topics_untouched,
    scope_respected,
)
from counterpoise.validation.rules.replicas import (
    in_sync_replicas_kept,
    leaders_are_live,
    led_by_somebody,
    min_isr_reachable,
    no_broker_twice,
    nothing_under_reassignment,
    racks_not_worse,
    replication_factor_kept,
    targets_are_live,
)
from counterpoise.validation.violation import CheckedPlan, Complaint, Violation

Rule = Callable[[CheckedPlan], Iterator[Complaint]]

# A person may want these all the same, and writes a reassignment that breaks them: a warning then.
OVERRIDABLE_RULES: Final = ("racks_not_worse", "min_isr_reachable", "constraints_kept")
# Only the snapshot that a plan was made from has exactly its sizes and rates.
RULES_OF_ONE_SNAPSHOT: Final = ("figures_agree",)

RULES: Final[tuple[Rule, ...]] = (
    of_this_snapshot,
    partition_named_once,
    known_partition,
    same_topic,
    before_values_hold,
    changes_something,
    no_broker_twice,
    replication_factor_kept,
    targets_are_live,
    leaders_are_live,
    racks_not_worse,
    nothing_under_reassignment,
    led_by_somebody,
    min_isr_reachable,
    in_sync_replicas_kept,
    old_brokers_receive_nothing,
    removed_brokers_end_empty,
    only_drained_replicas_move,
    only_dead_replicas_move,
    leaders_move_no_bytes,
    demoted_brokers_lead_nothing,
    excluded_topics_untouched,
    constraints_kept,
    scope_respected,
    budget_respected,
    disks_not_overfilled,
    figures_agree,
    reason_when_empty,
)


def find_violations(
    plan: RebalancePlan, snapshot: ClusterSnapshot, policy: BalancePolicy
) -> tuple[Violation, ...]:
    """Return every broken rule; `policy` is the one that the plan is made with."""
    checked = CheckedPlan.of(plan, snapshot, policy)
    return tuple(
        Violation(rule.__name__, *complaint) for rule in RULES for complaint in rule(checked)
    )

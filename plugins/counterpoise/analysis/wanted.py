"""Which plan would help a cluster, and for how long it would have helped already.

    wanted = wanted_goals(balance, policy.balance, policy.proposals)    # (): nothing needs doing
    uneven_snapshots(balance, wanted[0].goal, policy.balance, policy.proposals)

    broker 4 is idle             -> add-brokers 4
    bytes 60 % off a fair share  -> rebalance, where `uneven_percent` is 50, say
    leaders 12, 9, 6             -> leaders

Limits: whether racks, sizes of partitions and constraints of the policy allow more is for the
planner to find out: it answers "nothing to do" where they do not.
"""

from typing import Final

from counterpoise.model.balance import BalancePoint, LeaderBalance, WantedRebalance
from counterpoise.model.policy import BalancePolicy, ProposalPolicy
from counterpoise.model.request import Goal
from counterpoise.units import format_bytes

# Of small numbers a large part is little: nobody moves data for less.
_MIN_REPLICAS_APART: Final = 4
_NO_PROPOSALS: Final = ProposalPolicy()


def wanted_goals(
    balance: LeaderBalance, policy: BalancePolicy, proposals: ProposalPolicy = _NO_PROPOSALS
) -> tuple[WantedRebalance, ...]:
    """Return the plans that would help, the one that does most first: for new brokers that hold
    nothing, which evens out the rest, too; for replicas or bytes that are far from a fair share, if
    the policy says how far; for uneven leaders.

    Leaders are judged as they are, and as the replica order prefers them: where only the first are
    uneven, a preferred leader election helps; where the second are, the order has to change. The
    goal `leaders` does either.
    """
    latest, idle = balance.latest, balance.idle_broker_ids
    if idle and latest.replicas.total >= latest.replicas.broker_count:
        return (WantedRebalance(Goal.ADD_BROKERS, idle, _idle_reason(balance)),)
    return tuple(
        WantedRebalance(goal, (), reason)
        for goal in (Goal.REBALANCE, Goal.LEADERS)
        if (reason := _why(latest, goal, policy, proposals))
    )


def uneven_snapshots(
    balance: LeaderBalance,
    goal: Goal,
    policy: BalancePolicy,
    proposals: ProposalPolicy = _NO_PROPOSALS,
) -> int:
    """Return in how many of the newest snapshots, in a row, the goal would have helped. Nothing is
    counted across a gap, or of another cluster.
    """
    count = 0
    for position in reversed(range(len(balance.series))):
        if not _why(balance.series[position], goal, policy, proposals):
            break
        count += 1
        if position in balance.breaks:
            break
    return count


def _why(point: BalancePoint, goal: Goal, policy: BalancePolicy, proposals: ProposalPolicy) -> str:
    """Return in which way a snapshot is more uneven than the policy allows, of what the goal evens
    out; "" where it is not.
    """
    if goal is Goal.LEADERS:
        return _why_leaders(point, policy)
    percent = proposals.uneven_percent
    return "" if percent is None else _why_shares(point, percent)


def _why_leaders(point: BalancePoint, policy: BalancePolicy) -> str:
    measures = (("preferred leaders", point.preferred_leaders), ("leaders", point.leaders))
    for name, measured in measures:
        allowed = measured.best_max_minus_min + policy.leaders_max_minus_min
        if measured.max_minus_min > allowed:
            return (
                f"{name} per live broker range from {measured.minimum} to {measured.maximum}; "
                f"the policy allows max - min of at most {allowed}"
            )
    return ""


def _why_shares(point: BalancePoint, percent: int) -> str:
    """Return which of replicas and bytes is farther than that from a broker's fair share."""
    replicas, held_bytes = point.replicas, point.bytes
    allowed = f"the policy allows {percent} %"
    off_share = point.replicas_off_share
    if replicas.max_minus_min >= _MIN_REPLICAS_APART and off_share * 100 > percent:
        return (
            f"replicas per live broker range from {replicas.minimum} to {replicas.maximum}, up to "
            f"{off_share * 100:.0f} % off the fair share; {allowed}"
        )
    if point.bytes_off_share * 100 > percent:
        return (
            f"bytes per live broker range from {format_bytes(held_bytes.minimum)} to "
            f"{format_bytes(held_bytes.maximum)}, up to {point.bytes_off_share * 100:.0f} % off "
            f"the fair share; {allowed}"
        )
    return ""


def _idle_reason(balance: LeaderBalance) -> str:
    idle = balance.idle_broker_ids
    replicas = balance.latest.replicas
    others = replicas.broker_count - len(idle)
    ids = ", ".join(map(str, idle))
    subject = (
        f"broker {ids} is live but holds"
        if len(idle) == 1
        else (f"brokers {ids} are live but hold")
    )
    elsewhere = "the other broker" if others == 1 else f"the other {others} brokers"
    return f"{subject} no replica, while {replicas.total} replicas are on {elsewhere}"

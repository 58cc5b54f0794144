"""What to do next: a pure function of the plan and of what one look shows. No clock, no I/O.

    command = next_command(situation)       # for a run that may move
    command = settle_command(situation)     # for a run that starts nothing new

Whatever is sent is the difference between the plan and what the cluster says, so running it again
is harmless.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from counterpoise.execution.batching import MOST_PARTITIONS_PER_CALL, next_batch
from counterpoise.execution.commands import (
    Cancel,
    Command,
    Elect,
    Finish,
    Halt,
    Release,
    Restore,
    RestoreOrder,
    Submit,
    Throttle,
    Wait,
)
from counterpoise.execution.halting import (
    reason_to_halt,
    reason_to_hold,
    reason_to_rest,
    skipped_for_lagging,
)
from counterpoise.execution.observation import MoveState, Observation, States
from counterpoise.execution.progress_update import stalled_links
from counterpoise.execution.throttles import ThrottleTarget, missing, restoring, wanted_throttles
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import InFlight, MovementPolicy
from counterpoise.model.run import TouchedKey
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import join_names

MOST_ELECTION_ATTEMPTS: Final = 10
# A call without an answer may be applied when a frozen broker wakes. Kafka's broker session ends
# after 9 s by default.
QUIET_SECONDS: Final = 30.0


@dataclass(frozen=True)
class PlanningResult:
    """All that a decision depends on."""

    plan: RebalancePlan
    seen: Observation
    by_state: States  # the plan's moves, as `seen` tells them
    run_progress: RunProgress
    limits: MovementPolicy
    fleet_limit: int | None = None

    @property
    def moving(self) -> Sequence[Move]:
        return self.by_state[MoveState.MOVING]

    @property
    def pending(self) -> list[Move]:
        return [*self.by_state[MoveState.PENDING], *self.by_state[MoveState.CANCELLED]]

    @cached_property
    def unsure(self) -> list[Move]:
        """Not seen to move, but a call about them may still be applied."""
        return [move for move in self.pending if self.seen.is_unsure(move, QUIET_SECONDS)]

    def target(self, moves: Iterable[Move]) -> ThrottleTarget:
        return wanted_throttles(moves, self.run_progress.rate_bytes_per_second)


def next_command(now: PlanningResult) -> Command:
    """The next thing to do for a run that may move."""
    if halt := reason_to_halt(now.by_state, now.seen, now.run_progress, now.limits):
        return halt
    if stuck := now.by_state[MoveState.STUCK]:
        return _cancel(stuck, "they add and remove the same replica, which Kafka never ends")
    rest = reason_to_rest(now.seen, now.limits)
    target = now.target([*now.moving, *(now.unsure if rest else now.pending)])
    if changes := missing(target, now.seen.configs, now.seen.touched):
        return Throttle(changes)
    if command := _release(now, target):
        return command
    if hold := rest or reason_to_hold(now.seen, now.run_progress):
        return Wait(f"{len(now.moving)} partitions are moving; {hold}" if now.moving else hold)
    # A late call about a partition of several steps could take it back to an earlier one.
    ready = [
        m for m in now.pending if len(m.adding) <= 1 or not now.seen.is_unsure(m, QUIET_SECONDS)
    ]
    if batch := next_batch(ready, now.moving, now.seen, now.limits, now.fleet_limit):
        return Submit(batch)
    return _waiting(now) or _next_election(now)


def settle_command(now: PlanningResult) -> Command:
    """The next thing to do for a run that starts nothing new: first nothing of ours in flight, then
    restore.
    """
    if hopeless := _not_to_finish(now):
        return _cancel(hopeless, "they cannot, or must not, finish")
    target = now.target([*now.moving, *now.unsure])
    if now.moving and (changes := missing(target, now.seen.configs, now.seen.touched)):
        return Throttle(changes)
    if (now.moving or now.unsure) and (command := _release(now, target)):
        return command
    if now.moving:
        return Wait(f"{len(now.moving)} partitions finish under the throttle")
    if now.by_state[MoveState.CANCELLED]:
        return RestoreOrder(tuple(now.by_state[MoveState.CANCELLED])[:MOST_PARTITIONS_PER_CALL])
    if now.unsure:
        return Wait(f"{len(now.unsure)} moves were sent without an answer and may still be applied")
    return _restoration(now.seen)


def _restoration(seen: Observation) -> Command:
    """What brings every key of a run back that its broker lets us; Finish when there is none left."""
    unrestored = [t for t in seen.touched if t.restored_at is None]
    owed = tuple(t for t in unrestored if _is_dead(t, seen))
    reachable = [t for t in unrestored if t not in owed]
    keys = tuple((t, change) for t in reachable if (change := restoring(t, seen.configs)))
    if keys:
        return Restore(keys)
    if silent := sorted(
        {
            t.resource.name
            for t in reachable
            if t.resource not in seen.configs and t.resource.is_broker
        }
    ):
        return Wait(
            f"brokers {', '.join(silent)} do not answer; what is set there cannot be restored yet",
            is_brief=True,
        )
    return Finish(owed)


def _release(now: PlanningResult, target: ThrottleTarget) -> Command | None:
    """Keys that nothing in flight or to come needs any more go back at once, broker by broker,
    topic by topic.
    """
    needed = {*target.rates, *target.lists}
    idle = [
        t for t in now.seen.touched if t.restored_at is None and (t.resource, t.key) not in needed
    ]
    idle = [t for t in idle if t.resource in now.seen.configs]
    if keys := tuple((t, change) for t in idle if (change := restoring(t, now.seen.configs))):
        return Restore(keys)
    return Release(tuple(idle)) if idle else None


def _not_to_finish(now: PlanningResult) -> list[Move]:
    """Moves in flight that never end, or that the policy, a person or the reason of the halt wants
    to be cancelled.
    """
    stuck, moving = now.by_state[MoveState.STUCK], now.moving
    if (
        now.run_progress.is_cancelling
        or now.limits.on_halt is InFlight.CANCEL
        or now.seen.standing.cancelled
    ):
        return [*stuck, *moving]
    stalled = {link.broker_id for link in stalled_links(now.run_progress, now.limits, times=2)}
    return [
        *stuck,
        *(m for m in moving if _cannot_end(m, now.seen) or stalled & set(now.seen.ends(m))),
    ]


def _cannot_end(move: Move, seen: Observation) -> bool:
    """Kafka ends a reassignment when all replicas of the target are in sync, and copies from the
    leader alone.
    """
    return bool(set(move.replicas_after) - seen.live_broker_ids) or seen.leader_of(move) is None


def _cancel(moves: Sequence[Move], reason: str) -> Cancel:
    return Cancel(tuple(moves)[:MOST_PARTITIONS_PER_CALL], reason)


def _waiting(now: PlanningResult) -> Command | None:
    if now.moving:
        return Wait(f"{len(now.moving)} partitions are moving")
    if not now.pending:
        return None
    if halt := skipped_for_lagging(now.by_state, now.seen, now.run_progress, now.limits):
        return halt
    if lagging := [
        f"{m.topic_partition} (brokers {list(now.seen.lagging(m))})"
        for m in now.pending
        if now.seen.lagging(m)
    ]:
        return Wait(
            f"{len(lagging)} partitions wait for replicas that are not in sync: {join_names(lagging)}"
        )
    silent = ", ".join(map(str, sorted(now.seen.silent_broker_ids)))
    return Wait(
        f"{len(now.pending)} partitions wait: brokers that do not answer: {silent or 'none'}; or other caps"
    )


def _next_election(now: PlanningResult) -> Command:
    seen = now.seen
    to_elect = [m for m in now.by_state[MoveState.DONE] if not seen.is_led_as_planned(m)]
    if not to_elect:
        return Finish()
    tired = [
        m
        for m in to_elect
        if seen.election_attempts.get(m.topic_partition, 0) >= MOST_ELECTION_ATTEMPTS
    ]
    if tired:
        names = [f"{m.topic_partition} (wanted: {m.replicas_after[0]})" for m in tired]
        return Halt(f"{len(tired)} preferred leaders could not be elected: {join_names(names)}")
    ready = tuple(
        m
        for m in to_elect
        if m.replicas_after[0] in seen.partitions[m.topic_partition].description.isr
    )
    if ready:
        most = now.limits.max_elections_per_look
        return Elect(ready[:most], is_last=len(ready) <= most)
    return Wait(f"{len(to_elect)} preferred leaders are not in sync yet")


def _is_dead(touched: TouchedKey, seen: Observation) -> bool:
    """A dead broker's config can be neither read nor written."""
    return touched.resource.is_broker and int(touched.resource.name) not in seen.live_broker_ids

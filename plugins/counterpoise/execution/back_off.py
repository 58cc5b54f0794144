"""How fast copies may be, and the throttle back-off, which lowers that. Pure.

    back_off = find_back_off(base, observation, moving, limits, wanted_rate)
    rate = rate_in_force(observation, limits, wanted_rate, back_off.level)

Example of a back-off from 20 MB/s: at 12:00:00 a partition outside the plan loses an in-sync
replica; at 12:00:30 it still lacks it, the rate is halved to 10 MB/s, at 12:01:00 to 5 MB/s. At
12:01:10 it is in sync again; 2 min later the rate doubles. Had it been lost again before, that
would have been the same loss: at 12:01:30 the rate would have been halved once more.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from counterpoise.execution.conditions import replica
from counterpoise.execution.observation import Observation
from counterpoise.execution.throttling.targets import default_rate
from counterpoise.model.calendar import rate_at
from counterpoise.model.kafka import PartitionDescription
from counterpoise.model.plan import Move
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run_progress import Condition, Conditions, RunProgress

LOWEST_RATE: Final = 1_000_000  # bytes per second; a copy this slow hardly loads a broker
HALT_AFTER: Final = timedelta(minutes=10)  # of ISR loss at the lowest rate, which halts the run
STEP_AFTER: Final = timedelta(seconds=30)  # of ISR loss: one level up
CALM_AFTER: Final = timedelta(minutes=2)  # without: one level down


@dataclass(frozen=True, slots=True)
class BackOff:
    level: int  # how often the rate is halved
    has_isr_loss: bool
    changed_at: datetime
    conditions: Conditions  # what of it the ledger keeps


def rate_in_force(
    observation: Observation, limits: MovementPolicy, wanted_rate: int, back_off_level: int
) -> int:
    """Return bytes per second: the wanted rate, lowered where it has to be.

    The time of day lowers it, and each level of the back-off halves it, down to LOWEST_RATE:
    20 MB/s at level 2 is 5 MB/s. A default of all brokers is somebody else's limit: where it is
    lower, it holds.
    """
    rate = min(wanted_rate, rate_at(limits, observation.observed_at) or wanted_rate)
    default = default_rate(observation.configs)
    rate = rate if default is None else min(rate, default)
    lowest_rate = min(rate, LOWEST_RATE)
    return max(lowest_rate, rate >> back_off_level)


def find_back_off(
    base: RunProgress,
    observation: Observation,
    moving: Iterable[Move],
    limits: MovementPolicy,
    wanted_rate: int,
) -> BackOff:
    """Return the back-off: one level up after a time with ISR loss, one down after a time without.

    A loss is over after that time without: replicas that are lost again and again are one loss.
    Levels are not counted on where the rate in force is the lowest.
    """

    def rate(level: int) -> int:
        return rate_in_force(observation, limits, wanted_rate, level)

    now, level = observation.observed_at, base.back_off_level
    catching_up = _catching_up_since(base, observation)
    kept: dict[Condition, Mapping[str, datetime]] = {}
    if catching_up:
        kept[Condition.CATCHING_UP] = catching_up
    changed_at = base.isr_loss_changed_at or now
    if lost_partitions(base, observation, moving, catching_up, limits.dead_broker_patience):
        if not base.has_isr_loss:
            return BackOff(level, True, now, kept)
        if rate(level) <= LOWEST_RATE or now - changed_at < STEP_AFTER:
            return BackOff(level, True, changed_at, kept)
        return BackOff(level + 1, True, now, kept)
    in_sync_since = changed_at
    if base.has_isr_loss:
        in_sync_since = base.since(Condition.IN_SYNC_AGAIN) or now
        kept[Condition.IN_SYNC_AGAIN] = {"": in_sync_since}
    if now - in_sync_since < CALM_AFTER:
        return BackOff(level, base.has_isr_loss, changed_at, kept)
    while level and rate(level - 1) == rate(level):
        level -= 1
    return BackOff(max(0, level - 1), False, now, kept)


def lost_partitions(
    run_progress: RunProgress,
    observation: Observation,
    moving: Iterable[Move],
    catching_up: Mapping[str, datetime],
    patience: timedelta,
) -> list[str]:
    """Return the partitions outside the plan with ISR loss that copies may have caused.

    They lack a live replica in the ISR since the run began, their leader is a broker that copies
    are read from, and the broker of the replica has not been back for less than its patience.
    """
    now, sources = observation.observed_at, {observation.leader_of(move) for move in moving}
    lagged_at_start = run_progress.under_replicated_at_start

    def is_lost(partition: str, description: PartitionDescription) -> bool:
        if description.leader is None or description.leader not in sources:
            return False
        return any(
            now - catching_up.get(str(broker_id), now - patience) >= patience
            for broker_id in lagging_brokers(description, observation)
            if replica(partition, broker_id) not in lagged_at_start
        )

    under_replicated = observation.conditions.under_replicated
    return sorted(name for name, found in under_replicated.items() if is_lost(name, found))


def lagging_brokers(description: PartitionDescription, observation: Observation) -> frozenset[int]:
    """Return the live brokers whose replica is not in sync."""
    return observation.live_broker_ids.intersection(description.replicas) - {*description.isr}


def lagging_replicas(observation: Observation) -> frozenset[str]:
    """Return the replicas outside the plan that are on live brokers and not in sync, by name."""
    return frozenset(
        replica(partition, broker_id)
        for partition, description in observation.conditions.under_replicated.items()
        for broker_id in lagging_brokers(description, observation)
    )


def still_out_of_sync(base: RunProgress, observation: Observation) -> dict[str, bool]:
    """Return, of the replicas that lagged when the run began, those that have not been in sync
    since; also where their broker is dead now.
    """
    lagging = {
        replica(partition, broker_id)
        for partition, description in observation.conditions.under_replicated.items()
        for broker_id in {*description.replicas} - {*description.isr}
    }
    return still_in_trouble(base.under_replicated_at_start, lagging)


def _catching_up_since(base: RunProgress, observation: Observation) -> dict[str, datetime]:
    """Return since when brokers that were down are back, and have replicas outside the plan that
    are not in sync; of those that are down now, that is now.
    """
    out_of_sync = {
        broker_id
        for description in observation.conditions.under_replicated.values()
        for broker_id in {*description.replicas} - {*description.isr}
    }
    before = base.conditions.get(Condition.CATCHING_UP, {})
    down = out_of_sync - observation.live_broker_ids
    back = map(str, out_of_sync - down)
    return dict.fromkeys(map(str, down), observation.observed_at) | {
        broker_id: before[broker_id] for broker_id in back if broker_id in before
    }


def still_in_trouble(at_start: Mapping[str, bool], present: Set[str]) -> dict[str, bool]:
    """Return what of the trouble when a run began has not been over at two observations in a row.

    One that shows otherwise is not enough: a broker's metadata may be behind.
    """
    return {name: name in present for name, was in at_start.items() if was or name in present}

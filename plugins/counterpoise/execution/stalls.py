"""Copies that stall: when that is an alarm, when it halts a run, and what there is to do. Pure.

    new_stalls_text(previous, inputs)    # "" where nothing has stalled since
    stall_to_halt_for(inputs)            # Halt, or None

Example: copies to broker 4 come no nearer to their end for the policy's 90 s, and somebody has set
a rate of 100 kB/s there: that rate is named, since no rate of ours is ever above it.
"""

from collections.abc import Sequence
from typing import Final

from counterpoise.execution.commands import Halt
from counterpoise.execution.conditions import EXECUTE_AGAIN, of
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.links import stalled_links
from counterpoise.execution.throttling.targets import (
    broker_resource,
    default_rate,
    dynamic_value,
    list_entries,
)
from counterpoise.execution.troubles import kept_brokers_out_of_sync
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_RATE
from counterpoise.model.plan import Move
from counterpoise.model.run_progress import Activity, Condition, Link, RunProgress
from counterpoise.model.words import join_names, list_brokers, pluralize
from counterpoise.units import format_rate, format_seconds

_MAX_LINKS_NAMED: Final = 5


def stall_to_halt_for(inputs: DecisionInputs) -> Halt | None:
    run_progress = inputs.run_progress
    links = stalled_links(run_progress, patience_factor=2)
    if not links:
        return None
    names = "; ".join(_stall_text(link, run_progress) for link in links[:_MAX_LINKS_NAMED])
    if limit := _limit_of_others(links, inputs):
        return Halt(
            f"{names}: {limit}, then {EXECUTE_AGAIN}; or check network and disk of these brokers"
        )
    catching_up = _catching_up_beside(links, inputs)
    and_replicas = (
        f", while replicas on {list_brokers(catching_up)} catch up under the same rate"
        if catching_up
        else ""
    )
    return Halt(
        f"{names}: check network and disk of these brokers. Or producers write faster than "
        f"{format_rate(run_progress.rate_bytes_per_second)} lets through{and_replicas}: approve a "
        f"higher rate (`counterpoise approve PLAN --rate RATE --reason TEXT`), then {EXECUTE_AGAIN}"
    )


def slowed_links(inputs: DecisionInputs) -> Activity:
    """Return the links that lose ground at a rate which we lowered."""
    run_progress = inputs.run_progress
    names = run_progress.conditions.get(Condition.SLOWED, {})
    rate = format_rate(run_progress.rate_bytes_per_second)
    return of(
        Condition.SLOWED,
        [link.name for link in run_progress.links if link.name in names],
        detail=rate,
    )


def new_stalls_text(previous: RunProgress, inputs: DecisionInputs) -> str:
    """Return the links that stall since this observation, and what to do; "" for none."""
    known = {link.name for link in stalled_links(previous)}
    stalled = stalled_links(inputs.run_progress)
    new = [link for link in stalled if link.name not in known]
    if not new:
        return ""
    names = join_names([_stall_text(link, inputs.run_progress) for link in new])
    if limit := _limit_of_others(new, inputs):
        return f"{names}: {limit}; or check network and disk there"
    return f"{names}: check network and disk there, or raise the throttle with `counterpoise rate`"


def _limit_of_others(links: Sequence[Link], inputs: DecisionInputs) -> str:
    """Return which rate that somebody else has set holds stalled copies back, and how to mend that;
    "" where ours is the lowest.
    """
    rate, configs = inputs.run_progress.rate_bytes_per_second, inputs.observation.configs
    default = default_rate(configs)
    if default is not None and default <= rate:
        return (
            f"the cluster's default of the throttle rates is {format_rate(default)}, and no copy "
            "is faster: raise or delete it (`kafka-configs --entity-type brokers --entity-default`)"
        )
    own_rates = {
        (touched.resource_key, value)
        for touched in inputs.observation.touched_keys
        for value in list_entries(touched.written_value)
        if touched.restored_at is None and value != touched.before_value
    }
    limits = [
        (int(value), key, broker_id)
        for broker_id, key in _throttled_by(links, inputs)
        if (value := dynamic_value(configs, broker_resource(broker_id), key))
        and value.isdecimal()
        and int(value) < rate
        and ((broker_resource(broker_id), key), value) not in own_rates  # of before it was raised
    ]
    if not limits:
        return ""
    lowest, key, broker_id = min(limits)
    return (
        f"{key} of broker {broker_id} was set to {format_rate(lowest)} by somebody else, and no "
        "copy there is faster: raise or delete it (`kafka-configs --entity-type brokers "
        f"--entity-name {broker_id}`)"
    )


def _throttled_by(links: Sequence[Link], inputs: DecisionInputs) -> set[tuple[int, str]]:
    """Return each broker that stalled copies are read from or written to, with its key."""
    keys = set()
    for move in _stalled_moves(links, inputs):
        keys |= {(b, FOLLOWER_RATE) for b in inputs.observation.adding_replicas(move)}
        if (leader := inputs.observation.leader_of(move)) is not None:
            keys.add((leader, LEADER_RATE))
    return keys


def _stalled_moves(links: Sequence[Link], inputs: DecisionInputs) -> list[Move]:
    stalled_brokers = {link.broker_id for link in links}
    return [
        move
        for move in inputs.moving
        if stalled_brokers.intersection(inputs.observation.copying_brokers(move))
    ]


def _catching_up_beside(links: Sequence[Link], inputs: DecisionInputs) -> list[int]:
    """Return the brokers with replicas that catch up at the leaders of stalled copies."""
    observation = inputs.observation
    leaders = {observation.leader_of(move) for move in _stalled_moves(links, inputs)}
    at_these = (move for move in inputs.moving if observation.leader_of(move) in leaders)
    return sorted({b for move in at_these for b in kept_brokers_out_of_sync(move, observation)})


def _stall_text(link: Link, run_progress: RunProgress) -> str:
    """Return `broker 4 has made no progress receiving 12 partitions for 1 min 30 s (0 B/s now)`."""
    stalled_for = format_seconds((run_progress.observed_at - link.last_progress_at).total_seconds())
    direction = "sending" if link.sends else "receiving"
    return (
        f"broker {link.broker_id} has made no progress {direction} "
        f"{pluralize(link.moves, 'partition')} for {stalled_for} "
        f"({format_rate(link.bytes_per_second)} now)"
    )

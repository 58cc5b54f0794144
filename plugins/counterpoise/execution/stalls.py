"""Copies that come no nearer to their end: what there is to do, and rates of others. Pure.

    slow_copies_now(inputs)           # the activities that have a patience
    stall_advice(names, inputs)       # "check network and disk of ..."
    limit_of_others(moves, inputs)    # the lowest rate below ours that somebody else has set

Example: copies to broker 4 come no nearer to their end, and somebody has set a rate of 100 kB/s
there: that rate is named, since no rate of ours is ever above it.
"""

from collections.abc import Collection, Iterable, Iterator

from counterpoise.execution.conditions import EXECUTE_AGAIN, in_words, of, patience_of
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.throttling.targets import (
    broker_resource,
    default_rate,
    dynamic_value,
    list_entries,
)
from counterpoise.execution.troubles import kept_brokers_out_of_sync
from counterpoise.model.kafka import FOLLOWER_RATE, LEADER_RATE
from counterpoise.model.plan import Move
from counterpoise.model.run_progress import Activity, Condition, Limit, RunProgress
from counterpoise.model.words import list_brokers
from counterpoise.units import format_rate, format_seconds


def slow_copies_now(inputs: DecisionInputs) -> Iterator[Activity]:
    """Yield the copies that are slower than their producers, and those that have stalled."""
    conditions = inputs.run_progress.conditions
    rate = format_rate(inputs.run_progress.rate_bytes_per_second)
    yield of(Condition.SLOWED, sorted(conditions.get(Condition.SLOWED, ())), detail=rate)
    stalled = of(Condition.STALLED, sorted(conditions.get(Condition.STALLED, ())))
    if names := inputs.subjects_over(stalled):
        yield of(Condition.STALLED, names, detail=stall_advice(names, inputs))


def new_stalls_text(previous: RunProgress, inputs: DecisionInputs) -> str:
    """Return the copies that have come no nearer for half their patience since this observation,
    and what to do; "" for none.
    """
    patience = patience_of(Condition.STALLED, inputs.limits)
    if patience is None:
        return ""
    now, before = inputs.observation.observed_at, previous.conditions.get(Condition.STALLED, {})
    lasting = inputs.run_progress.conditions.get(Condition.STALLED, {})
    new = [
        name
        for name, since in sorted(lasting.items())
        if now - since >= patience / 2
        and previous.observed_at - before.get(name, previous.observed_at) < patience / 2
    ]
    if not new:
        return ""
    lasted = format_seconds((patience / 2).total_seconds())
    return f"{in_words(of(Condition.STALLED, new))}, for {lasted}: {stall_advice(new, inputs)}"


def stall_advice(names: Collection[str], inputs: DecisionInputs) -> str:
    """Return what there is to do where copies have stalled."""
    observation = inputs.observation
    moves = [move for move in inputs.moving if str(move.topic_partition) in names]
    brokers = list_brokers(sorted({b for m in moves for b in observation.copying_brokers(m)}))
    rate, default = inputs.run_progress.rate_bytes_per_second, default_rate(observation.configs)
    if default is not None and default <= rate:
        limit = (
            f"the cluster's default of the throttle rates is {format_rate(default)}, and no copy "
            "is faster: raise or delete it (`kafka-configs --entity-type brokers --entity-default`)"
        )
        return f"{limit}, then {EXECUTE_AGAIN}; or check network and disk of {brokers}"
    if lowest := limit_of_others(moves, inputs):
        return (
            f"{limit_in_words(lowest)}: raise or delete it (`kafka-configs --entity-type brokers "
            f"--entity-name {lowest.broker_id}`), then {EXECUTE_AGAIN}; or check network and disk "
            f"of {brokers}"
        )
    catching_up = _catching_up_beside(moves, inputs)
    and_replicas = (
        f", while replicas on {list_brokers(catching_up)} catch up under the same rate"
        if catching_up
        else ""
    )
    return (
        f"check network and disk of {brokers}. Or producers write faster than {format_rate(rate)} "
        f"lets through{and_replicas}: approve a higher rate (`counterpoise approve PLAN --rate "
        f"RATE --reason TEXT`), then {EXECUTE_AGAIN}"
    )


def limit_in_words(limit: Limit) -> str:
    """Return which rate of somebody else holds copies back."""
    rate = format_rate(limit.bytes_per_second)
    return (
        f"{limit.key} of broker {limit.broker_id} was set to {rate} by somebody else, and no copy "
        "there is faster"
    )


def limit_of_others(moves: Iterable[Move], inputs: DecisionInputs) -> Limit | None:
    """Return the lowest rate below ours that somebody else has set where these moves copy."""
    rate, configs = inputs.run_progress.rate_bytes_per_second, inputs.observation.configs
    own_rates = {
        (touched.resource_key, value)
        for touched in inputs.observation.touched_keys
        for value in list_entries(touched.written_value)
        if touched.restored_at is None and value != touched.before_value
    }
    limits = [
        (int(value), broker_id, key)
        for broker_id, key in _throttled_by(moves, inputs)
        if (value := dynamic_value(configs, broker_resource(broker_id), key))
        and value.isdecimal()
        and int(value) < rate
        and ((broker_resource(broker_id), key), value) not in own_rates  # of before it was raised
    ]
    if not limits:
        return None
    lowest, broker_id, key = min(limits)
    return Limit(broker_id, key, lowest)


def _throttled_by(moves: Iterable[Move], inputs: DecisionInputs) -> set[tuple[int, str]]:
    """Return each broker that these copies are read from or written to, with its key."""
    keys = set()
    for move in moves:
        keys |= {(b, FOLLOWER_RATE) for b in inputs.observation.adding_replicas(move)}
        if (leader := inputs.observation.leader_of(move)) is not None:
            keys.add((leader, LEADER_RATE))
    return keys


def _catching_up_beside(moves: Iterable[Move], inputs: DecisionInputs) -> list[int]:
    """Return the brokers with replicas that catch up at the leaders of stalled copies."""
    observation = inputs.observation
    leaders = {observation.leader_of(move) for move in moves}
    at_these = (move for move in inputs.moving if observation.leader_of(move) in leaders)
    return sorted({b for m in at_these for b in kept_brokers_out_of_sync(m, observation)})

"""Which throttle keys to change next: set for what moves and moves next, the rest taken back. Pure.

    throttle_command(inputs, in_flight, batch, remaining)    # None: all is as it has to be
    keys_removed_by_others(inputs)                           # [] where there is no gap

Rates stay on the brokers of all remaining moves. The lists name the moves in flight and the next
batch alone, since a listed replica that falls behind for another reason is throttled, too. A batch
costs one call: it sets the batch's entries, and takes back those of the moves that are done.

Example: of orders-0 to orders-9, each from (1, 2, 3) to (4, 2, 3), two move at a time. When
orders-0 is done while orders-1 moves, one call adds `2:4` to the follower list and takes `0:4` from
it: `1:4,2:4`.
"""

from collections.abc import Sequence

from counterpoise.execution.commands import (
    Command,
    KeyChange,
    MarkRestored,
    Restore,
    Throttle,
)
from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.throttling.restore import idle_keys, unneeded_entries
from counterpoise.execution.throttling.targets import (
    dynamic_value,
    list_entries,
    removed_by_others,
)
from counterpoise.model.kafka import ConfigChange, ResourceKey
from counterpoise.model.plan import Move


def throttle_command(
    inputs: DecisionInputs,
    in_flight: Sequence[Move],
    batch: Sequence[Move] = (),
    remaining: Sequence[Move] = (),
    *,
    is_held: bool = False,
) -> Command | None:
    """Return what to change before anything else is done; None when nothing has to be changed.

    While a batch is ready to be submitted, entries that nothing needs wait for the next one. So do
    those of moves to come, unless the run is held.
    """
    observation = inputs.observation
    throttles = inputs.throttles_for([*in_flight, *batch], remaining)
    restored, as_before = idle_keys(throttles, observation)
    if as_before:
        return MarkRestored(as_before)
    missing = inputs.missing_changes(throttles)
    unneeded = unneeded_entries(throttles, observation)
    to_come = () if is_held else remaining
    if missing or (not batch and _is_any_listed(unneeded, inputs, to_come)):
        return Throttle(missing, unneeded, restored)
    return Restore(restored) if restored else None


def keys_removed_by_others(inputs: DecisionInputs) -> list[str]:
    """Return the throttle keys, like `topic orders: leader...`, that moves in flight need, and that
    somebody else removed.
    """
    observation = inputs.observation
    needed_now = inputs.missing_changes(inputs.throttles_for(inputs.moving))
    removed = removed_by_others(needed_now, observation.touched_keys, observation.configs)
    return [f"{one.resource.type} {one.resource.name}: {one.key}" for one in removed]


def _is_any_listed(
    unneeded: Sequence[KeyChange], inputs: DecisionInputs, to_come: Sequence[Move]
) -> bool:
    """Return whether a list shows one of these entries, other than those of moves to come."""
    if not unneeded:
        return False
    later_lists = inputs.throttles_for(to_come).lists
    configs = inputs.observation.configs

    def is_listed(change: ConfigChange) -> bool:
        present = set(list_entries(dynamic_value(configs, *change.resource_key)))
        later = later_lists.get(change.resource_key, ())
        return not present.intersection(list_entries(change.value)) <= set(later)

    return any(is_listed(change) for _, change in unneeded)


def with_listed_first(inputs: DecisionInputs, batch: Sequence[Move]) -> tuple[Move, ...]:
    """Return those moves of the batch whose throttles are set; all of it when none has them.

    What was listed is submitted before anything else is listed, so that a batch that grows with
    each observation is never put off.
    """
    missing: dict[ResourceKey, set[str]] = {}
    for change in inputs.missing_changes(inputs.throttles_for(batch)):
        missing[change.resource_key] = set(list_entries(change.value))
    if not missing:
        return tuple(batch)

    def is_listed(move: Move) -> bool:
        own = inputs.throttles_for([move])
        lacks_rate = not own.rates.isdisjoint(missing)
        return not lacks_rate and all(
            missing.get(key, set()).isdisjoint(entries) for key, entries in own.lists.items()
        )

    return tuple(filter(is_listed, batch)) or tuple(batch)

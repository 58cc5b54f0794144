"""What is recorded where somebody else undoes what a run has done: it is done again once. Pure.

gap_events(command.removed_by_others)      # of throttle keys and cordons, as kind and text
sent_again_event(partitions)               # of moves that were cancelled
cordons_set_again(command, keys, own_keys)
"""

from collections.abc import Iterable, Iterator, Sequence

from counterpoise.execution.commands import Throttle
from counterpoise.model.kafka import CORDONED_LOG_DIRS, ConfigChange
from counterpoise.model.run import CORDONED_AGAIN, TouchedKey
from counterpoise.model.words import join_names, pluralize, verb

_CORDON_GAP = "cordon gap"


def gap_events(removed: Sequence[ConfigChange]) -> Iterator[tuple[str, str]]:
    """Yield what is said, before they are set again, of keys that somebody else has removed."""
    brokers = [f"broker {c.resource.name}" for c in removed if c.key == CORDONED_LOG_DIRS]
    if throttles := len(removed) - len(brokers):
        yield (
            "throttle gap",
            f"somebody else changed {pluralize(throttles, 'throttle key')} of this run; "
            f"{verb(throttles, 'it is', 'they are')} set again once: find out who does it, or the "
            "run halts the next time",
        )
    if brokers:
        yield (
            _CORDON_GAP,
            f"somebody else lifted the cordon of {join_names(brokers)}; it is set again once: find "
            "out who does it, or it stays lifted the next time",
        )


def lifted_again_event(touched: TouchedKey) -> tuple[str, str]:
    """Return what is said of a cordon that is left to somebody else, who has lifted it twice."""
    return (
        _CORDON_GAP,
        f"somebody else lifted the cordon of broker {touched.resource.name} again: it stays "
        "lifted, and new topics may come there. Once the run has ended, look whether the broker is "
        "empty (`counterpoise verify PLAN`), and plan what is left",
    )


def sent_again_event(partitions: Sequence[str]) -> tuple[str, str]:
    """Return what is said, before they are sent again, of moves that somebody else cancelled."""
    return (
        "move cancelled",
        f"somebody else cancelled {join_names(partitions)} (or a process of this run that was "
        f"stopped for long); {verb(len(partitions), 'it is', 'they are')} sent again once: find "
        "out who does it, or the run halts the next time",
    )


def cordons_set_again(
    command: Throttle, touched_keys: Iterable[TouchedKey], own_keys: Iterable[TouchedKey]
) -> list[TouchedKey]:
    """Return the cordons that are set since somebody else had lifted them, now or before."""
    lifted = {change.resource_key for change in command.removed_by_others}
    lifted |= {touched.resource_key for touched in own_keys if touched.outcome == CORDONED_AGAIN}
    cordons = (touched for touched in touched_keys if touched.key == CORDONED_LOG_DIRS)
    return [touched for touched in cordons if touched.resource_key in lifted]

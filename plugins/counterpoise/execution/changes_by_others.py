"""What is recorded where somebody else undoes what a run has done. Pure.

throttle_gap_event(2, settles=False)    # as kind and text; throttle keys are set again once
sent_again_event(partitions)            # moves that were cancelled are sent again once
"""

from collections.abc import Sequence

from counterpoise.model.words import join_names, pluralize, verb


def throttle_gap_event(removed: int, *, settles: bool) -> tuple[str, str]:
    """Return what is said, before they are set again, of keys that somebody else has removed.

    A run that settles has halted already: it sets them for as long as anything is in flight.
    """
    text = f"somebody else changed {pluralize(removed, 'throttle key')} of this run; "
    if settles:
        are = verb(removed, "it is", "they are")
        text += f"{are} set again whenever {are} missing while copies go on: find out who does it"
    else:
        text += (
            f"{verb(removed, 'it is', 'they are')} set again once: find out who does it, or the "
            "run halts the next time"
        )
    return "throttle gap", text


def sent_again_event(partitions: Sequence[str]) -> tuple[str, str]:
    """Return what is said, before they are sent again, of moves that somebody else cancelled."""
    return (
        "move cancelled",
        f"somebody else cancelled {join_names(partitions)} (or a process of this run that was "
        f"stopped for long); {verb(len(partitions), 'it is', 'they are')} sent again once: find "
        "out who does it, or the run halts the next time",
    )

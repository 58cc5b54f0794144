"""What a run records of others and of its rate, in words. Pure.

throttle_gap_event(keys, settles=False) # as kind and text; throttle keys are set again once
back_off_text(previous, run_progress)   # "slower, at most 10.0 MB/s per broker: ..."
unreadable_text(observation)            # "" when nothing is missed
"""

from collections.abc import Sequence

from counterpoise.execution.observation import Observation
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import join_names, pluralize, verb
from counterpoise.units import format_rate


def throttle_gap_event(keys: Sequence[str], *, settles: bool) -> tuple[str, str]:
    """Return what is said, before they are set again, of keys that somebody else has removed.

    A run that settles has halted already: it sets them for as long as anything is in flight.
    """
    removed = len(keys)
    text = (
        f"somebody else changed {pluralize(removed, 'throttle key')} of this run "
        f"({join_names(keys)}); "
    )
    if settles:
        are = verb(removed, "it is", "they are")
        text += f"{are} set again whenever {are} missing while copies go on: find out who does it"
    else:
        text += (
            f"{verb(removed, 'it is', 'they are')} set again once: find out who does it, or the "
            "run halts the next time"
        )
    return "throttle gap", text


def back_off_text(previous: RunProgress, run_progress: RunProgress) -> str:
    """Return whether copies got slower or faster, and why."""
    rate = f"at most {format_rate(run_progress.rate_bytes_per_second)} per broker"
    if run_progress.back_off_level > previous.back_off_level:
        return f"slower, {rate}: partitions outside the plan lost in-sync replicas"
    return f"faster, {rate}: partitions outside the plan have their replicas in sync again"


def unreadable_text(observation: Observation) -> str:
    """Return what of the cluster outside the plan may not be read; "" when nothing is missed."""
    topics = observation.conditions.unreadable_topics
    if not topics:
        return ""
    return (
        f"min.insync.replicas of {join_names(topics)}, outside the plan: whether under-replicated "
        "partitions there take writes is not known, and this run does not halt for them; "
        "`counterpoise preflight PLAN` names the permission that is missing"
    )

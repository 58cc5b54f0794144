"""What a run does now: one sentence of what, for how long it has, and what it waits for.

    shown = RunNow(run, run_progress, now)
    shown.sentence       # "waits for 2 min: broker 4 is dead; halts 2026-12-01 06:13 UTC if ..."
    shown.is_driven      # False: two observations were missed
    shown.seconds_left   # None where it waits, has ended, or nobody drives it

What is shown is as of when it was observed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from counterpoise.execution.conditions import TABLE, in_words
from counterpoise.model.run import STEP_LOCK_SECONDS, UNDER_WAY_STATES, Run, RunState
from counterpoise.model.run_progress import Activity, RunProgress
from counterpoise.model.words import pluralize, verb
from counterpoise.units import format_moment, format_seconds

# An observation takes no longer than its lock holds: after two that are missing nobody is at work.
NOT_DRIVEN_AFTER: Final = 2 * timedelta(seconds=STEP_LOCK_SECONDS)


@dataclass(frozen=True, slots=True)
class RunNow:
    """A run as the ledger has it at a time of the database's clock."""

    run: Run
    run_progress: RunProgress | None
    now: datetime

    @property
    def is_under_way(self) -> bool:
        return self.run.state in UNDER_WAY_STATES

    @property
    def is_driven(self) -> bool:
        """Return whether somebody observes the run; one that is not under way need not be."""
        if self.run_progress is None or not self.is_under_way:
            return True
        return self.now - self.run_progress.observed_at < NOT_DRIVEN_AFTER

    @property
    def seconds_left(self) -> int | None:
        """Return how long the copies take yet; None where that is not known, or they wait."""
        found = self.run_progress
        is_at_work = found is not None and self.is_under_way and self.is_driven
        return found.seconds_left if found is not None and is_at_work else None

    @property
    def sentence(self) -> str:
        """Return what it does now, or how it ended, without the full stop."""
        found = self.run_progress
        if not self.is_under_way:
            return self.run.in_words
        if found is None:
            return "no step of the run has been done yet"
        does = self._does(found)
        if self.is_driven:
            return does
        return (
            f"nobody drives this run since {format_moment(found.observed_at)}: `counterpoise "
            f"execute {self.run.run_id}` goes on with it; when it was observed last: {does}"
        )

    @property
    def figures(self) -> list[str]:
        """Return how far it is, and how fast while somebody observes that; then whether it slowed
        itself down.
        """
        found = self.run_progress
        if found is None:
            return []
        figures = [found.progress.in_words]
        if found.links and self.is_under_way and self.is_driven:
            figures.append(found.speed_in_words)
            if self.seconds_left:
                figures.append(f"{format_seconds(self.seconds_left)} left")
        lines = [", ".join(figures)]
        if found.back_off_level and self.is_under_way:
            steps = pluralize(found.back_off_level, "step")
            lines.append(f"slowed down by {steps}, because partitions outside the plan suffered")
        return lines

    @property
    def in_words(self) -> str:
        """Return a line like `24 %: 1.2 GB of 5.0 GB, 12 of 40 partitions, 8 in flight, 15.0 MB/s
        in all, ..., 3 min left; copies 8 partitions, for 2 min`.
        """
        return "; ".join([*self.figures, self.sentence])

    def _does(self, found: RunProgress) -> str:
        activity = found.activity
        if activity is None:
            return "observes the cluster"
        sentence = in_words(activity)
        if self.run.state is RunState.SETTLING:
            sentence = f"starts nothing new; {sentence}"
        # A second more or less says nothing, and would be a line of its own in a log.
        lasted = found.observed_at - (activity.since or found.observed_at)
        for_how_long = f" for {format_seconds(lasted.total_seconds())}" if lasted else ""
        if TABLE[activity.condition].is_doing:
            return f"{sentence},{for_how_long}" if for_how_long else sentence
        in_flight = found.progress.moves_in_flight
        copies = (
            f"; {pluralize(in_flight, 'partition')} {verb(in_flight, 'is', 'are')} in flight"
            if in_flight
            else ""
        )
        return f"waits{for_how_long}: {sentence}{_end_of(activity)}{copies}"


def _end_of(activity: Activity) -> str:
    if activity.ends_at:
        return f"; goes on {format_moment(activity.ends_at)}"
    if activity.halts_at:
        return f"; halts {format_moment(activity.halts_at)} if that lasts"
    return ""

"""Looks after what nobody drives: orphaned runs, late moves, pending restores, foreign throttles.

    report = watch_throttles(installation, "orders-eu", print)
    report.is_clean

Orphaned runs are settled, late moves cancelled and pending keys restored, since the ledger knows
them. What no run of ours has set is reported and never touched.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from counterpoise.errors import ClusterError, RunConflictError, StepLockHeldError
from counterpoise.execution import restore_pending
from counterpoise.installation import Installation
from counterpoise.model.run import (
    UNDER_WAY_STATES,
    OwnedKey,
    Run,
    RunState,
)
from counterpoise.model.words import pluralize
from counterpoise.services.execution import moves_left, settle_step, sweep_step
from counterpoise.services.foreign import endless_reassignments, foreign_throttles
from counterpoise.units import format_moment, format_seconds

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader

ORPHANED_AFTER: Final = timedelta(minutes=15)  # without an observation; then the watch settles
# For one settling run; the next watch goes on with it.
_MAX_SETTLE_SECONDS: Final = 120.0
_EXECUTED_AGAIN: Final = "somebody executes it again, so it was left alone"

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What one watch of one cluster found, a sentence for each thing.

    `settled_runs` were orphaned; `late_moves` of ended runs were in flight. `restored_keys` are
    config keys restored now, `pending_keys` those that wait for brokers that do not respond.
    `runs_under_way` were observed not long ago: somebody drives them, or the process has only just
    ended.
    """

    settled_runs: tuple[str, ...] = ()
    restored_keys: tuple[str, ...] = ()
    pending_keys: tuple[str, ...] = ()
    why_pending: tuple[str, ...] = ()  # for each pending key, when it is restored
    late_moves: tuple[str, ...] = ()
    foreign_throttles: tuple[str, ...] = ()
    endless_reassignments: tuple[str, ...] = ()
    runs_under_way: tuple[str, ...] = ()

    @property
    def found(self) -> dict[str, tuple[str, ...]]:
        """Return all entries, by what they are."""
        return self.done | self.under_way | self.needs_attention

    @property
    def done(self) -> dict[str, tuple[str, ...]]:
        """Return what the watch put in order, by what was done."""
        found = {
            "settled run": self.settled_runs,
            "restored config key": self.restored_keys,
            "late move": self.late_moves,
        }
        return {what: entries for what, entries in found.items() if entries}

    @property
    def under_way(self) -> dict[str, tuple[str, ...]]:
        """Return what the watch left to those who drive it."""
        return {"run under way": self.runs_under_way} if self.runs_under_way else {}

    @property
    def needs_attention(self) -> dict[str, tuple[str, ...]]:
        """Return what the watch could not put in order, by what a person has to look at."""
        found = {
            "pending restore": tuple(
                f"{key} ({why or 'it is restored when its broker is live again'})"
                for key, why in zip_longest(self.pending_keys, self.why_pending, fillvalue="")
            ),
            "foreign throttle": self.foreign_throttles,
            "endless reassignment": self.endless_reassignments,
        }
        return {what: entries for what, entries in found.items() if entries}

    @property
    def is_clean(self) -> bool:
        return not self.needs_attention

    def to_document(self) -> dict[str, tuple[str, ...]]:
        """Return the values that `counterpoise watch --json` prints."""
        return {
            "settled_runs": self.settled_runs,
            "paid": self.restored_keys,
            "owed": self.pending_keys,
            "late_moves": self.late_moves,
            "foreign_throttles": self.foreign_throttles,
            "endless_reassignments": self.endless_reassignments,
            "runs_under_way": self.runs_under_way,
        }

    @property
    def summary(self) -> str:
        """Return the counts, like "1 settled run, 2 restored config keys", or "nothing"."""
        counts = (_count(what, len(entries)) for what, entries in self.found.items())
        return ", ".join(counts) or "nothing"


def _count(what: str, number: int) -> str:
    """Return for example `2 runs under way`."""
    noun, is_under_way, _ = what.partition(" under way")
    return pluralize(number, noun) + is_under_way


def watch_throttles(installation: Installation, cluster: str, log: Log) -> WatchReport:
    """Look after one cluster. Harmless at any time and however often."""
    runs = installation.ledger.runs(cluster=cluster, were_started=True)
    orphaned = [run for run in runs if _is_orphaned(installation, run)]
    settled = [_settle(installation, run, log) for run in orphaned]
    under_way = installation.ledger.runs(cluster=cluster, states=UNDER_WAY_STATES)
    with installation.operator(cluster) as admin:
        left = moves_left(installation, admin, cluster)
        for run_id in {row.run_id for row in installation.ledger.open_submitted(cluster)}:
            _sweep(installation, run_id, log)
        restored, pending = _restore_pending(installation, admin, cluster, log)
    with installation.reader(cluster) as reader:
        throttles = _foreign_throttles(installation, reader, runs)
        endless = endless_reassignments(reader)
    return WatchReport(
        settled_runs=tuple(settled),
        restored_keys=tuple(map(_in_words, restored)),
        pending_keys=tuple(map(_in_words, pending)),
        why_pending=tuple(pending.values()),
        late_moves=tuple(
            f"{move.topic_partition} (run {run_id})"
            for run_id, of_run in left.items()
            for move in of_run
        ),
        foreign_throttles=throttles,
        endless_reassignments=endless,
        runs_under_way=tuple(_describe_under_way(installation, run) for run in under_way),
    )


def _is_orphaned(installation: Installation, run: Run) -> bool:
    """Return whether nobody has observed a run under way for ORPHANED_AFTER."""
    unobserved_for = installation.ledger.journal(run.run_id).unobserved_for()
    return run.state in UNDER_WAY_STATES and unobserved_for >= ORPHANED_AFTER


def _describe_under_way(installation: Installation, run: Run) -> str:
    """Say since when nobody has observed a run, what it holds, and who ends it."""
    journal = installation.ledger.journal(run.run_id)
    run_progress = journal.run_progress()
    observed_at = run_progress.observed_at if run_progress else run.opened_at
    keys = sum(key.done_at is None for key in journal.owned_keys())
    patience = format_seconds(ORPHANED_AFTER.total_seconds())
    return (
        f"{run.run_id}: {run.state}, last observed at {format_moment(observed_at)}, "
        f"{pluralize(keys, 'config key')} set. If nothing drives it any more: `counterpoise "
        f"execute {run.run_id}` goes on with it, `counterpoise settle {run.run_id}` ends it; so "
        f"does a watch when nothing has observed it for {patience}"
    )


def _settle(installation: Installation, run: Run, log: Log) -> str:
    """Settle a run for some minutes; the next watch goes on. Returns how far it is.

    One that somebody executes again meanwhile is left alone.
    """
    give_up_at = time.monotonic() + _MAX_SETTLE_SECONDS
    may_halt = partial(_is_orphaned, installation)
    while time.monotonic() < give_up_at:
        try:
            wait_seconds = settle_step(installation, run.run_id, log, may_halt=may_halt)
        except StepLockHeldError:
            return f"{run.run_id}: another process works on it, so it was left alone"
        if wait_seconds is None:
            ended = installation.ledger.run(run.run_id)
            if ended.state is RunState.RUNNING:
                return f"{run.run_id}: {_EXECUTED_AGAIN}"
            return f"{run.run_id}: {ended.state} ({ended.reason or 'as planned'})"
        time.sleep(wait_seconds)
    return f"{run.run_id}: still settling; the next watch goes on with it"


def _sweep(installation: Installation, run_id: str, log: Log) -> None:
    """Look after what an ended run has in flight, for some minutes at most."""
    give_up_at = time.monotonic() + _MAX_SETTLE_SECONDS
    while time.monotonic() < give_up_at:
        try:
            wait_seconds = sweep_step(installation, run_id, log)
        except RunConflictError as error:  # another process is at work, or this one was stopped
            log(f"{error}; what it left is looked after by the next watch")
            return
        except ClusterError as error:
            if error.retryable:
                raise
            log(f"run {run_id}: {error}")  # and once more by the next watch
            return
        if wait_seconds is None:
            return
        time.sleep(wait_seconds)


def _restore_pending(
    installation: Installation, admin: "ClusterAdmin", cluster: str, log: Log
) -> tuple[list[OwnedKey], dict[OwnedKey, str]]:
    ledger = installation.ledger
    if not ledger.open_keys(cluster):
        return [], {}
    try:
        with ledger.step(cluster) as step:
            return restore_pending(admin, ledger, cluster, step)
    except RunConflictError as error:  # another process is at work, or this one was stopped
        log(f"{error}; what is pending is restored by the next watch")
        return [], {}


def _foreign_throttles(
    installation: Installation, reader: "ClusterReader", runs: Sequence[Run]
) -> tuple[str, ...]:
    keys = [key for run in runs for key in installation.ledger.journal(run.run_id).owned_keys()]
    of_runs = {key.resource for key in keys if key.resource.is_topic}
    ours = {key.resource_key for key in keys if key.done_at is None}
    return foreign_throttles(reader, of_runs, ours)


def _in_words(key: OwnedKey) -> str:
    before = "not set" if key.before is None else repr(key.before)
    return f"{key.name}, before: {before}"

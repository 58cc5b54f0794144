"""Looks after what nobody drives: orphaned runs, late moves, pending restores, foreign throttles.

    report = watch_throttles(installation, "orders-eu", print)
    report.is_clean

Orphaned runs and late moves are settled and pending keys restored, since the ledger knows them.
What no run of ours has set is reported and never touched.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from counterpoise.errors import RunConflictError, StepLockHeldError
from counterpoise.execution.leftovers import ORPHANED_AFTER, is_orphaned
from counterpoise.installation import Installation
from counterpoise.model.plan import Move
from counterpoise.model.run import (
    UNDER_WAY_STATES,
    LateCall,
    Run,
    RunState,
    TouchedKey,
)
from counterpoise.model.words import pluralize
from counterpoise.services.execution import late_moves_of, restore_pending_of, settle_step
from counterpoise.services.foreign import endless_reassignments, foreign_throttles
from counterpoise.units import format_moment, format_seconds

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader

# For one settling run; the next watch goes on with it.
_MAX_SETTLE_SECONDS: Final = 120.0
_EXECUTED_AGAIN: Final = "somebody executes it again, so it was left alone"
_CHANGED_SINCE: Final = "somebody executed or settled it meanwhile, so it was left alone"

Log = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class LateRun:
    """An ended run, its moves that are under way, and the calls that a copy of it made late."""

    run: Run
    moves: tuple[Move, ...]
    calls: tuple[LateCall, ...]

    @property
    def reason(self) -> str:
        return "a move came late" if self.moves else "a call was made late"


@dataclass(frozen=True, slots=True)
class WatchReport:
    """What one watch of one cluster found, a sentence for each thing.

    `settled_runs` were orphaned, or a move of theirs came late. `restored_keys` are config keys
    restored now, `pending_keys` those that wait for brokers that do not respond. `runs_under_way`
    were observed not long ago: somebody drives them, or the process has only just ended.
    """

    settled_runs: tuple[str, ...] = ()
    restored_keys: tuple[str, ...] = ()
    pending_keys: tuple[str, ...] = ()
    why_pending: tuple[str, ...] = ()  # for each pending key, when it is restored
    late_moves: tuple[str, ...] = ()
    foreign_throttles: tuple[str, ...] = ()
    endless_reassignments: tuple[str, ...] = ()
    runs_under_way: tuple[str, ...] = ()
    late_moves_beside_a_run: tuple[str, ...] = ()  # which cancels them

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
        found = {
            "run under way": self.runs_under_way,
            "late move under way": self.late_moves_beside_a_run,
        }
        return {what: entries for what, entries in found.items() if entries}

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
            "late_moves_beside_a_run": self.late_moves_beside_a_run,
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
        # Whoever drives a run looks after its keys, and after late moves of others.
        late_runs = [] if under_way else _late_runs(installation, admin, runs)
        beside = tuple(_late_moves_beside(installation, admin, runs, under_way))
        for late in late_runs:
            settled.append(_settle_late(installation, admin, late, log))
        restored, pending = _restore_pending(installation, admin, cluster, log)
    with installation.reader(cluster) as reader:
        throttles = _foreign_throttles(installation, reader, runs)
        endless = endless_reassignments(reader)
    return WatchReport(
        settled_runs=tuple(settled),
        restored_keys=tuple(map(_in_words, restored)),
        pending_keys=tuple(map(_in_words, pending)),
        why_pending=tuple(touched.outcome for touched in pending),
        late_moves=tuple(
            f"{move.topic_partition} (run {late.run.run_id})"
            for late in late_runs
            for move in late.moves
        ),
        foreign_throttles=throttles,
        endless_reassignments=endless,
        runs_under_way=tuple(_describe_under_way(installation, run) for run in under_way),
        late_moves_beside_a_run=beside,
    )


def _is_orphaned(installation: Installation, run: Run) -> bool:
    unobserved_for = installation.ledger.journal(run.run_id).unobserved_for()
    return is_orphaned(run, unobserved_for)


def _describe_under_way(installation: Installation, run: Run) -> str:
    """Say since when nobody has observed a run, what it holds, and who ends it."""
    journal = installation.ledger.journal(run.run_id)
    run_progress = journal.run_progress()
    observed_at = run_progress.observed_at if run_progress else run.opened_at
    keys = sum(touched.restored_at is None for touched in journal.touched())
    return (
        f"{run.run_id}: {run.state}, last observed at {format_moment(observed_at)}, "
        f"{pluralize(keys, 'config key')} set. If nothing drives it any more: `counterpoise "
        f"execute PLAN` goes on with it, `counterpoise settle {run.run_id}` ends it; so does a "
        f"watch when nothing has observed it for {format_seconds(ORPHANED_AFTER.total_seconds())}"
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


def _late_moves_beside(
    installation: Installation,
    reader: "ClusterReader",
    runs: Sequence[Run],
    under_way: Sequence[Run],
) -> Iterator[str]:
    """Yield, in words, the moves of ended runs that are in flight beside a run under way."""
    if not under_way:
        return
    driven_ids = {run.run_id for run in under_way}
    ended = [run for run in runs if run.run_id not in driven_ids]
    moves_by_run = late_moves_of(installation, reader, [*under_way, *ended])
    for run_id in sorted(moves_by_run.keys() - driven_ids):
        for move in moves_by_run[run_id]:
            yield (
                f"{move.topic_partition} (run {run_id}): run {under_way[0].run_id} cancels it, as "
                "soon as a process carries that on"
            )


def _late_runs(
    installation: Installation, reader: "ClusterReader", runs: Sequence[Run]
) -> list[LateRun]:
    """Return the ended runs of which a move is under way, or a call was made late, newest first."""
    moves_by_run = late_moves_of(installation, reader, runs)
    late_runs = [
        LateRun(
            run,
            moves_by_run.get(run.run_id, ()),
            installation.ledger.journal(run.run_id).late_calls(),
        )
        for run in runs
    ]
    return [late for late in late_runs if late.moves or late.calls]


def _settle_late(
    installation: Installation, reader: "ClusterReader", found: LateRun, log: Log
) -> str:
    """Settle an ended run once more, if it still is one of which something came late."""
    run_id = found.run.run_id
    journal = installation.ledger.journal(run_id)
    try:
        with journal.step() as step:
            runs = installation.ledger.runs(cluster=found.run.cluster, were_started=True)
            late = _still_late(installation, reader, runs, run_id)
            if late is None:
                return f"{run_id}: {_CHANGED_SINCE}"
            _log_late(late, log)
            run_progress = journal.run_progress()
            with step.together():
                if run_progress is not None and not _may_finish(late.run, newest=runs[0]):
                    step.update_progress(replace(run_progress, is_cancelling=True))
                step.change_state(RunState.SETTLING, late.reason)
    except RunConflictError as error:
        return f"{run_id}: {error}"
    return _settle(installation, late.run, log)


def _still_late(
    installation: Installation, reader: "ClusterReader", runs: Sequence[Run], run_id: str
) -> LateRun | None:
    """Judge once more, while nobody else works on the cluster: somebody may have executed it."""
    late_runs = _late_runs(installation, reader, runs)
    ended = (late for late in late_runs if late.run.state not in UNDER_WAY_STATES)
    return next((late for late in ended if late.run.run_id == run_id), None)


def _may_finish(run: Run, newest: Run) -> bool:
    """Return whether late moves end as the run itself did, which is so for the newest run.

    Those of an older run are cancelled, since newer plans were made without them, and so are those
    of a run that was rejected since.
    """
    return run.run_id == newest.run_id and run.state is not RunState.REJECTED


def _log_late(late: LateRun, log: Log) -> None:
    run_id = late.run.run_id
    for move in late.moves:
        log(
            f"{move.topic_partition} is being reassigned by run {run_id}, which has ended: the run "
            "is settled again"
        )
    for call in late.calls:
        log(f"a {call.call} of run {run_id} was made late: the run is settled again")


def _restore_pending(
    installation: Installation, admin: "ClusterAdmin", cluster: str, log: Log
) -> tuple[list[TouchedKey], list[TouchedKey]]:
    try:
        return restore_pending_of(installation, admin, cluster)
    except RunConflictError as error:  # another process is at work, or this one was stopped
        log(f"{error}; what is pending is restored by the next watch")
        return [], []


def _foreign_throttles(
    installation: Installation, reader: "ClusterReader", runs: Sequence[Run]
) -> tuple[str, ...]:
    touched = [t for run in runs for t in installation.ledger.journal(run.run_id).touched()]
    of_runs = {key.resource for key in touched if key.resource.is_topic}
    ours = {key.resource_key for key in touched if key.restored_at is None}
    return foreign_throttles(reader, of_runs, ours)


def _in_words(touched: TouchedKey) -> str:
    before = "not set" if touched.before_value is None else repr(touched.before_value)
    return f"{touched.resource.type} {touched.resource.name}: {touched.key}, before: {before}"

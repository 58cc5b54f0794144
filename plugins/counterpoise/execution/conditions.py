"""What a run does, waits for or stops for: one table of how long that may last, in which words, and
what there is to do. Pure.

    dead = of(Condition.DEAD, [4])
    in_words(dead)               # "broker 4 is dead"
    when_over(dead, limits)      # "broker 4 is dead, for 15 min (dead_broker_patience): bring ..."

No wait is without an end. A condition either ends at a time that is known (`ends_at`), or has a
patience: when it has lasted that long, a run halts, and settling cancels what cannot finish or ends
with its pending restores listed (`decide.py`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from counterpoise.model.policy import MovementPolicy
from counterpoise.model.run_progress import Activity, Condition
from counterpoise.model.words import join_names, pluralize, verb
from counterpoise.units import format_seconds

EXECUTE_AGAIN: Final = "execute the plan again (`counterpoise execute RUN`)"
MAX_SUBJECTS: Final = (
    20  # kept of a condition: a run's row stays small while thousands are affected
)
# Longer than two observations of a large cluster: one sets keys, another reads them back.
_UNTHROTTLED_PATIENCE: Final = timedelta(seconds=30)
_RESTARTS_IN_A_ROW: Final = 10  # that a run waits out, each as long as its patience allows


@dataclass(frozen=True, slots=True)
class Row:
    """How long a condition may last, its sentence, and what to do when that is over.

    `patience` is a field of the policy. None: it halts at once, ends by itself, or halts nothing.
    """

    sentence: str
    to_do: str = "check the brokers of these partitions, then {again}"
    patience: str | timedelta | None = "dead_broker_patience"
    over: str = ""  # the sentence once its patience is over, where that is another one
    is_one: bool = False  # it lasts as one, whichever subjects it is about
    is_doing: bool = False  # the run is at work, and waits for nothing
    # Whether people, the calendar or a rolling upgrade are why nothing moves.
    is_wanted: bool = False
    # It lasts from one decision to the next; otherwise observations show since when.
    is_decided: bool = False


def _change(sentence: str) -> Row:
    """Return the row of a change that is sent until the next observation shows its effect."""
    return Row(
        sentence,
        "`counterpoise status RUN` shows what the cluster refused; correct the cause, then {again}",
        is_one=True,
        is_doing=True,
        is_decided=True,
    )


def _at_once(sentence: str, to_do: str) -> Row:
    return Row(sentence, to_do, patience=None)


_CHECK_BROKERS: Final = "check {them} and the network between here and {them}, then {again}"
_FIND_OUT_WHO: Final = "find out who, and stop that, then {again}"
TABLE: Final[Mapping[Condition, Row]] = {
    # -- people, the calendar, a rolling upgrade
    Condition.PAUSED: Row(
        "paused by {detail}",
        "{again}, and request `counterpoise resume`",
        "pause_patience",
        is_wanted=True,
        is_decided=True,
    ),
    Condition.FROZEN: Row(
        "the cluster is frozen by {detail}",
        "`counterpoise unfreeze`, then {again}",
        "pause_patience",
        is_wanted=True,
        is_decided=True,
    ),
    Condition.OUTSIDE_WINDOWS: Row(
        "outside the maintenance windows", patience=None, is_wanted=True, is_decided=True
    ),
    Condition.DIFFERENT_VERSIONS: Row(
        "a rolling upgrade seems to be under way: {detail} speak different versions",
        "end the rolling upgrade, then {again}",
        "hold_patience",
        is_one=True,
        is_wanted=True,
        is_decided=True,
    ),
    # -- brokers
    Condition.DEAD: Row("{brokers} {is} dead", "bring {them} back and {again}, or make a new plan"),
    Condition.UNRESPONSIVE: Row("{brokers} {does} not respond", _CHECK_BROKERS),
    Condition.UNMEASURED: Row(
        "{brokers} {does} not report {their} log dirs",
        "no move has ended meanwhile; check {their} disks, then {again}",
        "hold_patience",
    ),
    Condition.UNREPORTED: Row(
        "{brokers} {does} not report the restored configs",
        _CHECK_BROKERS,
        is_one=True,
        is_decided=True,
    ),
    Condition.CATCHING_UP: Row("{brokers} {was} down, and {has} to catch up", patience=None),
    # -- partitions
    Condition.UNAVAILABLE: Row(
        "{partitions} outside the plan take{s} no writes: {names}",
        "{they} {is} offline or under min.insync.replicas: check {their} brokers, then {again}",
    ),
    Condition.LEADERLESS: Row(
        "{partitions} of the plan {has} no leader to copy from: {names}",
        "bring the brokers of {their} replicas back, then {again}",
    ),
    Condition.OUT_OF_SYNC: Row(
        "{replicas} that the plan keeps {is} not in sync: {names}",
        "check {their} brokers, then {again}",
    ),
    Condition.LEADER_OUT_OF_SYNC: Row(
        "{leaders} {is} not in sync yet: {names}", "check {their} brokers, then {again}"
    ),
    # -- moves and calls
    Condition.COPYING: Row(
        "copies {partitions}",
        "a replica that is kept may be out of sync; check the brokers of these partitions, then "
        "{again}",
        over="{partitions} {is} moving, and nothing has arrived",
        is_one=True,
        is_doing=True,
    ),
    Condition.STALLED: Row(
        "{partitions} {has} come no nearer to the end of {their} copy: {names}", "{detail}"
    ),
    Condition.NO_PROGRESS: Row(
        "no move has come nearer to its end than before, whatever the run waited for",
        "check the brokers of its partitions (`counterpoise status RUN`), and whether producers "
        "write faster than the rate lets through, then {again}",
        is_one=True,
    ),
    Condition.UNANSWERED: Row(
        "{moves} {was} sent, no answer came, and {they} may still be applied: {names}",
        "restart the broker that does not respond, then {again}; what is still applied is found by "
        "`counterpoise watch`",
        is_one=True,
        is_decided=True,
    ),
    Condition.THROTTLING: _change(
        "sets throttle keys, and the brokers do not show all of them yet"
    ),
    Condition.SUBMITTING: _change(
        "submits moves, and the controller does not list all of them yet"
    ),
    Condition.ELECTING: _change("elects leaders, and the brokers do not show all of them yet"),
    Condition.CANCELLING: _change("cancels moves, and the controller still lists some of them"),
    Condition.ORDERING: _change(
        "restores the order of replicas, and the brokers do not show all of it yet"
    ),
    Condition.RESTORING: _change("restores throttle keys, and the brokers still show some of ours"),
    Condition.IN_SYNC_AGAIN: Row(
        "partitions outside the plan have their replicas in sync again", patience=None
    ),
    # -- what halts at once
    Condition.UNTHROTTLED: Row(
        "somebody else changes our throttle keys as fast as they are set",
        _FIND_OUT_WHO,
        _UNTHROTTLED_PATIENCE,
        is_one=True,
    ),
    Condition.THROTTLE_GAP: _at_once(
        "somebody else changed our throttle keys again, after some had been set a second time "
        "({names})",
        _FIND_OUT_WHO,
    ),
    Condition.FOREIGN: _at_once(
        "somebody else is reassigning {partitions}: {names}",
        "wait for the end (`counterpoise watch` ends late calls of earlier runs), then {again}",
    ),
    Condition.REDIRECTED: _at_once(
        "somebody else redirected {moves} of this run: {names}",
        "`counterpoise cancel RUN --redirected` shows where to, asks, and brings back the replicas "
        "of before; or wait for the end, then make a new plan",
    ),
    Condition.DRIFTED: _at_once(
        "somebody else moved {partitions} of the plan: {names}", "make a new plan"
    ),
    Condition.TAKEN_BACK: _at_once(
        "somebody else cancelled or took back {names} (`kafka-reassign-partitions.sh --cancel`, "
        "say, or an emergency stop)",
        f"{_FIND_OUT_WHO}, or leave it as it is",
    ),
    Condition.USED_BY_OTHERS: Row(
        "moves of somebody else copy under the throttle of this run, which stays: {names}",
        "the watch restores the keys after their end; `counterpoise cancel RUN --redirected` ends "
        "those of the plan's partitions",
        is_decided=True,
    ),
    Condition.FULL_LOG_DIR: _at_once(
        "a log dir is past its limit: {detail}",
        "free space there, then {again}, or make a new plan",
    ),
    Condition.ISR_LOSS: _at_once(
        "even at {detail}, partitions outside the plan lose in-sync replicas: {names}",
        "when the cluster has less load, {again}",
    ),
    Condition.BELOW_MIN_ISR: _at_once(
        "{partitions} would have fewer replicas than min.insync.replicas: {names}",
        "lower min.insync.replicas of the topics first, or make a new plan",
    ),
    Condition.NOT_ELECTED: _at_once(
        "{leaders} could not be elected in {detail}: {names}",
        "read the controller's log, then {again}",
    ),
}
# Of one change after another, without a wait.
CHANGES: Final = frozenset(c for c, row in TABLE.items() if row.is_decided and row.is_doing)


def of(
    condition: Condition,
    subjects: Iterable[object] = (),
    *,
    detail: str = "",
    ends_at: datetime | None = None,
) -> Activity:
    """Return what a run does or waits for, about these brokers, partitions or replicas."""
    names = tuple(map(str, subjects))
    return Activity(condition, names, len(names), detail, ends_at)


def replica(partition: object, broker_id: int) -> str:
    """Return the subject of a condition of one replica."""
    return f"{partition} on broker {broker_id}"


def kept_subjects(activity: Activity) -> tuple[str, ...]:
    """Return what the ledger keeps since when: one of them that lasts too long is enough."""
    row = TABLE[activity.condition]
    if row.patience is None:
        return ()
    return ("",) if row.is_one else activity.subjects


def patience_of(condition: Condition, limits: MovementPolicy) -> timedelta | None:
    """Return how long it may last before the run halts; None where it halts none, or at once.

    Without progress that is the longest of all; a rolling restart of several brokers takes a while
    as well.
    """
    if condition is Condition.NO_PROGRESS:
        several_restarts = _RESTARTS_IN_A_ROW * limits.dead_broker_patience
        return max(several_restarts, limits.hold_patience, limits.pause_patience)
    patience = TABLE[condition].patience
    return getattr(limits, patience) if isinstance(patience, str) else patience


def in_words(activity: Activity) -> str:
    """Return the sentence, without its full stop."""
    return _filled(TABLE[activity.condition].sentence, activity)


def when_over(activity: Activity, limits: MovementPolicy) -> str:
    """Return what happened, where, and what to do: why a run halts."""
    row = TABLE[activity.condition]
    sentence = _filled(row.over or row.sentence, activity)
    to_do = _filled(row.to_do, activity)
    patience = patience_of(activity.condition, limits)
    if patience is None:
        return f"{sentence}; {to_do}"
    is_of_policy = isinstance(row.patience, str) and activity.condition is not Condition.NO_PROGRESS
    field = f" ({row.patience})" if is_of_policy else ""
    return f"{sentence}, for {format_seconds(patience.total_seconds())}{field}: {to_do}"


def _filled(template: str, activity: Activity) -> str:
    count, names = activity.count, join_names(activity.subjects, activity.count)
    return template.format(
        brokers=f"{verb(count, 'broker', 'brokers')} {names}",
        partitions=pluralize(count, "partition"),
        replicas=pluralize(count, "replica"),
        leaders=pluralize(count, "preferred leader"),
        moves=pluralize(count, "move"),
        names=names,
        detail=activity.detail,
        again=EXECUTE_AGAIN,
        **dict(zip(_FORMS, (forms[count != 1] for forms in _FORMS.values()), strict=True)),
    )


_FORMS: Final = {
    "is": ("is", "are"),
    "was": ("was", "were"),
    "has": ("has", "have"),
    "does": ("does", "do"),
    "s": ("s", ""),
    "they": ("it", "they"),
    "them": ("it", "them"),
    "their": ("its", "their"),
}

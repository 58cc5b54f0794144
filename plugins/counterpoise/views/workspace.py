"""What a run shows from proposal to undo: its page, what the page polls, and the copy in the store.

    seen = RunWorkspace(status, plan, PlanView.offered(plan, movement, rate), outcome=outcome)
    seen.title, seen.badge.word, seen.sentence     # "Add broker 4", "Moving", "Moved ..."
    seen.charts, seen.copied, seen.speed          # values of reporting/plots.py
    seen.shown, seen.now_values                   # what changes while it moves

Bars: before is grey, now is solid, the promise is an outline. What brokers hold now is that of the
last observation while the run moves, and of a snapshot after its end. Traffic is promised alone:
nobody measures it per broker while a run moves.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from counterpoise.model.approval import Decision
from counterpoise.model.plan import BrokerFigure, RebalancePlan
from counterpoise.model.report import RunOutcome
from counterpoise.model.run import (
    ENDED_STATES,
    MUST_NOT_RUN,
    NOT_VALIDATED,
    UNDO_PLAN_ASKED,
    VALIDATED,
    WHY_REQUESTED,
    Event,
    OwnedKey,
    RunState,
)
from counterpoise.model.run_progress import BrokerLoad, RunProgress
from counterpoise.model.words import capitalized, pluralize
from counterpoise.reporting.html import age
from counterpoise.reporting.plots import MAX_TIPS, BarChart, LineChart, bar_chart, line_chart
from counterpoise.units import (
    format_bytes,
    format_clock,
    format_count,
    format_moment,
    format_rate,
    format_seconds,
)
from counterpoise.views.plan import MEASURES, Measure, PlanView, goal_title
from counterpoise.views.run import EVENTS_SHOWN

if TYPE_CHECKING:
    from counterpoise.services.runs import RunStatus, Waiting

MOVES_IN_COPY: Final = 1_000
_CHART_EVENTS: Final = 9
_CHARTS: Final = MEASURES[:4]
_NAMES_SHOWN: Final = 50  # of the brokers or topics with the same setting
_NAMES_AND_NUMBERS: Final = re.compile(r"[\w.-]*\d[\w.-]*")
_TRAFFIC: Final = "bytes_in"


class Badge(NamedTuple):
    """A state as people see it: its colour, its icon, its word."""

    kind: str
    icon: str
    word: str


_BADGES: Final[Mapping[RunState, Badge]] = {
    RunState.PROPOSED: Badge("warn", "clock", "Waiting for approval"),
    RunState.APPROVED: Badge("move", "check", "Approved"),
    RunState.RUNNING: Badge("move", "play", "Moving"),
    RunState.SETTLING: Badge("move", "clock", "Ending"),
    RunState.DONE: Badge("ok", "check", "Done"),
    RunState.HALTED: Badge("bad", "stop", "Halted"),
    RunState.CANCELLED: Badge("calm", "stop", "Cancelled"),
    RunState.REJECTED: Badge("calm", "stop", "Rejected"),
    RunState.SUPERSEDED: Badge("calm", "info", "Superseded"),
}
_EVENT_BADGES: Final[Mapping[str, Badge]] = {
    "proposed": Badge("calm", "person", "Plan proposed"),
    WHY_REQUESTED: Badge("calm", "person", "Why it was requested"),
    VALIDATED: Badge("ok", "check", "Checks passed"),
    NOT_VALIDATED: Badge("bad", "stop", "Checks failed"),
    MUST_NOT_RUN: Badge("bad", "stop", "The plan must not run"),
    "asked": Badge("warn", "clock", "Approvers were asked"),
    "granted": Badge("ok", "person", "Approval"),
    "answer refused": Badge("warn", "warn", "Answer refused"),
    "approved": Badge("ok", "check", "Approved"),
    "rejected": Badge("calm", "stop", "Rejected"),
    "superseded": Badge("calm", "info", "Superseded"),
    "running": Badge("move", "play", "The run started"),
    "throttling": Badge("move", "slow", "Throttles set"),
    "moving": Badge("move", "play", "Reassignment submitted"),
    "electing": Badge("move", "play", "Elected"),
    "pause asked": Badge("warn", "pause", "Pause requested"),
    "resume asked": Badge("move", "play", "Resume requested"),
    "rate asked": Badge("move", "slow", "Another rate requested"),
    "cancel asked": Badge("bad", "stop", "Cancel requested"),
    "undo asked": Badge("bad", "undo", "Cancel for an undo requested"),
    UNDO_PLAN_ASKED: Badge("calm", "undo", "Undo plan requested"),
    "freeze asked": Badge("calm", "snow", "Freeze requested"),
    "unfreeze asked": Badge("calm", "snow", "End of the freeze requested"),
    "cancelling": Badge("warn", "undo", "Cancelling"),
    "restoring": Badge("calm", "undo", "Settings restored"),
    "brake": Badge("warn", "slow", "Throttle back-off"),
    "lower rate": Badge("warn", "slow", "Somebody else set a lower rate"),
    "stall": Badge("warn", "warn", "Copies stalled"),
    "settling": Badge("move", "clock", "The run ends"),
    "done": Badge("ok", "check", "Done"),
    "halted": Badge("bad", "stop", "Halted"),
    "cancelled": Badge("calm", "stop", "Cancelled"),
}
_ON_CHART: Final = frozenset(
    {"pause asked", "resume asked", "rate asked", "cancel asked", "undo asked"}
    | {"brake", "lower rate", "stall", "done", "halted", "cancelled"}
)


class Entry(NamedTuple):
    """What happened, when, and in which words."""

    at: datetime
    badge: Badge
    text: str  # "" where the word of the badge says it all


class Check(NamedTuple):
    """What speaks for or against a run, and what else is of the same cause."""

    badge: Badge
    title: str
    more: tuple[str, ...] = ()
    at: datetime | None = None


class Compared(NamedTuple):
    what: str
    promised: str
    found: str


class BrokerRow(NamedTuple):
    place: int  # among the brokers of the plan
    figure: BrokerFigure
    now: BrokerLoad | None
    moves: int  # in flight
    bytes_left: int  # of those
    bytes_per_second: int

    def holds(self, field: str) -> int:
        """Return what the broker holds of a measure now; before the run where nobody looked."""
        before: int | None = getattr(self.figure, f"{field}_before")
        now: int | None = getattr(self.now, field, None)
        return before or 0 if now is None else now


# By column: what the table of brokers is sorted by; all but the first with the most at the top.
BROKER_SORTS: Final[Mapping[str, Callable[[BrokerRow], float]]] = {
    "broker": lambda row: -row.figure.broker_id,
    "moves": lambda row: row.moves,
    "left": lambda row: row.bytes_left,
    "speed": lambda row: row.bytes_per_second,
    "leaders": lambda row: row.holds("leaders"),
    "replicas": lambda row: row.holds("replicas"),
    "bytes": lambda row: row.holds("bytes"),
    "bytes_in": lambda row: row.holds("bytes_in"),
    "fullest": lambda row: row.figure.peak_share or row.figure.peak_used_bytes,
}


class SettingRow(NamedTuple):
    """One key of all the brokers or topics where it had the same values."""

    where: str
    names: tuple[str, ...]  # the first of them
    key: str
    before: str
    during: str
    badge: Badge


@dataclass(frozen=True, slots=True)
class Undone:
    """The run that a plan takes back."""

    run_id: str
    goal: str  # add-brokers 4
    why: str  # as whoever asked for the undo has typed it


@dataclass(frozen=True)
class RunWorkspace:
    status: "RunStatus"
    plan: RebalancePlan
    view: PlanView
    outcome: RunOutcome | None = None  # of a snapshot after its end
    undone: Undone | None = None
    waits: tuple["Waiting", ...] = ()
    is_failing: bool = False  # its cluster does not answer, or its last snapshot failed

    # -- what it is, in words

    @property
    def title(self) -> str:
        if self.undone is None:
            return goal_title(self.plan)
        return f"Undo of run {self.undone.run_id[-6:]} ({self.undone.goal})"

    @property
    def why(self) -> str:
        """Return why it was requested; "" where nobody said so."""
        return self.status.why_requested or (self.undone.why if self.undone else "")

    @property
    def badge(self) -> Badge:
        status = self.status
        if status.must_not_run:
            return Badge("bad", "stop", "Must not run")
        if status.run.state is RunState.RUNNING:
            if not status.doing.is_driven:
                return Badge("bad", "off", "Nobody drives it")
            if status.active.paused is not None:
                return Badge("warn", "pause", "Paused")
            if status.active.frozen is not None:
                return Badge("calm", "snow", "Frozen")
            if self.waits:
                return Badge("warn", "clock", "Waiting")
        return badge_of(status.run.state)

    @property
    def sentence(self) -> str:
        """Return the one sentence of the panel."""
        run = self.status.run
        match run.state:
            case RunState.PROPOSED if self.status.must_not_run:
                why = self.status.why_refused_by_validation
                return f"This plan must not run{f': {why}' if why else ''}."
            case RunState.PROPOSED | RunState.APPROVED:
                return f"{self.view.long_sentence}."
            case RunState.RUNNING | RunState.SETTLING:
                return f"{self._moved}{self._rest}."
            case RunState.DONE:
                return f"{self._moved} in {self.took}{self._growth}."
            case RunState.HALTED:
                return f"The run halted: {_cause(run.reason) or 'no reason was given'}."
            case RunState.CANCELLED:
                why = run.reason.removeprefix("cancel ") or "by a person"
                return f"The run was cancelled{' ' if why.startswith('by ') else ': '}{why}."
            case RunState.REJECTED:
                return self._rejected
            case _:
                return "A newer plan took its place. Nothing was changed."

    @property
    def _rejected(self) -> str:
        """Return who said no, and why; who said it is not known where the time was over."""
        run, no = self.status.run, self.status.approval
        if no is None or no.decision is not Decision.REJECTED:
            return f"Nothing was changed: {run.reason or 'the plan was rejected'}."
        who, why = no.person.shown, run.reason.rstrip(".")
        if self.status.was_started:
            return f"{who} rejected it after it had halted: {why}."
        verb = "withdrew" if no.person.is_same(run.requester) else "rejected"
        return f"{who} {verb} it: {why}. Nothing was changed."

    @property
    def advice(self) -> str:
        """Return what to do about a halt, and what it has left; "" where the sentence says all."""
        run = self.status.run
        if run.state is not RunState.HALTED:
            return ""
        return capitalized(run.reason.removeprefix(_cause(run.reason)).removeprefix(": "))

    @property
    def _moved(self) -> str:
        """Return `Moved 990 GB of 1.73 TB`, or `Moved 1.75 TB` at the end."""
        found = self._progress
        if found is None:
            return "No step of the run has been done yet"
        done = found.progress
        is_over = self.status.run.state is RunState.DONE
        if not done.total_bytes:
            of_all = "" if is_over else f" of {done.moves_total:,}"
            return f"Changed {done.moves_done:,}{of_all} {'partitions'}"
        if is_over:
            return f"Moved {format_bytes(self.copied_bytes)}"
        return f"Moved {format_bytes(done.copied_bytes)} of {format_bytes(done.total_bytes)}"

    @property
    def _rest(self) -> str:
        left = self.status.doing.seconds_left
        return "" if left is None else f"; the rest takes about {format_seconds(left)}"

    @property
    def _growth(self) -> str:
        grown = self.copied_bytes - self.view.copied_bytes
        return f", {format_bytes(grown)} of it written meanwhile" if grown > 0 else ""

    @property
    def copied_bytes(self) -> int:
        """Return what was copied, with what producers wrote meanwhile where that is known."""
        if self.outcome is not None:
            return self.outcome.copied_bytes
        return self._progress.progress.copied_bytes if self._progress else 0

    @property
    def doing(self) -> str:
        """Return what a run under way does or waits for now."""
        sentence = self.status.doing.sentence
        return f"{sentence[0].upper()}{sentence[1:]}." if sentence else ""

    @property
    def _progress(self) -> RunProgress | None:
        return self.status.run_progress

    # -- times

    @property
    def waited_seconds(self) -> float:
        """Return how long it waited for the answer that let it start, or waits by now."""
        run, first = self.status.run, next(iter(self.status.in_force), None)
        until = first.at if first else run.closed_at or self.status.now
        return max(0.0, (until - run.opened_at).total_seconds())

    @property
    def started_at(self) -> datetime | None:
        return next((at for kind, at in self._changes if kind == RunState.RUNNING), None)

    @property
    def moved_seconds(self) -> float:
        """Return how long it was under way, all executions together."""
        seconds, began = 0.0, None
        for kind, at in self._changes:
            if kind == RunState.RUNNING:
                began = began or at
            elif began is not None:
                seconds, began = seconds + (at - began).total_seconds(), None
        if began is not None and self.status.is_under_way:
            seconds += (self.status.now - began).total_seconds()
        return max(0.0, seconds)

    @property
    def _changes(self) -> list[tuple[str, datetime]]:
        kinds = {RunState.RUNNING, *ENDED_STATES}
        return [(event.kind, event.at) for event in self.status.events if event.kind in kinds]

    @property
    def took(self) -> str:
        return format_seconds(self.moved_seconds)

    @property
    def ends_at(self) -> datetime | None:
        """Return when the copies have arrived, as fast as they arrive now."""
        left, found = self.status.doing.seconds_left, self._progress
        if left is None or found is None:
            return None
        return datetime.fromtimestamp(found.observed_at.timestamp() + left, self.status.now.tzinfo)

    # -- charts

    @property
    def loads(self) -> Mapping[int, BrokerLoad]:
        """Return what brokers hold now, by id; {} where nothing has moved, and nobody looked."""
        found = self.outcome.brokers if self.outcome else ()
        if not found and self.status.was_started and self._progress is not None:
            found = self._progress.brokers
        return {load.broker_id: load for load in found}

    @property
    def legend(self) -> list[tuple[str, str]]:
        if not self.loads:
            return [("was", "before"), ("tint", "after"), ("best", "best possible")]
        now = "now" if self.status.is_under_way else "is"
        promised = ("promise", "promised")
        return [("was", "before"), ("is", now), promised, ("best", "best possible")]

    @cached_property
    def charts(self) -> list[tuple[str, BarChart]]:
        """Return leaders, replicas, bytes and bytes-in per broker, as far as they are known."""
        return plan_charts(self.plan.figures, self.loads, is_moving=self.status.is_under_way)

    @property
    def _trail_end(self) -> datetime | None:
        trail = self._progress.trail if self._progress else ()
        if len(trail) < 2:
            return None
        return max(trail[-1].at, self.ends_at or trail[-1].at)

    @cached_property
    def copied(self) -> LineChart | None:
        """Return the bytes copied over time, as they come, and dashed what is left."""
        end, found = self._trail_end, self._progress
        if end is None or found is None or not found.progress.total_bytes:
            return None
        points = [(point.at, point.copied_bytes) for point in found.trail]
        lines: list[tuple[str, list[tuple[datetime, float | None]]]] = [("l1", [*points])]
        if self.status.is_under_way and end > points[-1][0]:
            lines.append(("l1 dash", [points[-1], (end, found.progress.total_bytes)]))
        progress = found.progress
        copied, total = format_bytes(progress.copied_bytes), format_bytes(progress.total_bytes)
        return line_chart(
            "Bytes copied",
            format_bytes,
            points[0][0],
            end,
            lines,
            is_filled=True,
            events=self._chart_events(points[0][0], end),
            now=points[-1][0] if self.status.is_under_way else None,
            lead=f"{copied} of {total}",
            top=progress.total_bytes,
        )

    @cached_property
    def speed(self) -> LineChart | None:
        """Return how fast bytes came, all brokers together."""
        end, found = self._trail_end, self._progress
        if end is None or found is None or self.copied is None:
            return None
        points = [(point.at, point.bytes_per_second) for point in found.trail]
        events = [
            (at, "", text, kind) for at, _, text, kind in self._chart_events(points[0][0], end)
        ]
        return line_chart(
            "Rate, all brokers",
            format_rate,
            points[0][0],
            end,
            [("l2", points)],
            events=events,
            now=points[-1][0] if self.status.is_under_way else None,
            lead=f"at most {format_rate(found.rate_bytes_per_second)} per broker",
        )

    def _chart_events(self, begin: datetime, end: datetime) -> list[tuple[datetime, str, str, str]]:
        shown = [
            event
            for event in self.status.events
            if event.kind in _ON_CHART and begin <= event.at <= end
        ][-_CHART_EVENTS:]
        entries = [
            entry._replace(text=_cause(entry.text)) if event.kind == "halted" else entry
            for event, entry in zip(shown, map(_entry, shown), strict=True)
        ]
        return [
            (at, str(number), f"{at:%H:%M:%S} {badge.word}{f' {text}' if text else ''}", badge.kind)
            for number, (at, badge, text) in enumerate(entries, 1)
        ]

    # -- the tabs

    @cached_property
    def checks(self) -> list[Check]:
        """Return what speaks against the run first, folded by cause."""
        status = self.status
        is_done = status.run.state is RunState.DONE
        # What was said of the rate is over with the copies.
        warnings = self.view.warnings if is_done else self.view.all_warnings
        found = [
            *self._against,
            *(
                Check(
                    Badge("calm" if wait.is_wanted else "warn", "clock", "Waits"),
                    _waiting_in_words(wait),
                )
                for wait in self.waits
            ),
            *_folded(Badge("warn", "warn", "Warning"), warnings),
        ]
        if status.validated_at:
            what = "Rules and data" if status.run.dag_id else "Its rules"
            left = status.left_unchecked
            title = f"{what} were checked, and nothing spoke against it."
            found.append(
                Check(
                    Badge("ok", "check", "Passed"),
                    f"{title} Left out: {left}." if left else title,
                    (),
                    status.validated_at,
                )
            )
        elif status.run.state is RunState.PROPOSED and not status.must_not_run:
            found.append(Check(Badge("calm", "clock", "Not yet"), "The plan was not checked yet."))
        if (
            self.outcome is not None
            and status.run.state is RunState.DONE
            and not self.outcome.problems
        ):
            badge = Badge("ok", "check", "Passed")
            title = "The cluster is as the plan says."
            found.append(Check(badge, title, (), self.outcome.observed_at))
        return [*found, *_folded(Badge("calm", "info", "Note"), self.view.all_notes)]

    @property
    def _against(self) -> list[Check]:
        found = []
        if self.status.must_not_run:
            why = self.status.why_refused_by_validation
            first = why or "the log of the task validate says why"
            found.append(
                Check(Badge("bad", "stop", "Refused"), f"This plan must not run: {first}.")
            )
        for problem in self.outcome.problems if self.outcome else ():
            found.append(Check(Badge("bad", "warn", "Differs"), problem))
        for key in self.status.pending_restores:
            what = f"{key.name} is not as before yet."
            found.append(Check(Badge("warn", "warn", "Pending"), what))
        return found

    @property
    def attention(self) -> int:
        """Return how many checks ask for attention."""
        return sum(check.badge.kind in ("bad", "warn") for check in self.checks)

    @property
    def timeline(self) -> list[Entry]:
        """Return the newest events, the newest first."""
        return [_entry(event) for event in reversed(self.status.events[-EVENTS_SHOWN:])]

    @property
    def events_left_out(self) -> int:
        return max(0, len(self.status.events) - EVENTS_SHOWN)

    @property
    def compared(self) -> list[Compared]:
        """Return what was promised beside what is, of a run that has ended."""
        if self.outcome is None or not self.outcome.brokers:
            return []
        rows = []
        for measure in _CHARTS[:3]:
            promised = max((measure.values(figure)[1] for figure in self.plan.figures), default=0)
            found = max(getattr(load, measure.field) for load in self.outcome.brokers)
            rows.append(
                Compared(
                    f"{measure_title(measure)}, at most",
                    measure.unit(promised),
                    measure.unit(found),
                )
            )
        if self.view.copied_bytes:
            copied = format_bytes(self.copied_bytes)
            rows.append(Compared("Copied", format_bytes(self.view.copied_bytes), copied))
        if self.view.expected_seconds:
            rows.append(Compared("Took", self.view.expected_time, self.took))
        return rows

    @property
    def brokers(self) -> list[BrokerRow]:
        loads = self.loads
        is_moving = self.status.is_under_way and self._progress is not None
        sums: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        for link in self._progress.links if is_moving and self._progress else ():
            row = sums[link.broker_id]
            row[0] += link.moves
            row[1] += link.bytes_left
            row[2] += link.bytes_per_second
        return [
            BrokerRow(place, figure, loads.get(figure.broker_id), *sums[figure.broker_id])
            for place, figure in enumerate(self.plan.figures)
        ]

    def brokers_by(self, sort: str) -> list[BrokerRow]:
        """Return the brokers in the order of a column; by id where there is no such column."""
        value_of = BROKER_SORTS.get(sort, BROKER_SORTS["broker"])
        return sorted(self.brokers, key=value_of, reverse=True)

    @property
    def settings(self) -> list[SettingRow]:
        """Return the settings that the run has changed; those alike are one row."""
        groups: dict[tuple[str, str, str, str, Badge], list[str]] = defaultdict(list)
        for key in self.status.keys:
            group = (
                str(key.resource.type),
                key.key,
                _setting(key.key, key.before),
                _setting(key.key, key.during),
                self._restored(key),
            )
            groups[group].append(key.resource.name)
        return [
            SettingRow(_where(kind, names), tuple(names[:_NAMES_SHOWN]), key, before, during, badge)
            for (kind, key, before, during, badge), names in groups.items()
        ]

    def _restored(self, key: OwnedKey) -> Badge:
        if key.done_at is None:
            is_moving = self.status.is_under_way
            return (
                Badge("move", "slow", "in force")
                if is_moving
                else Badge("warn", "clock", "pending")
            )
        left = self.status.left_values.get(key.name)
        if left is None:
            return Badge("ok", "check", "as before")
        return Badge("warn", "warn", f"left as somebody set it: {_setting(key.key, left)}")

    # -- what changes while it moves

    @property
    def version(self) -> str:
        """Return what changes when the page has to be drawn anew: state, requests, approvals."""
        status = self.status
        parts = (
            status.run.state,
            self.badge.word,
            len(status.approvals),
            len(status.requests),
            len(self.checks),
            self.copied is None,
            self.outcome is None,
            self.is_failing,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]

    @cached_property
    def shown(self) -> dict[str, str]:
        """Return the texts that change while a page is open, by the places that show them."""
        found, now = self._progress, self.status.now
        texts = {
            "sentence": self.sentence,
            "doing": self.doing,
            "percent": self.percent,
            "age": age(self.status.run.opened_at, now),
            "waited": f"for {format_seconds(self.waited_seconds)}",
            "took": self.took,
        }
        if found is not None:
            texts |= {
                "done": self.done_in_words,
                "speed": found.speed_in_words,
                "observed": f"{found.observed_at:%H:%M:%S} UTC",
                "copied-lead": self.copied.lead if self.copied else "",
            }
        if self.ends_at:
            texts["ends"] = f"{format_clock(self.ends_at, now)} UTC"
        texts |= {f"{field}-lead": chart.lead for field, chart in self.charts}
        return texts | self._shown_of_brokers

    @property
    def _shown_of_brokers(self) -> dict[str, str]:
        """Return the figures of each broker that change, as its row and its tooltips have them."""
        if not self.status.is_under_way or len(self.plan.figures) > MAX_TIPS:
            return {}
        texts: dict[str, str] = {}
        for row in self.brokers:
            texts |= {
                f"moves-{row.place}": format_count(row.moves),
                f"left-{row.place}": format_bytes(row.bytes_left),
                f"speed-{row.place}": format_rate(row.bytes_per_second),
            }
            for measure in _CHARTS[:3] if row.now else ():
                held = getattr(row.now, measure.field)
                texts[f"{measure.field}-{row.place}"] = measure.unit(held)
        return texts

    @property
    def percent(self) -> str:
        found = self._progress
        return "" if found is None else f"{found.progress.share * 100:.0f} %"

    @property
    def left_in_words(self) -> str:
        """Return what stays as the run has left it."""
        pending = len(self.status.pending_restores)
        keys = f"{pluralize(pending, 'setting')} not as before yet." if pending else ""
        is_said = self.status.run.state is RunState.DONE  # by the sentence
        moved = "" if is_said else f"{self._moved}. It stays there. "
        return f"{moved}{keys or 'Settings are as before.'}"

    @property
    def done_in_words(self) -> str:
        found = self._progress
        if found is None:
            return ""
        done = found.progress
        elections = (
            f", {pluralize(done.elections_left, 'leader')} to elect" if done.elections_left else ""
        )
        return (
            f"{done.moves_done:,} of {pluralize(done.moves_total, 'partition')}, "
            f"{done.moves_in_flight:,} in flight{elections}"
        )

    @property
    def now_values(self) -> dict[str, list[float]]:
        """Return the solid bars of each chart."""
        return {field: [*chart.now] for field, chart in self.charts if chart.now}


def badge_of(state: RunState) -> Badge:
    """Return a state of a run of which no more is known."""
    return _BADGES[state]


def plan_charts(
    figures: Sequence[BrokerFigure], loads: Mapping[int, BrokerLoad], *, is_moving: bool = False
) -> list[tuple[str, BarChart]]:
    """Return a chart of each measure that is known, by its field; `loads` is what brokers hold
    now, {} before anything moves.
    """
    ids = [figure.broker_id for figure in figures]
    words = ("before", "now" if is_moving else "is", "promised" if loads else "after")
    charts = []
    for measure in _CHARTS:
        if not measure.is_known(figures):
            continue
        was, promise, best = zip(*map(measure.values, figures), strict=True)
        is_seen = bool(loads) and measure.field != _TRAFFIC
        now = [getattr(loads.get(broker_id), measure.field, None) for broker_id in ids]
        if not any((*was, *promise, *(now if is_seen else ()))):
            continue  # nothing is written to any broker: an empty chart says no more
        chart = bar_chart(
            measure_title(measure),
            measure.unit,
            ids,
            was=was,
            now=now if is_seen else None,
            promise=promise,
            best=best,
            words=words,
            marks=_marks(figures),
            racks={figure.broker_id: figure.rack for figure in figures},
        )
        charts.append((measure.field, chart))
    return charts


def _cause(reason: str) -> str:
    """Return the reason of a halt without what to do about it, which may be long."""
    return reason.partition(": ")[0]


def measure_title(measure: Measure) -> str:
    return "Bytes on disk" if measure.field == "bytes" else measure.title


def _marks(figures: Sequence[BrokerFigure]) -> dict[int, tuple[str, str]]:
    """Return the brokers that are new or emptied; of neighbours one has the word."""
    words = {
        figure.broker_id: "new" if not figure.replicas_before else "emptied"
        for figure in figures
        if bool(figure.replicas_before) != bool(figure.replicas_after)
    }
    groups: list[list[int]] = []
    for figure in figures:
        if figure.broker_id not in words:
            groups.append([])
        elif groups and groups[-1] and words[groups[-1][0]] == words[figure.broker_id]:
            groups[-1].append(figure.broker_id)
        else:
            groups.append([figure.broker_id])
    named = {group[len(group) // 2] for group in groups if group}
    return {broker: ("new", words[broker] if broker in named else "") for broker in words}


def _entry(event: Event) -> Entry:
    """Return an event with a readable name, and its text without what the name says."""
    badge = _EVENT_BADGES.get(event.kind, Badge("calm", "info", event.kind.capitalize()))
    text = event.text
    if event.kind in ("proposed", "asked", VALIDATED, NOT_VALIDATED):
        text = text.partition(" ")[2]  # without the fingerprint
    first = "cancel" if event.kind == "cancelled" else event.kind.removesuffix(" asked")
    if text.startswith(f"{first} by "):
        text = text.removeprefix(f"{first} ")
    return Entry(event.at, badge, text)


def _folded(badge: Badge, sentences: Iterable[str]) -> list[Check]:
    """Return sentences as checks; those that differ in names and numbers alone are one."""
    groups: dict[str, list[str]] = defaultdict(list)
    for sentence in sentences:
        groups[_NAMES_AND_NUMBERS.sub("#", sentence)].append(sentence)
    return [
        Check(badge, f"{first[:1].upper()}{first[1:]}", tuple(more))
        for first, *more in groups.values()
    ]


def _waiting_in_words(wait: "Waiting") -> str:
    ends = f"; halts {format_moment(wait.halts_at)} if that lasts" if wait.halts_at else ""
    goes_on = f"; goes on {format_moment(wait.goes_on_at)}" if wait.goes_on_at else ""
    return f"Waiting since {format_moment(wait.since)}: {wait.what}{ends}{goes_on}"


def _where(kind: str, names: Sequence[str]) -> str:
    """Return `12 brokers`, or the one topic by its name."""
    return f"{kind} {names[0]}" if len(names) == 1 else pluralize(len(names), kind)


def _setting(key: str, value: str | None) -> str:
    if value is None:
        return "not set"
    if not value:
        return "empty"
    if key.endswith(".rate") and value.isdigit():
        return format_rate(int(value))
    if key.endswith(".replicas") and value != "*":
        return pluralize(len(value.split(",")), "entry", "entries")
    return value


def promised_in_words(view: PlanView) -> str:
    """Return what a yes lets happen."""
    return (
        f"This plan may run once, at this rate: {pluralize(view.moves, 'partition')}, "
        f"{format_count(view.copied_replicas)} replicas copied. It can be paused, slowed down, "
        "cancelled and undone."
    )

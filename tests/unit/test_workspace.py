"""What a run shows from proposal to undo: words, charts, and the copy that the store keeps."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from counterpoise.model.approval import Approval, Decision
from counterpoise.model.control import ActiveRequests
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.plan import Deferred, Move, MoveReason, RebalancePlan
from counterpoise.model.report import RunOutcome
from counterpoise.model.request import Budget, Goal, Scope
from counterpoise.model.run import Event, OwnedKey, Progress, Run, RunState
from counterpoise.model.run_progress import BrokerLoad, RunProgress, TrailPoint
from counterpoise.services.runs import RunStatus
from counterpoise.views.pages import no_moves_page, run_copy
from counterpoise.views.plan import PlanView
from counterpoise.views.workspace import MOVES_IN_COPY, RunWorkspace, Undone
from tests.support import hostile
from tests.support.web import words_on
from tests.unit.test_reporting import NOON, figure, plan

END = NOON + timedelta(minutes=12)


def status(of: RebalancePlan, state: RunState = RunState.DONE, **changes: Any) -> RunStatus:
    """Return a run that waited for 2 min and moved for 10 min."""
    closed = END if state not in (RunState.PROPOSED, RunState.RUNNING) else None
    run = Run("demo-1", "demo", of.fingerprint, "p.json", state, "", NOON, closed, "airflow:bob")
    approved_at = NOON + timedelta(minutes=2)
    events = (
        Event(NOON, "proposed", f"{of.fingerprint} by bob"),
        Event(NOON, "validated", of.fingerprint),
        Event(approved_at, "granted", "granted by alice: looks right"),
        Event(approved_at, "running", ""),
        Event(NOON + timedelta(minutes=7), "rate asked", "rate 20.0 MB/s by alice: faster"),
        *([Event(END, str(state), "")] if closed else []),
    )
    trail = tuple(
        TrailPoint(NOON + timedelta(minutes=m), (m - 2) * 600_000, 10_000, 20_000_000)
        for m in (2, 7, 12)
    )
    progress = RunProgress(
        END,
        Progress(3, 3, 0, 6_000_000, 6_000_000, 0),
        20_000_000,
        trail=trail,
        brokers=tuple(
            BrokerLoad(f.broker_id, f.leaders_after, f.replicas_after, f.bytes_after)
            for f in of.figures
        ),
    )
    yes = Approval(
        "demo-1", of.fingerprint, Decision.GRANTED, "airflow:alice", "ok", approved_at, 20_000_000
    )
    values: dict[str, Any] = {
        "run": run,
        "run_progress": progress,
        "approvals": (yes,),
        "requests": (),
        "active": ActiveRequests(),
        "keys": (),
        "events": events,
        "moves_submitted": 3,
        "moves_done": 3,
        "has_moved": True,
        "now": END,
    }
    return RunStatus(**(values | changes))


def seen(of: RebalancePlan | None = None, **changes: Any) -> RunWorkspace:
    made = of or plan()
    state = changes.pop("state", RunState.DONE)
    own = {name: changes.pop(name) for name in ("outcome", "undone") if name in changes}
    return RunWorkspace(status(made, state, **changes), made, PlanView.of(made, 20_000_000), **own)


def outcome(of: RebalancePlan, copied_bytes: int, *problems: str) -> RunOutcome:
    loads = [BrokerLoad(f.broker_id, f.leaders_after, 9, f.bytes_after + 7) for f in of.figures]
    return RunOutcome(END, tuple(loads), copied_bytes, problems)


def test_a_done_run_says_what_was_moved_and_what_was_written_meanwhile() -> None:
    made = plan()
    found = seen(made, outcome=outcome(made, 7_500_000))
    assert found.sentence == "Moved 7.5 MB in 10 min, 1.5 MB of it written meanwhile."
    assert (found.waited_seconds, found.moved_seconds) == (120, 600)
    rows = {row.what: (row.promised, row.found) for row in found.compared}
    assert rows["Copied"] == ("6.0 MB", "7.5 MB")
    assert rows["Replicas, at most"][1] == "9"
    assert [check.badge.word for check in found.checks][-1] == "Passed"
    assert RunOutcome.from_json(outcome(made, 1, "x").to_json()) == outcome(made, 1, "x")


def test_who_cancelled_a_run_and_why_is_its_sentence() -> None:
    found = seen(state=RunState.CANCELLED)
    run = replace(found.status.run, reason="cancel by bob: too slow")
    found = replace(found, status=replace(found.status, run=run))
    assert found.sentence == "The run was cancelled by bob: too slow."
    events = (*found.status.events, Event(END, "cancelled", run.reason))
    told = replace(found, status=replace(found.status, events=events)).timeline[0]
    assert (told.badge.word, told.text) == ("Cancelled", "by bob: too slow")


@pytest.mark.parametrize(
    ("decision", "who", "has_halted", "sentence"),
    [
        (Decision.REJECTED, "carol", False, "carol rejected it: too large. Nothing was changed."),
        (Decision.REJECTED, "bob", False, "bob withdrew it: too large. Nothing was changed."),
        (Decision.REJECTED, "carol", True, "carol rejected it after it had halted: too large."),
        (Decision.TIMED_OUT, "time", False, "Nothing was changed: too large."),
    ],
)
def test_who_rejected_a_plan_and_why_is_its_sentence(
    decision: Decision, who: str, has_halted: bool, sentence: str
) -> None:
    found = seen(state=RunState.REJECTED)
    reason = "too large." if decision is Decision.REJECTED else "too large"
    run = replace(found.status.run, reason=reason)
    no = replace(found.status.approvals[0], decision=decision, by=f"airflow:{who}")
    changed = replace(found.status, run=run, approvals=(*found.status.approvals, no))
    if not has_halted:
        changed = replace(changed, run_progress=None)
    assert replace(found, status=changed).sentence == sentence


def test_a_halt_has_a_short_sentence_and_says_below_what_to_do() -> None:
    found = seen(state=RunState.HALTED)
    reason = "broker 4 is dead, for 15 min: bring it back; 31 of 36 partitions not as planned"
    events = (*found.status.events[:-1], Event(END, "halted", reason))
    run = replace(found.status.run, reason=reason)
    found = replace(found, status=replace(found.status, run=run, events=events))
    assert found.sentence == "The run halted: broker 4 is dead, for 15 min."
    assert found.advice == "Bring it back; 31 of 36 partitions not as planned"
    assert found.copied is not None
    assert found.copied.events[-1].text.endswith("Halted broker 4 is dead, for 15 min")
    page = words_on(run_copy(found))
    assert "Bring it back; 31 of 36" in page and found.timeline[0].text == reason


def test_before_anything_moves_the_charts_show_before_after_and_best() -> None:
    found = seen(state=RunState.PROPOSED, run_progress=None, approvals=())
    charts = dict(found.charts)
    assert charts["leaders"].now is None and charts["leaders"].promise
    assert charts["leaders"].marks == {4: ("new", "new")}
    assert found.copied is None and found.badge.word == "Waiting for approval"
    assert found.sentence.startswith("Moves 6.0 MB to broker 4 in about ")


def test_a_measure_that_is_zero_everywhere_has_no_chart() -> None:
    made = plan()
    idle = [replace(f, bytes_in_before=0, bytes_in_after=0, bytes_in_best=0) for f in made.figures]
    fields = [field for field, _ in seen(replace(made, figures=tuple(idle))).charts]
    assert fields == ["leaders", "replicas", "bytes"]


def test_what_people_asked_for_is_on_the_line_of_bytes() -> None:
    found = seen()
    assert found.copied is not None and found.speed is not None
    (asked, done) = found.copied.events
    assert asked.text.endswith("Another rate requested rate 20.0 MB/s by alice: faster")
    assert (asked.number, round(asked.x, 2), done.x) == ("1", 0.5, 1.0)
    assert [event.number for event in found.speed.events] == ["", ""]


def test_an_undo_is_titled_as_one_and_moves_back() -> None:
    back = plan(goal=Goal.IMPORTED, undoes="sha256:1")
    found = seen(back, undone=Undone("demo-20260131-abcdef", "add-brokers 4", "too slow"))
    assert found.title == "Undo of run abcdef (add-brokers 4)"
    assert found.why == "too slow"
    assert PlanView.of(back, 10**6).sentence.startswith("Moves 6.0 MB back to broker 4")
    assert PlanView.of(back).goal_in_words == "undo"
    assert "goes back" in words_on(run_copy(found)) and "imported" not in run_copy(found)


def test_warnings_of_one_cause_are_one() -> None:
    warnings = tuple(f"topic orders-{n} has no rates" for n in range(30))
    checks = seen(plan(warnings=(*warnings, "something else"))).checks
    folded = [check for check in checks if "has no rates" in check.title]
    assert [len(check.more) for check in folded] == [29]


def test_a_note_asks_for_no_attention_and_the_rate_of_a_done_run_is_no_matter() -> None:
    offsets = Move("__consumer_offsets", 7, "id", (1, 2, 3), (4, 2, 3), 1, 10, 7_000_000)
    notes = ("a coordinator moves",)
    told = plan(moves=(offsets,), warnings=(), notes=notes, deferred=Deferred(2, 3, 9))
    slow = PlanView.of(told, 5_000_000)
    assert slow.rate_warning
    found = {
        state: replace(seen(told, state=state), view=slow)
        for state in (RunState.RUNNING, RunState.DONE)
    }
    told_as_notes = [check.title for check in found[RunState.DONE].checks if check.more == ()]
    assert [note[:10] for note in told_as_notes][-2:] == ["The budget", "A coordina"]
    assert (found[RunState.RUNNING].attention, found[RunState.DONE].attention) == (1, 0)


def test_settings_that_had_the_same_values_are_one_row() -> None:
    keys = [
        OwnedKey(
            "demo-1",
            ConfigResource(ConfigResourceType.BROKER, str(broker)),
            "leader.replication.throttled.rate",
            None,
            ("20000000",),
            done_at=END if broker < 3 else None,
        )
        for broker in (1, 2, 3)
    ]
    rows = [(row.where, row.before, row.during, row.badge.word) for row in seen(keys=keys).settings]
    assert rows == [
        ("2 brokers", "not set", "20.0 MB/s", "as before"),
        ("broker 3", "not set", "20.0 MB/s", "pending"),
    ]


def test_the_stored_copy_has_links_back_no_script_and_few_moves() -> None:
    page = run_copy(seen(plan(count=60_000, brokers=220)))
    assert "<script" not in page and "<form" not in page
    assert 'href="../../../fleet"' in page and 'href="../../../runs/demo-1"' in page
    assert page.count('<th scope="row"><bdi>orders-') == MOVES_IN_COPY
    assert "The 1,000 that copy most, of 60,000" in words_on(page)
    assert len(page) < 900_000


def test_what_a_person_has_to_know_is_on_the_page() -> None:
    offsets = Move(
        "__consumer_offsets", 7, "id", (1, 2, 3), (4, 2, 3), 1, 10, 7_000_000, MoveReason.RACKS
    )
    told = plan(
        moves=(offsets,),
        scope=Scope(excluded_topics=("audit-*",)),
        budget=Budget(max_bytes=500_000_000_000),
        deferred=Deferred(2, 3, 9_000_000),
        figures=tuple(
            figure(i, disk_total_bytes=1000, disk_used_bytes=950 if i < 4 else 0)
            for i in range(1, 5)
        ),
    )
    halted = seen(told, state=RunState.HALTED)
    page = words_on(run_copy(replace(halted, view=PlanView.of(told, 5_000_000))))
    for expected in (
        "not topics audit-*; copying at most 500 GB",
        "for a later plan: 2 partitions, 3 replicas, 9.0 MB",
        "__consumer_offsets: 1 coordinator to another broker",
        "roducers write 7.0 MB/s to the partitions that broker 4 receives at once",
        "take at least 8.8 MB/s",
        "95 %",
    ):
        assert expected in page, expected


@pytest.mark.parametrize("state", list(RunState))
def test_no_text_gets_out_of_the_page(state: RunState) -> None:
    words = hostile.HOSTILE
    made = plan(words, warnings=(words,), figures=tuple(figure(i, rack=words) for i in (1, 4)))
    events = (Event(NOON, "stall", words), Event(NOON, words, words))
    page = run_copy(seen(made, state=state, events=events, outcome=outcome(made, 1, words)))
    assert page.count(hostile.MARK) > 8
    hostile.check_html(page)
    hostile.check_html(no_moves_page(made, PlanView.of(made)))


def test_a_plan_without_moves_says_why() -> None:
    nothing = plan(moves=(), reason="all is even")
    page = words_on(no_moves_page(nothing, PlanView.of(nothing)))
    assert "Nothing needs to move" in page and "all is even" in page

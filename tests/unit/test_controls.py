"""What people ask of runs and clusters, through the command line: a row of the ledger, or one clear
message.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from counterpoise.cli import repeating
from counterpoise.ledger import Ledger
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.document import to_document
from counterpoise.model.run import Progress, RunState
from counterpoise.model.run_progress import Activity, Condition, Link, RunProgress
from tests.support.command_line import CommandLine
from tests.support.ledger_view import (
    bring_the_ledger_back,
    change_state,
    take_the_ledger_away,
    update_progress,
)
from tests.support.pictures import cluster

DOCUMENT = to_document(
    cluster(
        "\n".join(f"orders-{p}: 1 2 3 size={100 + p}" for p in range(8)),
        racks="1=a 2=b 3=c 4=d",
        name="demo",
    )
)

APPROVERS = "    policy: {access: {approve: [alice]}, approval: {requester_may_approve: yes}}\n"
WHY = ("--why", "month end")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    busy = [[*row[:5], 1_000_000] for row in DOCUMENT["partitions"]]
    (tmp_path / "state.json").write_text(json.dumps(DOCUMENT | {"partitions": busy}))
    made = CommandLine.in_folder(tmp_path, capsys)
    made.configure("127.0.0.1:1", extra=APPROVERS)
    return made


@contextmanager
def ledger_of(shell: CommandLine) -> Iterator[Ledger]:
    ledger = Ledger.open(shell.environment["COUNTERPOISE_LEDGER"], lambda: datetime.now(UTC))
    try:
        yield ledger
    finally:
        ledger.close()


def approved(shell: CommandLine) -> tuple[Path, str]:
    """A plan and its run, approved at 10 MB/s; 6 MB/s are written to what it copies at once."""
    path, state = shell.folder / "plan.json", shell.folder / "state.json"
    shell.type("plan", "--state", state, "--goal", "add-brokers", "--brokers", "4", "--out", path)
    words = ("--rate", "10MB/s", "--reason", "x", "--no-preflight")
    assert shell.type("approve", path, *words, user="alice").code == 0
    with ledger_of(shell) as ledger:
        return path, ledger.runs()[0].run_id


def in_state(shell: CommandLine, *states: RunState) -> tuple[Path, str]:
    """An approved run that went through these states."""
    path, run_id = approved(shell)
    with ledger_of(shell) as ledger:
        for state in states:
            change_state(ledger, run_id, state)
    return path, run_id


def asked(shell: CommandLine, run_id: str | None) -> list[ControlRequest]:
    with ledger_of(shell) as ledger:
        return list(ledger.requests("demo", run_id))


def test_what_is_asked_of_a_run_under_way_is_kept_with_who_and_why(shell: CommandLine) -> None:
    path, run_id = in_state(shell, RunState.RUNNING)
    for user, words in (
        ("bob", ("pause", run_id)),
        ("bob", ("resume", path)),
        ("alice", ("rate", run_id, "30MB/s")),
        ("bob", ("cancel", run_id)),
    ):
        typed = shell.type(*words, *WHY, user=user)
        assert typed.code == 0, typed.err
        assert "the run does so at its next step" in typed.out
    found = asked(shell, run_id)
    assert [r.control for r in found] == [
        Control.PAUSE,
        Control.RESUME,
        Control.RATE,
        Control.CANCEL,
    ]
    assert {r.why for r in found} == {"month end"} and {r.by for r in found} == {
        "system:alice",
        "system:bob",
    }
    assert found[2].rate_bytes_per_second == 30_000_000
    shown = shell.type("status", run_id).out
    assert "rate 30.0 MB/s, requested by alice (system user): month end" in shown
    assert [
        r["control"] for r in json.loads(shell.type("status", run_id, "--json").out)["requests"]
    ][-1] == "cancel"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["rate", "RUN", "10"], 2, "10 B/s or 10 MB/s"),
        (
            ["rate", "RUN", "6MB/s"],
            1,
            "producers write 6.0 MB/s to the partitions that broker 4 receives at once",
        ),
        (
            ["rate", "RUN", "30MB/s"],
            1,
            "tester (system user) may not approve here; the policy names alice",
        ),
        (["resume", "RUN"], 1, "is not paused"),
        (["pause", "RUN", "--why", " "], 2, "why: must not be empty"),
        (["cancel", "state.json"], 2, "not a plan"),
        (["freeze", "nope", "--until", "8h"], 2, "cluster 'nope' is not in"),
        (
            ["freeze", "demo", "--until", "2020-01-01T00:00"],
            2,
            "until: 2020-01-01T00:00 is in the past",
        ),
        (
            ["freeze", "demo", "--until", "2999-01-01T00:00Z"],
            2,
            "until: 2999-01-01T00:00Z is more than",
        ),
        (["freeze", "demo"], 2, "the following arguments are required: --until"),
        (["unfreeze", "demo"], 1, "cluster demo is not frozen"),
    ],
)
def test_what_cannot_be_asked_gets_one_message_and_leaves_no_trace(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, says: str
) -> None:
    _, run_id = in_state(shell, RunState.RUNNING)
    monkeypatch.chdir(shell.folder)
    defaults = [] if "--why" in words else ["--why", "x"]
    user = "tester" if "30MB/s" in words else "alice"
    before = sorted(shell.folder.iterdir())
    typed = shell.type(*(run_id if word == "RUN" else word for word in words), *defaults, user=user)
    assert typed.code == code, typed.err
    assert says in typed.err
    assert "Traceback" not in typed.err
    assert asked(shell, run_id) == []
    assert sorted(shell.folder.iterdir()) == before


@pytest.mark.parametrize(
    ("states", "says"),
    [
        ((), "is approved, so {} can do nothing: it has moved nothing yet; "),
        (
            (RunState.RUNNING, RunState.SETTLING, RunState.DONE),
            "is done, so {} can do nothing: it has ended, and nothing of it is under way",
        ),
    ],
)
def test_only_a_run_under_way_can_be_asked_for_anything(
    shell: CommandLine, states: tuple[RunState, ...], says: str
) -> None:
    _, run_id = in_state(shell, *states)
    for words in (
        ["pause", run_id],
        ["resume", run_id],
        ["rate", run_id, "30MB/s"],
        ["cancel", run_id],
    ):
        typed = shell.type(*words, *WHY, user="alice")
        assert typed.code == 1
        assert says.format(words[0]) in typed.err
    assert asked(shell, run_id) == []


def test_a_run_that_settles_can_be_cancelled_and_not_paused(shell: CommandLine) -> None:
    _, run_id = in_state(shell, RunState.RUNNING, RunState.SETTLING)
    assert shell.type("pause", run_id, *WHY).code == 1
    assert shell.type("cancel", run_id, *WHY).code == 0
    assert [r.control for r in asked(shell, run_id)] == [Control.CANCEL]


def test_undo_of_a_run_under_way_asks_it_to_stop_and_writes_no_plan_yet(shell: CommandLine) -> None:
    _, run_id = in_state(shell, RunState.RUNNING)
    typed = shell.type("undo", run_id, *WHY, "--out", shell.folder / "undo.json")
    assert typed.code == 0
    assert "Run the same command again when it has ended" in typed.out
    assert not (shell.folder / "undo.json").exists()
    assert [r.control for r in asked(shell, run_id)] == [Control.UNDO]


def test_undo_and_settle_of_a_run_that_never_started_are_refused(shell: CommandLine) -> None:
    path, run_id = approved(shell)
    typed = shell.type("undo", path, *WHY, "--out", shell.folder / "undo.json")
    assert typed.code == 1
    assert f"run {run_id} is approved and moved nothing" in typed.err
    assert not (shell.folder / "undo.json").exists()
    typed = shell.type("settle", run_id)
    assert typed.code == 1
    assert "it has changed nothing" in typed.err


def test_a_plan_without_a_run_is_told_as_such(shell: CommandLine) -> None:
    path = shell.folder / "plan.json"
    words = ("--goal", "add-brokers", "--brokers", "4", "--out", path)
    shell.type("plan", "--state", shell.folder / "state.json", *words)
    typed = shell.type("cancel", path, *WHY)
    assert typed.code == 2
    assert "no run of this plan is in the ledger" in typed.err


def test_a_freeze_is_shown_until_it_is_over(shell: CommandLine) -> None:
    end = datetime.now(UTC) + timedelta(days=2)
    typed = shell.type("freeze", "demo", "--until", f"{end:%Y-%m-%dT%H:%M}+00:00", *WHY, user="bob")
    assert typed.code == 0
    assert f"frozen until {end:%Y-%m-%d %H:%M} UTC" in typed.out
    assert (
        f"cluster demo is frozen until {end:%Y-%m-%d %H:%M} UTC by bob (system user): month end"
        in shell.type("status").out
    )
    assert shell.type("unfreeze", "demo", *WHY).code == 0
    assert "frozen" not in shell.type("status").out
    assert [r.control for r in asked(shell, None)] == [Control.FREEZE, Control.UNFREEZE]


def test_a_freeze_that_is_shorter_than_another_one_says_which_holds(shell: CommandLine) -> None:
    for user, until in (("bob", "8h"), ("carol", "1h")):
        typed = shell.type("freeze", "demo", "--until", until, *WHY, user=user)
        assert typed.code == 0
        assert "UTC by bob (system user): month end" in typed.out
    assert shell.type("unfreeze", "demo", *WHY).code == 0
    assert "frozen" not in shell.type("status").out


def run_progress_of(copied: int) -> RunProgress:
    now = datetime.now(UTC)
    links = (
        Link(4, False, 6, 600 - copied, 50, now),
        Link(1, True, 6, 600 - copied, 50, now),
    )
    paused = Activity(
        Condition.PAUSED,
        ("12:00",),
        detail="bob: month end",
        halts_at=datetime(2036, 1, 31, 12, tzinfo=UTC),
        since=now - timedelta(minutes=2),
    )
    return RunProgress(now, Progress(1, 8, 6, copied, 600, 0), 100, activity=paused, links=links)


def copying(copied: int, observed_at: datetime) -> RunProgress:
    since = observed_at - timedelta(minutes=3)
    activity = Activity(Condition.COPYING, count=6, since=since)
    return replace(
        run_progress_of(copied), observed_at=observed_at, activity=activity, seconds_left=125
    )


def test_following_a_run_prints_a_line_per_change_until_it_ends(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run_id = in_state(shell, RunState.RUNNING)
    with ledger_of(shell) as ledger:
        update_progress(ledger, run_id, run_progress_of(150))
        changes: Iterator[Callable[[], None]] = iter(
            [
                lambda: None,
                lambda: None,  # nothing new: no line
                lambda: update_progress(
                    ledger,
                    run_id,
                    replace(copying(300, ledger.now()), back_off_level=1),
                ),
                lambda: change_state(ledger, run_id, RunState.SETTLING),
                lambda: change_state(ledger, run_id, RunState.HALTED, "cancel by bob: month end"),
            ]
        )
        monkeypatch.setattr(repeating, "sleep", lambda _: next(changes)())
        typed = shell.type("status", "--follow")
    assert typed.code == 1, "it did not end as done"
    first, second, *_, last = typed.out.splitlines()
    assert first == (
        "25 %: 150 B of 600 B, 1 of 8 partitions, 6 in flight, 50 B/s in all, "
        "at most 100 B/s per broker; waits for 2 min: paused by bob: month end; "
        "halts 2036-01-31 12:00 UTC if that lasts; 6 partitions are in flight"
    )
    assert second.startswith("50 %") and "2 min 5 s left" in second
    assert second.endswith(
        "slowed down by 1 step, because partitions outside the plan suffered; "
        "copies 6 partitions, for 3 min"
    )
    assert last == f"run {run_id} is halted: cancel by bob: month end"
    assert len(typed.out.splitlines()) == 5
    typed = shell.type("status", "--follow")
    assert typed.code == 1
    assert "no run is under way" in typed.err


def test_a_run_that_has_ended_has_no_time_left(shell: CommandLine) -> None:
    _, run_id = in_state(shell, RunState.RUNNING)
    with ledger_of(shell) as ledger:
        update_progress(ledger, run_id, replace(run_progress_of(150), links=(), activity=None))
        change_state(ledger, run_id, RunState.SETTLING)
        change_state(ledger, run_id, RunState.CANCELLED, "cancel by bob: month end")
    shown = shell.type("status", run_id).out
    assert "25 %: 150 B of 600 B" in shown and "cancelled: cancel by bob: month end" in shown
    assert " left" not in shown and "in all" not in shown


def test_a_run_that_nobody_drives_says_so_and_tells_no_speed_and_no_time_left(
    shell: CommandLine,
) -> None:
    """Ctrl-C, a closed terminal or a worker that died: 190 s later nobody has observed it."""
    _, run_id = in_state(shell, RunState.RUNNING)
    left_alone = timedelta(seconds=190)
    with ledger_of(shell) as ledger:
        observed_at = ledger.now() - left_alone
        update_progress(ledger, run_id, copying(150, observed_at))
    shown = " ".join(shell.type("status", run_id).out.split())
    since = f"{observed_at:%Y-%m-%d %H:%M} UTC"
    assert (
        f"nobody drives this run since {since}: `counterpoise execute {run_id}` goes on with it; "
        "when it was observed last: copies 6 partitions"
    ) in shown
    assert "B/s" not in shown and " left" not in shown
    (found,) = json.loads(shell.type("status", "--json").out)
    assert found["progress"]["is_driven"] is False and found["progress"]["seconds_left"] is None


def test_a_ledger_that_comes_back_is_waited_for(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, run_id = in_state(shell, RunState.RUNNING, RunState.SETTLING)

    def away() -> None:
        with ledger_of(shell) as ledger:
            change_state(ledger, run_id, RunState.DONE)
        take_the_ledger_away(path)

    path = shell.folder / "ledger.db"
    events: Iterator[Callable[[], None]] = iter(
        [lambda: None, away, lambda: bring_the_ledger_back(path)]
    )
    monkeypatch.setattr(repeating, "sleep", lambda _: next(events)())
    typed = shell.type("status", run_id, "--follow")
    assert typed.code == 0
    assert "did not answer" in typed.out and "trying again" in typed.out
    assert typed.out.splitlines()[-1] == f"run {run_id} is done"

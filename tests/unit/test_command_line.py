"""Commands that need no cluster, and one clear message for all that a person can get wrong."""

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from counterpoise.cli import plans
from counterpoise.cli.common import plain_console, safe_console
from counterpoise.installation import open_installation
from counterpoise.model.document import to_document
from counterpoise.model.plan import RebalancePlan
from counterpoise.views.plan import PlanView
from tests.support.command_line import CommandLine
from tests.support.pictures import cluster

DOCUMENT = to_document(
    cluster(
        "\n".join(f"orders-{p}: 1 2 3 size={100 + p}" for p in range(8)),
        racks="1=a 2=b 3=c 4=d",
        name="demo",
    )
)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    (tmp_path / "state.json").write_text(json.dumps(DOCUMENT))
    return CommandLine.in_folder(tmp_path, capsys)


def plan(shell: CommandLine, *more: str) -> Path:
    path = shell.folder / "plan.json"
    words = [
        "plan",
        "--state",
        shell.folder / "state.json",
        "--goal",
        "add-brokers",
        "--brokers",
        "4",
        "--out",
        path,
    ]
    assert shell.type(*words, *more).code == 0
    return path


def test_a_plan_needs_no_cluster_no_configuration_and_no_ledger(shell: CommandLine) -> None:
    reassignment = shell.folder / "r.json"
    path = plan(shell, "--reassignment-json", str(reassignment))
    document = json.loads(path.read_text())
    assert document["fingerprint"].startswith("sha256:")
    moved = json.loads(reassignment.read_text())["partitions"]
    assert {b for entry in moved for b in entry["replicas"]} == {1, 2, 3, 4}
    assert sorted(p.name for p in shell.folder.iterdir()) == ["plan.json", "r.json", "state.json"]


def test_the_same_state_gives_the_same_bytes(shell: CommandLine) -> None:
    first = plan(shell).read_bytes()
    shell.folder.joinpath("state.json").write_text(
        json.dumps(DOCUMENT | {"partitions": DOCUMENT["partitions"][::-1]})
    )
    assert plan(shell).read_bytes() == first


def test_show_tells_what_a_person_has_to_know(shell: CommandLine) -> None:
    shown = shell.type("show", plan(shell), "--rate", "1kB/s").out
    pictured, *_ = shown.split("before → after (best possible)")
    assert "▓▓│" in pictured and "█ stays" in pictured, "the picture comes first"
    for expected in (
        "8 → 2 (2)",
        "per broker",
        "any plan, at least",
        "takes about",
        "evens replicas",
        "sha256:",
    ):
        assert expected in shown
    figures = json.loads(
        shell.type("show", shell.folder / "plan.json", "--rate", "1kB/s", "--json").out
    )
    assert figures["copied_replicas"] == figures["lower_bound"]["replicas"] == 6
    assert figures["over_lower_bound"]["replicas"] == 1.0
    assert figures["moves_by_why"]["replicas"]["replicas"] == 6
    assert figures["per_broker"]["leaders"]["after"] == {"lowest": 2, "highest": 2}
    assert figures["expected_seconds"] == figures["bytes_over_busiest_link"] / 1000


def test_a_narrow_terminal_gets_a_table_per_few_measures(shell: CommandLine) -> None:
    made = RebalancePlan.from_json(plan(shell).read_text())
    made = replace(made, figures=tuple(replace(f, bytes_in_before=10**7) for f in made.figures))
    console = Console(width=60, file=io.StringIO())
    plans.print_plan(console, made, PlanView.of(made))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert sum(line.startswith("broker ") for line in lines) == 3, "the picture and two tables"
    assert "10.0 MB/s → 0 B/s (0 B/s)" in "\n".join(lines)


def test_a_wish_goes_into_the_plan_and_is_shown(shell: CommandLine) -> None:
    shown = shell.type(
        "show", plan(shell, "--topics", "orders*,o?ders", "--bytes-tolerance", "20")
    ).out
    assert "only topics orders*, o?ders" in shown
    assert (
        "warning: made for a bytes tolerance of 20 %, as requested; the policy says 10 %" in shown
    )
    assert json.loads((shell.folder / "plan.json").read_text())["scope"]["topics"] == [
        "orders*",
        "o?ders",
    ]


def test_nothing_to_move_is_an_answer_with_exit_code_1_and_both_files(shell: CommandLine) -> None:
    balanced = cluster("a-0: 1 2\na-1: 2 1", racks="1=a 2=b")
    (shell.folder / "state.json").write_text(json.dumps(to_document(balanced)))
    path, reassignment = shell.folder / "p.json", shell.folder / "r.json"
    words = ["plan", "--state", shell.folder / "state.json", "--goal", "rebalance", "--out", path]
    typed = shell.type(*words, "--reassignment-json", reassignment)
    assert typed.code == 1
    assert "nothing needs to move" in typed.out
    assert json.loads(reassignment.read_text()) == {"version": 1, "partitions": []}
    assert json.loads(path.read_text())["moves"] == []


def test_export_import_and_undo_go_round(shell: CommandLine) -> None:
    path = plan(shell)
    forth, back = shell.folder / "forth.json", shell.folder / "back.json"
    assert shell.type("export", path, "--out", forth).code == 0
    assert shell.type("export", path, "--undo", "--out", back).code == 0
    imported = shell.folder / "imported.json"
    state = shell.folder / "state.json"
    assert shell.type("import", forth, "--state", state, "--out", imported).code == 0
    planned = [
        (m["topic"], m["partition"], m["replicas_after"])
        for m in json.loads(path.read_text())["moves"]
    ]
    again = [
        (m["topic"], m["partition"], m["replicas_after"])
        for m in json.loads(imported.read_text())["moves"]
    ]
    assert again == planned
    assert shell.type("import", back, "--state", state, "--out", imported).code == 1, (
        "the undo changes nothing here"
    )


GENERATED = """\
Current partition replica assignment
{{"version":1,"partitions":[]}}

Proposed partition reassignment configuration
{}
"""


@pytest.mark.parametrize(
    "as_found",
    [
        lambda text: GENERATED.format(text).encode(),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.encode("utf-16"),
        lambda text: gzip.compress(text.encode()),
    ],
    ids=["the output of --generate", "with a mark", "of PowerShell", "gzipped by another name"],
)
def test_a_reassignment_is_imported_as_it_was_found(
    shell: CommandLine, as_found: Callable[[str], bytes]
) -> None:
    reassignment, imported = shell.folder / "found.json", shell.folder / "imported.json"
    assert shell.type("export", plan(shell), "--out", reassignment).code == 0
    reassignment.write_bytes(as_found(reassignment.read_text()))
    words = ("--state", shell.folder / "state.json", "--out", imported)
    typed = shell.type("import", reassignment, *words)
    assert typed.code == 0, typed.err
    assert json.loads(imported.read_text())["moves"]


def test_nobody_answers_is_exit_code_3_with_each_address_and_its_reason(shell: CommandLine) -> None:
    typed = shell.type("snapshot", "--bootstrap", "127.0.0.1:1,no-such-host.invalid:9092")
    assert typed.code == 3
    assert "127.0.0.1:1: tcp: Connection refused" in typed.err
    assert "no-such-host.invalid:9092: " in typed.err


def test_a_place_that_cannot_be_written_is_exit_code_3(shell: CommandLine) -> None:
    words = [
        "plan",
        "--state",
        shell.folder / "state.json",
        "--goal",
        "add-brokers",
        "--brokers",
        "4",
    ]
    typed = shell.type(*words, "--out", shell.folder / "state.json" / "plan.json")
    assert typed.code == 3
    assert "cannot be written" in typed.err


def test_a_rate_that_can_never_do_is_refused_with_the_figures(shell: CommandLine) -> None:
    busy = [[*row[:5], 1_000_000] for row in DOCUMENT["partitions"]]
    (shell.folder / "state.json").write_text(json.dumps(DOCUMENT | {"partitions": busy}))
    shell.configure("127.0.0.1:1")
    path = plan(shell)
    words = ("--reason", "x", "--no-preflight")
    typed = shell.type("approve", path, "--rate", "6MB/s", *words)
    assert typed.code == 1
    assert (
        "write 6.0 MB/s to the partitions that broker 4 receives at once; take at least 7.5 MB/s"
        in typed.err
    )
    assert json.loads(shell.type("status", "--json").out) == []
    assert "7.5 MB/s" in shell.type("show", path, "--rate", "6MB/s").out
    limits = "    policy: {movement: {max_moves_in_flight_per_broker: 2, link_capacity: 125MB/s}}\n"
    shell.configure("127.0.0.1:1", extra=limits)
    assert shell.type("approve", path, "--rate", "2MB/s", *words).code == 1
    assert shell.type("approve", path, "--rate", "3MB/s", *words).code == 0
    # Broker 1 leads all, takes in 8 MB/s and sends twice as much to its followers.
    assert "suggested rate: 87.0 MB/s" in shell.type("show", path).out
    figures = json.loads(shell.type("show", path, "--json").out)
    assert figures["suggested_rate_bytes_per_second"] == 87_000_000
    assert figures["busiest_inflow"] == {
        "broker_id": 4,
        "sends": False,
        "bytes_per_second": 2_000_000,
    }


def test_nothing_is_approved_while_the_cluster_does_not_respond(shell: CommandLine) -> None:
    shell.configure("127.0.0.1:1")
    words = ("approve", plan(shell), "--rate", "10MB/s", "--reason", "x")
    typed = shell.type(*words)
    assert typed.code == 3
    assert (
        "counterpoise approve: nothing was approved, since a connection to demo fails: "
        "no bootstrap address answered (1 tried):"
    ) in typed.err
    assert "or approve with --no-preflight" in typed.err
    assert json.loads(shell.type("status", "--json").out) == []
    assert shell.type(*words, "--no-preflight").code == 0


def test_a_plan_that_does_not_tell_its_cluster_cannot_be_approved(shell: CommandLine) -> None:
    (shell.folder / "state.json").write_text(json.dumps(DOCUMENT | {"cluster_id": ""}))
    shell.configure("127.0.0.1:1")
    typed = shell.type(
        "approve", plan(shell), "--rate", "10MB/s", "--reason", "x", "--no-preflight"
    )
    assert typed.code == 1
    assert "no cluster_id" in typed.err
    assert json.loads(shell.type("status", "--json").out) == []


@pytest.mark.parametrize("where", [(), ("--bootstrap", "127.0.0.1:1")], ids=["", "bootstrap"])
@pytest.mark.parametrize(
    "words",
    [
        ("approve", "--rate", "10MB/s", "--reason", "x"),
        ("reject", "--reason", "x"),
        *(("propose",), ("preflight",), ("execute",), ("verify",)),
    ],
    ids=lambda words: words[0],
)
def test_a_plan_of_no_cluster_is_refused_before_anything_is_asked_or_made(
    words: tuple[str, ...], where: tuple[str, ...], shell: CommandLine
) -> None:
    unnamed = {key: value for key, value in DOCUMENT.items() if key != "cluster"}
    (shell.folder / "state.json").write_text(json.dumps(unnamed))
    shell.configure("127.0.0.1:1")
    command, *more = words
    typed = shell.type(command, plan(shell), *more, *where)
    assert typed.code == 1, typed.err
    assert "the plan does not say which cluster it is for" in typed.err
    assert not (shell.folder / "ledger.db").exists()


def test_an_imported_plan_warns_of_worse_racks_and_may_not_break_other_rules(
    shell: CommandLine,
) -> None:
    same_rack = cluster("a-0: 1 2 size=5", racks="1=a 2=b 3=a", name="demo")
    (shell.folder / "state.json").write_text(json.dumps(to_document(same_rack)))
    (shell.folder / "r.json").write_text(
        '{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [1, 3]}]}'
    )
    words = [
        "import",
        shell.folder / "r.json",
        "--state",
        shell.folder / "state.json",
        "--out",
        shell.folder / "p.json",
    ]
    typed = shell.type(*words)
    assert typed.code == 0
    assert "warning: a-0" in typed.out
    moving = to_document(cluster("a-0: 1 2 3 +3 -2", racks="1=a 2=b 3=a", name="demo"))
    (shell.folder / "state.json").write_text(json.dumps(moving))
    (shell.folder / "r.json").write_text(
        '{"version": 1, "partitions": [{"topic": "a", "partition": 0, "replicas": [3, 2, 1]}]}'
    )
    assert shell.type(*words).code == 2


def test_an_empty_ledger_is_told_as_such(shell: CommandLine) -> None:
    typed = shell.type("status")
    assert typed.code == 0
    assert "no runs yet" in typed.out
    assert "ledger: the one of COUNTERPOISE_LEDGER; settings: " in typed.out
    assert "`counterpoise self-check` shows what is used" in typed.out
    typed = shell.type("status", "nope")
    assert typed.code == 2
    assert "run 'nope' is not in the ledger; `counterpoise status` lists the runs" in typed.err
    assert json.loads(shell.type("status", "--json").out) == []


@pytest.mark.parametrize(("size", "rate"), [(2**60, 1), (1, 2**62)])
def test_sizes_that_add_up_to_more_than_can_be_counted_are_refused(
    shell: CommandLine, size: int, rate: int
) -> None:
    partitions = [["orders", p, [1, 2], 1, size if p else 5, rate if p else 5] for p in range(4)]
    document = {"brokers": [{"id": b} for b in (1, 2, 3)], "partitions": partitions}
    state, path = shell.folder / "state.json", shell.folder / "plan.json"
    state.write_text(json.dumps(document))
    typed = shell.type("plan", "--state", state, "--goal", "rebalance", "--out", path)
    assert typed.code == 2 and "orders-1 has the largest" in typed.err, typed.err
    assert not path.exists()


def test_a_warning_of_several_lines_is_printed_as_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = safe_console(plain_console(width=40))
    plans.print_warnings(console, ["no address answered:\n  a:1: refused\n\x1b[31mwarning: x"])
    assert capsys.readouterr().out.splitlines() == [
        "warning: no address answered:",
        "  a:1: refused",
        "  \N{REPLACEMENT CHARACTER}[31mwarning: x",
    ]


def test_a_plan_is_named_by_its_run_too(shell: CommandLine) -> None:
    """As pages and `status` name it."""
    path = plan(shell)
    document = RebalancePlan.from_json(path.read_text())
    with open_installation(environment=shell.environment) as installation:
        uri = installation.archive.write_plan(document)
        run = installation.ledger.propose(document, uri, requested_by="system:ops")
    shown = shell.type("show", run.run_id)
    assert shown.code == 0 and document.fingerprint in shown.out
    unknown = shell.type("show", "demo-20260101T000000Z-000000")
    assert unknown.code == 2 and "No such file" in unknown.err

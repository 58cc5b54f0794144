"""The planning benchmark measures what it says: clusters, judge, targets, and Kafka's own planner
beside ours.
"""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import Py4JError, launch_gateway  # type: ignore[import-untyped]

from benchmarks import child, clusters, judge, kafka_generate
from benchmarks.comparison import main
from benchmarks.figures import Figures, Row, median
from benchmarks.make_cluster import SHAPES, make_cluster
from benchmarks.make_cluster import main as make_cluster_files
from benchmarks.observing import costs
from benchmarks.running import airflow_checks
from benchmarks.tables import HEADINGS, cells, table
from benchmarks.targets import Extras, checks
from benchmarks.throttled import Timed, last_byte_at
from benchmarks.through_airflow import ThroughAirflow
from counterpoise.model.document import from_document_text
from counterpoise.model.request import Goal

ROOT = Path(__file__).parents[2]
GOOD = Figures(
    cpu_seconds=0.5,
    peak_bytes=2**20,
    copied_replicas=10,
    copied_percent=8.0,
    replicas_over_bound=1.0,
    bytes_over_bound=1.0,
    leaders_spread=1,
    leaders_best=1,
    leaders_could_be_more_even=False,
    replicas_min=9,
    replicas_max=10,
    out_of_band=0,
    several_new=0,
    none_kept=0,
    rack_violations=0,
    errors=0,
    led_unevenly_before=3,
    led_unevenly=2,
    spread_unevenly_before=3,
    spread_unevenly=2,
)


def row(name: str, **changed: Any) -> Row:
    goal = str(clusters.CASES[name].goal)
    return Row(name, "counterpoise", SHAPES[name].partitions, 10, goal, replace(GOOD, **changed))


def missed(*rows: Row, extras: Extras | None = None) -> list[str]:
    return [check.text for check in checks(rows, extras or Extras()) if not check.is_met]


def chance_plan(document: dict[str, Any], seed: int) -> dict[str, Any]:
    """A plan with every mistake that a judge has to find."""
    chance = random.Random(seed)
    brokers = [broker["id"] for broker in document["brokers"]]
    rows = chance.choices(document["partitions"], k=len(document["partitions"]) // 3)
    entries = [
        {
            "topic": row[0],
            "partition": row[1],
            "replicas": chance.choices([*brokers, 99], k=chance.choice([2, 3])),
        }
        for row in rows
    ]
    entries += [
        {"topic": row[0], "partition": row[1], "replicas": row[2]}
        for row in document["partitions"][:5]
    ]
    return {
        "version": 1,
        "partitions": [*entries, {"topic": "unknown", "partition": 0, "replicas": [1]}],
    }


# -- the command


def test_the_command_prints_one_table_and_every_target() -> None:
    command = [sys.executable, "benchmarks/planning.py", "e-leaders", "--without-kafka"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    heading = next(line for line in done.stdout.splitlines() if line.startswith("cluster"))
    assert "bytes / bound" in heading
    assert [line.split()[:3] for line in done.stdout.splitlines() if " counterpoise " in line] == [
        ["e-leaders", "counterpoise", "3,000"]
    ]
    assert "pass  e-leaders: bytes none copied (none)" in done.stdout


def test_an_unknown_cluster_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["z-none"])
    assert "unknown: z-none; there are a-tiny" in capsys.readouterr().err


def test_a_planner_that_looks_at_the_hash_seed_or_at_the_order_of_rows_is_found(
    tmp_path: Path,
) -> None:
    clusters.write_cluster(tmp_path, make_cluster("b-small"))
    snapshot = clusters.read_snapshot(tmp_path)
    mixed = child.shuffled(snapshot)
    assert mixed.partitions["partition"] != snapshot.partitions["partition"]
    assert (
        mixed.partitions.sort_by([("topic", "ascending"), ("partition", "ascending")])
        == snapshot.partitions
    )
    several = {"d-large": {"hash seed 0": "a", "rows shuffled": "b"}}
    assert missed(extras=Extras(digests=several)) == [
        "d-large: 2 different plan(s) from the same input: hash seed 0, rows shuffled (1)"
    ]


def test_the_peak_is_that_of_the_child_alone() -> None:
    """A child of a fat parent starts as a copy of it, which getrusage counts."""
    ballast = bytearray(os.urandom(1)) * (600 << 20)
    code = "from benchmarks.machine import peak_bytes; print(peak_bytes())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert 5 << 20 < int(done.stdout) < len(ballast)


# -- targets


def test_good_figures_meet_every_target() -> None:
    rows = [
        row("b-small"),
        row("c-medium"),
        row("d-large"),
        row("f-drain"),
        row("g-huge", cpu_seconds=2.6),
    ]
    rows.append(
        row(
            "e-leaders",
            replicas_over_bound=None,
            bytes_over_bound=None,
            copied_replicas=0,
            copied_percent=0.0,
        )
    )
    assert missed(*rows, extras=Extras(command_seconds=15.0, command_peak_bytes=2**30)) == []


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("c-medium", {"bytes_over_bound": 1.011}, "bytes 1.0110 of the bound (at most 1.01)"),
        ("d-large", {"out_of_band": 1}, "1 brokers outside the 10 % band"),
        ("b-small", {"bytes_over_bound": 1.051}, "bytes 1.0510 of the bound (at most 1.05)"),
        ("f-drain", {"bytes_over_bound": 1.0001}, "bytes 1.0001 of the bound (1)"),
        ("a-tiny", {"replicas_over_bound": 1.5}, "replicas 1.5000 of the bound (1)"),
        ("a-tiny", {"replicas_over_bound": 0.5}, "replicas 0.5000 of the bound (1)"),
        ("e-leaders", {"bytes_over_bound": None, "copied_percent": 0.1}, "bytes none copied"),
        ("d-large", {"several_new": 1}, "1 partitions with several new replicas"),
        ("b-small", {"none_kept": 1}, "1 partitions that keep no old replica"),
        (
            "b-small",
            {"leaders_spread": 2, "leaders_could_be_more_even": True},
            "leaders max - min 2",
        ),
        ("f-drain", {"rack_violations": 1}, "1 rack violations"),
        ("f-drain", {"errors": 2}, "2 errors"),
        ("c-medium", {"cpu_seconds": 1.1}, "make_plan 1.10 CPU s (at most 1)"),
        ("d-large", {"peak_bytes": 2**30 + 1}, "(at most 1,024)"),
        ("g-huge", {"cpu_seconds": 46.0}, "make_plan 46.00 CPU s (at most 45)"),
    ],
)
def test_each_missed_target_is_said(name: str, changed: dict[str, Any], says: str) -> None:
    assert any(says in text for text in missed(row(name, **changed)))


def test_leaders_that_no_order_of_the_replicas_makes_more_even_are_no_miss() -> None:
    assert missed(row("b-small", leaders_spread=3)) == []


def test_growth_is_held_against_the_time_per_partition() -> None:
    small = row("d-large", cpu_seconds=2.0)
    assert missed(small, row("g-huge", cpu_seconds=24.9)) == []
    (text,) = missed(small, row("g-huge", cpu_seconds=25.1))
    assert text.startswith("growth: a partition takes 2.51 times the CPU")


def test_a_missed_aim_is_said_and_is_no_missed_target() -> None:
    found = [c for c in checks([row("g-huge", cpu_seconds=31.0)], Extras()) if not c.is_met]
    assert [str(c) for c in found] == ["aim missed  g-huge: make_plan 31.00 CPU s (aim 30)"]
    assert all(check.is_aim for check in found)


# -- runs


def ran(by: str, seconds: float) -> Timed:
    return Timed(
        by, rate=10, replicas=1, busiest_link_bytes=1_000, seconds=seconds, max_over_rate=1.0
    )


@pytest.mark.parametrize(
    ("seconds", "is_met"),
    [
        (125.0, (True, True)),  # 100 x 1.05 + 2 x 10
        (125.1, (False, True)),
        (146.1, (False, False)),  # 120 x 1.05 + 2 x 10
    ],
)
def test_a_run_through_airflow_is_held_against_the_ideal_and_against_the_command_line(
    seconds: float, is_met: tuple[bool, bool]
) -> None:
    airflows = ThroughAirflow(
        ran("through Airflow", seconds), 10.0, seconds - 9, {"execute": seconds - 5}
    )
    found = airflow_checks(ran("counterpoise", 120.0), airflows)
    assert tuple(check.is_met for check in found) == is_met
    assert f"{seconds:.1f} s, at most 125.0 s: 1.05 x 100.0 s (the busiest link's" in found[0].text
    assert (
        f"{seconds:.1f} s, at most 146.0 s: 1.05 x 120.0 s (the command line's time) + 2 waits"
        in found[1].text
    )


def test_the_last_byte_is_the_first_moment_at_which_all_is_there() -> None:
    assert last_byte_at([(1.0, 0), (2.0, 7), (3.0, 9), (4.0, 9), (5.0, 9)]) == 3.0


# -- the table


def test_a_table_is_aligned_or_markdown() -> None:
    rows = [
        HEADINGS,
        cells(row("a-tiny")),
        cells(row("g-huge", peak_bytes=None, bytes_over_bound=None)),
    ]
    text = table(rows, is_markdown=False).splitlines()
    assert len(text) == 3
    assert text[1].startswith("a-tiny   counterpoise")
    assert {line.index("add-brokers") for line in text[1:]} == {text[1].index("add-brokers")}
    markdown = table(rows, is_markdown=True).splitlines()
    assert len(markdown) == 4
    assert {line.count("|") for line in markdown} == {len(HEADINGS) + 1}
    assert "| g-huge | counterpoise | 1,000,000 |" in markdown[3]


def test_the_median_is_taken_of_each_figure_on_its_own() -> None:
    runs = [
        replace(GOOD, cpu_seconds=s, errors=e, peak_bytes=None)
        for s, e in [(1.0, 9), (3.0, 7), (2.0, 8)]
    ]
    assert median(runs) == replace(GOOD, cpu_seconds=2.0, errors=8, peak_bytes=None)


# -- clusters and judge


@pytest.mark.parametrize("name", ["a-tiny", "b-small", "e-leaders", "f-drain"])
def test_clusters_are_what_their_shape_says(name: str) -> None:
    shape, document = SHAPES[name], make_cluster(name)
    assert document == make_cluster(name)
    snapshot = from_document_text(json.dumps(document))
    assert snapshot.partitions.num_rows == shape.partitions
    new = tuple(broker for members in shape.new.values() for broker in members)
    assert len(snapshot.live_broker_ids) == shape.old_broker_count + len(new)
    racks = snapshot.racks
    assert all(len({racks[b] for b in row[2]}) == 3 for row in document["partitions"])
    held = Counter(b for row in document["partitions"] for b in row[2])
    assert set(held) == set(range(1, shape.old_broker_count + 1))
    named = clusters.named_brokers(document, clusters.CASES[name].goal)
    assert named == (new or tuple(shape.drained))


def test_the_judge_finds_every_mistake() -> None:
    document = make_cluster("b-small")
    errors = judge.judge(document, chance_plan(document, 1), Goal.ADD_BROKERS, (7, 8))["errors"]
    assert set(errors) == {
        "partition named twice",
        "unknown partition",
        "replication factor changed",
        "broker twice in one partition",
        "unknown broker",
        "entry that changes nothing",
        "replica sent to an old broker",
        "more rack violations than before",
    }
    moving = {"partitions": [{"topic": "t00000", "partition": 0, "replicas": [7, 8, 3]}]}
    errors = judge.judge(document, moving, Goal.LEADERS)["errors"]
    assert "data moved by a leaders-only plan" in errors
    errors = judge.judge(document, {"partitions": []}, Goal.REMOVE_BROKERS, (1,))["errors"]
    assert "replica left on a removed broker" in errors


def test_the_judge_is_a_command(tmp_path: Path) -> None:
    document = make_cluster("a-tiny")
    moving = {"topic": "t00000", "partition": 0, "replicas": [4, 2, 3]}
    (tmp_path / "cluster.json").write_text(json.dumps(document))
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": [moving]}))
    command = [sys.executable, "benchmarks/judge.py", tmp_path / "cluster.json"]
    command += [tmp_path / "plan.json", "--goal", "add-brokers", "--brokers", "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["moved"]["replicas"] == 1


def test_the_clusters_are_written_for_other_planners(tmp_path: Path) -> None:
    assert make_cluster_files([str(tmp_path), "a-tiny"]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-tiny.json.gz", "a-tiny.tsv"]
    assert (tmp_path / "a-tiny.tsv").read_text().startswith("B\t1\tr1\tkeep\n")
    assert make_cluster_files([str(tmp_path), "z-none"]) == 2


@pytest.mark.parametrize("seed", range(30))
def test_could_lead_more_evenly_agrees_with_trying_every_leader(seed: int) -> None:
    chance = random.Random(seed)
    rows = [["t", n, chance.sample(range(1, 5), chance.randint(1, 3)), -1, 0] for n in range(6)]
    document = {"brokers": [{"id": b} for b in range(1, 5)], "partitions": rows}
    case = judge.Case.of(document, "leaders", (), 0.1)

    def spread(leaders: tuple[int, ...]) -> int:
        counts = [leaders.count(b) for b in case.live]
        return max(counts) - min(counts)

    best = min(spread(leaders) for leaders in product(*case.before.values()))
    now = spread(tuple(replicas[0] for replicas in case.before.values()))
    could = judge.could_lead_more_evenly(case, case.before)
    assert could or now <= max(best, 1)
    assert now > best or not could or now > 1


def test_topics_with_uneven_replicas_are_counted() -> None:
    rows = [
        ["a", 0, [1, 2], 1, 0],
        ["a", 1, [1, 3], 1, 0],
        ["b", 0, [1, 2], 1, 0],
        ["b", 1, [3, 1], 3, 0],
    ]
    document = {
        "brokers": [{"id": b} for b in (1, 2, 3)],
        "partitions": [*rows, ["c", 0, [1], 1, 0]],
    }
    case = judge.Case.of(document, "leaders", (), 0.1)
    assert judge.topics_with_uneven_replicas(case, case.before) == 0
    assert judge.topics_with_uneven_replicas(case, {**case.before, ("b", 2): (1,)}) == 1


# -- Kafka's own planner


def test_kafkas_own_planner_places_every_partition_and_leaves_no_jvm_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def launch(**options: Any) -> tuple[int, str, "subprocess.Popen[bytes]"]:
        port, token, process = launch_gateway(**options)
        started.append(process)
        return port, token, process

    monkeypatch.setattr(kafka_generate, "launch_gateway", launch)
    monkeypatch.setattr(kafka_generate, "_ROWS_AT_ONCE", 700)  # the last text is a part of that
    document = make_cluster("b-small")
    racks = {broker["id"]: broker["rack"] for broker in document["brokers"]}
    runs = list(kafka_generate.generate_reassignments(document, (7,), runs=2))
    assert len(runs) == 2
    for run in runs:
        assert run.cpu_seconds >= 0
        wanted = {
            (e["topic"], e["partition"]): e["replicas"] for e in run.reassignment["partitions"]
        }
        assert wanted.keys() == {(row[0], row[1]) for row in document["partitions"]}
        assert {len(set(replicas)) for replicas in wanted.values()} == {3}
        assert {len({racks[b] for b in replicas}) for replicas in wanted.values()} == {3}
        assert {b for replicas in wanted.values() for b in replicas} == set(racks) - {7}
    document["partitions"][0][2] = "no list"
    with pytest.raises(Py4JError):
        list(kafka_generate.generate_reassignments(document, (7,), runs=1))
    assert [process.poll() is not None for process in started] == [True, True]


def test_the_cost_of_an_observation_has_both_kinds() -> None:
    found = costs(1_200)
    assert {"ordinary", "submitting"} <= {cost.kind for cost in found}
    for cost in found:
        assert cost.cpu_seconds > 0
        assert cost.requests > 0
        assert cost.rows >= 400, "a third of the moves is done, and known by name"

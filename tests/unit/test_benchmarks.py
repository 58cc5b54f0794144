"""The planning benchmark: its command, its targets and its judge."""

import random
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from benchmarks import child, clusters, judge
from benchmarks.figures import Figures, Row
from benchmarks.make_cluster import SHAPES, make_cluster
from benchmarks.observing import costs
from benchmarks.targets import Extras, checks
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


# -- the judge


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


# -- observations


def test_the_cost_of_an_observation_has_both_kinds() -> None:
    found = costs(1_200)
    assert {"ordinary", "submitting"} <= {cost.kind for cost in found}
    for cost in found:
        assert cost.cpu_seconds > 0
        assert cost.requests > 0
        assert cost.rows >= 400, "a third of the moves is done, and known by name"

"""The steps of the analysis benchmark, and what is printed in the end.

    sys.exit(main(["--partitions", "20000", "--snapshots", "4"]))

`analysis.py` is the command. Every step is a `spark-submit` of its own (`analysis_child.py`), so
that neither compiled code nor memory of one is another's. Times are without the start of the
session, the best of `--runs`.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.history_maker import Shape, make_history, newest_only
from benchmarks.machine import machine_line
from benchmarks.one_report import BROKERS, PARTITIONS, report_seconds
from benchmarks.standalone import CONF, QUICK, standalone_cluster
from benchmarks.tables import table
from benchmarks.targets import Check
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.services.analyses import spark_conf
from counterpoise.spark_submit import run_job

ROOT: Final = Path(__file__).resolve().parents[1]
CHILD: Final = ROOT / "benchmarks" / "analysis_child.py"
FULL: Final = Shape(partitions=1_000_000, snapshots=24)
ALL, NEWEST = "snapshots.json", "newest.json"
HEADINGS: Final = ("step", "with", "partitions", "snapshots", "rows", "s", "rows/s", "peak MiB")
MAX_SECONDS: Final = {"newest snapshot": 30.0, "leader_balance": 120.0, "partition_load": 120.0}
MAX_REPORT_SECONDS: Final = 3.0
AIMED_SECONDS: Final = {"leader_balance": 60.0}
MAX_GROWTH: Final = 1.3
GROWS: Final = ("leader_balance", "partition_load")


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    means: str  # what it was done with
    shape: Shape
    seconds: float | None  # None: it ran out of memory
    peak_bytes: int | None

    @property
    def rows(self) -> int:
        return self.shape.partitions * self.shape.snapshots

    def cells(self) -> tuple[str, ...]:
        return (
            self.name,
            self.means,
            f"{self.shape.partitions:,}",
            str(self.shape.snapshots),
            f"{self.rows:,}",
            "out of memory" if self.seconds is None else f"{self.seconds:.1f}",
            "-" if self.seconds is None else f"{self.rows / self.seconds:,.0f}",
            "-" if self.peak_bytes is None else f"{self.peak_bytes / 2**20:,.0f}",
        )


@dataclass(frozen=True, slots=True)
class History:
    """A history in a folder, and the lists of snapshots beside it."""

    store: Path
    shape: Shape

    @classmethod
    def make(cls, folder: Path, shape: Shape) -> "History":
        store = folder / f"{shape.partitions}"
        manifests = make_history(store, shape)
        (store / ALL).write_text(json.dumps(manifests))
        (store / NEWEST).write_text(json.dumps(newest_only(manifests)))
        return cls(store, shape)

    @property
    def newest(self) -> Shape:
        return Shape(self.shape.partitions, 1)


@dataclass(frozen=True, slots=True)
class Bench:
    histories: Sequence[History]  # from small to full
    runs: int

    @property
    def full(self) -> History:
        return self.histories[-1]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    asked = Shape(options.partitions, options.snapshots)
    print(machine_line())
    with tempfile.TemporaryDirectory(prefix="analysis-", dir=options.folder) as folder:
        shapes = [Shape(-(-asked.partitions // part), asked.snapshots) for part in (24, 4, 1)]
        bench = Bench([History.make(Path(folder), shape) for shape in shapes], options.runs)
        steps: list[Step] = []
        found: list[Check] = []
        for measure in (one for one in MEASURES if options.only in (None, one.__name__)):
            print(f"{measure.__name__} ...", file=sys.stderr)
            more, checks = measure(bench)
            steps += more
            found += checks
    print(
        "\n"
        + table([HEADINGS, *(step.cells() for step in steps)], is_markdown=options.markdown)
        + "\n"
    )
    found = [*(_times(steps) if asked == FULL else ()), *_growth(steps), *found]
    for check in found:
        print(f"- {check}" if options.markdown else check)
    targets = [check for check in found if not check.is_aim]
    met = sum(check.is_met for check in targets)
    print(f"\n{met} of {len(targets)} targets met")
    return 0 if met == len(targets) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast the Spark jobs are, and how they grow.")
    parser.add_argument(
        "--partitions", type=int, default=FULL.partitions, help="of the largest cluster"
    )
    parser.add_argument(
        "--snapshots", type=int, default=FULL.snapshots, help="in each history, 2 or more"
    )
    parser.add_argument("--runs", type=int, default=1, help="of each step; the best counts")
    parser.add_argument(
        "--only", choices=[one.__name__ for one in MEASURES], help="one of the measures alone"
    )
    parser.add_argument("--folder", type=Path, help="where there is room on disk")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    if options.snapshots < 2 or options.partitions < 1000 or options.runs < 1:
        parser.error("--snapshots: 2 or more; --partitions: 1000 or more; --runs: 1 or more")
    return options


def newest_snapshot(bench: Bench) -> tuple[list[Step], list[Check]]:
    """What a round mostly is: both jobs, one new snapshot, the one before it beside it."""
    of = bench.full
    return [_spark(bench, "newest snapshot", "analysis_round", of, NEWEST, of.newest)], []


def from_scratch(bench: Bench) -> tuple[list[Step], list[Check]]:
    """Each job alone over every history, and both in one session over the full one."""
    steps = [_spark(bench, job, job, of, ALL, of.shape) for job in GROWS for of in bench.histories]
    return [
        *steps,
        _spark(bench, "analysis_round", "analysis_round", bench.full, ALL, bench.full.shape),
    ], []


def beside_pandas(bench: Bench) -> tuple[list[Step], list[Check]]:
    """The table broker_balance alone, in Spark and in pandas, of one snapshot and of all."""
    of, steps, checks = bench.full, [], []
    for listed, shape in ((NEWEST, of.newest), (ALL, of.shape)):
        steps.append(_spark(bench, "broker_balance", "broker_balance", of, listed, shape))
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "benchmarks.pandas_balance",
                str(of.store),
                str(of.store / listed),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        told = (
            json.loads(done.stdout)
            if done.returncode == 0
            else {"seconds": None, "peak_bytes": None}
        )
        steps.append(Step("broker_balance", "pandas", shape, told["seconds"], told["peak_bytes"]))
        if told["seconds"] is not None:
            own = _results(of.store, "broker_balance", _round_name("broker_balance", listed))
            sums = [
                sum(own[name].to_pylist())
                for name in ("leaders", "leaders_not_preferred", "replicas", "bytes")
            ]
            checks.append(
                Check(
                    sums == told["sums"], f"{shape.snapshots} snapshot(s): pandas counts the same"
                )
            )
    return steps, checks


def on_a_cluster(bench: Bench) -> tuple[list[Step], list[Check]]:
    """Both jobs on a standalone cluster, over the smallest history: the same tables, and nothing
    left behind.
    """
    of = bench.histories[0]
    here = _submitted("analysis_round", of, ALL, "here", conf=QUICK)
    local = Step(
        "both jobs, small", "Spark, local[2]", of.shape, here["seconds"], here["peak_bytes"]
    )
    with tempfile.TemporaryDirectory(prefix="standalone-", dir=of.store) as folder:
        with standalone_cluster(Path(folder)) as cluster:
            told = _submitted(
                "analysis_round", of, ALL, "cluster", master=cluster.master, conf=CONF
            )
        left = cluster.open_ports
    remote = Step(
        "both jobs, small",
        "Spark, master and 2 workers",
        of.shape,
        told["seconds"],
        told["peak_bytes"],
    )
    differ = [
        name
        for name in RESULT_TABLES
        if _results(of.store, name, "here") != _results(of.store, name, "cluster")
    ]
    return [local, remote], [
        Check(
            not differ,
            f"standalone cluster: {len(differ)} of {len(RESULT_TABLES)} tables differ {differ} (0)",
        ),
        Check(not left, f"standalone cluster: {len(left)} of its ports still open afterwards (0)"),
    ]


def one_report(bench: Bench) -> tuple[list[Step], list[Check]]:
    """The command, when every snapshot has its result."""
    with tempfile.TemporaryDirectory(prefix="report-", dir=bench.full.store) as folder:
        seconds = report_seconds(Path(folder), max(3, bench.runs))
    step = Step("one report", f"no Spark, {BROKERS} brokers", Shape(PARTITIONS, 1), seconds, None)
    text = f"one report without Spark: {seconds:.1f} s (at most {MAX_REPORT_SECONDS:g})"
    return [step], [Check(seconds <= MAX_REPORT_SECONDS, text)]


# In the order of the table.
MEASURES: Final[tuple[Callable[[Bench], tuple[list[Step], list[Check]]], ...]] = (
    newest_snapshot,
    from_scratch,
    beside_pandas,
    on_a_cluster,
    one_report,
)


def _spark(bench: Bench, name: str, task: str, of: History, listed: str, shape: Shape) -> Step:
    told = [_submitted(task, of, listed, _round_name(task, listed)) for _ in range(bench.runs)]
    best = min(told, key=lambda one: float(one["seconds"]))
    return Step(name, "Spark, local[2]", shape, best["seconds"], best["peak_bytes"])


def _submitted(
    task: str,
    of: History,
    listed: str,
    name: str,
    *,
    master: str = "local[2]",
    conf: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    lines: list[str] = []
    arguments = [task, str(of.store), name, str(of.store / listed), str(ROOT / "spark_jobs")]
    rows = sum(
        file["row_count"]
        for row in json.loads((of.store / listed).read_text())
        for file in row["files"]
    )
    settings = {**spark_conf(rows), **(conf or {})}
    run_job(CHILD, arguments, master=master, conf=settings, log=lines.append)
    told: dict[str, Any] = json.loads(lines[-1])
    return told


def _round_name(task: str, listed: str) -> str:
    return f"{task}-{Path(listed).stem}"


def _results(store: Path, name: str, round_name: str) -> pa.Table:
    """A table of results, in an order of its own."""
    read = pq.read_table(store / "results" / name / f"round={round_name}", partitioning=None)
    keys = [
        key
        for key in ("snapshot_id", "topic", "partition", "broker_id", "log_dir")
        if key in read.schema.names
    ]
    return read.sort_by([(key, "ascending") for key in keys]).combine_chunks()


def _times(steps: Sequence[Step]) -> Iterator[Check]:
    for step in (
        step
        for step in steps
        if step.shape.partitions == FULL.partitions and step.seconds is not None
    ):
        for limits, is_aim in ((MAX_SECONDS, False), (AIMED_SECONDS, True)):
            if step.name in limits and step.seconds is not None:
                limit_seconds = limits[step.name]
                limit = f"{'aim' if is_aim else 'at most'} {limit_seconds:g}"
                text = f"{step.name}, {step.rows:,} rows: {step.seconds:.1f} s ({limit})"
                yield Check(step.seconds <= limit_seconds, text, is_aim)


def _growth(steps: Sequence[Step]) -> Iterator[Check]:
    """From each history to the next larger one, a job takes at most so much more than its share."""
    for job in GROWS:
        of_job = [step for step in steps if step.name == job]
        for small, large in pairwise(of_job):
            assert small.seconds is not None
            assert large.seconds is not None
            growth = (large.seconds / large.rows) / (small.seconds / small.rows)
            rows = f"from {small.rows:,} to {large.rows:,} rows"
            text = f"{job}: {rows} a row takes {growth:.2f} times as long (at most {MAX_GROWTH:g})"
            yield Check(growth <= MAX_GROWTH, text)

"""The steps of the planning benchmark, cluster by cluster, and what is printed in the end.

    sys.exit(main(["c-medium", "--markdown"]))

`planning.py` is the command. Every step runs in a process of its own (`child.py`), so that time and
memory are its own.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.clusters import CASES, DOCUMENT, HUGE, Case
from benchmarks.figures import Figures, Row, median
from benchmarks.machine import machine_line, used_by
from benchmarks.tables import HEADINGS, cells, table
from benchmarks.targets import Check, Extras, checks
from counterpoise.errors import CounterpoiseError
from counterpoise.java_runtime import java_executable
from dev.local_kafka.jars import KAFKA_VERSION, kafka_jars

ROOT: Final = Path(__file__).resolve().parents[1]
RUNS: Final = 3
OURS: Final = "counterpoise"
KAFKA: Final = f"--generate {KAFKA_VERSION}"
SAME_INPUT: Final = ("c-medium", "d-large")
COMMAND: Final = "d-large"
VARIANTS: Final = {  # what must make no difference: hash seed, order of rows
    "hash seed 0": ("0", False),
    "hash seed 1": ("1", False),
    "hash seed random": ("random", False),
    "rows shuffled": ("random", True),
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A cluster in a folder, ready to be planned for."""

    case: Case
    folder: Path
    partitions: int
    brokers: int
    named: str  # broker ids with commas

    @property
    def words(self) -> tuple[str, str, str]:
        """What most steps take."""
        return str(self.folder), str(self.case.goal), self.named

    def row(self, planner: str, figures: Figures) -> Row:
        return Row(
            self.case.name, planner, self.partitions, self.brokers, str(self.case.goal), figures
        )


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    names = options.names or [name for name in CASES if not (options.without_huge and name == HUGE)]
    with_kafka = not options.without_kafka and _has_kafka()
    for line in _notes(with_kafka=with_kafka):
        print(line)
    rows: list[Row] = []
    digests: dict[str, Mapping[str, str]] = {}
    seconds, peak = None, None
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="planning-") as folder:
            prepared = prepare(CASES[name], Path(folder))
            rows += measured(prepared, with_kafka=with_kafka)
            if name in SAME_INPUT:
                digests[name] = same_input(prepared)
            if name == COMMAND:
                seconds, peak = whole_command(prepared)
    print("\n" + table([HEADINGS, *map(cells, rows)], is_markdown=options.markdown) + "\n")
    found = checks([row for row in rows if row.planner == OURS], Extras(seconds, peak, digests))
    for check in found:
        print(f"- {check}" if options.markdown else check)
    return _verdict(found)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How good and how fast plans are.")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(CASES)} (all by default)"
    )
    parser.add_argument(
        "--without-huge", action="store_true", help=f"leave {HUGE} out, when no NAME is given"
    )
    parser.add_argument(
        "--without-kafka", action="store_true", help="leave Kafka's own planner out"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(CASES)):
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(CASES)}")
    return options


def _notes(*, with_kafka: bool) -> Iterator[str]:
    yield machine_line()
    if not with_kafka:
        yield "Without Kafka's own planner."


def _has_kafka() -> bool:
    """Are Java and Kafka's jars there, or can they be fetched?"""
    try:
        return bool(java_executable() and kafka_jars())
    except CounterpoiseError as error:
        print(f"Kafka's own planner cannot run: {error}", file=sys.stderr)
        return False


def _verdict(found: Sequence[Check]) -> int:
    targets = [check for check in found if not check.is_aim]
    met = sum(check.is_met for check in targets)
    print(f"\n{met} of {len(targets)} targets met")
    return 0 if met == len(targets) else 1


def prepare(case: Case, folder: Path) -> Prepared:
    made = _child("prepare", case.name, str(folder))
    named = ",".join(map(str, made["named"]))
    return Prepared(case, folder, made["partitions"], made["brokers"], named)


def measured(prepared: Prepared, *, with_kafka: bool) -> list[Row]:
    """The rows of a cluster: ours, and Kafka's as the median of its runs, since it is random."""
    own = prepared.folder / "plan.json"
    made = _child("plan", *prepared.words, str(own), "--runs", str(RUNS))
    theirs, plans = [], [own]
    if with_kafka:
        theirs = _child("generate", *prepared.words, str(prepared.folder / "kafka-{}.json"))
        plans += [prepared.folder / f"kafka-{number}.json" for number in range(len(theirs))]
    judged, *others = _child("judge", *prepared.words, *map(str, plans))
    figures = Figures.of(judged, cpu_seconds=made["cpu_seconds"], peak_bytes=made["peak_bytes"])
    rows = [prepared.row(OURS, figures)]
    if others:
        runs = [
            Figures.of(j, cpu_seconds=s, peak_bytes=None)
            for j, s in zip(others, theirs, strict=True)
        ]
        rows.append(prepared.row(KAFKA, median(runs)))
    return rows


def same_input(prepared: Prepared) -> dict[str, str]:
    """The digest of the plan document, by what was different."""
    digests = {}
    for what, (seed, is_shuffled) in VARIANTS.items():
        words = [
            *prepared.words,
            str(prepared.folder / "again.json"),
            *["--shuffled"] * is_shuffled,
        ]
        digests[what] = _child("plan", *words, environment={"PYTHONHASHSEED": seed})["digest"]
    return digests


def whole_command(prepared: Prepared) -> tuple[float, int]:
    """CPU seconds (the best of three) and peak memory of `counterpoise plan`, from document to
    document.
    """
    command = [str(Path(sys.executable).with_name("counterpoise")), "plan"]
    command += ["--state", str(prepared.folder / DOCUMENT), "--goal", str(prepared.case.goal)]
    command += ["--brokers", prepared.named, "--out", str(prepared.folder / "document.json")]
    usages = [used_by(command) for _ in range(RUNS)]
    return min(used.cpu_seconds for used in usages), max(used.peak_bytes for used in usages)


def _child(task: str, *words: str, environment: Mapping[str, str] | None = None) -> Any:
    """What a step returns; its complaints go to the terminal.

    Raises CalledProcessError when it fails.
    """
    command = [sys.executable, "-m", "benchmarks.child", task, *words]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)

"""What clients feel of a run: p50 and p99 of a producer and a consumer on the same brokers while
nothing moves, while our run moves, and while Kafka's own tool moves the same.

    .venv/bin/python benchmarks/client_latency.py [--pairs 5] [--rate 10MB/s] [--seconds 30]

The producer (acks=all) and the consumer (from the send to the read) work on the partitions that are
moved. Ours is `counterpoise execute`; Kafka's are `kafka-reassign-partitions --execute`, `--verify`
and `kafka-leader-election --election-type preferred`, under the same throttle. Both are measured
from the start of the first command to the end of the last, which share the machine with brokers and
clients. A pair moves the same partitions twice, ours first in every other pair. Machines are noisy:
what counts is the median of the ratios (ours / the tool's) of all pairs, at most 1.1. Exit code 1
when it is more, when a record failed while ours moved, or when the machine is too busy for figures.
It takes about 15 minutes and 1.5 GB.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

if __name__ == "__main__":
    # A script's own folder is there, the project's is not.
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.machine import load_line, machine_line
from benchmarks.tables import table
from benchmarks.targets import Check
from benchmarks.throttled import TOPIC, Contest, contest
from counterpoise.units import format_rate, parse_rate
from dev.local_processes import Process, start, wait_until

ROOT: Final = Path(__file__).resolve().parents[1]
MAX_RATIO: Final = 1.1
MAX_IDLE_P99_SECONDS: Final = 1.0  # brokers that take longer lack processor time: no figures
IDLE_SECONDS: Final = 20.0
IDLE, OURS, KAFKAS = "nothing moves", "counterpoise", "kafka-reassign"
_MIN_RECORDS: Final = 100  # fewer have no p99
_START_SECONDS: Final = 60.0
_TOOL_POLL_SECONDS: Final = 1.0  # whoever waits for the tool asks this often whether it is done

HEADINGS: Final = (
    "pair",
    "while",
    "s",
    "records",
    "failed",
    "producer p50 ms",
    "p99 ms",
    "consumer p50 ms",
    "p99 ms",
    "most leaders at once",
)


@dataclass(frozen=True, slots=True)
class Phase:
    """A time in which one thing happened, by time.monotonic()."""

    pair: int
    what: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Felt:
    """What clients felt in a phase, in seconds."""

    phase: Phase
    records: int
    failed: int
    produced_p50: float
    produced_p99: float
    consumed_p50: float
    consumed_p99: float
    leaders_at_once: int  # that changed within 0.1 s

    @property
    def latencies(self) -> tuple[float, ...]:
        return (self.produced_p50, self.produced_p99, self.consumed_p50, self.consumed_p99)


Row = tuple[str, float, float]  # as `latency_clients` writes it


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _arguments(argv)
    rate = parse_rate(arguments.rate, where="--rate")
    print(machine_line())
    print(load_line())
    with (
        tempfile.TemporaryDirectory() as folder,
        contest(
            Path(folder), rate, arguments.seconds, arguments.leaders, arguments.movement
        ) as ground,
    ):
        felt = _measured(ground, arguments)
    print(_against_idle(felt))
    found = checks(felt)
    for check in found:
        print(check)
    return 0 if all(check.is_met for check in found) else 1


def _measured(ground: Contest, arguments: argparse.Namespace) -> list[Felt]:
    """What clients felt in each phase of all pairs, printed as a table."""
    out = ground.folder / "latencies"
    phases: list[Phase] = []
    felt: list[Felt] = []
    try:
        with _clients(ground, out):
            for pair in range(1, arguments.pairs + 1):
                for phase in _measured_pair(ground, pair):
                    phases.append(phase)
    finally:  # what was measured before something failed took minutes
        rows = _read_rows(out) if out.exists() else []  # none where the clients were killed
        felt += [feel(phase, rows) for phase in phases if rows]
        print(load_line())
        print(f"{format_rate(ground.rate)}, {ground.ideal_seconds:.1f} s of copying at best")
        print(table([HEADINGS, *map(_cells, felt)], is_markdown=arguments.markdown))
    return felt


def _measured_pair(ground: Contest, pair: int) -> Iterator[Phase]:
    """Yield the phases of a pair: nothing moves, then ours and Kafka's tool, or the reverse."""
    if pair > 1:  # a plan runs once
        ground.take_back()
        ground = ground.replanned()

    def phase(what: str, began: float) -> Phase:
        return Phase(pair, what, began, time.monotonic())

    began = time.monotonic()
    time.sleep(IDLE_SECONDS)
    yield phase(IDLE, began)
    for what in (OURS, KAFKAS) if pair % 2 else (KAFKAS, OURS):
        ground.take_back()
        if what == OURS:
            ground.approve()
            began = time.monotonic()
            ground.execute()
        else:
            assignment = ground.exported()
            began = time.monotonic()
            ground.reassign(assignment, _TOOL_POLL_SECONDS)
            ground.elect_with_kafkas_tool(assignment)
        yield phase(what, began)


@contextmanager
def _clients(ground: Contest, out: Path) -> Iterator[Process]:
    """Clients in a process of their own, which does not outlive this one."""
    log = ground.folder / "clients.log"
    words = ["-m", "benchmarks.latency_clients", ground.kafka.bootstrap_string, TOPIC, str(out)]
    process = start([sys.executable, *words], log_path=log, name="the clients", cwd=ROOT)
    try:
        wait_until(lambda: "ready" in log.read_text(), "the clients", _START_SECONDS, process)
        yield process
    finally:
        process.stop(_START_SECONDS)


def _read_rows(out: Path) -> list[Row]:
    lines = (line.split() for line in out.read_text().splitlines())
    return [(kind, float(at), float(value)) for kind, at, value in lines]


def feel(phase: Phase, rows: Sequence[Row]) -> Felt:
    """What clients felt of records that were sent in a phase."""
    values: dict[str, list[float]] = {"produced": [], "consumed": [], "failed": [], "led": []}
    for kind, at, value in rows:
        if phase.began <= at < phase.ended:
            values[kind].append(value)
    produced, consumed = sorted(values["produced"]), sorted(values["consumed"])
    if min(len(produced), len(consumed)) < _MIN_RECORDS:
        raise ValueError(
            f"while {phase.what}: {len(produced)} records were acknowledged and {len(consumed)} "
            f"read, fewer than {_MIN_RECORDS}"
        )
    return Felt(
        phase,
        records=len(produced),
        failed=len(values["failed"]),
        produced_p50=percentile(produced, 0.50),
        produced_p99=percentile(produced, 0.99),
        consumed_p50=percentile(consumed, 0.50),
        consumed_p99=percentile(consumed, 0.99),
        leaders_at_once=round(max(values["led"], default=0)),
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least value that so large a share of all do not exceed."""
    return ordered[max(0, ceil(len(ordered) * share) - 1)]


def checks(felt: Sequence[Felt]) -> list[Check]:
    """Ours against Kafka's tool: the median over the pairs of each ratio."""
    ours = [one for one in felt if one.phase.what == OURS]
    kafkas = [one for one in felt if one.phase.what == KAFKAS]
    names = ("producer p50", "producer p99", "consumer p50", "consumer p99")
    found = []
    for name, ratios in zip(names, zip(*_ratios(ours, kafkas), strict=True), strict=True):
        middle = median(ratios)
        every = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        text = f"{name} / under Kafka's tool {middle:.2f} (at most {MAX_RATIO}; {every})"
        found.append(Check(middle <= MAX_RATIO, text))
    idle_p99 = max((one.produced_p99 for one in felt if one.phase.what == IDLE), default=0.0)
    text = f"producer p99 while nothing moves {idle_p99:.2f} s (at most {MAX_IDLE_P99_SECONDS:g})"
    found.append(Check(idle_p99 <= MAX_IDLE_P99_SECONDS, f"{text}: the machine has room"))
    failed = sum(one.failed for one in ours)
    found.append(Check(failed == 0, f"{failed} records failed while ours moved (0)"))
    return found


def _ratios(above: Sequence[Felt], below: Sequence[Felt]) -> list[tuple[float, ...]]:
    """The ratio of each latency, pair by pair."""
    return [
        tuple(mine / other for mine, other in zip(a.latencies, b.latencies, strict=True))
        for a, b in zip(above, below, strict=True)
    ]


def _against_idle(felt: Sequence[Felt]) -> str:
    """Medians of both ways over what clients feel while nothing moves."""
    by_what = {
        what: [one for one in felt if one.phase.what == what] for what in (IDLE, OURS, KAFKAS)
    }
    texts = []
    for what in (OURS, KAFKAS):
        columns = zip(*_ratios(by_what[what], by_what[IDLE]), strict=True)
        ratios = [f"{median(column):.2f}" for column in columns]
        most = max(one.leaders_at_once for one in by_what[what])
        texts.append(f"{what} {', '.join(ratios)}, at most {most} leaders elected at once")
    return "over nothing moves (producer p50, p99, consumer p50, p99): " + "; ".join(texts)


def _cells(felt: Felt) -> tuple[str, ...]:
    phase = felt.phase
    return (
        str(phase.pair),
        phase.what,
        f"{phase.ended - phase.began:.1f}",
        str(felt.records),
        str(felt.failed),
        *(f"{1000 * seconds:.1f}" for seconds in felt.latencies),
        str(felt.leaders_at_once),
    )


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="What clients feel of a run, and of Kafka's own tool."
    )
    parser.add_argument("--pairs", type=int, default=5, help="paired runs (default: 5)")
    parser.add_argument("--rate", default="10MB/s", help="the throttle (default: 10MB/s)")
    parser.add_argument(
        "--seconds", type=int, default=30, help="how long the copying takes at best (default: 30)"
    )
    parser.add_argument(
        "--leaders",
        type=int,
        choices=(1, 2, 3),
        default=3,
        help="how many brokers lead what is moved (default: 3)",
    )
    parser.add_argument(
        "--movement", default="", help="of the policy, such as `max_moves_in_flight: 5`"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

"""Plans for large clusters as they really are, beside a regular one of that size: one table.

    .venv/bin/python -m benchmarks.skewed_plans [--partitions 20000] [SHAPE ...]
        [--runs 3] [--beside COMMIT] [--limit 600]

A row for each shape of cluster and, beside it, one for the planner of that commit. Every plan is
made by the command, `counterpoise plan`, in a process of its own: CPU s and peak MiB are those of
the process (of several runs the least and the most), and it is ended after `--limit` CPU s.

`/ regular`: CPU s beside those of the same planner for the regular cluster. Copied: bytes, planned
/ the larger one of two bounds of the whole goal, which know no budgets and sets: the judge's, and
the one that our plan proves where it leaves no broker outside (`rack_program`, by weak duality:
nobody else checks that one). `/ judge's` has the judge's alone. Outside: brokers, and GB,
outside the band of 10 % around the best bytes that our plan names for each. Without a reason: those
of them for which the plan names nothing that binds (a giant, a limit, a budget, the goal, a proof).
Squares: of the replicas per broker, theirs / ours.
"""

import argparse
import gzip
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from benchmarks.beside import COMMAND, planner_of
from benchmarks.clusters import DOCUMENT, named_brokers, read_document
from benchmarks.crooked import clusters as crooked
from benchmarks.crooked.measure import Figures, measure
from benchmarks.judge import Case as Judged
from benchmarks.judge import Load, lower_bounds
from benchmarks.machine import Used, load_line, machine_line, used_by
from benchmarks.make_cluster import make_cluster
from counterpoise.model.request import Goal

REGULAR: Final = {20_000: "c-medium", 200_000: "d-large", 1_000_000: "g-huge"}
_RACKS: Final = {  # brokers per rack, and how many of all brokers hold nothing yet
    20_000: ((14, 12, 10, 9, 8, 5, 2), 3),
    200_000: ((50, 40, 35, 30, 25, 15, 5), 8),
    1_000_000: ((150, 120, 100, 90, 80, 45, 15), 20),
}
_FACTORS: Final = ((1, 0.1), (2, 0.2), (3, 0.6), (5, 0.1))
_GIANT: Final = 1.5  # shares of a broker
_SET_TOPICS: Final = ("t*0", "t*1", "*")
HEADINGS: Final = (
    "shape",
    "planner",
    "CPU s",
    "/ regular",
    "copied / bound",
    "/ judge's",
    "outside: brokers",
    "GB",
    "without a reason",
    "racks",
    "squares",
    "several new",
    "peak MiB",
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster, and what is asked for; it is regular, or has `changes` to one of Zipf's sizes."""

    goal: Goal = Goal.REBALANCE
    changes: Mapping[str, Any] | None = None
    max_bytes: str = ""
    has_giant: bool = False
    has_sets: bool = False

    def document(self, partitions: int) -> dict[str, Any]:
        if self.changes is None:
            document = make_cluster(REGULAR[partitions])
            document["named"] = list(named_brokers(document, self.goal))
        else:
            racks, idle = _RACKS[partitions]
            zipf = crooked.Case("zipf", self.goal, 1, racks, partitions, 0, idle, 1.1, 0.0)
            document = crooked.make(replace(zipf, **{"has_rates": True, **self.changes}))
        if self.has_giant:
            _add_giant(document)
        return document

    def words(self, document: Mapping[str, Any]) -> Iterator[str]:
        """Yield the options of the command."""
        yield from ("--goal", self.goal)
        if document["named"]:
            yield from ("--brokers", ",".join(map(str, document["named"])))
        if self.max_bytes:
            yield from ("--max-bytes", self.max_bytes)
        if self.has_sets:
            sets = zip(_SET_TOPICS, broker_sets(document), strict=True)
            texts = (f"{topics}={','.join(map(str, brokers))}" for topics, brokers in sets)
            yield from ("--broker-sets", ";".join(texts))


SHAPES: Final = {
    "regular": Shape(),
    "regular, add-brokers": Shape(Goal.ADD_BROKERS),
    "regular, one giant": Shape(has_giant=True),
    "zipf": Shape(changes={}),
    "zipf, add-brokers": Shape(Goal.ADD_BROKERS, {"named": 3, "idle": 0}),
    "zipf, no rates": Shape(changes={"has_rates": False}),
    "zipf, budget": Shape(changes={}, max_bytes="500GB"),
    "zipf, broker sets": Shape(changes={}, has_sets=True),
    "disks": Shape(changes={"has_disks": True}),
    "disks, budget": Shape(changes={"has_disks": True}, max_bytes="500GB"),
    "mixed factors": Shape(changes={"factors": _FACTORS}),
    "large topics": Shape(changes={"exponent": 0.6, "has_large_topics": True}),
}


# -- what is planned


def _add_giant(document: Mapping[str, Any]) -> None:
    """Make one partition larger than the share of a broker."""
    rows = document["partitions"]
    held = sum(row[4] * len(row[2]) for row in rows)
    rows[0][4] = int(_GIANT * held / len(document["brokers"]))


def broker_sets(document: Mapping[str, Any]) -> tuple[list[int], list[int], list[int]]:
    """Return a tenth of the brokers, another tenth, and the others; each on all racks it can be."""
    by_rack: dict[str, list[int]] = {}
    for broker in document["brokers"]:
        by_rack.setdefault(broker["rack"], []).append(broker["id"])
    in_turns = [b for b in chain(*zip_longest(*by_rack.values())) if b is not None]
    tenth = len(in_turns) // 10
    return in_turns[:tenth], in_turns[tenth : 2 * tenth], in_turns[2 * tenth :]


# -- what a plan reaches: in a process of its own, so that this one stays small


@dataclass(frozen=True, slots=True)
class Reached:
    figures: Figures
    bytes_held: Mapping[int, int]  # by broker
    bytes_best: Mapping[int, int]
    explained: int  # brokers outside their band for a reason that the plan names
    bound_bytes: int  # the judge's; 0 where it cannot know
    proven_bytes: int  # the plan's own bound; 0 where a broker stays outside its band

    def outside(self, ours: "Reached") -> list[int]:
        """Return by how many bytes brokers are outside the band around their best of our plan."""
        away = (abs(self.bytes_held[b] - best) - best // 10 for b, best in ours.bytes_best.items())
        return [distance for distance in away if distance > 0]


def prepare(name: str, partitions: int, folder: Path) -> tuple[str, ...]:
    """Write the cluster's document; return the options of the command."""
    shape = SHAPES[name]
    document = shape.document(partitions)
    with gzip.open(folder / DOCUMENT, "wt", compresslevel=1) as file:
        json.dump(document, file)
    return tuple(shape.words(document))


def reached(name: str, folder: Path, plan_file: Path) -> Reached:
    plan = json.loads(plan_file.read_text())
    moves = [
        {"topic": move["topic"], "partition": move["partition"], "replicas": move["replicas_after"]}
        for move in plan["moves"]
    ]
    document = read_document(folder)
    bound_bytes = _bound_bytes(SHAPES[name], document)
    found = Reached(
        measure(document, SHAPES[name].goal, {"partitions": moves}),
        {figure["broker_id"]: figure["bytes_after"] for figure in plan["figures"]},
        {figure["broker_id"]: figure["bytes_best"] for figure in plan["figures"]},
        explained(plan["warnings"]),
        bound_bytes,
        plan["lower_bound"]["bytes"] if bound_bytes else 0,
    )
    return replace(found, proven_bytes=0) if found.outside(found) else found


def _bound_bytes(shape: Shape, document: Mapping[str, Any]) -> int:
    """Return what any plan has to copy that reaches the whole goal; 0 where the judge cannot know.

    The bound that a plan shows is one of what it reaches: nearer where brokers stay outside.
    """
    if shape.max_bytes or shape.has_sets:
        return 0
    case = Judged.of(document, shape.goal, document["named"], 0.1)
    return lower_bounds(case, Load.of(case.before, case.sizes))[1]


_OUTSIDE: Final = re.compile(
    r"^(?:replicas .*?; )?(brokers? [^;]*?) will hold bytes more than .*? fair share[;:] (.*)$"
)
_BUDGET: Final = "the budget of the request"  # one reason for all that a warning names
_REASONS: Final = (
    "what is left alone there",
    "alone is more than a fair share",
    "as is proven",
    " within ",
    _BUDGET,
    "goal rebalance may do more",
)


def explained(warnings: Sequence[str]) -> int:
    """Return how many brokers stay outside their band of bytes for a reason that is named."""
    found = next(filter(None, map(_OUTSIDE.match, warnings)), None)
    if found is None:
        return 0
    brokers, reasons = found.groups()
    is_one_reason = not reasons.startswith("broker") or _BUDGET in reasons
    texts = [f"{brokers}: {reasons}"] if is_one_reason else re.split(r"; (?=broker)", reasons)
    groups = (text.partition(": ") for text in texts)
    return sum(
        _count(names) for names, _, why in groups if any(reason in why for reason in _REASONS)
    )


def _count(brokers: str) -> int:
    """Return how many are named: 5 in "brokers 1, 2 and 3 more"."""
    named, _, more = brokers.partition(" and ")
    return len(re.findall(r"\d+", named)) + sum(map(int, re.findall(r"\d+", more)))


# -- the table


@dataclass(frozen=True, slots=True)
class Result:
    cpu_seconds: float
    peak_bytes: int
    reached: Reached | None  # None where the limit ended it


def main() -> int:
    options = _options()
    print(machine_line(), load_line(), sep="\n", end="\n\n")
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + " --- |" * len(HEADINGS))
    has_errors = False
    regular: dict[tuple[str, Goal], float] = {}  # CPU seconds
    beside = planner_of(options.beside) if options.beside else nullcontext(None)
    with beside as environment:
        planners = {"ours": None} | ({options.beside: environment} if environment else {})
        for name in options.shapes or SHAPES:
            results = measured(name, options, planners)
            for planner, result in results.items():
                seconds = regular.setdefault((planner, SHAPES[name].goal), result.cpu_seconds)
                cells = row(result, results["ours"].reached, result.cpu_seconds / seconds)
                print("| " + " | ".join(map(str, (name, planner, *cells))) + " |", flush=True)
                has_errors |= bool(result.reached and result.reached.figures.errors)
    return 1 if has_errors else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=f"of: {'; '.join(SHAPES)}")
    parser.add_argument("--partitions", type=int, choices=list(REGULAR), default=20_000)
    parser.add_argument("--runs", type=int, default=1, help="in turns")
    parser.add_argument("--beside", metavar="COMMIT", help="also the planner of that commit")
    parser.add_argument("--limit", type=int, default=600, help="CPU s of a plan (600)")
    options = parser.parse_args()
    if unknown := set(options.shapes) - SHAPES.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(SHAPES)}")
    if options.shapes:  # what others are held against comes first
        goals = {SHAPES[name].goal for name in options.shapes}
        first = [name for name in ("regular", "regular, add-brokers") if SHAPES[name].goal in goals]
        options.shapes = list(dict.fromkeys([*first, *options.shapes]))
    return options


def measured(
    name: str, options: argparse.Namespace, planners: Mapping[str, Mapping[str, str] | None]
) -> dict[str, Result]:
    with tempfile.TemporaryDirectory(prefix="skewed-") as path:
        folder = Path(path)
        words = _apart(prepare, name, options.partitions, folder)
        command = [COMMAND, "plan", "--quiet", "--state", str(folder / DOCUMENT), *words]
        runs: dict[str, list[Used]] = {planner: [] for planner in planners}
        for _ in range(options.runs):
            for planner, environment in planners.items():
                out = ["--out", str(folder / planner)]
                runs[planner].append(used_by([*command, *out], environment, options.limit, folder))
        return {
            planner: Result(
                min(used.cpu_seconds for used in of_planner),
                max(used.peak_bytes for used in of_planner),
                _apart(reached, name, folder, folder / planner)
                if (folder / planner).exists()
                else None,
            )
            for planner, of_planner in runs.items()
        }


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own, whose memory goes with it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def row(result: Result, ours: Reached | None, ratio: float) -> tuple[object, ...]:
    seconds, peak = f"{result.cpu_seconds:.1f}", result.peak_bytes >> 20
    found = result.reached
    if found is None:
        return f"> {seconds}", f"> {ratio:.1f}", *("-",) * 8, peak
    ours = ours or found
    outside = found.outside(ours)
    copied, judged = found.figures.copied_bytes, found.bound_bytes
    return (
        seconds,
        f"{ratio:.1f}",
        f"{copied / max(judged, ours.proven_bytes):.4f}" if judged else "-",
        f"{copied / judged:.4f}" if judged else "-",
        len(outside),
        f"{sum(outside) / 1e9:.1f}",
        max(0, len(outside) - found.explained),
        found.figures.rack_violations,
        f"{found.figures.squared_counts / ours.figures.squared_counts:.4f}",
        found.figures.several_new,
        peak,
    )


if __name__ == "__main__":
    sys.exit(main())

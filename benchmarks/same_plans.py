"""Does another checkout make the same plans, move for move?

    .venv/bin/python -m benchmarks.same_plans --against /path/to/checkout [--seeds 300] [--small]

Compared are the moves of each plan: the same partitions in the same order, with the same replicas
in the same order. Reasons, warnings, figures and times may differ. The plans:

    the judge's clusters    those of `make_cluster.py` but the one of 1,000,000 partitions, each
                            with its goal and with others; `--small` leaves out the large ones
    seeds                   clusters and requests drawn at random (`tests/support/trials.py`, and
                            `small_clusters.py` with and without constraints); every second one has
                            rates, every third a budget of bytes
    published               `benchmarks/published`

The clusters are made here and planned in a process of each checkout, by its own `.venv`. Prints how
many plans are the same, and names those that are not; the exit code is 1 if there are any.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[1]
_LARGE: Final = ("d-large",)
_HUGE: Final = "g-huge"


# -- the questions: documents and requests, as plain values


def questions(seeds: int, *, is_small: bool) -> Iterator[dict[str, Any]]:
    """Yield a cluster document with a request, and a name."""
    yield from _judged(is_small=is_small)
    yield from _published()
    yield from _drawn(seeds)


def _judged(*, is_small: bool) -> Iterator[dict[str, Any]]:
    from benchmarks.clusters import CASES, named_brokers
    from benchmarks.make_cluster import make_cluster

    for name, case in CASES.items():
        if name == _HUGE or (is_small and name in _LARGE):
            continue
        document = make_cluster(name)
        named = named_brokers(document, case.goal)
        yield _question(name, document, {"goal": str(case.goal), "broker_ids": named})
        if name not in _LARGE:
            for goal in {"rebalance", "leaders"} - {str(case.goal)}:
                yield _question(f"{name}, {goal}", document, {"goal": goal})


def _published() -> Iterator[dict[str, Any]]:
    from benchmarks.published_clusters import CLUSTERS

    for name, make in CLUSTERS.items():
        for goal in ("rebalance", "leaders"):
            yield _question(f"{name}, {goal}", make(), {"goal": goal})


def _drawn(seeds: int) -> Iterator[dict[str, Any]]:
    """Half of the seeds are trials, half are small crooked clusters with every goal."""
    from tests.support.small_clusters import ORACLE_GOALS, draw_case, with_constraints
    from tests.support.trials import GOALS, draw_trial

    for seed in range(seeds):
        chance = random.Random(seed)
        if seed % 2:
            dead, scopes, many = (chance.random() < 0.5 for _ in range(3))
            drawn: Any = draw_trial(chance, goals=GOALS, dead=dead, scopes=scopes, many=many)
        else:
            drawn = draw_case(chance, ORACLE_GOALS[seed // 2 % len(ORACLE_GOALS)])
            if chance.random() < 0.4:
                drawn = with_constraints(chance, drawn)
        document, request = dict(drawn.document), _plain(drawn.request)
        if chance.random() < 0.5:
            rows = [[*row[:5], int(chance.lognormvariate(11, 1.5))] for row in _rows(document)]
            document["partitions"] = rows
        if chance.random() < 1 / 3:
            request["max_bytes"] = sum(row[4] for row in _rows(document)) // chance.choice([2, 5])
        yield _question(f"seed {seed}", document, request)


def _rows(document: Mapping[str, Any]) -> list[list[Any]]:
    rows: list[list[Any]] = document["partitions"]
    return rows


def _question(name: str, document: Mapping[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "document": document, "request": request}


def _plain(request: Any) -> dict[str, Any]:
    """Return a request of this checkout as values that every checkout understands."""
    constraints = request.policy.constraints
    return {
        "goal": str(request.goal),
        "broker_ids": request.broker_ids,
        "scope": asdict(request.scope),
        "replication_factor": request.replication_factor,
        "constraints": {
            "broker_sets": [asdict(of) for of in constraints.broker_sets],
            "max_replicas_per_broker": constraints.max_replicas_per_broker,
            "no_new_replicas_on": constraints.no_new_replicas_on,
        },
    }


# -- the answers: in a process of one checkout


def answer(questions_file: Path, answers_file: Path) -> None:
    """Plan all questions with the package of this environment, and write the moves."""
    with questions_file.open() as lines, answers_file.open("w") as answers:
        for line in lines:
            answers.write(json.dumps(_planned(json.loads(line))) + "\n")


def _planned(question: Mapping[str, Any]) -> list[Any]:
    """Return the moves, or the kind of refusal."""
    from counterpoise.errors import InputError, RefusedError
    from counterpoise.model.document import from_document_text
    from counterpoise.planning import make_plan

    snapshot = from_document_text(json.dumps(question["document"]))
    try:
        plan = make_plan(snapshot, _request_of(question["request"]))
    except (InputError, RefusedError) as error:
        return [type(error).__name__]
    return [[move.topic, move.partition, move.replicas_after] for move in plan.moves]


def _request_of(wanted: Mapping[str, Any]) -> Any:
    from counterpoise.model.constraints import BrokerSet, Constraints
    from counterpoise.model.policy import BalancePolicy
    from counterpoise.model.request import Budget, Goal, PlanRequest, Scope

    limits = wanted.get("constraints", {})
    sets = [
        {key: _as_tuple(value) for key, value in of.items()} for of in limits.get("broker_sets", ())
    ]
    constraints = Constraints(
        broker_sets=tuple(BrokerSet(**of) for of in sets),
        max_replicas_per_broker=limits.get("max_replicas_per_broker"),
        no_new_replicas_on=tuple(limits.get("no_new_replicas_on", ())),
    )
    scope = {key: tuple(value) for key, value in wanted.get("scope", {}).items()}
    return PlanRequest(
        Goal(wanted["goal"]),
        tuple(wanted.get("broker_ids", ())),
        policy=BalancePolicy(constraints=constraints),
        scope=Scope(**scope),
        budget=Budget(max_bytes=wanted.get("max_bytes")),
        replication_factor=wanted.get("replication_factor"),
    )


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# -- the comparison


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--against", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--small", action="store_true", help="without the large clusters")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = Path(folder) / "questions"
        names = []
        with asked.open("w") as lines:
            for question in questions(arguments.seeds, is_small=arguments.small):
                names.append(question["name"])
                lines.write(json.dumps(question) + "\n")
        ours, theirs = (
            _answers(checkout, asked, Path(folder) / name)
            for name, checkout in (("ours", HERE), ("theirs", arguments.against.resolve()))
        )
    differing = [name for name, our, their in zip(names, ours, theirs, strict=True) if our != their]
    moves = sum(map(len, map(json.loads, ours)))
    print(f"{len(names) - len(differing)} of {len(names)} plans are the same ({moves} moves)")
    for name in differing:
        print(f"  differs: {name}")
    return 1 if differing else 0


def _answers(checkout: Path, asked: Path, answers: Path) -> list[str]:
    """Return a line for each question, by the planner of a checkout."""
    python = checkout / ".venv" / "bin" / "python"
    subprocess.run([python, __file__, "--answer", asked, answers], check=True, cwd=checkout)
    return answers.read_text().splitlines()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(Path(sys.argv[2]), Path(sys.argv[3]))
        sys.exit()
    sys.exit(main())

"""`counterpoise plan --compare`: several plans beside each other, before one is asked for.

counterpoise plan --state X.json --compare add-brokers,rebalance --what-if-brokers 2 --rack c
"""

import argparse
from collections.abc import Sequence
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from counterpoise import pipeline
from counterpoise.cli.common import print_json
from counterpoise.cli.tables import table
from counterpoise.errors import InputError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan_view import MEASURES, Measure, PlanView
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.rebalance_request import RebalanceRequest, read_rebalance_request
from counterpoise.model.request import GOALS_WITH_BROKERS, Goal
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import join_ids
from counterpoise.pipeline import ComparedPlan
from counterpoise.units import format_bytes, format_count

_USUAL_GOALS: Final = "add-brokers,rebalance"
_NO_PLAN: Final = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compare",
        metavar="GOAL,GOAL",
        help="show plans for several goals beside each other, and write none",
    )
    parser.add_argument(
        "--what-if-brokers",
        metavar="N",
        help=f"compare as if so many more brokers were there, empty ({_USUAL_GOALS} by default)",
    )
    parser.add_argument("--rack", metavar="RACK", help="the rack of these brokers")


def is_asked_for(arguments: argparse.Namespace) -> bool:
    return arguments.compare is not None or arguments.what_if_brokers is not None


def compare(
    arguments: argparse.Namespace,
    values: dict[str, Any],
    state: tuple[ClusterSnapshot, ClusterPolicy],
    rate: int | None,
    console: Console,
) -> int:
    """Print the plans that were asked for; 1 where none of them moves anything."""
    snapshot, policy = state
    new_ids: tuple[int, ...] = ()
    if arguments.what_if_brokers is not None:
        count = _new_broker_count(arguments.what_if_brokers)
        snapshot, new_ids = pipeline.with_new_brokers(snapshot, count, arguments.rack)
    elif arguments.rack is not None:
        raise InputError("--rack is for --what-if-brokers; give both, or neither")
    requests = _requests(arguments, values, new_ids)
    compared = pipeline.compare(snapshot, requests, policy.balance, policy.provider)
    if arguments.json:
        print_json({"new_brokers": list(new_ids), "plans": [_summary(c, rate) for c in compared]})
    else:
        _print(console, compared, new_ids, rate)
    return 0 if any(found.plan and found.plan.moves for found in compared) else _NO_PLAN


def _new_broker_count(text: str) -> int:
    most = pipeline.MAX_NEW_BROKERS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise InputError(f"--what-if-brokers {text!r}: write a whole number from 1 to {most}")
    return int(text)


def _requests(
    arguments: argparse.Namespace, values: dict[str, Any], new_ids: Sequence[int]
) -> list[RebalanceRequest]:
    """Return a request for each goal; brokers that are not there yet are those to add."""
    requests = []
    for goal in (arguments.compare or _USUAL_GOALS).split(","):
        own = values | {"goal": goal.strip()}
        if goal.strip() == Goal.ADD_BROKERS and new_ids:
            own["broker_ids"] = [*new_ids]
        elif goal.strip() not in GOALS_WITH_BROKERS:
            own["broker_ids"] = None
        requests.append(read_rebalance_request(own, word=lambda field: f"--compare: {field}"))
    return requests


def _measures(compared: Sequence[ComparedPlan]) -> list[Measure]:
    """Return what can be told of every plan."""
    plans = [found.plan for found in compared if found.plan]
    return [m for m in MEASURES if plans and all(m.is_known(plan.figures) for plan in plans)]


def _print(
    console: Console, compared: Sequence[ComparedPlan], new_ids: Sequence[int], rate: int | None
) -> None:
    if new_ids:
        console.print(f"as if brokers {join_ids(tuple(new_ids))} were there", markup=False)
    views = [PlanView(found.plan, rate) for found in compared if found.plan]
    measures = _measures(compared)
    rows = table("", *((view.goal, "right") for view in views))
    for measure in measures:
        spans = [view.spans[measure.field] for view in views]
        name = f"{measure.title.lower()} per broker"
        rows.add_row(name, *(measure.span_in_words(span.after) for span in spans))
    rows.add_row("bytes copied", *(format_bytes(view.copied_bytes) for view in views))
    rows.add_row("replicas copied", *(format_count(view.copied_replicas) for view in views))
    rows.add_row("leaders that change", *(format_count(v.plan.leader_changes) for v in views))
    if rate is None:
        links = [format_bytes(view.busiest_link_bytes) for view in views]
        rows.add_row("over the busiest link", *links)
    else:
        rows.add_row("takes about", *(view.expected_time for view in views))
    warnings = [format_count(len(view.plan.warnings)) for view in views]
    rows.add_row("warnings", *warnings)
    if views:
        before = [
            f"{m.title.lower()} {m.span_in_words(views[0].spans[m.field].before)}" for m in measures
        ]
        console.print(f"now per broker: {', '.join(before)}", markup=False)
        console.print(rows)
    for found in compared:
        why = found.refusal or (found.plan.reason if found.plan and not found.plan.moves else "")
        if why:
            console.print(Text(f"{found.request.goal}: {one_line(why)}"))


def _summary(found: ComparedPlan, rate: int | None) -> dict[str, Any]:
    """Return the figures of a plan for --json; bytes, seconds."""
    own: dict[str, Any] = {"goal": str(found.request.goal), "refusal": found.refusal or None}
    if found.plan is None:
        return own
    view = PlanView(found.plan, rate)
    return own | {
        "brokers": list(found.plan.broker_ids),
        "reason": found.plan.reason,
        "moves": len(found.plan.moves),
        "copied_replicas": view.copied_replicas,
        "copied_bytes": view.copied_bytes,
        "leader_changes": found.plan.leader_changes,
        "bytes_over_busiest_link": view.busiest_link_bytes,
        "expected_seconds": view.busiest_link_bytes / rate if rate else None,
        "per_broker": {
            name: {when: span._asdict() for when, span in spans._asdict().items()}
            for name, spans in view.spans.items()
        },
        "warnings": list(found.plan.warnings),
    }

"""Commands before anything runs: snapshot, plan, show, export, import."""

import argparse
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from counterpoise.cli import plans, tables
from counterpoise.cli.common import (
    PLAN_HELP,
    Commands,
    add_cluster_arguments,
    add_json_argument,
    installation_for,
    print_json,
    read_plan,
    read_state,
    read_text,
)
from counterpoise.cli.output_files import path_argument, write_text
from counterpoise.errors import InputError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import ControlRequest
from counterpoise.model.document import to_document
from counterpoise.model.evenness import evenness
from counterpoise.model.inspection_document import to_content
from counterpoise.model.movement import max_moves_at_once, suggested_rate
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ClusterPolicy, MovementPolicy
from counterpoise.model.reassignment import from_reassignment_json, to_reassignment_json
from counterpoise.model.request import (
    COMMAND_LINE_OPTIONS,
    KINDS,
    PLANNED_GOALS,
    Goal,
    RebalanceRequest,
    read_rebalance_request,
)
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import pluralize
from counterpoise.services import snapshots
from counterpoise.services.kept_empty import plan_without
from counterpoise.services.plans import (
    MAX_NEW_BROKERS,
    plan_of_assignment,
    with_new_brokers,
)
from counterpoise.units import format_bytes, parse_rate
from counterpoise.views.plan import PlanView

_NOTHING_TO_MOVE = 1
_GOALS = "\n".join(("goals:", *(f"  {goal:<20}{KINDS[goal].text}" for goal in PLANNED_GOALS)))

# The field of a rebalance request, how it is typed, and what it is for.
_OPTIONS = (
    ("goal", "GOAL", f"one of: {', '.join(PLANNED_GOALS)}"),
    ("broker_ids", "7,8", "the brokers to add, to remove or to demote; 3=9,4=10 to replace"),
    (
        "topics",
        "'orders-*,payments'",
        "only these topics: names, or patterns with * and ?",
    ),
    (
        "excluded_topics",
        "'audit-*'",
        "not these topics; what the policy excludes stays excluded",
    ),
    (
        "only_broker_ids",
        "1,2,3",
        "only these brokers send and receive replicas and change what they lead",
    ),
    ("excluded_broker_ids", "9", "these brokers stay as they are"),
    (
        "replication_factor",
        "N",
        "how many replicas each partition shall have, for the goal of that name",
    ),
    ("below_percent", "80%", "how full disks may be, for the goal relief"),
    (
        "max_bytes",
        "500GB",
        "copy at most so much: the plan holds the moves that help most, the others are counted",
    ),
    (
        "bytes_tolerance_percent",
        "PERCENT",
        "how far from its fair share of bytes a broker may be",
    ),
    (
        "broker_sets",
        "'pay-*=1,2,3;*=4,5,6'",
        "topics that stand on these brokers only: ids, or names of racks",
    ),
    (
        "max_replicas_per_broker",
        "N",
        "no broker gets more replicas than this",
    ),
    (
        "no_new_replicas_on",
        "4,5",
        "brokers that get no replica they do not have, such as those that are drained by hand",
    ),
)


def add_commands(commands: Commands) -> None:
    _add_snapshot(commands)
    _add_plan(commands)
    _add_show(commands)
    _add_export(commands)
    _add_import(commands)


def _add_snapshot(commands: Commands) -> None:
    parser = commands.add_parser(
        "snapshot",
        description="Reads a cluster's metadata: brokers, topics, partitions, sizes, offsets. "
        "Changes nothing. With --cluster the snapshot also joins the history that the reports are "
        "made from.",
    )
    add_cluster_arguments(parser)
    parser.add_argument(
        "--out",
        type=path_argument,
        metavar="X.json[.gz]",
        help="write the cluster document here, with what `audit --state` reads",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_snapshot)


def _snapshot(arguments: argparse.Namespace, console: Console) -> int:
    installation, name = installation_for(arguments)
    with installation:
        if arguments.bootstrap:
            snapshot = snapshots.fresh_snapshot(installation, name)
        else:
            snapshot = _kept_snapshot(installation, name)
        inspection = snapshots.inspected(installation, snapshot) if arguments.out else None
    if arguments.out and inspection:
        document = json.dumps(to_document(snapshot) | {"inspection": to_content(inspection)})
        write_text(arguments.out, f"{document}\n", "cluster document")
    if arguments.json:
        print_json(_snapshot_summary(snapshot))
    else:
        _print_snapshot(console, snapshot, arguments.out)
    return 0


def _snapshot_summary(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return the values of a snapshot for --json."""
    return {
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "observed_at": snapshot.observed_at.isoformat() if snapshot.observed_at else None,
        "brokers": len(snapshot.registered_broker_ids),
        "live_brokers": len(snapshot.live_broker_ids),
        "idle_brokers": list(snapshot.idle_broker_ids),
        "topics": snapshot.topics.num_rows,
        "partitions": snapshot.partitions.num_rows,
    }


def _print_snapshot(console: Console, snapshot: ClusterSnapshot, written_to: Path | None) -> None:
    """Print a row for each broker, and how even the leaders are."""
    partitions = snapshot.partitions
    knows_sizes = partitions["size_bytes"].null_count < partitions.num_rows
    loads = {load.broker_id: load for load in snapshots.broker_loads(snapshot)}
    rows = tables.table(
        "broker", "rack", "state", ("leaders", "right"), ("replicas", "right"), ("bytes", "right")
    )
    for broker_id in snapshot.registered_broker_ids:
        rack = Text(snapshot.racks[broker_id] or "-")
        row: list[str | Text] = [str(broker_id), rack, _broker_state(snapshot, broker_id)]
        if load := loads.get(broker_id):
            size = format_bytes(load.bytes) if knows_sizes or not load.replicas else "not known"
            row += [str(load.leaders), str(load.replicas), size]
        rows.add_row(*row)
    console.print(
        f"cluster {one_line(snapshot.cluster)} ({one_line(snapshot.cluster_id)}): "
        f"{len(snapshot.live_broker_ids)} of {len(snapshot.registered_broker_ids)} brokers live, "
        f"{pluralize(snapshot.topics.num_rows, 'topic')}, "
        f"{pluralize(snapshot.partitions.num_rows, 'partition')}",
    )
    console.print(rows)
    console.print(tables.leaders_in_words(evenness([load.leaders for load in loads.values()])))
    if written_to:
        console.print(f"written to {written_to}")


def _broker_state(snapshot: ClusterSnapshot, broker_id: int) -> str:
    if broker_id in snapshot.idle_broker_ids:
        return "idle: holds nothing"
    return "live" if broker_id in snapshot.live_broker_ids else "dead"


def _kept_snapshot(installation: Installation, cluster: str) -> ClusterSnapshot:
    """Add a snapshot to the history, and return it as the history has it."""
    written = snapshots.make(installation, cluster, installation.clock())
    return installation.archive.read_snapshot(cluster, written["snapshot_id"])


def _add_plan(commands: Commands) -> None:
    parser = commands.add_parser(
        "plan",
        description="Makes a plan from a cluster document, or from a fresh snapshot. Showing it is "
        "the dry run.\nExit code 1 when nothing needs to move (the plan then says why, and is "
        "written all the same).",
        epilog=_GOALS,
    )
    add_cluster_arguments(parser, or_document=True)
    for field, metavar, meaning in _OPTIONS:
        parser.add_argument(COMMAND_LINE_OPTIONS[field], dest=field, metavar=metavar, help=meaning)
    parser.add_argument(
        "--what-if-brokers",
        metavar="N",
        help="plan as if so many more brokers were there, empty, and only show the plan; the goal "
        "add-brokers fills these",
    )
    parser.add_argument("--rack", metavar="RACK", help="the rack of these brokers")
    parser.add_argument(
        COMMAND_LINE_OPTIONS["is_quick"],
        dest="is_quick",
        action="store_true",
        default=None,
        help="the first answer: without the seconds of work that let a cluster of up to some "
        "thousand replicas copy less",
    )
    _add_output_arguments(parser, is_required=False)
    parser.set_defaults(run=_plan, usage=parser.error)


def _plan(arguments: argparse.Namespace, console: Console) -> int:
    _check_required(arguments)
    values = {field: getattr(arguments, field) for field in COMMAND_LINE_OPTIONS}
    rate = _rate(arguments)
    if arguments.what_if_brokers is None:
        rebalance_request = _request(values)
        snapshot, policy, kept_empty = _state(arguments)
        plan = plan_without(kept_empty, snapshot, rebalance_request, policy)
        return _write_plan(plan, rate, arguments, console)
    count = _new_broker_count(arguments.what_if_brokers)
    snapshot, policy, kept_empty = _state(arguments)
    snapshot, new_ids = with_new_brokers(snapshot, count, arguments.rack)
    if values["goal"] == Goal.ADD_BROKERS and values["broker_ids"] is None:
        values["broker_ids"] = [*new_ids]
    rebalance_request = _request(values)
    plan = plan_without(kept_empty, snapshot, rebalance_request, policy)
    _print_plan(plan, rate, arguments, console)
    return _NOTHING_TO_MOVE if plan.is_empty else 0


def _request(values: Mapping[str, Any]) -> RebalanceRequest:
    return read_rebalance_request(values, word=lambda field: COMMAND_LINE_OPTIONS.get(field, field))


def _check_required(arguments: argparse.Namespace) -> None:
    """End as argparse does where options are missing, or do not go together.

    A plan with brokers that are not there is shown, and written nowhere: it cannot be approved.
    """
    if arguments.what_if_brokers is None:
        if arguments.rack is not None:
            arguments.usage("--rack is for --what-if-brokers; give both, or neither")
        required = {"--goal": arguments.goal, "--out": arguments.out}
    else:
        required = {"--goal": arguments.goal}
        written = {"--out": arguments.out, "--reassignment-json": arguments.reassignment_json}
        for name, value in written.items():
            if value is not None:
                arguments.usage(
                    f"{name} is for a plan that can run; leave it out with --what-if-brokers"
                )
    missing = [name for name, value in required.items() if value is None]
    if missing:
        arguments.usage(f"the following arguments are required: {', '.join(missing)}")


def _new_broker_count(text: str) -> int:
    most = MAX_NEW_BROKERS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= most:
        raise InputError(f"--what-if-brokers {text!r}: write a whole number from 1 to {most}")
    return int(text)


def _state(
    arguments: argparse.Namespace,
) -> tuple[ClusterSnapshot, ClusterPolicy, Mapping[int, ControlRequest]]:
    """Return the snapshot to plan from, the policy to plan by, and which brokers are kept empty.

    A cluster document needs no ledger: what it is planned for is checked when it is proposed.
    """
    if arguments.state:
        return *snapshots.named(open_installation(), read_state(arguments.state)), {}
    installation, name = installation_for(arguments)
    with installation:
        policy = installation.cluster(name).policy
        if arguments.bootstrap:
            snapshot = snapshots.checked_snapshot(installation, name)
        else:
            snapshot = snapshots.to_plan_on(installation, name)
        return snapshot, policy, installation.active_requests(name).kept_empty


def _add_output_arguments(parser: argparse.ArgumentParser, *, is_required: bool = True) -> None:
    parser.add_argument(
        "--out",
        type=path_argument,
        required=is_required,
        metavar="PLAN.json",
        help="write the plan here",
    )
    parser.add_argument(
        "--reassignment-json",
        type=path_argument,
        metavar="R.json",
        help="also write Kafka's reassignment JSON",
    )
    _add_rate_argument(parser)
    add_json_argument(parser)


def _write_plan(
    plan: RebalancePlan, rate: int | None, arguments: argparse.Namespace, console: Console
) -> int:
    write_text(arguments.out, plan.to_json(), "plan")
    if arguments.reassignment_json:
        write_text(arguments.reassignment_json, to_reassignment_json(plan), "reassignment")
    _print_plan(plan, rate, arguments, console, written_to=arguments.out)
    return _NOTHING_TO_MOVE if plan.is_empty else 0


def _add_rate_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rate",
        metavar="50MB/s",
        help="say how long the plan takes at this rate, and whether it can end",
    )


def _rate(arguments: argparse.Namespace) -> int | None:
    return parse_rate(arguments.rate, where="--rate") if arguments.rate is not None else None


def _print_plan(
    plan: RebalancePlan,
    rate: int | None,
    arguments: argparse.Namespace,
    console: Console,
    *,
    written_to: Path | None = None,
) -> None:
    view = _view(plan, rate)
    if arguments.json:
        print_json(view)
    else:
        plans.print_plan(console, plan, view, written_to=written_to)


def _view(plan: RebalancePlan, rate: int | None) -> PlanView:
    # Showing a plan needs no configuration.
    movement, suggested = MovementPolicy(), None
    with contextlib.suppress(InputError), open_installation() as installation:
        movement = installation.cluster(plan.cluster).policy.movement
        suggested = suggested_rate(plan, movement)
    return PlanView.of(plan, rate, suggested, max_moves_at_once(movement))


def _add_show(commands: Commands) -> None:
    parser = commands.add_parser(
        "show",
        description="Shows a plan: what moves, what it is good for, and how far it is from the "
        "least that any plan has to move.",
    )
    parser.add_argument("plan", type=path_argument, metavar="PLAN", help=PLAN_HELP)
    _add_rate_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=_show)


def _show(arguments: argparse.Namespace, console: Console) -> int:
    rate = _rate(arguments)
    _print_plan(read_plan(arguments.plan), rate, arguments, console)
    return 0


def _add_export(commands: Commands) -> None:
    parser = commands.add_parser(
        "export",
        description="Writes a plan, or its undo, as the JSON that kafka-reassign-partitions reads.",
    )
    parser.add_argument("plan", type=path_argument, metavar="PLAN", help=PLAN_HELP)
    parser.add_argument("--undo", action="store_true", help="the assignment to go back to")
    parser.add_argument(
        "--out", type=path_argument, metavar="R.json", help="write here instead of to the terminal"
    )
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace, console: Console) -> int:
    text = to_reassignment_json(read_plan(arguments.plan), undo=arguments.undo)
    if arguments.out:
        write_text(arguments.out, text, "reassignment")
    else:
        console.out(text, end="")
    return 0


def _add_import(commands: Commands) -> None:
    parser = commands.add_parser(
        "import",
        description="Makes a plan that does what a reassignment JSON (of "
        "kafka-reassign-partitions, for example) asks for, so that it can be checked, approved and "
        "run safely. Exit code 1 when it asks for nothing new.",
    )
    parser.add_argument(
        "reassignment", type=path_argument, metavar="R.json", help="the reassignment JSON"
    )
    add_cluster_arguments(parser, or_document=True)
    _add_output_arguments(parser)
    parser.set_defaults(run=_import)


def _import(arguments: argparse.Namespace, console: Console) -> int:
    path = arguments.reassignment
    wanted = from_reassignment_json(read_text(path, "reassignment"), where=str(path))
    rate = _rate(arguments)
    snapshot, policy, _ = _state(arguments)
    plan = plan_of_assignment(snapshot, wanted, policy.balance, policy.provider)
    return _write_plan(plan, rate, arguments, console)

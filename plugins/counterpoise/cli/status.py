"""The command that shows what runs, ran or waits: status."""

import argparse
import contextlib
import sys
from collections.abc import Sequence

from rich.console import Console

from counterpoise.cli import tables
from counterpoise.cli.common import (
    Commands,
    add_json_argument,
    find_run,
    print_json,
    stderr_console,
)
from counterpoise.cli.following import Display, links_table
from counterpoise.cli.repeating import repeat
from counterpoise.errors import InputError, RefusedError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.control import ControlRequest
from counterpoise.model.run import UNDER_WAY_STATES, Run, RunState
from counterpoise.services import requests, runs
from counterpoise.services.runs import RunStatus
from counterpoise.units import format_moment
from counterpoise.views.run import RunStatusView

_REFRESH_SECONDS = 1.0
_MAX_REQUESTS_SHOWN = 10


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "status",
        description="Shows the runs in the ledger, newest first, freezes, and brokers kept empty; "
        "or one run: how far it is, what it waits for, what people requested.",
    )
    parser.add_argument(
        "run_or_plan", nargs="?", metavar="RUN", help="a run's id, or a plan's file"
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="stay until the run ends (default: the one under way); with --json a line per change",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_status)


def _status(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation(may_make_ledger=False) as installation:
        if arguments.cluster:
            installation.cluster(arguments.cluster)
        if arguments.follow:
            run = _run_to_follow(installation, arguments)
            if arguments.json:
                return _follow_as_json(installation, run, stderr_console(arguments))
            return follow(installation, run, console)
        if arguments.run_or_plan:
            run = find_run(installation, arguments)
            _print_run(runs.status_of(installation, run.run_id), arguments, console)
            return 0
        statuses = runs.newest(installation, cluster=arguments.cluster)
        clusters = _clusters(installation, arguments.cluster, statuses)
        in_force = requests.in_force(installation, clusters).values()
    shown = list(map(RunStatusView.of, statuses))
    if arguments.json:
        print_json(shown)
        return 0
    for frozen in (active.frozen for active in in_force if active.frozen):
        console.print(f"cluster {frozen.cluster} is {frozen.frozen_in_words}", soft_wrap=True)
    for kept in (kept for active in in_force for kept in active.kept_empty.values()):
        console.print(f"{kept.cluster}: {kept.kept_empty_in_words}", soft_wrap=True)
    tables.print_runs(console, shown)
    if not shown:
        console.print(_looked_in(installation), soft_wrap=True)
    return 0


def _looked_in(installation: Installation) -> str:
    """Return which ledger and settings were meant; where a variable names the ledger, its name
    alone, since the address may hold a password.
    """
    locations = installation.locations
    ledger, is_default = locations.ledger_address, locations.is_default_config
    in_ledger = (
        f"{locations.default.ledger} (COUNTERPOISE_LEDGER is not set)"
        if ledger.is_default
        else f"the one of {ledger.variable}"
    )
    settings = f"{locations.config}{' (COUNTERPOISE_CONFIG is not set)' if is_default else ''}"
    return (
        f"ledger: {in_ledger}; settings: {settings}. If your runs are elsewhere, set the variables "
        "that Airflow's workers have; `counterpoise self-check` shows what is used"
    )


def follow(installation: Installation, run: Run, console: Console) -> int:
    """Show a run until it is no longer under way; return 0 when it is done, else 1."""
    with Display(console) as display:

        def refresh() -> float | None:
            nonlocal run
            shown = runs.run_now(installation, run.run_id)
            run = shown.run
            if shown.run_progress or shown.is_under_way:
                display.show(shown)
            return _REFRESH_SECONDS if shown.is_under_way else None

        repeat(refresh, display.log)
    console.print(f"run {run.run_id} is {run.in_words}", soft_wrap=True)
    return 0 if run.state is RunState.DONE else 1


def _follow_as_json(installation: Installation, run: Run, log: Console) -> int:
    """Print the status as a line of JSON whenever it changes; return what `follow` returns."""
    printed: RunStatusView | None = None

    def refresh() -> float | None:
        nonlocal printed
        shown = RunStatusView.of(runs.status_of(installation, run.run_id))
        if shown != printed:
            printed = shown
            print_json(shown, indent=None)
            sys.stdout.flush()
        return _REFRESH_SECONDS if shown.state in UNDER_WAY_STATES else None

    repeat(refresh, lambda text: log.print(text, soft_wrap=True))
    return 0 if printed and printed.state is RunState.DONE else 1


def _run_to_follow(installation: Installation, arguments: argparse.Namespace) -> Run:
    if arguments.run_or_plan:
        return find_run(installation, arguments)
    found = installation.ledger.runs(cluster=arguments.cluster, states=UNDER_WAY_STATES)
    if not found:
        raise RefusedError("no run is under way; `counterpoise status` lists the runs")
    if len(found) > 1:
        raise InputError(
            "several runs are under way; name the one to follow: "
            + ", ".join(run.run_id for run in found)
        )
    return found[0]


def _clusters(
    installation: Installation, only_cluster: str | None, statuses: Sequence[RunStatus]
) -> set[str]:
    if only_cluster:
        return {only_cluster}
    clusters = {status.run.cluster for status in statuses}
    with contextlib.suppress(InputError):  # runs are listed even when the settings cannot be read
        clusters |= installation.settings.clusters.keys()
    return clusters


def _print_run(status: RunStatus, arguments: argparse.Namespace, console: Console) -> None:
    shown = RunStatusView.of(status)
    if arguments.json:
        print_json(shown)
        return
    tables.print_runs(console, [shown])
    if status.run_progress:
        console.print(status.doing.in_words, soft_wrap=True)
        if status.is_under_way and status.doing.is_driven and status.run_progress.links:
            console.print(links_table(status.run_progress))
    for key in status.pending_restores:
        responds = "" if key.resource.is_topic else f"broker {key.resource.name} responds, and "
        console.print(
            f"not restored yet: {key.name}: `counterpoise watch --cluster {status.run.cluster}` "
            f"restores it when {responds}no copy uses it",
            soft_wrap=True,
        )
    for request in status.requests[-_MAX_REQUESTS_SHOWN:]:
        console.print(_request_in_words(request), soft_wrap=True)


def _request_in_words(request: ControlRequest) -> str:
    requested_at = format_moment(request.at)
    return f"{requested_at}: {request.in_words}, requested by {request.who}: {request.why}"

"""The command that tells what runs, ran or waits: status."""

import argparse
import contextlib
from collections.abc import Sequence

from rich.console import Console

from counterpoise import queries
from counterpoise.cli import tables
from counterpoise.cli.common import add_json_argument, find_run, print_json
from counterpoise.cli.following import Display, in_words, links_table
from counterpoise.cli.repeating import repeat
from counterpoise.errors import InputError, RefusedError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.control import ControlRequest
from counterpoise.model.run import OPEN_STATES, UNDER_WAY_STATES, Run, RunState
from counterpoise.queries import RunStatus
from counterpoise.units import format_moment, format_rate

_LOOK_SECONDS = 1.0
_REQUESTS_SHOWN = 10


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "status",
        help="what runs, ran, or waits",
        description="The runs in the ledger, newest first, and freezes; or one run: how far it is, what it waits for, "
        "what people asked of it.",
    )
    parser.add_argument(
        "run_or_plan", nargs="?", metavar="RUN", help="a run's id, or a plan's file"
    )
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--follow", action="store_true", help="stay until the run ends (default: the one under way)"
    )
    add_json_argument(how)
    parser.set_defaults(run=_status)


def _status(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        if arguments.cluster:
            installation.cluster(arguments.cluster)
        if arguments.follow:
            return follow(installation, _run_to_follow(installation, arguments), console)
        if arguments.run_or_plan:
            return _tell(
                queries.run_status(
                    installation, find_run(installation, arguments.run_or_plan).run_id
                ),
                arguments,
                console,
            )
        found = queries.runs(installation, cluster=arguments.cluster)
        freezes = queries.freezes(installation, _clusters(installation, arguments.cluster, found))
    if arguments.json:
        print_json([tables.status_summary(status) for status in found])
        return 0
    for frozen in freezes:
        console.print(
            f"cluster {frozen.cluster} is {frozen.frozen_in_words}", markup=False, soft_wrap=True
        )
    tables.print_runs(console, found)
    return 0


def follow(installation: Installation, run: Run, console: Console) -> int:
    """Until the run ends, or for a run that nobody has started: says so. 0 when it is done."""
    seen = [run]
    with Display(console) as display:

        def look() -> float | None:
            seen[0], run_progress = queries.run_progress_of(installation, run.run_id)
            is_under_way = seen[0].state in UNDER_WAY_STATES
            if run_progress or is_under_way:
                display.show(seen[0], run_progress)
            return _LOOK_SECONDS if is_under_way else None

        repeat(look, display.log)
    ended = seen[0]
    console.print(
        f"run {ended.run_id} is {ended.state}" + (f": {ended.reason}" if ended.reason else ""),
        markup=False,
        soft_wrap=True,
    )
    return 0 if ended.state is RunState.DONE else 1


def _run_to_follow(installation: Installation, arguments: argparse.Namespace) -> Run:
    if arguments.run_or_plan:
        return find_run(installation, arguments.run_or_plan)
    found = queries.runs_under_way(installation, arguments.cluster)
    if not found:
        raise RefusedError("no run is under way; `counterpoise status` lists the runs")
    if len(found) > 1:
        raise InputError(
            f"several runs are under way; follow which? {', '.join(run.run_id for run in found)}"
        )
    return found[0]


def _clusters(installation: Installation, only: str | None, found: Sequence[RunStatus]) -> set[str]:
    if only:
        return {only}
    named = {status.run.cluster for status in found}
    with contextlib.suppress(InputError):  # the ledger alone is enough for the runs
        named |= installation.settings.clusters.keys()
    return named


def _tell(status: RunStatus, arguments: argparse.Namespace, console: Console) -> int:
    if arguments.json:
        print_json(tables.status_summary(status))
        return 0
    tables.print_runs(console, (status,))
    if status.run_progress:
        console.print(in_words(status.run, status.run_progress), markup=False, soft_wrap=True)
        if status.run.state in OPEN_STATES and status.run_progress.links:
            console.print(links_table(status.run_progress))
    for key in status.owed:
        console.print(
            f"owed: {key.resource.type} {key.resource.name}: {key.key}",
            markup=False,
            soft_wrap=True,
        )
    for asked in status.requests[-_REQUESTS_SHOWN:]:
        console.print(_request_in_words(asked), markup=False, soft_wrap=True)
    return 0


def _request_in_words(asked: ControlRequest) -> str:
    what = str(asked.control)
    if asked.rate_bytes_per_second is not None:
        what += f" {format_rate(asked.rate_bytes_per_second)}"
    what += asked.until_in_words
    return f"{format_moment(asked.at)}: {what}, asked by {asked.by}: {asked.why}"

"""What people ask of runs and clusters: pause, resume, rate, cancel, freeze, unfreeze.

Each is a row of the ledger.
"""

import argparse
from collections.abc import Callable

from rich.console import Console

from counterpoise import controls
from counterpoise.cli.common import add_person_arguments, add_run_arguments, installation_for_run
from counterpoise.installation import open_installation
from counterpoise.model.control import ControlRequest
from counterpoise.units import format_rate

_NEXT_LOOK = "the next look at the run obeys; `counterpoise status --follow` shows it"


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for name, ask, summary, description in (
        (
            "pause",
            controls.pause,
            "a run submits nothing new; what is in flight finishes",
            "Asks a run under way to submit nothing new. What is in flight finishes under its throttle, and the "
            "throttle stays in force until then.",
        ),
        (
            "resume",
            controls.resume,
            "a paused run goes on",
            "Asks a paused run to go on where it stopped.",
        ),
        (
            "cancel",
            controls.cancel,
            "a run stops: what is in flight is cancelled",
            "Asks a run under way to stop. What is in flight is cancelled, every config goes back to what it was, and "
            "the run ends as halted; what has moved stays where it is (`counterpoise undo` brings it back).",
        ),
    ):
        parser = commands.add_parser(name, help=summary, description=description)
        add_run_arguments(parser)
        add_person_arguments(parser)
        parser.set_defaults(run=_of_run, ask=ask)
    _add_rate(commands)
    _add_freezes(commands)


def _add_rate(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "rate",
        help="a run copies faster or slower",
        description="Changes the most that a broker may copy, of a run under way; for those who may approve. Daily "
        "rates of the policy and brakes still lower it.",
    )
    add_run_arguments(parser)
    parser.add_argument("rate", metavar="30MB/s", help="the new rate, with its unit")
    add_person_arguments(parser)
    parser.set_defaults(run=_rate)


def _add_freezes(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "freeze",
        help="nothing new moves on a cluster until a time",
        description="Until then no run of the cluster starts, and none submits anything new. What is in flight "
        "finishes. The freeze ends by itself.",
    )
    parser.add_argument("cluster", metavar="CLUSTER", help="a cluster of config/clusters.yaml")
    parser.add_argument(
        "--until",
        required=True,
        metavar="WHEN",
        help="2026-12-01T06:00+01:00 (UTC without an offset), or from now: 8h, 3d",
    )
    add_person_arguments(parser)
    parser.set_defaults(run=_freeze)
    parser = commands.add_parser(
        "unfreeze",
        help="ends a freeze before its time",
        description="Ends a cluster's freeze before its time.",
    )
    parser.add_argument("cluster", metavar="CLUSTER", help="a cluster of config/clusters.yaml")
    add_person_arguments(parser)
    parser.set_defaults(run=_unfreeze)


def _of_run(arguments: argparse.Namespace, console: Console) -> int:
    ask: Callable[..., ControlRequest] = arguments.ask
    installation, run = installation_for_run(arguments)
    with installation:
        asked = ask(installation, run.run_id, by=arguments.by, why=arguments.why)
    console.print(
        f"{asked.control} of run {run.run_id} asked by {asked.by}: {_NEXT_LOOK}", markup=False
    )
    return 0


def _rate(arguments: argparse.Namespace, console: Console) -> int:
    installation, run = installation_for_run(arguments)
    with installation:
        asked = controls.change_rate(
            installation, run.run_id, arguments.rate, by=arguments.by, why=arguments.why
        )
    rate = format_rate(asked.rate_bytes_per_second or 0)
    console.print(
        f"rate {rate} of run {run.run_id} asked by {asked.by}: {_NEXT_LOOK}", markup=False
    )
    return 0


def _freeze(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        asked = controls.freeze(
            installation,
            arguments.cluster,
            until=arguments.until,
            by=arguments.by,
            why=arguments.why,
        )
    console.print(f"cluster {asked.cluster} is frozen{asked.until_in_words}", markup=False)
    return 0


def _unfreeze(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        asked = controls.unfreeze(
            installation, arguments.cluster, by=arguments.by, why=arguments.why
        )
    console.print(f"cluster {asked.cluster} is no longer frozen", markup=False)
    return 0

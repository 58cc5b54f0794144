"""`self-check`: what Counterpoise runs on, and whether it can be used."""

import argparse
from typing import Final

from rich.console import Console
from rich.text import Text

from counterpoise.cli import tables
from counterpoise.cli.common import Commands, add_json_argument, print_json
from counterpoise.errors import InputError
from counterpoise.installation import open_installation
from counterpoise.model.self_check import CheckResult, CheckState
from counterpoise.model.words import pluralize
from counterpoise.services import self_check
from counterpoise.units import parse_duration

_RED: Final = 1  # exit code
_STYLES: Final = {CheckState.OK: "green", CheckState.FAILED: "red", CheckState.LEFT_OUT: ""}


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "self-check",
        description="Tries all that Counterpoise runs on: settings, connections, ledger (version, "
        "rights, clock), store (writes, reads, lists and deletes a file), Java, Spark (one row), "
        "Airflow (version, plugin, Dags, components), and each cluster of the settings. Says what "
        "to do where something is wrong. Changes nothing else, and shows no secret.",
        epilog="exit codes: 0 nothing failed; 1 something failed; 2 usage",
    )
    parser.add_argument(
        "--timeout",
        default="2m",
        metavar="2m",
        help="what has not answered by then has failed; the command ends (default 2m)",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_self_check)


def _self_check(arguments: argparse.Namespace, console: Console) -> int:
    timeout = parse_duration(arguments.timeout, where="--timeout").total_seconds()
    if timeout <= 0:
        raise InputError("--timeout: has to be more than nothing, like 2m")
    with open_installation(may_migrate_ledger=False) as installation:
        results = self_check.self_check(installation, timeout_seconds=timeout)
    failures = [result for result in results if result.state is CheckState.FAILED]
    if arguments.json:
        checks = [result._asdict() for result in results]
        print_json({"healthy": not failures, "checks": checks})
    else:
        _print(console, results)
        console.print(_summary(len(failures)))
    return _RED if failures else 0


def _print(console: Console, results: tuple[CheckResult, ...]) -> None:
    rows = tables.table("what", "state", "detail, and what to do")
    for result in results:
        remedy = f"\n-> {result.remedy}" if result.remedy else ""
        rows.add_row(
            result.what, Text(result.state, _STYLES[result.state]), Text(result.detail + remedy)
        )
    console.print(rows)


def _summary(failure_count: int) -> str:
    if not failure_count:
        return "nothing failed"
    return f"{pluralize(failure_count, 'check')} failed"

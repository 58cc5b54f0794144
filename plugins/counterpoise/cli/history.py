"""The command that looks after the history: compact."""

import argparse
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.console import Console

from counterpoise import pipeline
from counterpoise.cli.common import add_json_argument, print_json
from counterpoise.errors import StoreError
from counterpoise.installation import open_installation

if TYPE_CHECKING:
    from counterpoise.pipeline import CompactionReport


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "compact",
        help="keep of old snapshots what the policy says, in few files",
        description="Drops old snapshots as the policy of each cluster says, puts each day's snapshots into one file "
        "per table, and old results into fewer rounds. Harmless beside snapshots and analyses; the next one goes on "
        "with what was broken off. Exit code 3 when something could not be done.",
    )
    parser.add_argument(
        "--cluster", metavar="NAME", help="a cluster of config/clusters.yaml (default: all)"
    )
    add_json_argument(parser)
    parser.set_defaults(run=_compact)


def _compact(arguments: argparse.Namespace, console: Console) -> int:
    progress = Console(stderr=True)
    with open_installation() as installation:
        report = pipeline.compact(
            installation,
            lambda line: progress.print(line, markup=False, soft_wrap=True),
            cluster=arguments.cluster,
        )
    if arguments.json:
        print_json({**asdict(report), "problems": list(report.problems)})
    else:
        _print(report, console)
    for problem in report.problems:
        print(f"counterpoise compact: {problem}", file=sys.stderr)
    return StoreError.exit_code if report.problems else 0


def _print(report: "CompactionReport", console: Console) -> None:
    for words in report.in_words:
        console.print(words, markup=False, soft_wrap=True)

"""The command that makes reports: report."""

import argparse
from datetime import UTC, datetime

from rich.console import Console

from counterpoise import pipeline, queries
from counterpoise.cli import tables
from counterpoise.cli.common import add_json_argument
from counterpoise.errors import RefusedError
from counterpoise.installation import open_site


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "report",
        help="a cluster's leader-balance report, from its history",
        description="Runs the Spark job over every snapshot of the history that has no result yet, and writes the "
        "cluster's leader-balance report. `counterpoise snapshot --cluster NAME` adds to the history.",
    )
    parser.add_argument("--cluster", required=True, metavar="NAME", help="a cluster of config/clusters.yaml")
    add_json_argument(parser)
    parser.set_defaults(run=_report)


def _report(arguments: argparse.Namespace, console: Console) -> int:
    with open_site() as site:
        site.cluster(arguments.cluster)
        progress = Console(stderr=True)
        pipeline.analyse(
            site, f"cli-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}", lambda line: progress.print(line, markup=False)
        )
        if not queries.has_results(site, arguments.cluster):
            hint = f"counterpoise snapshot --cluster {arguments.cluster}"
            raise RefusedError(f"cluster {arguments.cluster} has no snapshot yet; take one: {hint}")
        page = pipeline.report_balance(site, arguments.cluster)
        name = f"{arguments.cluster}/leader-balance"
        if arguments.json:
            console.out(queries.report(site, f"{name}.json"), end="")
        else:
            tables.print_markdown(console, queries.report(site, f"{name}.md"))
            console.print(f"report: {page}", markup=False)
    return 0

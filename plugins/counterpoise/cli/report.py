"""`report`: how evenly a cluster was used, or all of them."""

import argparse
import json
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from counterpoise.cli import tables
from counterpoise.cli.common import Commands, add_json_argument, print_json, stderr_console
from counterpoise.errors import InputError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.balance import LeaderBalance, WantedRebalance
from counterpoise.model.finding import WantedPlan
from counterpoise.model.fleet_document import FleetDocument
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import pluralize
from counterpoise.services import analyses, reports
from counterpoise.units import (
    format_bytes,
    format_count,
    format_moment,
    parse_duration,
    parse_moment,
)


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "report",
        description="Runs the Spark jobs over every snapshot of the history that has no result "
        "yet, and writes the report of a cluster, or of all of them. `counterpoise snapshot "
        "--cluster NAME` adds to the history.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cluster", metavar="NAME", help="a cluster of config/clusters.yaml")
    which.add_argument("--fleet", action="store_true", help="all clusters of config/clusters.yaml")
    parser.add_argument(
        "--last", default="30d", metavar="TIME", help="how far back, like 12h or 90d (default: 30d)"
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="the end of that, like 2026-01-31T12:00, UTC (default: the newest snapshot)",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_report)


def _report(arguments: argparse.Namespace, console: Console) -> int:
    period = parse_duration(arguments.last, where="--last")
    until = parse_moment(arguments.until, where="--until") if arguments.until else None
    with open_installation() as installation:
        if arguments.cluster:
            installation.cluster(arguments.cluster)
        elif until:
            raise InputError("--until goes with --cluster; the fleet is reported as it is now")
        _analyse(installation, stderr_console(arguments))
        if arguments.fleet:
            name = "fleet"
            fleet = reports.report_fleet(installation)
            page = fleet.page
        else:
            written = reports.report_balance(
                installation, arguments.cluster, period=period, until=until
            )
            name = written.name
            page = installation.archive.report_uri(f"{name}.html")
        document = installation.archive.read_report(f"{name}.json")
    if arguments.json:
        print_json(json.loads(document), indent=1)
    elif arguments.fleet:
        _print_fleet(console, fleet.document)
    else:
        _print_balance(console, written.analysed.balance, written.analysed.wanted)
    if not arguments.json:
        console.print(f"report: {page}", soft_wrap=True)
    if arguments.fleet:
        fleet.check()
    return 0


def _print_balance(
    console: Console, balance: LeaderBalance, wanted: WantedRebalance | None
) -> None:
    """Print a row for each broker of the newest snapshot, and what would help."""
    latest, leaders = balance.latest, balance.latest.leaders
    begin, end = (format_moment(p.observed_at) for p in (balance.series[0], latest))
    count = pluralize(len(balance.series), "snapshot")
    console.print(f"{one_line(balance.cluster)}: {count}, {begin} to {end}")
    headings = ("leaders", "not preferred", "preferred", "replicas", "bytes")
    rows = tables.table("broker", "rack", "state", *((heading, "right") for heading in headings))
    for broker in balance.brokers:
        rows.add_row(
            str(broker.broker_id),
            Text(one_line(broker.rack or "-")),
            balance.state_of(broker),
            format_count(broker.leaders),
            format_count(broker.leaders_not_preferred),
            format_count(broker.preferred_leaders),
            format_count(broker.replicas),
            format_bytes(broker.bytes),
        )
    console.print(rows)
    console.print(tables.leaders_in_words(leaders))
    console.print(f"not led by the preferred leader: {latest.share_not_preferred:.1%}")
    if wanted is None:
        console.print("no rebalance is needed")
        return
    plan = WantedPlan(wanted.goal, wanted.broker_ids)
    command = plan.command(("--cluster", balance.cluster))
    words = f"a rebalance would help: {one_line(wanted.reason)}: {command}"
    console.print(words, soft_wrap=True)


def _print_fleet(console: Console, fleet: FleetDocument) -> None:
    """Print a row for each cluster, the worst first."""
    rows = tables.table("cluster", ("brokers", "right"), ("max - min leaders", "right"), "why")
    for entry in fleet.clusters:
        why = "; ".join(found.words for found in entry.concerns) or "all is well"
        rows.add_row(
            Text(one_line(entry.cluster)),
            _count(entry.brokers),
            _count(entry.leaders_max_minus_min),
            Text(one_line(why)),
        )
    console.print(rows)


def _count(number: int | None) -> str:
    return "-" if number is None else format_count(number)


def _analyse(installation: Installation, progress: Console) -> None:
    round_id = f"cli-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    analyses.analyse(installation, round_id, lambda line: progress.print(line))

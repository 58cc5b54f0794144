"""Commands over the history: report, compact, rebuild, history export-round and
export-compaction.
"""

import argparse
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

from counterpoise import pipeline, queries
from counterpoise.cli import tables
from counterpoise.cli.common import Commands, add_json_argument, print_json, stderr_console
from counterpoise.cli.output_files import add_output_argument, write_text
from counterpoise.errors import InputError, StoreError
from counterpoise.installation import Installation, open_installation
from counterpoise.model.balance import LeaderBalance, WantedRebalance
from counterpoise.model.finding import WantedPlan
from counterpoise.model.fleet_document import FleetDocument, read_fleet
from counterpoise.model.safe_text import indented, one_line
from counterpoise.model.words import pluralize
from counterpoise.units import (
    format_bytes,
    format_count,
    format_moment,
    parse_duration,
    parse_moment,
)


def add_commands(commands: Commands) -> None:
    _add_report(commands)
    _add_compact(commands)
    _add_rebuild(commands)
    _add_history(commands)


def _add_report(commands: Commands) -> None:
    parser = commands.add_parser(
        "report",
        help="how evenly a cluster was used, over weeks; or all clusters, worst first",
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
            page = pipeline.report_fleet(installation)
        else:
            written = pipeline.write_balance_report(
                installation, arguments.cluster, period=period, until=until
            )
            name = written.name
            page = installation.archive.report_uri(f"{name}.html")
        document = queries.report(installation, f"{name}.json")
    if arguments.json:
        print_json(json.loads(document), indent=1)
        return 0
    if arguments.fleet:
        _print_fleet(console, read_fleet(document, where=page))
    else:
        _print_balance(console, written.analysed.balance, written.analysed.wanted)
    console.print(f"report: {page}", markup=False, soft_wrap=True)
    return 0


def _print_balance(
    console: Console, balance: LeaderBalance, wanted: WantedRebalance | None
) -> None:
    """Print a row for each broker of the newest snapshot, and what would help."""
    latest, leaders = balance.latest, balance.latest.leaders
    begin, end = (format_moment(p.observed_at) for p in (balance.series[0], latest))
    count = pluralize(len(balance.series), "snapshot")
    console.print(f"{one_line(balance.cluster)}: {count}, {begin} to {end}", markup=False)
    headings = ("leaders", "not preferred", "preferred", "replicas", "bytes")
    rows = tables.table("broker", "rack", "state", *((heading, "right") for heading in headings))
    for broker in balance.brokers:
        state = "idle" if broker.is_idle else "dead" if broker.is_fenced else "live"
        rows.add_row(
            str(broker.broker_id),
            Text(one_line(broker.rack or "-")),
            state,
            format_count(broker.leaders),
            format_count(broker.leaders_not_preferred),
            format_count(broker.preferred_leaders),
            format_count(broker.replicas),
            format_bytes(broker.bytes),
        )
    console.print(rows)
    console.print(
        f"leaders per live broker: {leaders.minimum} to {leaders.maximum} "
        f"(max - min {leaders.max_minus_min}, at best {leaders.best_max_minus_min})"
    )
    console.print(f"not led by the preferred leader: {latest.share_not_preferred:.1%}")
    if wanted is None:
        console.print("no rebalance is needed")
        return
    command = WantedPlan(wanted.goal, wanted.broker_ids).command(balance.cluster)
    words = f"a rebalance would help: {one_line(wanted.reason)}: {command}"
    console.print(words, markup=False, soft_wrap=True)


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
    pipeline.analyse(installation, round_id, lambda line: progress.print(line, markup=False))


def _add_compact(commands: Commands) -> None:
    parser = commands.add_parser(
        "compact",
        help="delete and merge old snapshots and results as the policy says",
        description="Deletes old snapshots as the policy of each cluster says, puts each day's "
        "snapshots into one file per table, and old results into fewer rounds. Harmless beside "
        "snapshots and analyses; after an interruption the next one goes on. Exit code 3 when "
        "something could not be done.",
    )
    _add_arguments(parser)
    parser.set_defaults(run=_compact)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what commands over one cluster, or all of them, have in common."""
    parser.add_argument(
        "--cluster", metavar="NAME", help="a cluster of config/clusters.yaml (default: all)"
    )
    add_json_argument(parser)


def _compact(arguments: argparse.Namespace, console: Console) -> int:
    progress = stderr_console(arguments)
    with open_installation() as installation:
        report = pipeline.compact(
            installation,
            lambda line: progress.print(line, markup=False, soft_wrap=True),
            cluster=arguments.cluster,
        )
    if arguments.json:
        print_json({**asdict(report), "problems": list(report.problems)})
    else:
        for line in report.in_words:
            console.print(line, markup=False, soft_wrap=True)
    for problem in report.problems:
        print(indented(f"counterpoise compact: {problem}"), file=sys.stderr)
    return StoreError.exit_code if report.problems else 0


def _add_rebuild(commands: Commands) -> None:
    parser = commands.add_parser(
        "rebuild",
        help="make what charts are drawn from anew, from all results of the Spark jobs",
        description="Makes the series of a cluster, or of all clusters, anew from the results of "
        "the Spark jobs. Of snapshots whose results are gone, what the old series says stays; its "
        "damaged files are renamed to `<name>.damaged`. Nothing is analysed again.",
    )
    _add_arguments(parser)
    parser.set_defaults(run=_rebuild)


def _rebuild(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        given = arguments.cluster
        names = (
            [installation.cluster(given).name] if given else sorted(installation.settings.clusters)
        )
        counts = {}
        for name in names:
            series = pipeline.rebuild_views(installation, name)["series"]
            counts[name] = len(series["snapshot_id"].unique())
    if arguments.json:
        print_json({"snapshots": counts})
        return 0
    for name, count in counts.items():
        words = f"{name}: the series has {pluralize(count, 'snapshot')}"
        console.print(words, markup=False, soft_wrap=True)
    return 0


def _add_history(commands: Commands) -> None:
    parser = commands.add_parser("history", help="what Spark jobs need to be run by hand")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    export = actions.add_parser(
        "export-round",
        help="write the list of snapshots that a Spark job reads",
        description="Writes the file for `--snapshots` of the Spark jobs: the snapshots that have "
        "no results yet, each with the one it is compared with, or with `--all` every snapshot. "
        "Nothing is analysed. docs/install.md says how to run a job with it.",
    )
    add_output_argument(
        export, "--out", required=True, metavar="SNAPSHOTS.json", help="write the list here"
    )
    export.add_argument(
        "--all", action="store_true", help="every snapshot, not only those without results"
    )
    _add_arguments(export)
    export.set_defaults(run=_export_round)
    export = actions.add_parser(
        "export-compaction",
        help="write the plan that the Spark job of the compaction reads",
        description="Writes the file for `--plan` of the Spark job `history_compaction`: the files "
        "of days, and the tables of a day, that a compaction would make now. Nothing is compacted. "
        "docs/install.md says how to run the job with it.",
    )
    add_output_argument(
        export, "--out", required=True, metavar="PLAN.json", help="write the plan here"
    )
    _add_arguments(export)
    export.set_defaults(run=_export_compaction)


def _export_round(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        given = arguments.cluster
        names = (
            [installation.cluster(given).name] if given else list(installation.settings.clusters)
        )
        round_ = pipeline.round_by_hand(installation, names, is_whole=arguments.all)
        store = installation.archive.store.root_uri
    if not round_.to_analyse:
        raise InputError(
            "every snapshot has its results, or there is none: nothing to analyse; `--all` takes "
            "every snapshot there is"
        )
    write_text(arguments.out, round_.to_json(), "list of snapshots")
    count = len(round_.to_analyse)
    if arguments.json:
        print_json({"store": store, "snapshots": count, "rows": round_.row_count})
        return 0
    words = f"{pluralize(count, 'snapshot')} of {store} to analyse: {arguments.out}"
    console.print(words, markup=False, soft_wrap=True)
    return 0


def _export_compaction(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        given = arguments.cluster
        names = (
            [installation.cluster(given).name] if given else list(installation.settings.clusters)
        )
        plan = pipeline.compaction_by_hand(installation, names)
        store = installation.archive.store.root_uri
    files, tables_of_days = len(plan["merges"]), len(plan["daily"])
    if not files and not tables_of_days:
        raise InputError("nothing to compact: no day that is over for a day is left as it was")
    write_text(arguments.out, json.dumps(plan, indent=1, sort_keys=True) + "\n", "plan")
    if arguments.json:
        print_json({"store": store, "files": files, "tables_of_days": tables_of_days})
        return 0
    words = (
        f"{pluralize(files, 'file')} and {pluralize(tables_of_days, 'table')} of a day of {store} "
        f"to make: {arguments.out}"
    )
    console.print(words, markup=False, soft_wrap=True)
    return 0

"""Commands over the ledger itself: verify, export, checkpoint, migrate."""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from counterpoise.cli.common import Commands, add_json_argument, print_answer, print_json, read_text
from counterpoise.cli.output_files import add_output_argument, write_text
from counterpoise.errors import InputError, RefusedError
from counterpoise.installation import Installation, open_installation, settings_in
from counterpoise.model.chain import ChainReport
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import join_names
from counterpoise.units import parse_moment


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "ledger",
        help="check, export or migrate the ledger",
        description="Events, approvals, requests and questions carry a hash chain per cluster. "
        "docs/security.md says what it shows and what it cannot show.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_verify(actions)
    _add_export(actions)
    _add_checkpoint(actions)
    _add_migrate(actions)


def _add_verify(actions: Commands) -> None:
    parser = actions.add_parser(
        "verify",
        help="find rows that were changed, removed or inserted",
        description="Checks every row and every entry of the chains. Exit code 1 when something "
        "is not as it was written. Rows cut off at the end are found with --head only: keep the "
        "heads that this command prints in another place.",
    )
    _add_cluster_argument(parser)
    parser.add_argument(
        "--head",
        action="append",
        default=[],
        metavar="HASH",
        help="a head that was printed earlier and has to be in the chain still; may be repeated",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_verify)


def _verify(arguments: argparse.Namespace, console: Console) -> int:
    heads = tuple(map(_parse_head, arguments.head))
    with open_installation(may_migrate_ledger=False) as installation:
        _check_cluster(installation, arguments.cluster)
        report = installation.ledger.chain().verify(
            installation.ledger.clock(), cluster=arguments.cluster, heads=heads
        )
    if arguments.json:
        print_json({**asdict(report), "is_intact": report.is_intact})
    else:
        _print_report(console, report)
    return 0 if report.is_intact else RefusedError.exit_code


def _parse_head(text: str) -> str:
    """Return a head as it is stored. Raises InputError: nothing would be checked with a part."""
    head = text.strip().lower()
    if not re.fullmatch("[0-9a-f]{64}", head):
        raise InputError(
            f"--head: a head has 64 hexadecimal digits, as `counterpoise ledger verify` prints it, "
            f"and {text!r} has not"
        )
    return head


def _check_cluster(installation: Installation, name: str | None) -> None:
    """Raises InputError for a name that nobody knows: nothing of it can be wrong."""
    if name is None:
        return
    ledger = installation.ledger
    known = ledger.chain().clusters() | ledger.pinned_clusters().keys()
    if name not in known and name not in settings_in(installation.locations).clusters:
        raise InputError(
            f"cluster {name}: neither the ledger nor clusters.yaml has it; there are: "
            f"{join_names(sorted(known)) or 'none'}"
        )


def _print_report(console: Console, report: ChainReport) -> None:
    lines = [found.in_words for found in report.breaks]
    lines += [
        f"head {one_line(head)}: in no chain any more; rows were cut off at the end, the chain was "
        "computed anew, or a checkpoint has let it go"
        for head in report.missing_heads
    ]
    lines += [state.in_words for state in report.states] or ["nothing is in the ledger yet"]
    lines.append("the ledger is intact" if report.is_intact else "the ledger is NOT intact")
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _add_export(actions: Commands) -> None:
    parser = actions.add_parser(
        "export",
        help="write every row with its hashes as JSON lines, for a SIEM",
        description="Writes one JSON object a line, by cluster and in the order of the chain. "
        "With --cursor, each call goes on where the last one ended, and refuses with exit code 1 "
        "when what was exported last is no longer in the chain.",
    )
    _add_cluster_argument(parser)
    parser.add_argument(
        "--since", metavar="TIME", help="only what was chained from then on, like 2026-01-31T12:00"
    )
    add_output_argument(
        parser,
        "--cursor",
        metavar="FILE",
        help="remembers the last entry of each cluster; written when all lines are out",
    )
    parser.set_defaults(run=_export)


def _export(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.since and arguments.cursor:
        raise InputError(
            "--since and --cursor: use one of them. The cursor would move past what was chained "
            "before that time, and no later call would export it; the first call with a new "
            "cursor exports all rows"
        )
    since = parse_moment(arguments.since, where="--since") if arguments.since else None
    cursor = _read_cursor(arguments.cursor) if arguments.cursor else {}
    with open_installation(may_migrate_ledger=False) as installation:
        _check_cluster(installation, arguments.cluster)
        _check_cursor(installation, cursor)
        last: dict[str, Any] = dict(cursor)
        after = {cluster: entry["sequence"] for cluster, entry in cursor.items()}
        for line in installation.ledger.chain().export(
            cluster=arguments.cluster, after=after, since=since
        ):
            print_json(line, indent=None)
            last[line["cluster"]] = {"sequence": line["sequence"], "hash": line["hash"]}
    sys.stdout.flush()
    if arguments.cursor:
        write_text(arguments.cursor, json.dumps(last, indent=1, sort_keys=True) + "\n", "cursor")
    return 0


def _read_cursor(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        cursor = json.loads(read_text(path, "cursor"))
        return {
            str(cluster): {"sequence": int(entry["sequence"]), "hash": str(entry["hash"])}
            for cluster, entry in cursor.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"cursor {path}: was not written by `counterpoise ledger export`; remove it to export "
            "all rows again"
        ) from None


def _check_cursor(installation: Installation, cursor: Mapping[str, Any]) -> None:
    """Raises RefusedError where a chain no longer has what was exported last."""
    chain = installation.ledger.chain()
    for cluster, entry in cursor.items():
        if chain.hash_at(cluster, entry["sequence"]) != entry["hash"]:
            raise RefusedError(
                f"entry {entry['sequence']} of cluster {cluster} was exported, and is no longer in "
                "the chain: rows were cut off at the end, the chain was computed anew, or a "
                "checkpoint has let them go. `counterpoise ledger verify` says more; remove the "
                "cursor to export all rows again"
            )


def _add_checkpoint(actions: Commands) -> None:
    parser = actions.add_parser(
        "checkpoint",
        help="delete old rows of a cluster; verify begins behind them afterwards",
        description="Deletes the oldest events, approvals, requests and questions of a cluster "
        "with their entries in the chain, up to the first that is not old enough or still counts "
        "(an open run, a freeze, an approval in force, the pause of a halted run), and adds an "
        "entry that says so. Export before. Needs a role that may delete.",
    )
    parser.add_argument("--cluster", required=True, metavar="NAME", help="whose rows")
    parser.add_argument(
        "--before", required=True, metavar="TIME", help="older than this, like 2026-01-31T12:00"
    )
    add_json_argument(parser)
    parser.set_defaults(run=_checkpoint)


def _checkpoint(arguments: argparse.Namespace, console: Console) -> int:
    before = parse_moment(arguments.before, where="--before")
    with open_installation(may_make_ledger=False) as installation:
        _check_cluster(installation, arguments.cluster)
        now = installation.ledger.clock()
        chain = installation.ledger.chain()
        count = chain.let_go(arguments.cluster, before=before, now=now)
        report = chain.verify(now, cluster=arguments.cluster)
    if arguments.json:
        print_json({"deleted": count, **asdict(report), "is_intact": report.is_intact})
    else:
        console.print(f"deleted {count} of the oldest entries with their rows", markup=False)
        _print_report(console, report)
    return 0 if count else RefusedError.exit_code


def _add_migrate(actions: Commands) -> None:
    parser = actions.add_parser(
        "migrate",
        help="make the ledger, or bring its tables up to date",
        description="Every command that writes to the ledger does so, where its role may change "
        "tables. With separate roles, run this after each update with the role that may.",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_migrate)


def _migrate(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        now = installation.ledger.clock()
        chain = installation.ledger.chain()
        chain.append_pending(now)
        states = chain.verify(now).states
    value = {"states": [asdict(state) for state in states]}
    lines = [state.in_words for state in states]
    print_answer(arguments, console, value, *lines, "the ledger is up to date")
    return 0


def _add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cluster", metavar="NAME", help="only this one (default: all)")

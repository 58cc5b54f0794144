"""Commands over the ledger itself: migrate, prune."""

import argparse

from rich.console import Console

from counterpoise.cli.common import Commands, add_json_argument, print_answer
from counterpoise.errors import InputError, RefusedError
from counterpoise.installation import Installation, open_installation, settings_in
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import join_names, pluralize
from counterpoise.units import parse_moment


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "ledger",
        description="The ledger has plans, approvals and requests, and what happened in each run.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_migrate(actions)
    _add_prune(actions)


def _add_migrate(actions: Commands) -> None:
    parser = actions.add_parser(
        "migrate",
        description="Every command that writes to the ledger does so, where its role may change "
        "tables. With separate roles, run this after each update with the role that may.",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_migrate)


def _migrate(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        schema = installation.ledger.schema
    print_answer(
        arguments, console, {"schema": schema}, f"the ledger is up to date (schema {schema})"
    )
    return 0


def _add_prune(actions: Commands) -> None:
    parser = actions.add_parser(
        "prune",
        description="Deletes events, approvals, requests and questions of a cluster from before a "
        "time, but for those that still count (of an open run, a freeze or an approval in force, "
        "the pause of a halted run). With the last event of an ended run go its rows about "
        "partitions and config keys. Needs a role that may delete.",
    )
    parser.add_argument("--cluster", required=True, metavar="NAME", help="whose rows")
    parser.add_argument(
        "--before", required=True, metavar="TIME", help="older than this, like 2026-01-31T12:00"
    )
    add_json_argument(parser)
    parser.set_defaults(run=_prune)


def _prune(arguments: argparse.Namespace, console: Console) -> int:
    before = parse_moment(arguments.before, where="--before")
    with open_installation(may_migrate_ledger=False) as installation:
        _check_cluster(installation, arguments.cluster)
        count = installation.ledger.prune(arguments.cluster, before=before)
    rows = pluralize(count, "row", "rows")
    text = f"deleted {rows} of cluster {arguments.cluster} from before {arguments.before}"
    print_answer(arguments, console, {"deleted": count}, text)
    return 0 if count else RefusedError.exit_code


def _check_cluster(installation: Installation, name: str) -> None:
    """Raises InputError for a name that nobody knows: it has no rows."""
    known = {
        *installation.ledger.entries().clusters(),
        *settings_in(installation.locations).clusters,
    }
    if name not in known:
        raise InputError(
            f"cluster {one_line(name)}: neither the ledger nor clusters.yaml has it; there are: "
            f"{join_names(sorted(known)) or 'none'}"
        )

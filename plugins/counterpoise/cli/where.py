"""`where`: which settings, store and ledger are used, and why."""

import argparse

from rich.console import Console
from rich.text import Text

from counterpoise import pipeline
from counterpoise.cli import tables
from counterpoise.cli.common import Commands, add_json_argument, print_json
from counterpoise.installation import open_installation


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "where",
        help="which settings, store and ledger are used, and why",
        description="Shows where settings, connections, store and ledger are, and which variable "
        "or default says so. Opens none of them, and makes nothing.",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_where)


def _where(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        places = pipeline.places(installation)
    if arguments.json:
        print_json([place._asdict() for place in places])
        return 0
    rows = tables.table("what", "where", "why", "state")
    for place in places:
        rows.add_row(place.what, Text(place.where), Text(place.why), Text(place.state))
    console.print(rows)
    return 0

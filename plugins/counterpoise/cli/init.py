"""`init`: a working folder with a commented clusters.yaml, and what to type next."""

import argparse
import os
from pathlib import Path

from rich.console import Console

from counterpoise.cli.common import Commands
from counterpoise.model.safe_text import shell_word
from counterpoise.services.setup import make_working_folder


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "init",
        description="Makes a working folder: config/clusters.yaml with comments, and var/ for "
        "store and ledger. Changes no file that is there. Without a folder it is "
        "COUNTERPOISE_HOME, else where Counterpoise looks without one.",
    )
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="for example /opt/counterpoise")
    parser.set_defaults(run=_init)


def _init(arguments: argparse.Namespace, console: Console) -> int:
    made = make_working_folder(os.environ, arguments.folder)
    lines = [f"made {made}: write your clusters into it, then type"]
    if arguments.folder:
        home = shell_word(str(Path(arguments.folder).absolute()))
        lines.append(f"  export COUNTERPOISE_HOME={home}    # also for every component of Airflow")
    lines += [
        "  airflow connections add kafka_example --conn-type kafka \\",
        '    --conn-extra \'{"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}\'',
        "  counterpoise self-check",
    ]
    for line in lines:
        console.print(line, highlight=False, soft_wrap=True)
    return 0

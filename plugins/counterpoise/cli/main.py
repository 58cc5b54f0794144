"""`counterpoise`: arguments in, one of four exit codes out.

    counterpoise plan --state cluster.json.gz --goal add-brokers --brokers 7,8 --out plan.json

0 done, 1 the answer is "no" (nothing to do, refused, not as planned), 2 usage or input error, 3
cluster trouble.
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from rich.console import Console

from counterpoise.cli import (
    audit,
    controlling,
    doctor,
    history,
    planning,
    reports,
    running,
    status,
    stopping,
)
from counterpoise.cli.printable import printable
from counterpoise.errors import CounterpoiseError

_EPILOG = """exit codes: 0 done; 1 the answer is "no" (nothing to do, refused); 2 usage or input; 3 cluster trouble
where things lie (environment): COUNTERPOISE_CONFIG (config/clusters.yaml), COUNTERPOISE_CONNECTIONS
(config/connections.yaml), COUNTERPOISE_STORE (var/store), COUNTERPOISE_LEDGER (sqlite:///var/ledger.db)"""

_WIDTH_OF_A_FILE = 200
_LONGEST_LINE = 1_000
_NEGATIVE = re.compile(r"-\d")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(_plain(message))


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="counterpoise",
        description="Keeps Apache Kafka clusters in balance: photograph, plan, approve, move throttled, verify.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for room in (planning, running, status, controlling, stopping, reports, history, doctor, audit):
        room.add_commands(commands)
    return parser


def main(argv: Sequence[str], *, console: Console | None = None) -> int:
    """Runs one command; every error of ours becomes one message on stderr and an exit code."""
    arguments = build_parser().parse_args([_as_value(word) for word in argv])
    try:
        return int(arguments.run(arguments, console or _console()))
    except CounterpoiseError as error:
        print(_plain(f"counterpoise {arguments.command}: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"counterpoise {arguments.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _plain(message: str) -> str:
    """What somebody else wrote may hold what moves a terminal's cursor, and may be very long."""
    return "\n".join(_cut(printable(line)) for line in message.split("\n"))


def _cut(line: str) -> str:
    """What is wrong stands at the beginning or at the end."""
    return (
        line
        if len(line) <= _LONGEST_LINE
        else f"{line[: _LONGEST_LINE // 2]} ... {line[-_LONGEST_LINE // 2 :]}"
    )


def _as_value(word: str) -> str:
    """`-5MB/s` is a value, and a wrong one; argparse would take it for an option and complain of
    that.
    """
    return f" {word}" if _NEGATIVE.match(word) else word


def _console() -> Console:
    """As wide as the terminal; wide enough for any table where there is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)


def run() -> None:
    """The console script."""
    sys.exit(main(sys.argv[1:]))

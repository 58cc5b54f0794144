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
    approving,
    audit,
    controlling,
    doctor,
    history,
    ledger,
    planning,
    running,
    status,
    stopping,
)
from counterpoise.cli.common import plain_console, safe_console
from counterpoise.errors import CounterpoiseError
from counterpoise.model.safe_text import is_broken_text, one_line

_EPILOG = """exit codes: 0 done; 1 the answer is "no" (nothing to do, refused); 2 usage or input;
3 cluster trouble
environment: COUNTERPOISE_CONFIG (default config/clusters.yaml), COUNTERPOISE_CONNECTIONS
(config/connections.yaml), COUNTERPOISE_STORE (var/store), COUNTERPOISE_LEDGER
(sqlite:///var/ledger.db); the last two also by a command (..._CMD) or from a file (..._FILE)"""

# In the order of --help; a new file with commands needs its `add_commands` and its line here.
_MODULES = (
    planning,
    approving,
    running,
    status,
    controlling,
    stopping,
    history,
    doctor,
    audit,
    ledger,
)
_WIDTH_WITHOUT_TERMINAL = 200
_MAX_LINE_LENGTH = 1_000
_NEGATIVE = re.compile(r"-\d")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        super().error(_sanitized(message))


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="counterpoise",
        description="Keeps Apache Kafka clusters in balance: snapshot, plan, approve, move "
        "throttled, verify.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _MODULES:
        module.add_commands(commands)
    return parser


def main(argv: Sequence[str], *, console: Console | None = None) -> int:
    """Run one command; every error of ours becomes one message on stderr and an exit code."""
    parser = build_parser()
    if broken := [word for word in argv if is_broken_text(word)]:
        parser.error(one_line(f"{broken[0]!r} is no text in UTF-8"))
    arguments = parser.parse_args([_as_value(word) for word in argv])
    try:
        return int(arguments.run(arguments, safe_console(console or _console())))
    except CounterpoiseError as error:
        print(_sanitized(f"counterpoise {arguments.command}: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"counterpoise {arguments.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has closed it, like `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _sanitized(message: str) -> str:
    """Return a message without control characters and very long lines, which text from outside may
    contain.
    """
    return "\n".join(_shortened(one_line(line)) for line in message.split("\n"))


def _shortened(line: str) -> str:
    """Return the beginning and the end of a long line: one of them says what is wrong."""
    if len(line) <= _MAX_LINE_LENGTH:
        return line
    half = _MAX_LINE_LENGTH // 2
    return f"{line[:half]} ... {line[-half:]}"


def _as_value(word: str) -> str:
    """Return a word like `-5MB/s` so that argparse reads it as a wrong value, not as an option."""
    return f" {word}" if _NEGATIVE.match(word) else word


def _console() -> Console:
    """Return a console as wide as the terminal, or wide enough for any table without one."""
    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return plain_console(width=width)


def run() -> None:
    """Run the console script."""
    sys.exit(main(sys.argv[1:]))

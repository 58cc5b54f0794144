"""`counterpoise`: arguments in, an exit code out.

    counterpoise plan --state cluster.json.gz --goal add-brokers --brokers 7,8 --out plan.json

0 done, 1 the answer is "no" (nothing to do, refused, not as planned), 2 usage or input error, 3
trouble with the cluster or with what is read and written, 70 a mistake in Counterpoise; 130, 141
and 143 after Ctrl-C, SIGPIPE and SIGTERM.
"""

import argparse
import contextlib
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from counterpoise import __version__
from counterpoise.cli import (
    approving,
    audit,
    completion,
    controlling,
    doctor,
    ledger,
    notifying,
    planning,
    report,
    running,
    self_check,
    status,
    stopping,
)
from counterpoise.cli.common import plain_console, safe_console
from counterpoise.cli.examples import EXAMPLES
from counterpoise.cli.streams import code_of, code_of_stdout, end, is_of_stdout, prepare_streams
from counterpoise.cli.unexpected import report_unexpected
from counterpoise.errors import CounterpoiseError
from counterpoise.model.safe_text import indented, is_broken_text, one_line

_EPILOG = (
    'exit codes: 0 done; 1 the answer is "no" (nothing to do, refused); 2 usage or input; 3 '
    "trouble with the cluster, the store, the ledger or the output; 70 a mistake in Counterpoise; "
    "129, 130, 141, 143 ended by a closed terminal, Ctrl-C, a closed pipe, SIGTERM\n"
    "environment: COUNTERPOISE_CONFIG, COUNTERPOISE_CONNECTIONS, COUNTERPOISE_STORE and "
    "COUNTERPOISE_LEDGER, the last two also by a command (..._CMD) or from a file (..._FILE); "
    "COUNTERPOISE_HOME for the defaults of all"
)

# In the order of --help; a new file with commands needs its `add_commands`, its line here, and its
# examples in `examples.py`.
_MODULES = (
    planning,
    approving,
    running,
    status,
    controlling,
    stopping,
    report,
    doctor,
    audit,
    ledger,
    self_check,
    notifying,
    completion,
)
_WIDTH_WITHOUT_TERMINAL = 200
_MAX_LINE_LENGTH = 1_000
_NEGATIVE = re.compile(r"-\d")


class _Help(argparse.HelpFormatter):
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """Wrap each line on its own; one that begins with a blank is left as it is."""
        return "\n".join(
            line if line.startswith(" ") else textwrap.fill(line, width)
            for line in text.split("\n")
        )


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": _Help} | options)

    def error(self, message: str) -> NoReturn:
        super().error(_sanitized(message))


def build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="counterpoise",
        description="Keeps Apache Kafka clusters in balance: snapshot, plan, approve, move "
        "throttled, verify.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"counterpoise {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in _MODULES:
        module.add_commands(commands)
    for name, command in leaf_commands(parser):
        _complete(name, command)
    return parser


def leaf_commands(
    parser: argparse.ArgumentParser, name: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield every command that can be run with its parser, like `ledger prune`."""
    groups = [
        action
        for action in parser._actions  # argparse has no other way to its commands
        if isinstance(action, argparse._SubParsersAction)
    ]
    if not groups:
        yield name, parser
    for group in groups:
        for word, command in group.choices.items():
            yield from leaf_commands(command, f"{name} {word}".strip())


def _complete(name: str, command: argparse.ArgumentParser) -> None:
    """Add what every command has: --quiet, and examples in its help."""
    command.add_argument(
        "--quiet",
        action="store_true",
        help="print nothing but warnings and errors; the exit code and files say the rest",
    )
    examples = "\n".join(("examples:", *(f"  {line}" for line in EXAMPLES[name])))
    command.epilog = f"{command.epilog}\n\n{examples}" if command.epilog else examples


def main(argv: Sequence[str], *, console: Console | None = None) -> int:
    """Run one command; every error of ours becomes one message on stderr and an exit code."""
    parser = build_parser()
    completion.complete_if_asked(parser)
    if broken := [word for word in argv if is_broken_text(word)]:
        parser.error(one_line(f"{broken[0]!r} is no text in UTF-8"))
    arguments = parser.parse_args([_as_value(word) for word in argv])
    try:
        with _without_output() if arguments.quiet else contextlib.nullcontext():
            code = int(arguments.run(arguments, safe_console(console or _console())))
    except CounterpoiseError as error:
        print(_sanitized(f"counterpoise {arguments.command}: {error}"), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt as signal:
        return code_of(signal)
    except Exception as error:  # the last resort
        if is_of_stdout(error):  # `run` ends the process
            raise
        return report_unexpected(error, arguments.command)
    return code


@contextlib.contextmanager
def _without_output() -> Iterator[None]:
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        yield


def _sanitized(message: str) -> str:
    """Return a message without control characters, very long lines and lines in the form of ours,
    which text from outside may contain.
    """
    return "\n".join(_shortened(one_line(line)) for line in indented(message).split("\n"))


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
    """Run in a process of its own."""
    prepare_streams()
    try:
        try:
            code = main(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt as signal:  # before there is a command
        code = code_of(signal)
    except OSError as error:
        code = code_of_stdout(error)
    end(code)

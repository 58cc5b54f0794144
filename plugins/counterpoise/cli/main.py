"""`counterpoise`: arguments in, an exit code out.

    counterpoise plan --state cluster.json.gz --goal add-brokers --brokers 7,8 --out plan.json

0 done, 1 the answer is "no" (nothing to do, refused, not as planned), 2 usage or input error, 3
trouble with the cluster or with what is read and written, 70 a mistake in Counterpoise; 130, 141
and 143 after Ctrl-C, SIGPIPE and SIGTERM.
"""

import argparse
import contextlib
import importlib
import itertools
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from counterpoise import __version__
from counterpoise.cli.commands import COMMANDS, did_you_mean, overview
from counterpoise.cli.examples import EXAMPLES
from counterpoise.cli.streams import code_of, code_of_stdout, end, is_of_stdout, prepare_streams
from counterpoise.cli.unexpected import report_unexpected
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.model.safe_text import indented, is_broken_text, one_line

if TYPE_CHECKING:
    from rich.console import Console

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
        self.register("action", "parsers", _Commands)

    def error(self, message: str) -> NoReturn:
        """End with one line; the help has the rest."""
        self.exit(
            2, f"{_sanitized(f'{self.prog}: {message}')}; `{self.prog} --help` has examples\n"
        )

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Name the options that are like a mistyped one, before argparse misses another."""
        if self._subparsers is None:
            for word in itertools.takewhile(lambda word: word != "--", args):
                self._check_option(word.partition("=")[0])
        return super().parse_known_args(args, namespace)

    def _check_option(self, word: str) -> None:
        known = [name for name in self._option_string_actions if name.startswith("--")]
        is_option = word.startswith("--") and " " not in word
        if is_option and not any(name.startswith(word) for name in known):
            self.error(f"there is no option {one_line(word)}{did_you_mean(word, known)}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = list(map(str, action.choices))
            like = did_you_mean(str(value), choices)
            text = f"{value!r} is none of {', '.join(choices)}{like}"
            raise argparse.ArgumentError(action, text)


class _Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The commands of ours, each with its summary of the screen."""

    def add_parser(self, name: str, **options: Any) -> Any:
        command = COMMANDS.get(name)
        return super().add_parser(name, **{"help": command and command.summary} | options)


def build_parser(only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all commands, or of those that share a module with one."""
    parser = _Parser(prog="counterpoise", usage="counterpoise COMMAND ...", add_help=False)
    commands = parser.add_subparsers(dest="command", prog="counterpoise")
    modules = [COMMANDS[only].module] if only else [one.module for one in COMMANDS.values()]
    for module in dict.fromkeys(modules):
        importlib.import_module(f"counterpoise.cli.{module}").add_commands(commands)
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


def main(argv: Sequence[str]) -> int:
    """Run one command; every error of ours becomes one message on stderr and an exit code."""
    first = argv[0] if argv else ""
    if "_ARGCOMPLETE" in os.environ:  # a shell runs us to complete a line
        _complete_line()
    if first not in COMMANDS:
        return _answer(first)
    parser = build_parser(first)
    if broken := [word for word in argv if is_broken_text(word)]:
        parser.error(one_line(f"{broken[0]!r} is no text in UTF-8"))
    arguments = parser.parse_args([_as_value(word) for word in argv])
    try:
        with _without_output() if arguments.quiet else contextlib.nullcontext():
            code = int(arguments.run(arguments, _console()))
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


def _answer(word: str) -> int:
    """Answer what needs no command: all of them, the version, or a word that is none."""
    if word in ("", "-h", "--help"):
        print(overview())
        return 0 if word else InputError.exit_code
    if word == "--version":
        print(f"counterpoise {__version__}")
        return 0
    like = did_you_mean(word, COMMANDS)
    message = f"counterpoise: there is no command {word}{like}; `counterpoise` lists them"
    print(_sanitized(one_line(message)), file=sys.stderr)
    return InputError.exit_code


def _complete_line() -> None:
    from counterpoise.cli import completion

    completion.complete(build_parser())


def _console() -> "Console":
    """Return a console as wide as the terminal, or wide enough for any table without one."""
    from counterpoise.cli.common import plain_console, safe_console

    width = None if sys.stdout.isatty() else _WIDTH_WITHOUT_TERMINAL
    return safe_console(plain_console(width=width))


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


def run() -> None:
    """Run in a process of its own. Ctrl-C ends it without a word while modules load."""
    if named := COMMANDS.get(next(iter(sys.argv[1:]), "")):
        importlib.import_module(f"counterpoise.cli.{named.module}")
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

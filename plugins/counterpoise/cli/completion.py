"""`completion`: what a shell needs to complete commands, options and names of clusters.

source <(counterpoise completion bash)
"""

import argparse
import sys
from typing import Any, Final

from rich.console import Console

from counterpoise.cli.common import Commands
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import open_installation, settings_in

_SHELLS: Final = ("bash", "zsh", "fish")


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "completion",
        description="Prints a script that makes bash, zsh or fish complete commands, options, "
        "files and the names of clusters.",
    )
    parser.add_argument("shell", choices=_SHELLS, help="which shell")
    parser.set_defaults(run=_completion)


def _completion(arguments: argparse.Namespace, _console: Console) -> int:
    # Imported here: only completion needs it.
    from argcomplete.shell_integration import shellcode

    sys.stdout.write(shellcode(["counterpoise"], shell=arguments.shell))
    return 0


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell and end the process."""
    import argcomplete

    for action in _actions(parser):
        if action.dest == "cluster":
            action.completer = _cluster_names  # type: ignore[attr-defined] # argcomplete reads it
    argcomplete.autocomplete(parser)


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    found: list[argparse.Action] = []
    for action in parser._actions:  # argparse has no other way to its commands
        found.append(action)
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                found += _actions(command)
    return found


def _cluster_names(**_: Any) -> list[str]:
    try:
        with open_installation() as installation:
            return sorted(settings_in(installation.locations).clusters)
    except CounterpoiseError:
        return []

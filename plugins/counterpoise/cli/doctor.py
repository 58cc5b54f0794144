"""`doctor`: checks the connection of a client step by step, and says what is wrong with it."""

import argparse
import contextlib
from collections.abc import Callable, Iterator
from typing import Final

from rich.console import Console

from counterpoise.cli.common import (
    add_cluster_arguments,
    add_json_argument,
    print_json,
    stderr_console,
)
from counterpoise.cli.connectivity import (
    print_examination,
    summary,
)
from counterpoise.installation import Installation, open_address, open_installation
from counterpoise.model.severity import Severity
from counterpoise.services import doctor

_FINDINGS, _UNREACHABLE = 1, 3  # exit codes
_BOOTSTRAP: Final = "bootstrap"  # a cluster that no file names


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="connect from bootstrap to leaders as a client does, and say what is wrong; reads "
        "only",
        description="Connects to every bootstrap address and to every endpoint that the brokers "
        "advertise, as a client does: name, TCP, TLS, SASL, ApiVersions, Metadata. Reads only, and "
        "creates no topic.",
        epilog="exit codes: 0 healthy; 1 findings as bad as --fail-at; 2 usage; 3 no bootstrap "
        "address responded",
    )
    add_cluster_arguments(parser)
    parser.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="say what is wrong for this topic; may be repeated",
    )
    parser.add_argument(
        "--fail-at",
        choices=[str(severity) for severity in Severity if severity is not Severity.UNKNOWN],
        default=str(Severity.WARNING),
        help="exit 1 for findings as bad as this or worse (default: warning)",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    topics = tuple(dict.fromkeys(arguments.topic))
    installation, name = _installation(arguments)
    with installation, _progress(arguments) as progress:
        examined = doctor.examine(installation, name, topics=topics, progress=progress)
    if arguments.json:
        print_json(summary(examined))
    else:
        print_examination(console, examined)
    if examined.connectivity.answered_by is None:
        return _UNREACHABLE
    worst = max((finding.severity.rank for finding in examined.findings), default=0)
    return _FINDINGS if worst >= Severity(arguments.fail_at).rank else 0


@contextlib.contextmanager
def _progress(arguments: argparse.Namespace) -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal's stderr how many addresses are checked."""
    # Imported here: no other command needs it.
    from rich.progress import Progress

    console = stderr_console(arguments)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as shown:
        task = shown.add_task("addresses checked", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def _installation(arguments: argparse.Namespace) -> tuple[Installation, str]:
    if arguments.bootstrap:
        return open_address(arguments.bootstrap, _BOOTSTRAP), _BOOTSTRAP
    installation = open_installation()
    installation.cluster(arguments.cluster)
    return installation, arguments.cluster

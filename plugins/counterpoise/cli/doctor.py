"""`doctor`: checks the connection of a client step by step, and says what is wrong with it."""

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Final

from rich.console import Console

from counterpoise import pipeline
from counterpoise.cli.common import (
    add_cluster_arguments,
    add_json_argument,
    print_json,
    stderr_console,
)
from counterpoise.cli.connectivity import (
    in_words,
    leader_change_summary,
    print_examination,
    shown,
    summary,
)
from counterpoise.errors import ClusterError, InputError
from counterpoise.installation import Installation, open_address, open_installation
from counterpoise.model.connectivity import ConnectivityCheck, LeaderChange
from counterpoise.units import parse_duration

_FINDINGS, _UNREACHABLE = 1, 3  # exit codes
_INTERVAL_SECONDS: Final = 0.25  # between two observations of the leaders of some topics
_INTERVAL_OF_ALL_SECONDS: Final = 1.0
_BOOTSTRAP: Final = "bootstrap"  # a cluster that no file names

Report = Callable[[LeaderChange | str], None]  # of a change, or of trouble


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="connect from bootstrap to leaders as a client does, and say what is wrong; reads "
        "only",
        description="Connects to every bootstrap address and to every endpoint that the brokers "
        "advertise, as a client does: name, TCP, TLS, SASL, ApiVersions, Metadata. Reads only, and "
        "creates no topic.",
        epilog="exit codes: 0 healthy; 1 findings; 2 usage; 3 no bootstrap address responded",
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
        "--watch",
        action="store_true",
        help="then print changes of its leaders (or of all), until Ctrl-C",
    )
    parser.add_argument(
        "--for", dest="watch_for", metavar="60s", help="end --watch after this time"
    )
    add_json_argument(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.watch_for and not arguments.watch:
        raise InputError("--for is the time of --watch: add --watch")
    watch_time = parse_duration(arguments.watch_for, where="--for") if arguments.watch_for else None
    topics = tuple(dict.fromkeys(arguments.topic))
    installation, name = _installation(arguments)
    with installation:
        with _progress(arguments) as progress:
            examined = pipeline.examine(installation, name, topics=topics, progress=progress)
        if arguments.json and arguments.watch:
            print_json(summary(examined), indent=None)
            sys.stdout.flush()
        elif arguments.json:
            print_json(summary(examined))
        else:
            print_examination(console, examined)
        if examined.connectivity.answered_by is None:
            return _UNREACHABLE
        if arguments.watch:
            report = _report_json if arguments.json else _text_report(console)
            _watch(installation, name, examined.connectivity, topics, watch_time, report)
    return _FINDINGS if examined.findings else 0


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


# -- watching


def _watch(
    installation: Installation,
    name: str,
    connectivity: ConnectivityCheck,
    topics: tuple[str, ...],
    watch_time: timedelta | None,
    report: Report,
) -> None:
    """Report changes of leaders until Ctrl-C, or for `watch_time`.

    A cluster that stops responding is waited for; the reason is reported once.
    """
    end = None if watch_time is None else monotonic() + watch_time.total_seconds()
    interval = _INTERVAL_SECONDS if topics else _INTERVAL_OF_ALL_SECONDS
    is_in_trouble = False
    try:
        with pipeline.leader_watch(installation, name, connectivity, topics=topics) as watch:
            while end is None or monotonic() < end:
                try:
                    for change in watch.observe():
                        report(change)
                    is_in_trouble = False
                except ClusterError as error:
                    if not is_in_trouble:
                        report(str(error))
                    is_in_trouble = True
                remaining = interval if end is None else max(0.0, end - monotonic())
                sleep(min(interval, remaining))
    except KeyboardInterrupt:
        return


def _text_report(console: Console) -> Report:
    console.print("printing changes of leaders; Ctrl-C ends it")

    def report(change: LeaderChange | str) -> None:
        text = change if isinstance(change, str) else in_words(change)
        milliseconds = f"{datetime.now(UTC):%H:%M:%S.%f}"[:-3]
        console.print(shown(f"{milliseconds} UTC  {text}"), soft_wrap=True)

    return report


def _report_json(change: LeaderChange | str) -> None:
    values = {"trouble": change} if isinstance(change, str) else leader_change_summary(change)
    print_json({"at": datetime.now(UTC).isoformat(), **values}, indent=None)
    sys.stdout.flush()

"""`doctor`: the way that every client takes, step by step, and what is wrong on it."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from time import monotonic, sleep
from typing import Any, Final

from rich.console import Console

from counterpoise import pipeline
from counterpoise.cli.common import add_cluster_arguments, add_json_argument, print_json
from counterpoise.cli.walks import in_words, print_examination, shown, summary
from counterpoise.errors import ClusterError, InputError
from counterpoise.installation import Installation, open_bootstrap_installation, open_installation
from counterpoise.model.connectivity import ConnectivityCheck, LeaderChange
from counterpoise.units import parse_duration

_FOUND, _NOTHING_ANSWERED = 1, 3
_LOOK_SECONDS: Final = 0.25
_LOOK_AT_ALL_SECONDS: Final = 1.0
_BOOTSTRAP: Final = "bootstrap"  # a cluster that no file names


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "doctor",
        help="walk from bootstrap to leaders as a client does, and say what is wrong; reads only",
        description="Walks to every bootstrap address and to every endpoint that the brokers advertise, as a client "
        "does: name, TCP, TLS, SASL, ApiVersions, Metadata. Reads only, and creates no topic.",
        epilog="exit codes: 0 healthy; 1 findings; 2 usage; 3 no bootstrap address answered",
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
        "--watch", action="store_true", help="then follow its leaders (or all), until Ctrl-C"
    )
    parser.add_argument("--for", dest="watch_for", metavar="60s", help="end --watch after so long")
    add_json_argument(parser)
    parser.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.watch_for and not arguments.watch:
        raise InputError("--for: only --watch takes time; add --watch")
    lasts = parse_duration(arguments.watch_for, where="--for") if arguments.watch_for else None
    topics = tuple(dict.fromkeys(arguments.topic))
    installation, name = _installation(arguments)
    with installation:
        examined = pipeline.examine(installation, name, topics=topics)
        if arguments.json and arguments.watch:
            _print_line(summary(examined))
        elif arguments.json:
            print_json(summary(examined))
        else:
            print_examination(console, examined)
        if examined.connectivity.answered_by is None:
            return _NOTHING_ANSWERED
        if arguments.watch:
            tell = _tell_as_json if arguments.json else _teller(console)
            _watch(installation, name, examined.connectivity, topics, lasts, tell)
    return _FOUND if examined.findings else 0


def _installation(arguments: argparse.Namespace) -> tuple[Installation, str]:
    if arguments.bootstrap:
        return open_bootstrap_installation(arguments.bootstrap, _BOOTSTRAP)
    installation = open_installation()
    installation.cluster(arguments.cluster)
    return installation, arguments.cluster


# -- watching


def _watch(
    installation: Installation,
    name: str,
    connectivity: ConnectivityCheck,
    topics: tuple[str, ...],
    lasts: timedelta | None,
    tell: Callable[[LeaderChange | str], None],
) -> None:
    """Until Ctrl-C, or for as long as `lasts`; a cluster that does not answer for a while is waited
    for.
    """
    until = None if lasts is None else monotonic() + lasts.total_seconds()
    pause = _LOOK_SECONDS if topics else _LOOK_AT_ALL_SECONDS
    said = ""
    try:
        with pipeline.leader_watch(installation, name, connectivity, topics=topics) as watch:
            while until is None or monotonic() < until:
                try:
                    for change in watch.observe():
                        tell(change)
                    said = ""
                except ClusterError as error:
                    if not said:
                        tell(str(error))
                    said = str(error)
                sleep(pause if until is None else max(0.0, min(pause, until - monotonic())))
    except KeyboardInterrupt:
        return


def _teller(console: Console) -> Callable[[LeaderChange | str], None]:
    console.print("following leaders; Ctrl-C ends it")

    def tell(change: LeaderChange | str) -> None:
        text = change if isinstance(change, str) else in_words(change)
        console.print(
            shown(f"{datetime.now(UTC):%H:%M:%S.%f}"[:-3] + f" UTC  {text}"), soft_wrap=True
        )

    return tell


def _tell_as_json(change: LeaderChange | str) -> None:
    at = datetime.now(UTC).isoformat()
    if isinstance(change, str):
        _print_line({"at": at, "trouble": change})
    else:
        fields = asdict(change) | {"topic_partition": str(change.topic_partition)}
        fields["silent_seconds"] = fields.pop("unresponsive_seconds")
        _print_line({"at": at, **fields})


def _print_line(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, sort_keys=True, ensure_ascii=False) + "\n")
    sys.stdout.flush()

"""Commands that steer runs and clusters: pause, resume, cancel, rate, freeze, unfreeze, release.

Each writes a request to the ledger; whoever drives the run reads it there. `cancel --redirected`
calls the cluster itself: what was redirected is no move of a run any more.
"""

import argparse
import sys
from collections.abc import Callable

from rich.console import Console

from counterpoise.cli.common import (
    Commands,
    add_json_argument,
    add_run_arguments,
    add_why_argument,
    installation_for_run,
    print_answer,
    who,
)
from counterpoise.cli.repeating import retried
from counterpoise.errors import RefusedError, StepLockHeldError
from counterpoise.installation import open_installation
from counterpoise.model.control import CONTROL_EFFECTS, Control, ControlRequest
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import join_ids
from counterpoise.services import redirected, requests
from counterpoise.units import format_rate
from counterpoise.views.run import RecordedRequest

_QUESTION = "cancel that, and bring back the replicas of before the run? (yes, no) "
_NEXT_STEP = "the run does so at its next step; `counterpoise status --follow` shows when"


def add_commands(commands: Commands) -> None:
    _add_run_control(
        commands,
        "pause",
        requests.pause,
        CONTROL_EFFECTS[Control.PAUSE],
    )
    _add_run_control(
        commands,
        "resume",
        requests.resume,
        CONTROL_EFFECTS[Control.RESUME],
    )
    _add_cancel(commands)
    _add_rate(commands)
    _add_cluster_control(
        commands,
        Control.FREEZE,
        _freeze,
        ("--until", "WHEN", "2026-12-01T06:00+01:00 (UTC without an offset), or from now: 8h, 3d"),
    )
    _add_cluster_control(commands, Control.UNFREEZE, _unfreeze)
    _add_cluster_control(
        commands,
        Control.RELEASE,
        _release,
        ("--brokers", "7,8", "`counterpoise status` lists those kept empty"),
    )


def _add_run_control(
    commands: Commands,
    name: str,
    request: Callable[..., ControlRequest],
    description: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, description=description)
    add_run_arguments(parser)
    add_why_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=_request_of_run, request=request)
    return parser


def _request_of_run(arguments: argparse.Namespace, console: Console) -> int:
    installation, run = installation_for_run(arguments)
    with installation:
        by = who()
        request = arguments.request(installation, run.run_id, by=by, why=arguments.why)
    line = (
        f"{request.control} of run {run.run_id} requested by {request.person.shown}: {_NEXT_STEP}"
    )
    print_answer(arguments, console, RecordedRequest.of(request), line)
    return 0


def _add_cancel(commands: Commands) -> None:
    parser = _add_run_control(
        commands,
        "cancel",
        requests.cancel,
        CONTROL_EFFECTS[Control.CANCEL],
    )
    parser.add_argument(
        "--redirected",
        action="store_true",
        help="instead: moves of the run that somebody else redirected while they were in flight; "
        "shows where to, and asks",
    )
    parser.set_defaults(run=_cancel)


def _cancel(arguments: argparse.Namespace, console: Console) -> int:
    if not arguments.redirected:
        return _request_of_run(arguments, console)
    installation, run = installation_for_run(arguments)
    with installation:
        found = redirected.redirected_moves(installation, run.run_id)
        if not found:
            raise RefusedError(f"nobody redirects a move of run {run.run_id}")
        for one in found:
            print(one_line(one.in_words), file=sys.stderr)
        print(_QUESTION, end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip() != "yes":
            raise RefusedError("nothing was cancelled")
        left = retried(
            lambda: redirected.cancel_redirected(
                installation, run.run_id, found, by=who(), why=arguments.why
            ),
            lambda text: print(one_line(text), file=sys.stderr),
            passing=(StepLockHeldError,),
        )
    lines = [f"{partition} is not as before the run: {text}" for partition, text in left.items()]
    value = {"redirected": [str(one.move.topic_partition) for one in found], "left": lines}
    done = "cancelled; the replicas are those of before the run"
    print_answer(arguments, console, value, *(lines or [done]))
    return 1 if left else 0


def _add_rate(commands: Commands) -> None:
    parser = commands.add_parser(
        "rate",
        description=CONTROL_EFFECTS[Control.RATE],
    )
    add_run_arguments(parser)
    parser.add_argument("rate", metavar="30MB/s", help="the new rate, with its unit")
    add_why_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=_rate)


def _rate(arguments: argparse.Namespace, console: Console) -> int:
    installation, run = installation_for_run(arguments)
    with installation:
        by = who()
        request = requests.change_rate(
            installation, run.run_id, arguments.rate, by=by, why=arguments.why
        )
    rate = format_rate(request.rate_bytes_per_second or 0)
    line = f"rate {rate} of run {run.run_id} requested by {request.person.shown}: {_NEXT_STEP}"
    print_answer(arguments, console, RecordedRequest.of(request), line)
    return 0


def _add_cluster_control(
    commands: Commands,
    control: Control,
    run: Callable[[argparse.Namespace, Console], int],
    option: tuple[str, str, str] | None = None,
) -> None:
    """Add the command of a request about a cluster; `option` is the name, metavar and help of what
    it needs besides.
    """
    parser = commands.add_parser(control, description=CONTROL_EFFECTS[control])
    parser.add_argument("cluster", metavar="CLUSTER", help="a cluster of config/clusters.yaml")
    if option:
        name, metavar, text = option
        parser.add_argument(name, required=True, metavar=metavar, help=text)
    add_why_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=run)


def _freeze(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation() as installation:
        request = requests.freeze(
            installation,
            arguments.cluster,
            until=arguments.until,
            by=who(),
            why=arguments.why,
        )
        # Somebody else's may last longer.
        in_force = installation.active_requests(request.cluster).frozen or request
    line = f"cluster {request.cluster} is {in_force.frozen_in_words}"
    print_answer(arguments, console, RecordedRequest.of(request), line)
    return 0


def _unfreeze(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation(may_make_ledger=False) as installation:
        by = who()
        request = requests.unfreeze(installation, arguments.cluster, by=by, why=arguments.why)
    line = f"cluster {request.cluster} is no longer frozen"
    print_answer(arguments, console, RecordedRequest.of(request), line)
    return 0


def _release(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation(may_make_ledger=False) as installation:
        by = who()
        released = requests.release(
            installation, arguments.cluster, arguments.brokers, by=by, why=arguments.why
        )
    brokers = join_ids([request.broker_id for request in released])
    line = (
        f"released on cluster {arguments.cluster}: {brokers}; plans may move replicas there again"
    )
    print_answer(arguments, console, list(map(RecordedRequest.of, released)), line)
    return 0

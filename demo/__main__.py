"""Runs the demo: `python -m demo`, or `make demo`.

It ends with 0 when the main job was completed (also by a "no" on the approval page), else with
another code, and ends all that it started. It takes less than 6 minutes on 2 cores, plus the time
until somebody approves.
"""

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from counterpoise.errors import CounterpoiseError
from counterpoise.model.run import RunState
from demo.place import ROOT, Place
from demo.steps import Demo, DemoResult
from demo.terminal import Terminal


def main(arguments: Sequence[str]) -> int:
    """Run the five steps and return the exit code."""
    options = _parser().parse_args(arguments)
    # A script's background job starts with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    terminal = Terminal()
    place = Place.new(options.directory)
    logging.basicConfig(filename=place.directory / "demo.log")
    terminal.note(f"the main job on a real Kafka, in five minutes; files: {place.directory}")
    try:
        with Demo(place, terminal) as demo:
            result = run_steps(demo, approve=options.approve)
            if options.keep:
                _stay(demo)
    except CounterpoiseError as error:
        terminal.block("The demo failed", [str(error), f"logs: {place.directory}"])
        return error.exit_code
    except KeyboardInterrupt:
        terminal.note("interrupted; everything that was started has ended")
        return 130
    return 0 if _is_complete(result) else 1


def run_steps(demo: Demo, *, approve: bool) -> DemoResult:
    """Run the five steps; with `approve` the demo approves, otherwise a person does."""
    demo.start_kafka()
    demo.start_airflow()
    demo.take_snapshot()
    approval = demo.add_broker()
    if approve:
        demo.approve(approval)
    else:
        demo.wait_for_response(approval)
    return demo.move(approval)


def _is_complete(result: DemoResult) -> bool:
    has_ended = result.run.state in (RunState.DONE, RunState.REJECTED)
    has_restored = result.throttles == result.throttles_before
    return has_ended and has_restored and result.ongoing_reassignments == 0


def _stay(demo: Demo) -> None:
    users = [
        f"{user} / {demo.airflow.password(user)}" for user in ("admin", "alice", "bob", "viewer")
    ]
    lines = [
        f"{demo.airflow.base_url}/counterpoise/fleet",
        *users,
        f"Kafka: {demo.kafka.bootstrap_string}",
        f"{demo.place.command_line} --help",
        "Ctrl-C ends everything.",
    ]
    demo.terminal.block("Still running", lines)
    try:
        signal.pause()
    except KeyboardInterrupt:
        demo.terminal.note("ending everything")


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m demo", description="The main job on a real Kafka, to watch."
    )
    parser.add_argument(
        "--approve",
        action="store_true",
        help="approve over Airflow's REST API instead of asking you",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep everything running afterwards, until Ctrl-C"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / "var" / "demo",
        help="for all files (default: var/demo)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m demo`: see the package's text. `make demo` calls this.

Ends with 0 when the main job went through (a "no" on the approval page included), else with another
code; whatever was started is gone then. Under 6 minutes on 2 cores, when nobody has to be waited
for.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from counterpoise.errors import CounterpoiseError
from counterpoise.model.run import RunState
from demo.place import ROOT, Place
from demo.steps import Demo, FinalAssignment
from demo.terminal import Terminal


def main(arguments: Sequence[str]) -> int:
    """Runs the five steps; returns the exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # ignored from birth in a script's background job
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    terminal = Terminal()
    place = Place.new(options.directory)
    terminal.title(
        f"Counterpoise: the main job on a real Kafka. Everything lies in {place.directory}"
    )
    try:
        with Demo(place, terminal) as demo:
            outcome = run_steps(demo, approve=options.approve)
            if options.keep:
                _stay(demo)
    except CounterpoiseError as error:
        terminal.important("The demo failed", [str(error), f"logs: {place.directory}"])
        return error.exit_code
    except KeyboardInterrupt:
        terminal.note("interrupted; everything that was started has ended")
        return 130
    return 0 if _is_well(outcome) else 1


def run_steps(demo: Demo, *, approve: bool) -> FinalAssignment:
    """The five steps; `approve` answers by itself, otherwise a person does."""
    demo.start_kafka()
    demo.start_airflow()
    demo.photograph()
    question = demo.add_broker()
    if approve:
        demo.approve(question)
    else:
        demo.wait_for_answer(question)
    return demo.move(question)


def _is_well(outcome: FinalAssignment) -> bool:
    ended = outcome.run.state in (RunState.DONE, RunState.REJECTED)
    return (
        ended and outcome.throttles == outcome.throttles_before and outcome.reassignments_left == 0
    )


def _stay(demo: Demo) -> None:
    users = [
        f"{user} / {demo.airflow.password(user)}" for user in ("admin", "alice", "bob", "viewer")
    ]
    lines = [
        f"Airflow: {demo.airflow.base_url}",
        *users,
        f"reports: {demo.airflow.base_url}/counterpoise/reports",
        f"Kafka: {demo.kafka.bootstrap_string}",
        "Ctrl-C ends everything.",
    ]
    demo.terminal.important("Still up", lines)
    try:
        signal.pause()
    except KeyboardInterrupt:
        demo.terminal.note("ending")


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
    parser.add_argument("--keep", action="store_true", help="stay up afterwards, until Ctrl-C")
    parser.add_argument(
        "--directory",
        type=Path,
        default=ROOT / "var" / "demo",
        help="where everything is put (default: var/demo)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

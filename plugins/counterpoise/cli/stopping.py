"""Commands that end runs and clean up after them: undo, settle, stop, watch."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

from counterpoise.cli import plans
from counterpoise.cli.common import (
    Commands,
    add_cluster_arguments,
    add_json_argument,
    add_run_arguments,
    add_why_argument,
    approve_line,
    command_line,
    console_for_people,
    installation_for,
    installation_for_run,
    print_answer,
    print_json,
    read_plan,
    stderr_console,
    who,
)
from counterpoise.cli.following import Display
from counterpoise.cli.output_files import path_argument, write_text
from counterpoise.cli.repeating import repeat
from counterpoise.cli.unfinished import saying_what_is_left
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.installation import Installation, open_address, open_installation
from counterpoise.model.policy import Action
from counterpoise.model.run import UNDER_WAY_STATES, OwnedKey, Run, RunState
from counterpoise.model.safe_text import indented
from counterpoise.model.words import join_names, pluralize
from counterpoise.services import emergency_stop, execution, requests, runs, verification, watch
from counterpoise.services.plans import undo_plan as make_undo_plan
from counterpoise.views import as_document
from counterpoise.views.plan import PlanView
from counterpoise.views.run import RecordedRequest, RunStatusView

if TYPE_CHECKING:
    from counterpoise.services.emergency_stop import Stopped
    from counterpoise.services.watch import WatchReport


def add_commands(commands: Commands) -> None:
    _add_undo(commands)
    _add_settle(commands)
    _add_stop(commands)
    _add_watch(commands)


def _add_undo(commands: Commands) -> None:
    parser = commands.add_parser(
        "undo",
        description="Writes the plan that takes back what a run moved; approve and execute it like "
        "any other. A run under way is cancelled first; run the same command again when it has "
        "ended. Undo on the page of the run does both from a browser.",
    )
    add_run_arguments(parser)
    parser.add_argument(
        "--out", type=path_argument, required=True, metavar="UNDO.json", help="write the plan here"
    )
    add_why_argument(parser)
    add_json_argument(parser)
    parser.set_defaults(run=_undo)


def _undo(arguments: argparse.Namespace, console: Console) -> int:
    installation, run = installation_for_run(arguments)
    with installation:
        if run.state in UNDER_WAY_STATES:
            by = who()
            request = requests.undo(installation, run.run_id, by=by, why=arguments.why)
            line = (
                f"run {run.run_id} is {run.state}: it was asked to cancel what is in flight and to "
                "settle. Run the same command again when it has ended; that writes the undo plan"
            )
            value = {"plan": None, "request": RecordedRequest.of(request)}
            print_answer(arguments, console, value, line)
            return 0
        undo_plan = make_undo_plan(installation, run.run_id)
        made, by = f"made plan {undo_plan.fingerprint}", who()
        requests.note_undo(installation, run.run_id, made, by=by, why=arguments.why)
    write_text(arguments.out, undo_plan.to_json(), "plan")
    view = PlanView.of(undo_plan)
    if arguments.json:
        print_json({"plan": view, "request": None})
        return 0
    plans.print_plan(console, undo_plan, view, written_to=arguments.out)
    approve = approve_line(arguments, arguments.out)
    execute = command_line(arguments, "execute", arguments.out)
    console.print(f"approve it (`{approve}`), then `{execute}`", soft_wrap=True)
    return 0


def _add_settle(commands: Commands) -> None:
    parser = commands.add_parser(
        "settle",
        description="Drives a run under way to its end without starting anything new: what is in "
        "flight finishes or is cancelled, as the policy says, then every throttle key goes back to "
        "what it was.",
    )
    add_run_arguments(parser)
    add_json_argument(parser)
    parser.set_defaults(run=_settle)


def _settle(arguments: argparse.Namespace, console: Console) -> int:
    installation, run = installation_for_run(arguments)
    with installation:
        if run.state in (RunState.PROPOSED, RunState.APPROVED):
            raise RefusedError(
                f"run {run.run_id} is {run.state}: it has changed nothing, so there is nothing to "
                "settle"
            )
        if run.state not in UNDER_WAY_STATES:
            status = runs.status_of(installation, run.run_id)
            line = f"run {run.run_id} is {run.state}: there is nothing to settle"
            print_answer(arguments, console, RunStatusView.of(status), line)
            return 0
        requests.check_may(installation, run.cluster, who(), Action.OPERATE)
        with saying_what_is_left(installation, run.run_id, "The same command ends it"):
            _settle_to_the_end(installation, run, console_for_people(arguments, console))
        report = verification.report_run(installation, run.run_id)
        status = runs.status_of(installation, run.run_id)
        plan = installation.run_and_plan(run.run_id)[1]
    if arguments.json:
        print_json(as_document(RunStatusView.of(status)) | {"report": report})
    else:
        plans.print_outcome(console, plan, status, report)
    return 1 if status.pending_restores else 0


def _settle_to_the_end(installation: Installation, run: Run, console: Console) -> None:
    with Display(console) as display:

        def step() -> float | None:
            wait_seconds = execution.settle_step(installation, run.run_id, display.log)
            display.show(runs.run_now(installation, run.run_id))
            return wait_seconds

        repeat(step, display.log)


def _add_stop(commands: Commands) -> None:
    parser = commands.add_parser(
        "stop",
        description="Cancels what a plan has in flight and restores the configs that the plan "
        "noted. Needs the plan's file and the cluster, nothing else. Stop the process that "
        "executes the plan first, or it goes on.",
    )
    parser.add_argument(
        "--from-plan",
        type=path_argument,
        required=True,
        metavar="PLAN.json",
        help="the plan's file",
    )
    add_cluster_arguments(parser)
    add_json_argument(parser)
    parser.set_defaults(run=_stop)


def _stop(arguments: argparse.Namespace, console: Console) -> int:
    plan = read_plan(arguments.from_plan)
    name = plan.cluster
    if arguments.bootstrap:
        installation = open_address(arguments.bootstrap, name)
    else:
        installation, name = installation_for(arguments, plan)
    stopped: Stopped | None = None

    people = console_for_people(arguments, console)

    def log(text: str) -> None:
        people.print(text, soft_wrap=True)

    provider = installation.cluster(name).policy.provider
    with installation.operator_without_ledger(name) as admin:

        def stop() -> None:
            nonlocal stopped
            stopped = emergency_stop.stop_from_plan(admin, plan, log, provider)

        repeat(stop, log)
    assert stopped is not None
    keys, pending = stopped.keys, stopped.pending_keys
    for key in keys:
        log(f"{key.name}: {'not restored' if key.done_at is None else 'restored'}")
    log(
        f"{_in_flight_text(stopped)}; {len(keys) - len(pending)} of {len(keys)} config keys hold "
        "nothing of the plan any more"
        + ("; run this again when their brokers respond and nothing is copied" if pending else "")
    )
    if arguments.json:
        value = {
            "cluster": name,
            "keys": [_key_summary(key) for key in keys],
            "in_flight": [str(move.topic_partition) for move in stopped.in_flight],
        }
        print_json(value)
    return 1 if pending or stopped.in_flight else 0


def _in_flight_text(stopped: "Stopped") -> str:
    if not stopped.in_flight:
        return "nothing of the plan is in flight"
    names = join_names([move.topic_partition for move in stopped.in_flight])
    are = pluralize(len(stopped.in_flight), "partition is", "partitions are")
    return (
        f"{are} still in flight, throttled as before: {names}; the cluster refused to cancel that. "
        "Correct the cause that is named above, then run the same command again"
    )


def _key_summary(key: OwnedKey) -> dict[str, Any]:
    return {
        "type": str(key.resource.type),
        "name": key.resource.name,
        "key": key.key,
        "is_restored": key.done_at is not None,
    }


def _add_watch(commands: Commands) -> None:
    parser = commands.add_parser(
        "watch",
        description="Settles runs that nobody drives, restores config keys of brokers that are "
        "back, and names runs under way and throttles that no run of ours has set; these stay as "
        "they are. What needs attention goes to stderr, also with --quiet, and is exit code 1.",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cluster", metavar="NAME", help="a cluster of config/clusters.yaml")
    which.add_argument("--all", action="store_true", help="every cluster of config/clusters.yaml")
    add_json_argument(parser)
    parser.set_defaults(run=_watch)


def _watch(arguments: argparse.Namespace, console: Console) -> int:
    exit_code = 0
    reports: dict[str, WatchReport] = {}
    progress = stderr_console(arguments)

    def log(text: str) -> None:
        progress.print(indented(text), soft_wrap=True)

    with open_installation(may_make_ledger=False) as installation:
        all_clusters = sorted(installation.settings.clusters)
        for name in all_clusters if arguments.all else [arguments.cluster]:
            installation.cluster(name)
            try:
                reports[name] = watch.watch_throttles(installation, name, log)
            except CounterpoiseError as error:  # the other clusters are watched all the same
                _log_to_stderr(f"counterpoise watch: cluster {name}: {error}")
                exit_code = max(exit_code, error.exit_code)
    if arguments.json:
        print_json({name: report.to_document() for name, report in reports.items()})
    else:
        for name, report in reports.items():
            _print_watch(console, name, report)
    if exit_code:
        return exit_code
    return 0 if all(report.is_clean for report in reports.values()) else 1


def _log_to_stderr(text: str) -> None:
    print(indented(text), file=sys.stderr)


def _print_watch(console: Console, cluster: str, report: "WatchReport") -> None:
    left = (report.done | report.under_way).items()
    lines = [f"  {what}: {entry}" for what, entries in left for entry in entries]
    if lines:
        console.print("\n".join([f"cluster {cluster}:", *lines]))
    elif report.is_clean:
        console.print(f"cluster {cluster}: nothing was left behind")
    for what, entries in report.needs_attention.items():
        for entry in entries:
            _log_to_stderr(f"cluster {cluster}: {what}: {entry}")

"""What several commands share: arguments, the installation, files, JSON, text from outside."""

import argparse
import json
import os
import pwd
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.text import Text

from counterpoise.cli.output_files import path_argument
from counterpoise.cli.streams import is_unicode
from counterpoise.errors import CounterpoiseError, InputError, LedgerError, UnknownNameError
from counterpoise.input_files import DOCUMENTS, read_input_text
from counterpoise.installation import Installation, open_bootstrap_installation, open_installation
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.inspection import Inspection
from counterpoise.model.inspection_document import from_content
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import Run
from counterpoise.model.safe_text import for_json, shell_word, without_control_characters
from counterpoise.services import plans, runs

# What `add_commands` of each module gets.
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"

PLAN_HELP: Final = "the plan's file, or the id of its run"
_SUFFIXES_OF_PLANS: Final = (".json", ".gz")


@dataclass(frozen=True)
class SafeRenderable:
    """What is printed, without control characters that came with a text. Of a sentence with line
    breaks in it, which somebody may have typed, further lines are indented.
    """

    renderable: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        renderable = self.renderable
        if isinstance(renderable, Text):
            renderable = _indented(renderable)
        for segment in console.render(renderable, options):
            if segment.control:
                yield segment
            else:
                yield segment._replace(text=without_control_characters(segment.text))


def _indented(sentence: Text) -> Text:
    """Return a sentence whose further lines cannot look like lines of their own (`indented`)."""
    first, *further = sentence.split("\n", allow_blank=True)
    lines = (line if line.plain.startswith("  ") else Text("  ") + line for line in further)
    return sentence.blank_copy("\n").join([first, *lines])


class _SafeOutput(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [SafeRenderable(renderable) for renderable in renderables]


def safe_console(console: Console) -> Console:
    """Return the console, which from now on prints no control character of a text."""
    console.push_render_hook(_SafeOutput())
    return console


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Raise the BrokenPipeError, where rich would exit with 1, which means "no" here."""
        raise  # rich calls this while it handles the error


def plain_console(**options: Any) -> Console:
    """Return a console that takes no text for rich's markup, like `[link=...]`, or an emoji."""
    return _Console(highlight=False, markup=False, emoji=False, **options)


def stderr_console(arguments: argparse.Namespace) -> Console:
    """Return a console for progress, where stdout is for machines; silent with --quiet."""
    return safe_console(plain_console(stderr=True, quiet=arguments.quiet))


def _addresses(text: str) -> str:
    """Return addresses as typed; none are no choice of another cluster."""
    if not text.strip():
        raise argparse.ArgumentTypeError("no address; write it like kafka-1:9092,kafka-2:9092")
    return text


def add_cluster_arguments(parser: argparse.ArgumentParser, *, or_document: bool = False) -> None:
    where = parser.add_mutually_exclusive_group(required=True)
    if or_document:
        where.add_argument(
            "--state",
            type=path_argument,
            metavar="X.json[.gz]",
            help="a cluster document; no cluster is needed",
        )
    where.add_argument("--cluster", metavar="NAME", help="a cluster of config/clusters.yaml")
    where.add_argument(
        "--bootstrap",
        type=_addresses,
        metavar="A,B",
        help="bootstrap addresses host:port, tried in order (plaintext)",
    )


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "run_or_plan", metavar="RUN", help="a run's id, or a plan's file (its latest run)"
    )
    parser.add_argument(
        "--bootstrap",
        type=_addresses,
        metavar="A,B",
        help="addresses of the cluster, where config/clusters.yaml lacks it",
    )


def add_plan_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace, Console], int],
    description: str,
) -> argparse.ArgumentParser:
    """Return the parser of a command whose first argument is a plan's file."""
    parser = commands.add_parser(name, description=description)
    parser.add_argument("plan", type=path_argument, metavar="PLAN", help=PLAN_HELP)
    parser.add_argument(
        "--bootstrap",
        type=_addresses,
        metavar="A,B",
        help="addresses of the cluster, where config/clusters.yaml lacks it",
    )
    parser.set_defaults(run=run, cluster=None)
    return parser


def add_why_argument(parser: argparse.ArgumentParser, why: str = "--why") -> None:
    parser.add_argument(why, required=True, metavar="TEXT", help="why; kept in the ledger")


def who() -> Person:
    """Return who types: the system's user, whatever $USER says."""
    return Person.system(system_user_name())


def system_user_name() -> str:
    """Return the name of the process's user as the system knows it."""
    user_id = os.getuid()
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # as in a container that knows only the number
        return f"uid-{user_id}"


def command_line(arguments: argparse.Namespace, *words: str | Path) -> str:
    """Return a command of ours to type in this shell: with the addresses of the cluster, where this
    command was given them. What the environment says holds there already, and may be a secret.
    """
    bootstrap = getattr(arguments, "bootstrap", None)
    connection = ("--bootstrap", bootstrap) if bootstrap else ()
    return " ".join(shell_word(str(word)) for word in ("counterpoise", *words, *connection))


def approve_line(arguments: argparse.Namespace, plan: Path, rate: str = "RATE") -> str:
    """Return the command that approves a plan; whoever types it says why, and at which rate."""
    return command_line(arguments, "approve", plan, "--rate", rate, "--reason", "TEXT")


def console_for_people(arguments: argparse.Namespace, console: Console) -> Console:
    """Return where text goes that is not the answer: stderr, where stdout is for JSON."""
    return stderr_console(arguments) if arguments.json else console


def print_answer(arguments: argparse.Namespace, console: Console, value: Any, *lines: str) -> None:
    """Print the value with --json, else the lines."""
    if arguments.json:
        print_json(value)
        return
    for line in lines:
        console.print(line, soft_wrap=True)


def add_json_argument(parser: "argparse._ActionsContainer") -> None:
    parser.add_argument(
        "--json", action="store_true", help="print JSON for machines instead of tables"
    )


def installation_for(
    arguments: argparse.Namespace, plan: RebalancePlan | None = None
) -> tuple[Installation, str]:
    """Return the installation and the cluster's name: by --bootstrap, --cluster, or the plan.

    No ledger is made by chance for a command that sets `is_about_runs`.
    """
    may_make_ledger = not getattr(arguments, "is_about_runs", False)
    if plan and not plan.cluster and not arguments.cluster:
        plans.check_says_cluster(plan)
    if arguments.bootstrap:
        of_plan = (plan.cluster, plan.cluster_id) if plan else ()
        return open_bootstrap_installation(
            arguments.bootstrap, *of_plan, may_make_ledger=may_make_ledger
        )
    installation = open_installation(may_make_ledger=may_make_ledger)
    name = arguments.cluster or (plan.cluster if plan else "")
    installation.cluster(name)
    if plan and plan.cluster not in (name, ""):
        raise InputError(f"--cluster {name}: the plan is for cluster {plan.cluster}")
    return installation, name


def find_run(installation: Installation, arguments: argparse.Namespace) -> Run:
    """Return a run by its id, or the latest run of a plan's file. Raises InputError."""
    path = Path(arguments.run_or_plan)
    if not _is_file(path):
        return installation.ledger.run(arguments.run_or_plan)
    plan = read_plan(path)
    run = runs.latest_of_plan(installation, plan.fingerprint)
    if run is None:
        raise InputError(
            f"{path}: no run of this plan is in the ledger; "
            f"`{approve_line(arguments, path)}` opens one"
        )
    return run


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # like a name that is too long
        return False


def installation_for_run(arguments: argparse.Namespace) -> tuple[Installation, Run]:
    """Return the installation where the run's cluster is known, and the run that RUN names."""
    installation = open_installation(may_make_ledger=False)
    try:
        run = find_run(installation, arguments)
    except CounterpoiseError:
        installation.close()
        raise
    if not arguments.bootstrap:
        return installation, run
    installation.close()
    return open_bootstrap_installation(arguments.bootstrap, run.cluster)[0], run


def read_text(path: Path, what: str) -> str:
    """Read a text file, which may be gzipped. Raises InputError."""
    return read_input_text(path, what, DOCUMENTS, unpack=True)


def read_state(path: Path) -> ClusterSnapshot:
    return from_document_text(read_text(path, "cluster document"), where=str(path))


def read_saved_cluster(path: Path) -> tuple[ClusterSnapshot, Inspection | None]:
    """Return what `snapshot --out` wrote; the inspection is None in a document of another tool."""
    text = read_text(path, "cluster document")
    snapshot = from_document_text(text, where=str(path))
    content = json.loads(text).get("inspection")
    return snapshot, None if content is None else from_content(content, where=str(path))


def read_plan(path: Path) -> RebalancePlan:
    """Return the plan of a file, or of the run of this id. Raises InputError."""
    return _plan_of_run(path) or RebalancePlan.from_json(read_text(path, "plan"), where=str(path))


def _plan_of_run(path: Path) -> RebalancePlan | None:
    """Return the plan of the run of this id; None for the name of a file, there or not."""
    if path.name != str(path) or path.suffix in _SUFFIXES_OF_PLANS or _is_file(path):
        return None
    try:
        with open_installation(may_make_ledger=False) as installation:
            return installation.plan_of(installation.ledger.run(str(path)))
    except (UnknownNameError, LedgerError):
        return None


def print_json(value: Any, *, indent: int | None = 2) -> None:
    """Print a value, or a view, as JSON, without `indent` on one line."""
    from counterpoise.views import as_document

    ascii_only = not is_unicode(sys.stdout)
    sys.stdout.write(for_json(as_document(value), indent=indent, ascii_only=ascii_only) + "\n")

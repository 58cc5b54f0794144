"""What every command has: examples, --json, --quiet."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoise.cli.commands import COMMANDS as SHOWN
from counterpoise.cli.examples import EXAMPLES
from counterpoise.cli.main import build_parser, leaf_commands
from tests.support.broken import documents
from tests.support.command_line import CommandLine

COMMANDS = dict(leaf_commands(build_parser()))
PRINT_WITHOUT_JSON = {"export", "completion", "init"}  # JSON, a script, lines to type
PIPES = ("|", ">", ">>")


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def test_the_command_alone_lists_every_command_on_one_screen(shell: CommandLine) -> None:
    typed, asked = shell.type(), shell.type("--help")
    assert (typed.code, asked.code, typed.err) == (2, 0, "")
    lines = typed.out.splitlines()
    assert typed.out == asked.out and len(lines) <= 45 and max(map(len, lines)) <= 100
    for group in ("look", "plan", "decide", "run", "history", "set up"):
        assert any(line.startswith(f"{group}  ") for line in lines)
    for name in {name.split()[0] for name in COMMANDS}:
        assert sum(line[9:].startswith(f"{name} ") for line in lines) == 1, name


def test_the_screen_loads_nothing_that_a_command_needs() -> None:
    """What takes long to load: a list of commands has to come at once."""
    code = (
        "import sys; from counterpoise.cli import main; main.main([])\n"
        "print({name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("numpy", "pyarrow", "sqlalchemy", "pydantic", "rich", "confluent_kafka"):
        assert f"'{name}'" not in ended.stderr, name


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("plna",), "there is no command plna (did you mean plan?)"),
        (("status", "--folow"), "there is no option --folow (did you mean --follow?)"),
        (("ledger", "prun"), "did you mean prune?"),
        (("audit", "--cluster", "a", "--fail-at", "warn"), "did you mean warning?"),
    ],
)
def test_who_mistypes_is_asked_what_was_meant(
    words: tuple[str, ...], meant: str, shell: CommandLine
) -> None:
    typed = shell.type(*words)
    assert (typed.code, typed.out) == (2, "") and meant in typed.err
    assert len(typed.err.splitlines()) == 1


def test_every_command_of_the_screen_is_there() -> None:
    assert SHOWN.keys() == {name.split()[0] for name in COMMANDS}


def test_every_command_has_examples_and_no_example_is_of_another() -> None:
    assert EXAMPLES.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_help_can_be_typed(name: str) -> None:
    assert "examples:" in COMMANDS[name].format_help()
    for example in EXAMPLES[name]:
        words = shlex.split(example)
        ends = [index for index, word in enumerate(words) if word.startswith(PIPES)]
        words = words[: ends[0]] if ends else words
        assert words[: 1 + len(name.split())] == ["counterpoise", *name.split()]
        build_parser().parse_args(words[1:])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_that_prints_has_json_and_quiet(name: str) -> None:
    options = COMMANDS[name]._option_string_actions
    assert "--quiet" in options
    assert "--json" in options or name in PRINT_WITHOUT_JSON


def test_quiet_leaves_files_exit_codes_and_errors(shell: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(documents.TEXT)
    plan = ("plan", "--state", tmp_path / "state.json", "--goal", "add-brokers", "--brokers", "4")
    for more in ((), ("--json",)):
        typed = shell.type(*plan, "--out", tmp_path / "plan.json", "--quiet", *more)
        assert (typed.code, typed.out, typed.err) == (0, "", "")
    assert json.loads((tmp_path / "plan.json").read_text())["fingerprint"]
    typed = shell.type("show", tmp_path / "none.json", "--quiet")
    assert typed.code == 2 and "none.json" in typed.err


def test_requests_are_values_too(shell: CommandLine) -> None:
    shell.configure("127.0.0.1:1")
    words = ("freeze", "demo", "--until", "8h", "--why", "release", "--json")
    frozen = json.loads(shell.type(*words).out)
    assert (frozen["control"], frozen["cluster"], frozen["run_id"]) == ("freeze", "demo", None)
    assert frozen["until"] and frozen["why"] == "release"
    assert json.loads(shell.type("ledger", "migrate", "--json").out) == {"schema": "0001"}


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_for_the_command(name: str, shell: CommandLine) -> None:
    typed = shell.type("completion", name)
    assert typed.code == 0 and "counterpoise" in typed.out and "_ARGCOMPLETE" in typed.out

"""The command line as a process: terminals, pipes, devices, signals, users that nobody knows."""

import json
import os
import pty
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from counterpoise.cli.unexpected import UNEXPECTED
from dev.local_processes import wait_until
from tests.support.broken import documents, plans

SHELL = "exec {python} -c 'from counterpoise.cli.start import run; run()' \"$@\""
PLAN = ("plan", "--state", "state.json", "--goal", "add-brokers", "--brokers", "4")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state.json").write_text(documents.TEXT)
    (tmp_path / "plan.json").write_text(plans.TEXT)
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    } | more


def command(*words: str, before: str = "") -> list[str]:
    code = f"{before}\nfrom counterpoise.cli.start import run; run()"
    return [sys.executable, "-c", code, *words]


def typed(
    folder: Path, *words: str, before: str = "", **options: Any
) -> subprocess.CompletedProcess[str]:
    variables = environment(folder, **options.pop("variables", {}))
    options = {"stdin": subprocess.DEVNULL, "capture_output": True} | options
    if {"stdout", "stderr"} & options.keys():
        options.pop("capture_output")
    return subprocess.run(
        command(*words, before=before),
        cwd=folder,
        env=variables,
        text=True,
        timeout=400,
        check=False,
        **options,
    )


def in_shell(folder: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script in which `counterpoise` is the command."""
    path = folder / "bin" / "counterpoise"
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/bash\n" + SHELL.format(python=sys.executable) + "\n")
    path.chmod(0o755)
    more = {"PATH": f"{path.parent}:{os.environ['PATH']}"} | more
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment(folder, **more),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


# -- files that commands write


def test_a_link_stays_and_its_file_is_written(folder: Path) -> None:
    (folder / "there").mkdir()
    (folder / "there" / "real.json").write_text("old")
    (folder / "link.json").symlink_to("there/real.json")
    assert typed(folder, *PLAN, "--out", "link.json").returncode == 0
    assert (folder / "link.json").is_symlink()
    assert json.loads((folder / "there" / "real.json").read_text())["fingerprint"]
    assert not list(folder.rglob("*.part"))


def test_dev_null_stays_a_device(folder: Path) -> None:
    before = Path("/dev/null").stat()
    (folder / "nowhere").symlink_to("/dev/null")
    for path in ("/dev/null", "nowhere"):
        assert typed(folder, *PLAN, "--out", path).returncode == 0
    after = Path("/dev/null").stat()
    assert stat.S_ISCHR(after.st_mode)
    assert (after.st_ino, after.st_rdev) == (before.st_ino, before.st_rdev)


def test_a_pipe_with_a_reader_gets_the_plan(folder: Path) -> None:
    ended = in_shell(
        folder, "counterpoise plan --state state.json --goal leaders --out >(cat >got); wait $!"
    )
    assert ended.returncode in (0, 1), ended.stderr
    assert json.loads((folder / "got").read_text())["fingerprint"]


@pytest.mark.parametrize("words", [("show", "-"), ("plan", "--state", "-"), (*PLAN, "--out", "-")])
def test_a_dash_is_no_file(words: tuple[str, ...], folder: Path) -> None:
    """Other tools take it for stdin or stdout."""
    ended = typed(folder, *words)
    assert ended.returncode == 2
    assert "/dev/stdin" in ended.stderr and "/dev/stdout" in ended.stderr
    assert not (folder / "-").exists()
    assert "demo" in in_shell(folder, "cat plan.json | counterpoise show /dev/stdin").stdout


# -- stdout


def test_a_reader_that_has_gone_is_no_refusal(folder: Path) -> None:
    for words in ("show plan.json", "show plan.json --json"):
        ended = in_shell(
            folder, f"counterpoise {words} | (exec <&-; sleep 0); echo ${{PIPESTATUS[0]}}"
        )
        assert ended.stdout == "141\n", ended
        assert ended.stderr == ""


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1"}])
@pytest.mark.parametrize("words", [("show", "plan.json"), ("show", "plan.json", "--json")])
def test_a_full_disk_behind_stdout_is_trouble_with_the_output(
    words: tuple[str, ...], variables: dict[str, str], folder: Path
) -> None:
    with Path("/dev/full").open("w") as full:
        options = {"stdout": full, "stderr": subprocess.PIPE, "variables": variables}
        ended = typed(folder, *words, **options)
    assert ended.returncode == 3
    assert ended.stderr == "counterpoise: stdout cannot be written (No space left on device)\n"


@pytest.mark.parametrize("words", [("show", "plan.json"), ("show", "nofile"), ("--version",)])
def test_a_closed_stdout_changes_no_exit_code(words: tuple[str, ...], folder: Path) -> None:
    ended = in_shell(folder, f"counterpoise {' '.join(words)} >&-")
    assert ended.returncode == (2 if "nofile" in words else 0), ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_terminal_without_all_characters_shows_others(folder: Path) -> None:
    ended = typed(folder, "show", "plan.json", variables={"PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 0, ended.stderr
    assert "before > after (best possible)" in ended.stdout and "##" in ended.stdout


def test_json_loses_nothing_on_a_terminal_of_ascii(folder: Path) -> None:
    variables = {"PYTHONIOENCODING": "ascii"}
    name = "Größe-\U0001f600"
    document = {**documents.GOOD, "cluster": name}
    (folder / "state.json").write_text(json.dumps(document))
    ended = typed(folder, *PLAN, "--out", "x.json", "--json", variables=variables)
    assert json.loads(ended.stdout)["cluster"] == name


def test_no_colour_reaches_a_terminal_that_wants_none(folder: Path) -> None:
    def shown(**variables: str) -> bytes:
        ours, theirs = pty.openpty()
        output = bytearray()

        def collect() -> None:
            try:
                while block := os.read(ours, 65536):
                    output.extend(block)
            except OSError:  # the other side is closed
                return

        reader = threading.Thread(target=collect)
        reader.start()
        try:
            variables = {"TERM": "xterm", "COLUMNS": "120"} | variables
            ended = typed(
                folder, "show", "plan.json", variables=variables, stdout=theirs, stderr=theirs
            )
        finally:
            os.close(theirs)
            reader.join(60)
            os.close(ours)
        assert ended.returncode == 0
        return bytes(output)

    colours = (b"\x1b[3", b"\x1b[4", b"\x1b[9")
    assert b"\x1b[" in shown()
    assert not any(colour in shown(NO_COLOR="1") for colour in colours)
    assert b"\x1b" not in shown(TERM="dumb")


# -- signals


# A signal that comes just before `signal.pause` would be waited for in vain.
WAITING = """
import time
from counterpoise.cli import planning
from pathlib import Path
def wait(path):
    Path("waits").touch()
    while True:
        time.sleep(0.05)
planning.read_plan = wait
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_end_a_command_without_a_word(number: signal.Signals, folder: Path) -> None:
    process = subprocess.Popen(
        command("show", "plan.json", before=WAITING),
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until((folder / "waits").exists, "the command waits", 240)
    process.send_signal(number)
    out, err = process.communicate(timeout=240)
    assert (process.returncode, out, err) == (-number, b"", b"")


def test_ctrl_c_while_modules_load_is_quiet(folder: Path) -> None:
    before = """
import importlib.abc, os, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "counterpoise.cli.planning":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
    ended = typed(folder, "show", "plan.json", before=before)
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")


# -- who and what


NOBODY = "import pwd\ndef unknown(_): raise KeyError('uid not found')\npwd.getpwuid = unknown"


def test_a_user_without_an_entry_can_type(folder: Path) -> None:
    for words in (("show", "plan.json"), ("status",)):
        ended = typed(folder, *words, before=NOBODY, variables={"HOME": ""})
        assert (ended.returncode, ended.stderr) == (0, ""), words


def test_bytes_that_are_no_text_are_refused(folder: Path) -> None:
    words = ["freeze", "demo", "--until", "8h", "--why", "\udcff\udcfe"]
    ended = typed(folder, *words)
    assert ended.returncode == 2 and "is no text in UTF-8" in ended.stderr


def raising(expression: str) -> str:
    return (
        "from counterpoise.cli import planning\n"
        f"def fail(path): {expression}\n"
        "planning.read_plan = fail"
    )


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("raise ZeroDivisionError('s3cr3t')", "ZeroDivisionError"),
        ("return fail(path)", "RecursionError"),
        ("raise OSError(5, 's3cr3t')", "OSError"),
    ],
)
def test_what_nobody_foresaw_is_a_line_and_a_file(expression: str, name: str, folder: Path) -> None:
    ended = typed(folder, "show", "plan.json", before=raising(expression))
    assert ended.returncode == UNEXPECTED == 70
    (line,) = ended.stderr.splitlines()
    assert name in line and "s3cr3t" not in line
    (path,) = folder.glob("counterpoise-*.txt")
    assert str(path) in line and path.stat().st_mode & 0o777 == 0o600
    assert "Traceback" in path.read_text()

"""Completion in real shells: bash, zsh and fish, with the script that each of them gets."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.command_line import CommandLine

SHELLS: Final = ("bash", "zsh", "fish")
SECONDS: Final = 240
CLUSTERS: Final = "clusters: {orders-eu: {connection: a}, orders-us: {connection: b}}\n"
LINES: Final = [
    ("counterpoise unf", {"unfreeze"}),
    ("counterpoise plan --re", {"--replication-factor", "--reassignment-json"}),
    ("counterpoise audit --cluster ", {"orders-eu", "orders-us"}),
    ("counterpoise report --cluster orders-e", {"orders-eu"}),
]
Complete = Callable[[Path, str, dict[str, str]], set[str]]

IN_BASH: Final = """
source "$1"
COMP_LINE="$2"; COMP_POINT=${#2}; COMP_TYPE=9; read -ra COMP_WORDS <<<"$2"
[[ "$2" == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]}-1)); COMPREPLY=()
_python_argcomplete counterpoise
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh completes only what is typed: `compadd` tells what it was given, and Tab starts it.
IN_ZSH: Final = """
autoload -Uz compinit && compinit -u -d {folder}/zcompdump
source {script}
compdef _python_argcomplete counterpoise
_describe() {{ print -l -- "${{(@P)2}}" > {told}; }}
zle -C tell complete-word tell-them
tell-them() {{ _main_complete; }}
bindkey '^I' tell
PS1=ready:
"""


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def in_bash(script: Path, line: str, environment: dict[str, str]) -> set[str]:
    return _printed(["bash", "--norc", "-c", IN_BASH, "bash", str(script), line], environment)


def in_fish(script: Path, line: str, environment: dict[str, str]) -> set[str]:
    """It prints each completion, and its description behind a tab."""
    code = "source $argv[1]; complete -C $argv[2]"
    return _printed(["fish", "--no-config", "-c", code, str(script), line], environment)


def _printed(words: list[str], environment: dict[str, str]) -> set[str]:
    ended = subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return {row.partition("\t")[0].strip() for row in ended.stdout.splitlines()}


def in_zsh(script: Path, line: str, environment: dict[str, str]) -> set[str]:
    """Type the line and Tab into a terminal."""
    folder = script.parent
    told, start = folder / "told", folder / "start.zsh"
    start.write_text(IN_ZSH.format(folder=folder, script=script, told=told))
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(shutil.which("zsh") or "zsh", ["zsh", "-f", "-i"], environment)
    try:
        os.write(terminal, f"source {start}\n".encode())
        seen = _read_until(terminal, lambda seen: b"ready:" in seen.rpartition(b"PS1")[2])
        assert b"ready:" in seen, seen
        os.write(terminal, line.encode() + b"\t")
        _read_until(terminal, lambda _: told.exists() and told.read_text().endswith("\n"))
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return {row.partition(":")[0].strip() for row in told.read_text().splitlines()}


def _read_until(terminal: int, is_enough: Callable[[bytes], bool]) -> bytes:
    seen = b""
    deadline = time.monotonic() + SECONDS
    while not is_enough(seen) and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.05)[0]:
            seen += os.read(terminal, 1 << 16)
    return seen


COMPLETE: Final[dict[str, Complete]] = {"bash": in_bash, "zsh": in_zsh, "fish": in_fish}


@pytest.mark.parametrize(("line", "expected"), LINES)
@pytest.mark.parametrize("name", SHELLS)
def test_a_shell_completes(
    name: str, line: str, expected: set[str], shell: CommandLine, tmp_path: Path
) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed (apt-get install {name})")
    (tmp_path / "clusters.yaml").write_text(CLUSTERS)
    script = tmp_path / "completion"
    script.write_text(shell.type("completion", name).out)
    command = tmp_path / "bin" / "counterpoise"
    command.parent.mkdir()
    code = "from counterpoise.cli.start import run; run()"
    command.write_text(f"#!/bin/bash\nexec {sys.executable} -c '{code}' \"$@\"\n")
    command.chmod(0o755)
    environment = shell.environment | {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "dumb",
    }
    assert COMPLETE[name](script, line, environment) == expected

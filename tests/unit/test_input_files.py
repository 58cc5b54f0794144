"""Files without an end, and archives that unpack to more than fits."""

import gzip
import os
from pathlib import Path

import pytest

from counterpoise.cli import common
from counterpoise.errors import InputError
from counterpoise.input_files import SizeLimit, read_input, read_input_text
from tests.support.broken import documents
from tests.support.command_line import CommandLine

_BYTES = 1_000
_LIMIT = SizeLimit(_BYTES)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"x" * _BYTES)
    assert read_input(path, "document", _LIMIT) == b"x" * _BYTES
    path.write_bytes(b"x" * (_BYTES + 1))
    with pytest.raises(InputError, match=r"^document .*state\.json: it is larger than 1\.0 kB"):
        read_input(path, "document", _LIMIT)


def test_gzip_is_unpacked_up_to_the_limit_with_all_its_members(tmp_path: Path) -> None:
    path = tmp_path / "state.json.gz"
    path.write_bytes(gzip.compress(b"a" * 400) + gzip.compress(b"b" * 600))
    assert read_input(path, "", _LIMIT, unpack=True) == b"a" * 400 + b"b" * 600
    path.write_bytes(gzip.compress(b"a" * 400) + gzip.compress(b"b" * 601))
    with pytest.raises(InputError, match="larger than"):
        read_input(path, "", _LIMIT, unpack=True)


def test_what_is_no_text_is_told_without_the_text(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"s3cr3t \xff")
    with pytest.raises(
        InputError, match="no text in UTF-8: invalid start byte at byte 7"
    ) as caught:
        read_input_text(path, "", _LIMIT)
    assert "s3cr3t" not in str(caught.value)


# -- as people type it


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "--state", "ENDLESS", "--goal", "leaders", "--out", "plan.json"),
        ("show", "ENDLESS"),
        ("verify", "ENDLESS"),
        ("import", "ENDLESS", "--state", "STATE", "--out", "plan.json"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("endless", ["/dev/zero", "bomb.json.gz"])
def test_no_command_reads_without_an_end(
    words: tuple[str, ...],
    endless: str,
    shell: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * 10**7))
    (tmp_path / "state.json").write_text(documents.TEXT)
    monkeypatch.setattr(common, "DOCUMENTS", SizeLimit(10**6))
    there = {"ENDLESS": endless, "STATE": "state.json"}
    typed = shell.type(*(there.get(word, word) for word in words))
    assert typed.code == 2, typed.err
    assert endless in typed.err and "Traceback" not in typed.err
    assert "larger than 1.0 MB" in typed.err


@pytest.mark.parametrize(("name", "limit"), [("connections.yaml", "1.0 MB"), ("ca.pem", "64.0 MB")])
def test_connections_and_certificates_are_read_up_to_a_limit(
    name: str, limit: str, shell: CommandLine, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    shell.configure("127.0.0.1:1")
    settings = f"bootstrap.servers: '127.0.0.1:1', ssl.ca.location: '{ca}'"
    (tmp_path / "connections.yaml").write_text(f"kafka: {{{settings}, security.protocol: SSL}}\n")
    ca.write_text("")
    with (tmp_path / name).open("r+b") as file:
        file.truncate(10**8)
    typed = shell.type("audit", "--cluster", "demo")
    assert typed.code == 2
    assert f"larger than {limit}" in typed.err


# -- what commands write


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_of_commands_are_not_for_others(
    umask: int, shell: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "state.json").write_text(documents.TEXT)
    out, orders = tmp_path / "plan.json", tmp_path / "orders.json"
    out.write_text("old, and for everybody")
    out.chmod(0o666)
    before = os.umask(umask)
    try:
        words = ("--goal", "leaders", "--out", out, "--reassignment-json", orders)
        assert shell.type("plan", "--state", tmp_path / "state.json", *words).code in (0, 1)
    finally:
        os.umask(before)
    for path in (out, orders):
        assert path.stat().st_mode & 0o777 == 0o640 & ~umask
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize(
    ("mode", "settings", "is_warned"),
    [
        (0o644, "sasl.password: s3cr3t", True),
        (0o604, "ssl.key.pem: s3cr3t", True),
        (0o640, "sasl.password: s3cr3t", False),
        (0o600, "sasl.password: s3cr3t", False),
        (0o644, "client.id: us", False),
    ],
)
def test_connections_that_everybody_may_read_are_warned_of(
    mode: int,
    settings: str,
    is_warned: bool,
    shell: CommandLine,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    shell.configure("127.0.0.1:1")
    path = tmp_path / "connections.yaml"
    path.write_text(f'kafka: {{bootstrap.servers: "127.0.0.1:1", {settings}}}\n')
    path.chmod(mode)
    typed = shell.type("audit", "--cluster", "demo")
    assert typed.code in (2, 3)
    assert (f"chmod 600 {path}" in caplog.text) is is_warned
    assert "s3cr3t" not in caplog.text + typed.err


@pytest.mark.parametrize("umask", [0o000, 0o022])
@pytest.mark.parametrize("url", ["sqlite:///{}", "sqlite:///file:{}?uri=true"])
def test_a_ledger_is_for_its_owner_alone(
    umask: int, url: str, shell: CommandLine, tmp_path: Path
) -> None:
    shell.configure("127.0.0.1:1")
    shell.environment["COUNTERPOISE_LEDGER"] = url.format(tmp_path / "new.db")
    before = os.umask(umask)
    try:
        assert shell.type("ledger", "migrate").code == 0
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob("new.db*")}
    assert modes and set(modes.values()) == {0o600}, modes

"""`counterpoise doctor` as typed: exit codes, usage, what is shown; without a cluster."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def test_nothing_answers_is_3_and_every_address_has_its_reason(command: CommandLine) -> None:
    typed = command.type("doctor", "--bootstrap", "no-such-host.invalid:9092,127.0.0.1:1")
    assert typed.code == 3
    assert 'the name "no-such-host.invalid" does not resolve' in typed.out
    assert "Connection refused" in typed.out
    assert not (command.folder / "ledger.db").exists()


def test_json_is_one_document(command: CommandLine) -> None:
    typed = command.type("doctor", "--bootstrap", "127.0.0.1:1", "--json")
    document = json.loads(typed.out)
    assert document["format"] == "counterpoise-doctor/1"
    assert (typed.code, document["answered_by"], document["cluster"]) == (3, None, None)
    assert [step["step"] for step in document["bootstrap"][0]["steps"]] == ["resolve", "tcp"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("enable.ssl.certificate.verification: no", "nobody checks that it is the brokers"),
        ("ssl.endpoint.identification.algorithm: none", "can pose as a broker"),
    ],
)
def test_a_connection_without_verification_is_a_finding(
    command: CommandLine, line: str, said: str
) -> None:
    command.configure("127.0.0.1:1")
    (command.folder / "connections.yaml").write_text(
        f"kafka:\n  bootstrap.servers: 127.0.0.1:1\n  security.protocol: SSL\n  {line}\n"
    )
    typed = command.type("doctor", "--cluster", "demo", "--json")
    (finding,) = [
        row for row in json.loads(typed.out)["findings"] if row["rule"] == "connection-unverified"
    ]
    assert (finding["severity"], finding["subject"]) == ("warning", "connection")
    assert said in finding["seen"]

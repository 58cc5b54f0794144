"""`counterpoise doctor` as typed: exit codes, usage, what is shown; without a cluster."""

import json
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from counterpoise.cli.common import safe_console
from counterpoise.cli.connectivity import print_examination, summary
from counterpoise.discovery.diagnosis import diagnose
from counterpoise.installation import Installation
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.connectivity import (
    Certificate,
    ClusterMetadata,
    ConnectionStage,
    ConnectivityCheck,
    EndpointCheck,
    MetadataResponse,
    StageResult,
)
from counterpoise.model.kafka import BrokerDescription
from counterpoise.pipeline.diagnosing import Examination, examine
from counterpoise.settings import Locations, parse_settings
from tests.support.command_line import CommandLine

NOW = datetime(2026, 3, 1, tzinfo=UTC)


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
    assert (typed.code, document["answered_by"], document["cluster"]) == (3, None, None)
    assert [step["step"] for step in document["bootstrap"][0]["steps"]] == ["resolve", "tcp"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "one of the arguments --cluster --bootstrap is required"),
        (("--bootstrap", "kafka"), 'address "kafka" has no port'),
        (("--cluster", "nope"), "nope"),
    ],
)
def test_usage_is_2(command: CommandLine, words: tuple[str, ...], said: str) -> None:
    command.configure("a:9092")
    typed = command.type("doctor", *words)
    assert typed.code == 2
    assert said in typed.err
    assert "Traceback" not in typed.err


# What a person writes in connections.yaml, and what has to be said about it.
NEAR_MISSES = [
    ("enable.ssl.certificate.verification: treu", '"treu"; it must be true or false'),
    ('enable.ssl.certificate.verification: "yes"', '"yes"; it must be true or false'),
    ('enable.ssl.certificate.verification: ""', '""; it must be true or false'),
    ("SSL.CA.LOCATION: /etc/ca.pem", 'write "ssl.ca.location"'),
    ("ssl.ca.locaton: /etc/ca.pem", 'did you mean "ssl.ca.location"?'),
    ("ssl.endpoint.identification.algorithm: nome", "it must be https or none"),
]


@pytest.mark.parametrize("words", [("doctor",), ("snapshot", "--out", "state.json")], ids=str)
@pytest.mark.parametrize(("line", "said"), NEAR_MISSES)
def test_a_tls_setting_that_would_not_hold_is_refused(
    command: CommandLine, words: tuple[str, ...], line: str, said: str
) -> None:
    command.configure("127.0.0.1:1")
    (command.folder / "connections.yaml").write_text(
        f"kafka:\n  bootstrap.servers: 127.0.0.1:1\n  security.protocol: SSL\n  {line}\n"
    )
    typed = command.type(*words, "--cluster", "demo")
    assert typed.code == 2
    assert "connection kafka: 1 problem" in typed.err
    assert said in typed.err


@pytest.mark.parametrize("words", [("doctor",), ("snapshot", "--out", "state.json")], ids=str)
def test_tls_settings_are_not_ignored_where_tls_is_misspelt(
    command: CommandLine, words: tuple[str, ...]
) -> None:
    command.configure("127.0.0.1:1")
    (command.folder / "connections.yaml").write_text(
        "kafka: {bootstrap.servers: 127.0.0.1:1, security_protocol: SSL, ssl.ca.location: /x}\n"
    )
    typed = command.type(*words, "--cluster", "demo")
    assert typed.code == 2
    assert 'write "security.protocol"' in typed.err
    assert '"ssl.ca.location" would be ignored with "security.protocol" PLAINTEXT' in typed.err


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


def test_a_connection_that_cannot_be_used_is_2_and_shows_no_secret(command: CommandLine) -> None:
    command.configure("a:9092")
    given = {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.password": "hush-hush",
    }
    (command.folder / "connections.yaml").write_text(json.dumps({"kafka": given}))
    typed = command.type("doctor", "--cluster", "demo")
    assert typed.code == 2
    assert '"sasl.mechanism" is missing' in typed.err
    assert "hush-hush" not in typed.err + typed.out


HOSTILE = "[red]kafka\x1b[2J\n\x07.example"


def hostile_examination() -> Examination:
    metadata = MetadataResponse(
        HOSTILE, (BrokerDescription(1, HOSTILE, 9092, HOSTILE, is_fenced=False),)
    )
    certificate = Certificate(HOSTILE, HOSTILE, (HOSTILE,), NOW, matches_host=False)
    fine = EndpointCheck(
        "a:9092",
        (StageResult(ConnectionStage.METADATA, True, HOSTILE, 1),),
        ("::1",),
        certificate,
        metadata,
    )
    broken = EndpointCheck(
        f"{HOSTILE}:9092", (StageResult(ConnectionStage.RESOLVE, False, HOSTILE, 1),)
    )
    connectivity = ConnectivityCheck("SSL", (fine,), {1: broken})
    seen = ClusterMetadata(metadata.brokers, (), unavailable=(HOSTILE,))
    return Examination(connectivity, seen, diagnose(connectivity, seen, topics=(HOSTILE,), now=NOW))


def test_text_from_outside_is_shown_as_text_only() -> None:
    screen = StringIO()
    console = safe_console(Console(file=screen, width=300, force_terminal=False))
    print_examination(console, hostile_examination())
    shown = screen.getvalue()
    assert "\x1b" not in shown and "\x07" not in shown
    assert shown.count("[red]kafka") >= 8
    json.dumps(summary(hostile_examination()))


def test_a_site_without_a_network_is_handed_its_walk(tmp_path: Path) -> None:
    asked: list[tuple[str, ...]] = []

    def connectivity_checker(settings: ConnectionSettings) -> ConnectivityCheck:
        asked.append(settings.bootstrap_servers)
        return hostile_examination().connectivity

    class Connection:
        def settings_for(self, _: str) -> dict[str, object]:
            return {"bootstrap.servers": "a:9092,b:9092"}

    known = parse_settings("clusters:\n  demo:\n    connection: kafka\n", where="a test")
    locations = Locations.from_environment({"COUNTERPOISE_STORE": str(tmp_path)})
    with Installation(
        locations, Connection(), known_clusters=known, connectivity_checker=connectivity_checker
    ) as installation:
        assert installation.check_connectivity("demo").answered_by is not None
        assert "endpoint-unreachable" in {
            finding.rule for finding in examine(installation, "demo").findings
        }
    assert asked == [("a:9092", "b:9092")] * 2

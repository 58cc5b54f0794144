"""`counterpoise audit` by way of TLS and SASL: a certificate that has expired, a wrong password, a
broker without rack.

One cluster: three brokers, of which the third names no rack, and the second shows an expired
certificate to clients.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import local_kafka
from local_kafka import BrokerSpec, Listener, LocalKafka, TopicSpec, create_topics
from local_processes import free_ports
from tests.support.certificates import DAY, Authority
from tests.support.command_line import CommandLine
from tests.support.kafka_facts import ON_A_SHARED_DISK

RACKS = {1: "a", 2: "b", 3: None}
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_me="hush-hush";'
RUN = "from counterpoise.cli.main import run; run()"
TOLD = ("warning", "critical")
# What is true of these brokers by whichever listener they are asked.
ALWAYS = {
    *(("advertised-loopback", f"broker {broker_id}") for broker_id in RACKS),
    ("default-replication-factor", "default.replication.factor"),
    ("min-insync-1", "cluster"),
    ("racks-missing", "broker 3"),
}


@dataclass(frozen=True)
class Secured:
    kafka: LocalKafka
    tls: dict[int, str]  # address by broker
    sasl: dict[int, str]
    ca: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    free = iter(free_ports(2 * len(RACKS)))
    tls = {broker_id: Listener("TLS", next(free), "SSL") for broker_id in RACKS}
    sasl = {broker_id: Listener("SASL", next(free), "SASL_PLAINTEXT") for broker_id in RACKS}
    now = datetime.now(UTC)
    authority = Authority(folder)
    good = authority.sign("good", ends=now + 200 * DAY)
    expired = authority.sign("expired", ends=now - 3 * DAY)
    brokers = [
        BrokerSpec(
            broker_id,
            rack,
            {"listener.name.tls.ssl.keystore.location": str(expired if broker_id == 2 else good)},
            listeners=(tls[broker_id], sasl[broker_id]),
        )
        for broker_id, rack in RACKS.items()
    ]
    properties = {
        "listener.name.tls.ssl.keystore.type": "PEM",
        "listener.name.sasl.plain.sasl.jaas.config": LOGIN,
        "sasl.enabled.mechanisms": "PLAIN",
    }
    with local_kafka.running(folder / "kafka", brokers, properties) as kafka:
        create_topics(
            kafka.bootstrap_string, [TopicSpec("orders", [(1, 2, 3), (2, 3, 1), (3, 1, 2)])]
        )
        yield Secured(
            kafka,
            {broker_id: one.address for broker_id, one in tls.items()},
            {broker_id: one.address for broker_id, one in sasl.items()},
            authority.file,
        )


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def connect(shell: CommandLine, bootstrap: str, **extra: str) -> None:
    shell.configure(bootstrap, extra=f"    policy: {{{ON_A_SHARED_DISK}}}\n")
    settings = {"bootstrap.servers": bootstrap} | {
        key.replace("_", "."): value for key, value in extra.items()
    }
    (shell.folder / "connections.yaml").write_text(json.dumps({"kafka": settings}))


def audited(shell: CommandLine) -> dict[str, Any]:
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    assert typed.code == 1, typed.err or typed.out
    document: dict[str, Any] = json.loads(typed.out)
    return document


def subjects(document: dict[str, Any], severities: tuple[str, ...] = TOLD) -> set[tuple[str, str]]:
    return {
        (row["rule"], row["subject"])
        for row in document["findings"]
        if row["severity"] in severities
    }


def test_a_broker_without_a_rack_where_others_have_one(
    secured: Secured, shell: CommandLine
) -> None:
    connect(shell, secured.kafka.bootstrap_string)
    document = audited(shell)
    assert subjects(document) == ALWAYS
    assert subjects(document, ("unknown",)) == {("quorum-one-rack", "quorum")}
    (rack,) = [row for row in document["findings"] if row["rule"] == "racks-missing"]
    assert rack["seen"] == "broker 3 has no rack, 2 others have one"
    assert rack["evidence"]["rows"] == [["1", "a"], ["2", "b"], ["3", "none"]]


def test_a_certificate_that_has_expired_on_one_broker(secured: Secured, shell: CommandLine) -> None:
    connect(
        shell,
        ",".join(secured.tls.values()),
        security_protocol="SSL",
        ssl_ca_location=str(secured.ca),
    )
    document = audited(shell)
    assert subjects(document) == {
        *ALWAYS,
        ("certificate-expires", "broker 2"),
        ("advertised-unreachable", "broker 2"),
        ("bootstrap-dead-address", f"bootstrap address {secured.tls[2]}"),
    }
    assert subjects(document, ("unknown",)) == {
        ("quorum-one-rack", "quorum"),
        ("bootstrap-one-rack", "cluster"),  # broker 3, one of two that answer, names none
        ("not-answered", "broker 2"),
    }
    (row,) = [row for row in document["findings"] if row["rule"] == "certificate-expires"]
    assert row["severity"] == "critical"
    assert row["seen"].startswith(f"the certificate of {secured.tls[2]} expired at ")
    assert row["evidence"]["rows"][0][:2] == ["CN=expired", "CN=the authority of a test"]


def test_a_wrong_password_is_one_message_and_nothing_is_written(
    secured: Secured, shell: CommandLine
) -> None:
    login = {
        "sasl_mechanism": "PLAIN",
        "sasl_username": "me",
        "security_protocol": "SASL_PLAINTEXT",
    }
    bootstrap = ",".join(secured.sasl.values())
    connect(shell, bootstrap, **login, sasl_password="not-the-one")
    files = set(shell.folder.rglob("*"))
    # In a process of its own: what is logged there goes to stderr, and not to the tests' own log.
    command = [sys.executable, "-c", RUN, "audit", "--cluster", "demo", "--json"]
    typed = subprocess.run(
        command,
        env={**os.environ, **shell.environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (typed.returncode, typed.stdout) == (3, "")
    first, *lines, last = typed.stderr.splitlines()
    assert first == "counterpoise audit: no bootstrap address answered (3 tried):"
    assert (
        last == "Check the addresses, the security settings and the network between here and "
        "the brokers."
    )
    for address, line in zip(secured.sasl.values(), lines, strict=True):
        assert line.lstrip().startswith(f"{address}: SASL PLAIN failed: ")
        assert "Invalid username or password" in line
    assert not any(secret in typed.stderr for secret in ("not-the-one", "hush-hush"))
    assert set(shell.folder.rglob("*")) == files
    connect(shell, bootstrap, **login, sasl_password="hush-hush")
    assert subjects(audited(shell)) == ALWAYS

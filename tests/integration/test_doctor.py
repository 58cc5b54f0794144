"""`counterpoise doctor` on real brokers: it names every mistake from bootstrap to leader, and only
those.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509

import local_kafka
from local_kafka import BrokerSpec, Listener, LocalKafka, TopicSpec, create_topics
from local_processes import free_ports
from tests.support.certificates import DAY, Authority
from tests.support.command_line import CommandLine, Typed
from tests.support.faults import NOTICED_SOON

TLS = ("TLS", "EXPIRED", "ELSEWHERE", "MUTUAL")
NAMES = ("ASTRAY", "NAMED", "SWAPPED", "SASL", *TLS)
MODULES = "org.apache.kafka.common.security"
LOGINS = {
    "plain": f'{MODULES}.plain.PlainLoginModule required user_me="hush-hush";',
    "scram-sha-256": f"{MODULES}.scram.ScramLoginModule required;",
    "oauthbearer": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}
PLAIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "hush-hush",
}


@dataclass(frozen=True)
class Clinic:
    """Two brokers.

    Broker 1 is well everywhere; broker 2 advertises something wrong on three of its listeners.
    """

    kafka: LocalKafka
    ports: dict[str, tuple[int, int]]
    dead: str
    ca: Path

    def at(self, listener: str, broker_id: int = 1) -> str:
        return f"127.0.0.1:{self.ports[listener][broker_id - 1]}"


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clinic]:
    folder = tmp_path_factory.mktemp("doctor")
    ports, dead = listener_ports()
    wrong = {
        "ASTRAY": dead,
        "NAMED": f"kafka2.invalid:{ports['NAMED'][1]}",
        "SWAPPED": f"127.0.0.1:{ports['SWAPPED'][0]}",
    }
    protocols = {"SASL": "SASL_PLAINTEXT"} | dict.fromkeys(TLS, "SSL")
    brokers = [
        BrokerSpec(
            broker_id,
            f"rack-{broker_id}",
            listeners=tuple(
                Listener(
                    name,
                    ports[name][broker_id - 1],
                    protocols.get(name, "PLAINTEXT"),
                    wrong.get(name) if broker_id == 2 else None,
                )
                for name in NAMES
            ),
        )
        for broker_id in (1, 2)
    ]
    ca = make_certificates(folder)
    properties = NOTICED_SOON | {"auto.create.topics.enable": "true"} | secured_properties(folder)
    with local_kafka.running(folder / "kafka", brokers, properties) as kafka:
        create_topics(
            kafka.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 1), (1, 2), (2, 1)])]
        )
        add_scram_user(kafka.bootstrap_string)
        yield Clinic(kafka, ports, dead, ca)


def listener_ports() -> tuple[dict[str, tuple[int, int]], str]:
    """A port for each listener of each broker, and an address where nobody listens."""
    free = iter(free_ports(2 * len(NAMES) + 1))
    dead = f"127.0.0.1:{next(free)}"
    return {name: (next(free), next(free)) for name in NAMES}, dead


def secured_properties(folder: Path) -> dict[str, str]:
    properties = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER"}
    properties |= {
        f"listener.name.sasl.{name}.sasl.jaas.config": login for name, login in LOGINS.items()
    }
    for name in TLS:
        properties[f"listener.name.{name.lower()}.ssl.keystore.type"] = "PEM"
        properties[f"listener.name.{name.lower()}.ssl.keystore.location"] = str(
            folder / f"{name}.pem"
        )
    properties["listener.name.mutual.ssl.client.auth"] = "required"
    properties["listener.name.mutual.ssl.truststore.type"] = "PEM"
    properties["listener.name.mutual.ssl.truststore.location"] = str(folder / "ca.pem")
    return properties


def add_scram_user(bootstrap: str) -> None:
    credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("me", credential, b"hush-hush")
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.alter_user_scram_credentials([change])["me"].result(20)


def make_certificates(folder: Path) -> Path:
    """One of each kind, in `<name>.pem`; what clients trust."""
    now = datetime.now(UTC)
    authority = Authority(folder)
    for name in ("TLS", "MUTUAL"):
        authority.sign(name, ends=now + 200 * DAY)
    authority.sign("EXPIRED", ends=now - 3 * DAY)
    authority.sign("ELSEWHERE", ends=now + 10 * DAY, host=x509.DNSName("*.kafka.example"))
    return authority.file


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def examined(
    command: CommandLine, bootstrap: str, *words: str, **extra: str
) -> tuple[int, dict[str, Any]]:
    """Exit code and JSON of `doctor` for a connection; secrets are nowhere in what it prints."""
    command.configure(bootstrap)
    given = {"bootstrap.servers": bootstrap} | {
        key.replace("_", "."): value for key, value in extra.items()
    }
    (command.folder / "connections.yaml").write_text(json.dumps({"kafka": given}))
    typed: Typed = command.type("doctor", "--cluster", "demo", "--json", *words)
    assert "hush-hush" not in typed.out + typed.err
    assert not typed.err
    return typed.code, json.loads(typed.out)


def rules(found: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in found["findings"]]


def failed_stage(end: dict[str, Any]) -> tuple[str, str]:
    last = end["steps"][-1]
    assert not last["ok"]
    return last["step"], last["said"]


def test_a_healthy_cluster_is_told_in_full_and_nothing_is_found(
    clinic: Clinic, command: CommandLine
) -> None:
    code, found = examined(command, clinic.kafka.bootstrap_string, "--topic", "orders")
    assert (code, found["findings"]) == (0, [])
    assert found["cluster_id"] == clinic.kafka.cluster_id
    assert found["cluster"]["controller_id"] == 1
    assert [
        (b["broker_id"], b["rack"], b["is_fenced"], b["leaders"])
        for b in found["cluster"]["brokers"]
    ] == [
        (1, "rack-1", False, 2),
        (2, "rack-2", False, 2),
    ]
    assert [end["is_expected_broker"] for end in found["advertised"].values()] == [True, True]
    assert [step["step"] for step in found["bootstrap"][0]["steps"]] == [
        "resolve",
        "tcp",
        "api versions",
        "metadata",
    ]
    shown = command.type("doctor", "--bootstrap", clinic.kafka.bootstrap_string)
    assert shown.code == 0
    assert (
        "active controller 1; brokers: 2 registered, 2 live, 0 fenced; 1 topics, 4 partitions"
        in shown.out
    )


def test_a_topic_that_is_not_there_is_named_and_not_created(
    clinic: Clinic, command: CommandLine
) -> None:
    code, found = examined(
        command, clinic.kafka.bootstrap_string, "--topic", "no-such", "--watch", "--for", "1s"
    )
    assert (code, rules(found)) == (1, ["topic-unknown"])
    topics = (
        AdminClient({"bootstrap.servers": clinic.kafka.bootstrap_string})
        .list_topics(timeout=20)
        .topics
    )
    assert set(topics) == {"orders"}


def test_a_dead_entry_of_the_list_is_found_although_the_next_one_answers(
    clinic: Clinic, command: CommandLine
) -> None:
    alive = clinic.kafka.bootstrap[0]
    code, found = examined(command, f"{clinic.dead},{alive},no-such-host.invalid:9092")
    assert (code, found["answered_by"]) == (1, alive)
    assert [end["answered"] for end in found["bootstrap"]] == [False, True, False]
    assert rules(found) == ["bootstrap-silent", "bootstrap-silent"]
    assert failed_stage(found["bootstrap"][0]) == ("tcp", "Connection refused")
    assert failed_stage(found["bootstrap"][2])[0] == "resolve"


def test_nothing_answers(clinic: Clinic, command: CommandLine) -> None:
    code, found = examined(command, clinic.dead, "--watch")
    assert (code, found["answered_by"], found["cluster"]) == (3, None, None)


def test_a_wrong_advertised_port_and_what_it_breaks(clinic: Clinic, command: CommandLine) -> None:
    code, found = examined(command, clinic.at("ASTRAY"), "--topic", "orders")
    (finding,) = found["findings"]
    assert (code, finding["rule"], finding["subject"]) == (1, "endpoint-unreachable", "broker 2")
    assert finding["seen"] == (
        f"bootstrap answers, but broker 2 advertises {clinic.dead}, "
        "which cannot be connected to from here (Connection refused): "
        "producing to orders-1, orders-3 will fail"
    )
    assert "advertised.listeners on 2" in finding["fix"][0]
    assert [(p["leader"], p["endpoint"]) for p in found["leaders"]["orders"]] == [
        (1, "answers"),
        (2, "does not answer"),
    ] * 2
    assert (
        "2       DOES NOT ANSWER  1, 3"
        in command.type("doctor", "--cluster", "demo", "--topic", "orders").out
    )


def test_an_advertised_name_that_does_not_resolve(clinic: Clinic, command: CommandLine) -> None:
    _, found = examined(command, clinic.at("NAMED"), "--topic", "orders")
    (finding,) = found["findings"]
    port = clinic.ports["NAMED"][1]
    assert (
        f"broker 2 advertises kafka2.invalid:{port}, which does not resolve from here"
        in finding["seen"]
    )


def test_another_broker_at_the_advertised_endpoint(clinic: Clinic, command: CommandLine) -> None:
    code, found = examined(command, clinic.at("SWAPPED", 2))
    (finding,) = found["findings"]
    assert (code, finding["rule"]) == (1, "unexpected-broker")
    assert f"broker 2 advertises {clinic.at('SWAPPED')}, where broker 1 answers" in finding["seen"]


@pytest.mark.parametrize(
    "login",
    [
        PLAIN,
        PLAIN | {"sasl.mechanism": "SCRAM-SHA-256"},
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=me",
        },
    ],
    ids=["plain", "scram", "oauthbearer"],
)
def test_every_mechanism_is_walked(
    clinic: Clinic, command: CommandLine, login: dict[str, str]
) -> None:
    code, found = examined(command, clinic.at("SASL"), **login)
    assert (code, found["findings"]) == (0, [])
    steps = [step["step"] for step in found["bootstrap"][0]["steps"]]
    assert steps == ["resolve", "tcp", "sasl", "api versions", "metadata"]
    assert [end["answered"] for end in found["advertised"].values()] == [True, True]


@pytest.mark.parametrize(
    ("at", "extra", "step", "said"),
    [
        (
            "SASL",
            PLAIN | {"sasl.password": "wrong"},
            "sasl",
            "PLAIN failed: .*Invalid username or password",
        ),
        (
            "SASL",
            PLAIN | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "wrong"},
            "sasl",
            "SCRAM-SHA-256 failed: .*invalid credentials",
        ),
        (
            "SASL",
            PLAIN | {"sasl.mechanism": "SCRAM-SHA-512"},
            "sasl",
            "does not offer SCRAM-SHA-512; it offers .*PLAIN",
        ),
        (
            "SASL",
            {},
            "metadata",
            r"it wants SASL \(.*PLAIN.*\), but \"security.protocol\" is PLAINTEXT",
        ),
        ("ASTRAY", PLAIN, "sasl", "does not accept SASL on this listener"),
        ("TLS", {}, "api versions", 'it speaks TLS, but "security.protocol" is PLAINTEXT'),
        (
            "ASTRAY",
            {"security.protocol": "SSL"},
            "tls",
            'it does not speak TLS, but "security.protocol" is SSL',
        ),
        ("EXPIRED", {"security.protocol": "SSL"}, "tls", "certificate expired on "),
        (
            "ELSEWHERE",
            {"security.protocol": "SSL"},
            "tls",
            r"is for \*\.kafka\.example, not for 127\.0\.0\.1",
        ),
    ],
)
def test_every_mistake_at_a_secured_listener_is_named_with_its_step(
    clinic: Clinic, command: CommandLine, at: str, extra: dict[str, str], step: str, said: str
) -> None:
    ca = {"ssl.ca.location": str(clinic.ca)} if extra.get("security.protocol") == "SSL" else {}
    code, found = examined(command, clinic.at(at), **(extra | ca))
    assert code == 3
    where, reason = failed_stage(found["bootstrap"][0])
    assert where == step
    assert re.search(said, reason)
    if at in ("EXPIRED", "ELSEWHERE"):  # shown although it is not trusted
        assert found["bootstrap"][0]["certificate"]["subject"] == f"CN={at}"
        assert found["bootstrap"][0]["certificate"]["issuer"] == "CN=the authority of a test"


def test_an_authority_that_is_not_trusted_is_named(clinic: Clinic, command: CommandLine) -> None:
    _, found = examined(command, clinic.at("TLS"), **{"security.protocol": "SSL"})
    assert (
        "was issued by CN=the authority of a test, which is not trusted here"
        in failed_stage(found["bootstrap"][0])[1]
    )


def test_a_broker_that_wants_a_certificate_of_ours_says_so(
    clinic: Clinic, command: CommandLine
) -> None:
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(clinic.ca)}
    code, found = examined(command, clinic.at("MUTUAL"), **tls)
    assert (code, failed_stage(found["bootstrap"][0])[0]) == (3, "tls")
    assert (
        'requires a client certificate; set "ssl.certificate.location"'
        in failed_stage(found["bootstrap"][0])[1]
    )
    own = str(clinic.ca.parent / "TLS.pem")
    code, found = examined(
        command,
        clinic.at("MUTUAL"),
        **tls,
        **{"ssl.certificate.location": own, "ssl.key.location": own},
    )
    assert (code, found["findings"]) == (0, [])


def test_certificates_are_shown_and_their_end_is_a_finding(
    clinic: Clinic, command: CommandLine
) -> None:
    tls = {"security.protocol": "SSL", "ssl.ca.location": str(clinic.ca)}
    code, found = examined(command, clinic.at("TLS"), **tls)
    certificate = found["bootstrap"][0]["certificate"]
    assert (code, certificate["names"], certificate["matches_host"]) == (0, ["127.0.0.1"], True)
    nameless = tls | {"ssl.endpoint.identification.algorithm": "none"}
    code, found = examined(command, clinic.at("ELSEWHERE"), **nameless)
    assert (code, rules(found)) == (1, ["certificate-expires-soon"])
    assert not found["bootstrap"][0]["certificate"]["matches_host"]
    blind = tls | {"enable.ssl.certificate.verification": "false"}
    code, found = examined(command, clinic.at("EXPIRED"), **blind)
    assert (code, rules(found)) == (1, ["certificate-expired"])


# The signal as a terminal sends it: a shell's background jobs start with it ignored.
COMMAND = """
import signal
from counterpoise.cli.main import run
signal.signal(signal.SIGINT, signal.default_int_handler)
run()
"""


def test_a_failover_is_followed_to_the_in_sync_replica(
    clinic: Clinic, command: CommandLine
) -> None:
    """The last test: broker 2 is dead afterwards."""
    bootstrap = clinic.kafka.bootstrap_string
    words = (
        "doctor",
        "--bootstrap",
        bootstrap,
        "--topic",
        "orders",
        "--watch",
        "--json",
        "--for",
        "90s",
    )
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words], stdout=subprocess.PIPE, text=True
    ) as watching:
        try:
            assert watching.stdout is not None
            assert json.loads(watching.stdout.readline())["findings"] == []
            clinic.kafka.kill_broker(2)
            seen = [
                json.loads(line)
                for line in (watching.stdout.readline(), watching.stdout.readline())
            ]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(30) == 0
        finally:
            watching.kill()
    assert [
        (one["topic_partition"], one["before"], one["after"], one["was_in_sync"]) for one in seen
    ] == [
        ("orders-1", 2, 1, True),
        ("orders-3", 2, 1, True),
    ]
    assert all(one["silent_seconds"] >= one["seconds"] > 0 for one in seen)
    code, found = examined(command, bootstrap)
    assert (code, set(rules(found))) == (1, {"bootstrap-silent", "broker-fenced"})
    assert found["cluster"]["brokers"][1]["is_fenced"]

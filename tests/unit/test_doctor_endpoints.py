"""`doctor` before a broker that says what no broker should say, and before very many endpoints."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from counterpoise.kafka_admin import connectivity
from tests.support.command_line import CommandLine
from tests.support.fake_broker import HERE, Answers, fake_broker

MANY = 3_000


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


@contextmanager
def refused_port() -> Iterator[int]:
    """A port that nobody listens at, and that nobody else gets."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (Answers(brokers=[]), "it reports no broker at all"),
        (Answers(cluster_id=None), "it reports no cluster id"),
        (Answers(cluster_id=""), "it reports no cluster id"),
        (Answers(brokers=[(1, HERE, 0), (2, None, 9092)]), "without a host or with a wrong id: 2"),
        (Answers(brokers=[(1, HERE, 0), (2, "", 9092)]), "without a host or with a wrong id: 2"),
        (Answers(brokers=[(-1, HERE, 0)]), "without a host or with a wrong id: -1"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_metadata_that_no_client_can_use_is_named(
    answers: Answers, said: str, shell: CommandLine
) -> None:
    with fake_broker(answers) as address:
        typed = shell.type("doctor", "--bootstrap", address)
        assert typed.code == 3 and said in typed.out
        # Other commands stop before librdkafka reads it: without a cluster id that crashes.
        typed = shell.type("snapshot", "--bootstrap", address)
        assert typed.code == 3 and said in typed.err


@pytest.mark.parametrize("port", [0, -1, 65_536, 70_000])
def test_a_port_that_is_none_is_told_as_such(port: int, shell: CommandLine) -> None:
    with fake_broker(Answers(brokers=[(1, HERE, 0), (2, "kafka-2", port)])) as address:
        typed = shell.type("doctor", "--bootstrap", address, "--json")
    (finding,) = (
        found
        for found in json.loads(typed.out)["findings"]
        if found["rule"] == "advertised-unreachable"
    )
    assert typed.code == 1 and "ports are from 1 to 65535" in finding["seen"]
    assert "does not resolve" not in finding["seen"]


def test_thousands_of_refused_endpoints_are_checked_and_counted(shell: CommandLine) -> None:
    with refused_port() as port:
        others = [(number, "127.0.0.1", port) for number in range(2, MANY + 2)]
        partitions = [(f"topic-{number}", 0, 2 + number % MANY, [1]) for number in range(MANY)]
        with fake_broker(Answers([(1, HERE, 0), *others], partitions=partitions)) as address:
            typed = shell.type("doctor", "--bootstrap", address)
    assert typed.code == 1
    assert "1 of 3,001 respond as they should" in typed.out
    assert typed.out.count("endpoint") < 1_000, "not all of them are printed"
    assert "and 2,800 more; --json has all" in typed.out
    assert f"broker 1000 advertises 127.0.0.1:{port}: on every client" in typed.out


def test_what_there_was_no_time_for_is_a_finding(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connectivity, "_MAX_PARALLEL", 1)
    clock = iter(range(10_000))
    monkeypatch.setattr(connectivity, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(connectivity, "_TIME_SECONDS", 20.0)
    with refused_port() as port:
        brokers = [(1, HERE, 0), *((number, "127.0.0.1", port) for number in range(2, 60))]
        with fake_broker(Answers(brokers)) as address:
            typed = shell.type("doctor", "--bootstrap", address, "--json")
    document = json.loads(typed.out)
    assert typed.code == 1 and document["unchecked"]
    assert len(document["advertised"]) + len(document["unchecked"]) == 59
    assert "endpoints-not-checked" in {found["rule"] for found in document["findings"]}

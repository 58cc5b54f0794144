"""Every way into a secured cluster while partitions move: a run that is killed, stopped without
ledger and Airflow, watched, and planned anew.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.model.acl import OPERATOR_ACLS, READER_ACLS
from dev.local_kafka import TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine, Typed
from tests.support.kafka_facts import ongoing_reassignments, placement, throttle_lines
from tests.support.secured_kafka import MECHANISMS, SecuredKafka, connect, secured_kafka

WHERE = ("--cluster", "demo")
OTHER_WAYS = ("token_file", "token_url", "pem")
EXECUTE = "from counterpoise.cli.main import run; run()"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as cluster:
        cluster.allow("reader", READER_ACLS)
        cluster.allow("operator", OPERATOR_ACLS)
        yield cluster


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def typed(shell: CommandLine, *words: str | Path) -> Typed:
    found = shell.type(*words)
    assert found.code == 0, f"{words}: {found.code}\n{found.out}\n{found.err}"
    return found


def settings(secured: SecuredKafka, way: str, who: str, folder: Path) -> dict[str, str]:
    """Return the settings of a mechanism, or of one of OTHER_WAYS."""
    if way == "pem":
        pem = (secured.folder / f"{who}.pem").read_text()
        return {
            "bootstrap.servers": secured.addresses("MUTUAL"),
            "security.protocol": "SSL",
            "ssl.ca.pem": secured.ca.read_text(),
            "ssl.certificate.pem": pem,
            "ssl.key.pem": pem,
        }
    if way not in OTHER_WAYS:
        return secured.settings(way, who)
    file = folder / f"{who}.token"
    file.write_text(secured.tokens.sign(who))
    source = str(file) if way == "token_file" else secured.tokens.static_url(who)
    given = secured.settings("OAUTHBEARER", who)
    without_oidc = {key: value for key, value in given.items() if ".oauthbearer" not in key}
    return without_oidc | {"sasl.oauthbearer.config": f"{way}={source}"}


@pytest.mark.parametrize("way", [*MECHANISMS, *OTHER_WAYS])
def test_killed_stopped_watched_and_planned_anew(
    secured: SecuredKafka, shell: CommandLine, way: str
) -> None:
    topic, bootstrap = f"orders-{way.lower()}", secured.kafka.bootstrap_string
    create_topics(bootstrap, [TopicSpec(topic, [(1, 2)] * 6)])
    fill(bootstrap, topic, dict.fromkeys(range(6), 5_000_000))
    before = placement(secured.kafka)
    reader, operator = (settings(secured, way, who, shell.folder) for who in ("reader", "operator"))
    connect(shell, reader, operator)
    plan = shell.folder / "plan.json"
    goal = ("--goal", "rebalance", "--topics", topic)
    typed(shell, "plan", *WHERE, *goal, "--out", plan)
    typed(shell, "approve", plan, "--rate", "1MB/s", "--reason", "a test")
    with subprocess.Popen(
        [sys.executable, "-c", EXECUTE, "execute", str(plan)],
        env=os.environ | shell.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: bool(ongoing_reassignments(secured.kafka)), "a partition moves", 60)
        finally:
            process.kill()
    typed(shell, "stop", "--from-plan", plan, *WHERE)
    assert (ongoing_reassignments(secured.kafka), throttle_lines(secured.kafka)) == ("", [])
    now = placement(secured.kafka)
    assert any(now[f"{topic}-{number}"] == before[f"{topic}-{number}"] for number in range(6))
    typed(shell, "settle", plan)
    typed(shell, "watch", *WHERE)
    again = shell.folder / "again.json"
    typed(shell, "plan", *WHERE, *goal, "--out", again)
    typed(shell, "approve", again, "--rate", "50MB/s", "--reason", "a test")
    typed(shell, "execute", again)
    typed(shell, "verify", again)
    assert json.loads(typed(shell, "doctor", *WHERE, "--json").out)["findings"] == []
    assert throttle_lines(secured.kafka) == []

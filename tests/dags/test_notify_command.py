"""`counterpoise notify --test` as typed: a message to each webhook and mail address, by Airflow's
connections wherever Airflow has them, and why one did not go.
"""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.models.connection import Connection
from airflow.utils.session import create_session

from tests.support.command_line import CommandLine
from tests.support.message_servers import MailServer, Webhook

SECRET = "T0-B0-verysecret"
MAIL_EXTRA = {"from_email": "a@b.c", "disable_ssl": True, "disable_tls": True, "retry_limit": 1}
SETTINGS = """\
notify: {webhooks: [kafka_ops], email: [ops@example.org]}
clusters:
  demo: {connection: kafka_demo}
  orders: {connection: kafka_demo}
  own: {connection: kafka_demo, policy: {notify: {webhooks: [kafka_own]}}}
  quiet: {connection: kafka_demo, policy: {notify: {}}}
"""


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with Webhook() as hook:
        yield hook


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], hook: Webhook) -> CommandLine:
    line = CommandLine.in_folder(tmp_path, capsys)
    (tmp_path / "clusters.yaml").write_text(SETTINGS)
    webhook = {"conn_type": "http", "host": hook.url, "password": SECRET}
    line.environment["AIRFLOW_CONN_KAFKA_OPS"] = json.dumps(webhook)
    line.environment["AIRFLOW__API__BASE_URL"] = "https://airflow.example/air"
    return line


def test_each_target_gets_one_message_whatever_clusters_name_it(
    command: CommandLine, hook: Webhook
) -> None:
    """The connection of the cluster `own` is in Airflow's database alone."""
    own = Connection(conn_id="kafka_own", conn_type="http", host=f"{hook.url}/own")
    with create_session() as session:
        session.add(own)
    with MailServer() as mail:
        smtp = {"conn_type": "smtp", "host": "127.0.0.1", "port": mail.port, "extra": MAIL_EXTRA}
        command.environment["AIRFLOW_CONN_SMTP_DEFAULT"] = json.dumps(smtp)
        typed = command.type("notify", "--test")
    with create_session() as session:
        session.delete(own)
    assert typed.out.splitlines() == [
        "webhook kafka_ops: sent",
        "email ops@example.org: sent",
        "webhook kafka_own: sent",
    ]
    assert (typed.code, typed.err) == (0, "")
    assert hook.paths == [f"/{SECRET}", "/own"]
    assert hook.bodies[0]["text"].splitlines() == [
        "*Counterpoise: a test message*",
        "Messages about demo, orders come here.",
        "Sent by tester.",
        "https://airflow.example/air/counterpoise/fleet",
    ]
    ((recipients, message),) = mail.messages
    assert recipients == ("ops@example.org",)
    assert message["Subject"] == "Counterpoise: a test message"
    assert not (command.folder / "ledger.db").exists()


def test_what_is_not_sent_is_said_with_the_reason_and_without_a_secret(
    command: CommandLine, hook: Webhook
) -> None:
    hook.answers = [403]
    command.environment["AIRFLOW_CONN_SMTP_DEFAULT"] = json.dumps(
        {"conn_type": "smtp", "host": "127.0.0.1", "port": 1, "extra": MAIL_EXTRA}
    )
    typed = command.type("notify", "--test")
    assert typed.out.splitlines() == [
        "webhook kafka_ops: not sent: connection kafka_ops answered 403",
        "email ops@example.org: not sent: connection smtp_default: ConnectionRefusedError",
        "webhook kafka_own: not sent: Airflow has no connection 'kafka_own'",
        "Look at the connection in Airflow (Admin > Connections): kafka_ops, smtp_default, "
        "kafka_own.",
    ]
    assert typed.code == 3
    assert SECRET not in typed.out + typed.err


def test_one_cluster_alone_as_json(command: CommandLine) -> None:
    typed = command.type("notify", "--test", "--cluster", "own", "--json")
    why = "Airflow has no connection 'kafka_own'"
    row = {"target": "webhook kafka_own", "clusters": ["own"], "sent": False, "why": why}
    assert (typed.code, json.loads(typed.out)) == (3, {"targets": [row]})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "quiet"], "names nobody to notify about quiet: write `notify: {webhooks:"),
        (["--cluster", "nowhere"], "nowhere"),
    ],
)
def test_without_targets_it_says_how_to_name_one(
    command: CommandLine, words: list[str], said: str
) -> None:
    typed = command.type("notify", "--test", *words)
    assert (typed.code, typed.out) == (2, "")
    assert said in typed.err


def test_nothing_is_sent_that_nobody_asked_for(command: CommandLine, hook: Webhook) -> None:
    assert command.type("notify").code == 2
    assert hook.paths == []


def test_where_there_is_no_airflow_it_says_where_to_type_it(
    command: CommandLine, hook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "airflow" else find(name)
    )
    typed = command.type("notify", "--test")
    assert (typed.code, typed.out, hook.paths) == (3, "", [])
    assert "no Airflow here (not installed here). Type this where tasks run" in typed.err

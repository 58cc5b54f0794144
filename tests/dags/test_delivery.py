"""People are told by webhook and mail, once, through what Airflow's connections say; and a delivery
that fails fails nothing.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise import controls, pipeline
from counterpoise.installation import Installation, now_utc
from counterpoise.model.approval import Decision, Question
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import Run, RunState
from counterpoise.orchestration.delivery import tell, webhook_body
from counterpoise.orchestration.notifier import ClusterNotifier
from tests.dags.test_recorded_approval import CLUSTERS
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support import hostile
from tests.support.decisions import grant
from tests.support.message_servers import MailServer, Webhook
from tests.support.runs import change_state

ROOT = Path(__file__).parents[2]
SECRET = "T0-B0-verysecret"
NOTIFY = """
notify: {webhooks: [kafka_ops], email: [ops@example.org], min_severity: info, overdue_after: 1d}
"""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with Webhook() as hook:
        connection = {"conn_type": "http", "host": hook.url, "password": SECRET}
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_OPS", json.dumps(connection))
        yield hook


@pytest.fixture
def mail(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with MailServer() as mail:
        extra = {
            "from_email": "counterpoise@example.org",
            "disable_ssl": True,
            "disable_tls": True,
            "retry_limit": 1,
        }
        connection = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": mail.port,
            "extra": extra,
        }
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        yield mail


@pytest.fixture
def telling(installation: Installation, tmp_path: Path) -> Installation:
    (tmp_path / "clusters.yaml").write_text(CLUSTERS + NOTIFY)
    return installation


def propose(
    installation: Installation,
    *,
    by: Person = Person("alice"),  # noqa: B008 - it is frozen
) -> str:
    run = pipeline.plan(
        installation, "demo", RebalanceRequest(Goal.ADD_BROKERS, (3,)), pipeline.Origin(by)
    )
    assert run is not None
    return run["run_id"]


def tell_at(installation: Installation, moment: datetime) -> None:
    with replace(installation, clock=lambda: moment) as later:
        tell(later, "demo")


def titles(hook: Webhook) -> list[str]:
    return [body["text"].split("\n")[0].strip("*") for body in hook.bodies]


def test_everybody_is_told_once_however_often_tasks_run(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    propose(telling)
    for _ in range(3):
        tell(telling, "demo")
    assert titles(hook) == ["demo: a plan waits for a yes or a no"]
    assert hook.paths == [f"/{SECRET}"]
    ((recipients, message),) = mail.messages
    assert recipients == ("ops@example.org",)
    assert message["Subject"] == "[warning] demo: a plan waits for a yes or a no"
    (body,) = [part for part in message.walk() if part.get_content_type() == "text/html"]
    assert b"/counterpoise/runs/" in body.get_payload(decode=True)


def test_a_failed_delivery_is_told_again_by_the_next_task_and_shows_no_secret(
    telling: Installation,
    hook: Webhook,
    mail: MailServer,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    propose(telling)
    caplog.set_level(logging.DEBUG)
    hook.answers = [500, 302]
    for _ in range(3):
        tell(telling, "demo")
    assert titles(hook) == ["demo: a plan waits for a yes or a no"]
    assert len(mail.messages) == 1
    assert "connection kafka_ops answered 500. The next Dag run tries again" in caplog.text
    assert "connection kafka_ops answered 302" in caplog.text
    written = "".join(capfd.readouterr())
    assert SECRET not in caplog.text + written and hook.url not in caplog.text + written


@pytest.mark.parametrize(
    "connection",
    [
        None,
        {"conn_type": "http", "host": "http://127.0.0.1:1", "password": SECRET},
        {"conn_type": "http", "host": f"file:///{SECRET}"},
        {"conn_type": "http", "host": f"http://{SECRET} blank.example"},
        {"conn_type": "http", "extra": json.dumps({"template": {"text": "{link}"}})},
    ],
)
def test_a_connection_that_cannot_be_used_fails_nothing_and_is_named(
    telling: Installation,
    mail: MailServer,
    connection: dict[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_OPS", json.dumps(connection))
    propose(telling)
    tell(telling, "demo")
    assert "webhook kafka_ops was not told question (demo)" in caplog.text
    assert SECRET not in caplog.text
    assert len(mail.messages) == 1


def test_a_mail_server_that_is_away_keeps_no_webhook_from_being_told(
    telling: Installation,
    hook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    extra = {"from_email": "a@b.c", "disable_ssl": True, "disable_tls": True, "retry_limit": 1}
    away = {"conn_type": "smtp", "host": "127.0.0.1", "port": 1, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(away))
    propose(telling)
    tell(telling, "demo")
    assert len(hook.bodies) == 1
    assert "email ops@example.org was not told question" in caplog.text


def test_a_run_is_told_from_question_to_end(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    run_id = propose(telling)
    for state in (
        RunState.APPROVED,
        RunState.RUNNING,
        RunState.SETTLING,
        RunState.HALTED,
    ):
        tell(telling, "demo")
        change_state(telling.ledger, run_id, state, "broker 4 is dead")
    tell(telling, "demo")
    assert titles(hook) == [
        "demo: a plan waits for a yes or a no",
        f"demo: run {run_id} started",
        f"demo: run {run_id} halted",
    ]
    assert "broker 4 is dead" in hook.bodies[-1]["text"]
    assert len(mail.messages) == 3


def test_a_name_that_is_only_claimed_is_told_as_such(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    propose(telling, by=Person("alice", "system:mallory", is_claimed=True))
    tell(telling, "demo")
    (body,) = hook.bodies
    assert "Requested by alice (claimed by system user mallory)." in body["text"]


def test_whoever_is_asked_is_told_the_requester_is_not_and_the_second_one_too(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    run = telling.ledger.run(propose(telling, by=Person("carol", "system:carol")))
    tell(telling, "demo")
    say_yes(telling, run, "alice")
    tell(telling, "demo")
    telling.ledger.record_question(
        Question("kafka_rebalance", "r", "approve_second", run.run_id, run.fingerprint, now_utc())
    )
    for _ in range(2):
        tell(telling, "demo")
    say_yes(telling, run, "bob")
    tell(telling, "demo")
    assert titles(hook) == [
        "demo: a plan waits for a yes or a no",
        "demo: a plan waits for a second person's yes or no",
    ]
    first, second = (body["text"] for body in hook.bodies)
    assert "Who may answer: alice, bob." in first
    assert "Who may answer: bob." in second
    assert len(mail.messages) == 2


def test_a_requester_is_not_among_those_who_may_answer(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    propose(telling, by=Person("bob", "system:bob"))
    tell(telling, "demo")
    assert "Who may answer: alice." in hook.bodies[0]["text"]


def say_yes(installation: Installation, run: Run, name: str) -> None:
    installation.ledger.journal(run.run_id).event("validated", run.fingerprint)
    grant(installation, run, by=Person(name, f"airflow:{name}"), reason="x", rate="5MB/s")


def test_no_text_from_outside_makes_a_line_a_header_or_an_element(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    run_id = propose(telling)
    for state in (RunState.APPROVED, RunState.RUNNING, RunState.SETTLING, RunState.HALTED):
        change_state(telling.ledger, run_id, state, hostile.HOSTILE)
    tell(telling, "demo")
    title = f"{hostile.MARK}\r\nBcc: {hostile.MARK}@example.org\u2028X: y"
    words = {"title": title, "text": hostile.HOSTILE}
    ClusterNotifier(cluster="demo", title="{{ title }}", text="{{ text }}")(words)
    for body in hook.bodies:
        hostile.check_terminal(body["text"])
        assert "<" not in body["text"]
    _, reason, link = hook.bodies[0]["text"].split("\n")
    assert hostile.MARK in reason and link.endswith(run_id)
    for _, message in mail.messages:
        assert "Bcc" not in message and "X" not in message
        (part,) = (one for one in message.walk() if one.get_content_type() == "text/html")
        hostile.check_html(part.get_payload(decode=True).decode())  # type: ignore[union-attr]


def test_an_audit_tells_its_findings(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_audit"]
    for _ in range(2):
        assert dag.test().state == "success"
    assert titles(hook) == ["demo: what the audit found needs attention"]
    assert "broker 3" in hook.bodies[0]["text"]


def test_a_cluster_that_cannot_be_reached_is_told_by_the_watch(
    telling: Installation,
    hook: Webhook,
    mail: MailServer,
    kafka: SimulatedCluster,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    telling.ledger.pin_cluster("demo", kafka.describe_cluster().cluster_id)
    telling.ledger.record_snapshot("demo", "demo-1", now_utc() - timedelta(days=2))

    def hang() -> None:
        raise OSError("no broker answers")

    monkeypatch.setattr(kafka, "describe_cluster", hang)
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_throttle_watch"]
    dag.get_task("watch").partial_kwargs["retries"] = 0
    assert dag.test().state == "failed"
    (title,) = titles(hook)
    assert title.startswith("demo: no new snapshot since ")


def test_a_cluster_that_was_never_reached_is_told_when_a_snapshot_is_overdue(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    now = now_utc()
    for days in (0, 0.9):
        tell_at(telling, now + timedelta(days=days))
    assert titles(hook) == [], "whoever has just added a cluster is not told"
    for _ in range(2):
        tell_at(telling, now + timedelta(days=1))
    assert titles(hook) == ["demo: no snapshot yet, though one is due"]


def test_everybody_who_was_asked_is_told_that_the_question_is_closed(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    for decision, reason in (
        (Decision.REJECTED, "not this week"),
        (Decision.TIMED_OUT, "nobody answered in time"),
    ):
        run = telling.ledger.run(propose(telling))
        tell(telling, "demo")
        controls.record_decision(
            telling,
            run.run_id,
            run.fingerprint,
            decision=decision,
            by=Person("bob"),
            reason=reason,
            rate=None,
        )
        for _ in range(2):
            tell(telling, "demo")
        assert titles(hook)[-1] == f"demo: run {run.run_id} is rejected"
        assert reason in hook.bodies[-1]["text"]
    assert len(hook.bodies) == len(mail.messages) == 4


def test_the_notifier_tells_the_people_of_the_cluster(
    telling: Installation, hook: Webhook, mail: MailServer
) -> None:
    notifier = ClusterNotifier(cluster="demo", title="{{ what }} failed", text="see\nthe log")
    for _ in range(2):
        notifier({"what": "the load"})
    assert [body["text"] for body in hook.bodies] == ["*the load failed*\nsee\nthe log\n"]
    assert len(mail.messages) == 1


def test_a_template_has_every_text_filled_in_and_names_make_no_markup(
    telling: Installation, hook: Webhook, mail: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = {"channel": "#kafka", "blocks": [{"text": "{severity} {event} {cluster}: {text}"}]}
    connection = {"conn_type": "http", "host": hook.url, "extra": {"template": template}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_OPS", json.dumps(connection))
    hostile = '<!channel> {title} " & <https://evil.example|ok>'
    ClusterNotifier(cluster="demo", title="t", text=hostile.replace("{title}", "{ title }"))({})
    (body,) = hook.bodies
    text = body["blocks"][0]["text"]
    assert body["channel"] == "#kafka" and text.startswith("warning task demo: &lt;!channel&gt;")
    assert "<" not in text


def test_a_filled_in_text_is_not_filled_in_again() -> None:
    from counterpoise.model.notification import Notification, NotificationEvent
    from counterpoise.model.severity import Severity

    note = Notification(("k",), NotificationEvent.DONE, Severity.INFO, "demo", "{text}", ("x",))
    assert webhook_body({"text": "{title} {unknown}"}, note, "") == {"text": "{text} {unknown}"}

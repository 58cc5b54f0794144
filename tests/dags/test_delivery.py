"""People are notified by webhook and mail, of each thing once, through what Airflow's connections
say; and a message that fails fails nothing.
"""

import json
import logging
import re
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag

from counterpoise.installation import Installation
from counterpoise.model.notification import Channel, Target
from counterpoise.model.person import Person
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.model.run import Run, RunState
from counterpoise.orchestration.delivery import post, tell
from counterpoise.orchestration.notifier import ClusterNotifier
from counterpoise.services import notifications, plans
from tests.dags.test_approval import CLUSTERS
from tests.support import hostile
from tests.support.decisions import grant
from tests.support.ledger_view import LedgerView, add_event, change_state
from tests.support.message_servers import MailServer, Webhook
from tests.support.planned_runs import planned_run

ROOT = Path(__file__).parents[2]
SECRET = "T0-B0-verysecret"
NOTIFY = """
notify: {webhooks: [kafka_ops]}
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
    by: Person = Person.airflow("alice"),  # noqa: B008 - it is frozen
) -> str:
    run = planned_run(
        installation, "demo", RebalanceRequest(Goal.ADD_BROKERS, (3,)), plans.Origin(by)
    )
    assert run is not None
    return run["run_id"]


def titles(hook: Webhook) -> list[str]:
    return [body["text"].split("\n")[0].strip("*") for body in hook.bodies]


NO_ADDRESS = "connection kafka_ops: its host is no address, like https://hooks.example.org"


@pytest.mark.parametrize(
    ("connection", "why"),
    [
        (None, "Airflow has no connection 'kafka_ops'"),
        (
            {"conn_type": "http", "host": "http://127.0.0.1:1", "password": SECRET},
            "connection kafka_ops: ConnectionRefusedError",
        ),
        ({"conn_type": "http", "host": f"file:///{SECRET}"}, NO_ADDRESS),
        ({"conn_type": "http", "host": f"http://{SECRET} blank.example"}, NO_ADDRESS),
        ({"conn_type": "http"}, NO_ADDRESS),
    ],
)
def test_a_connection_that_cannot_be_used_fails_nothing_and_is_named(
    telling: Installation,
    connection: dict[str, Any] | None,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA_OPS", json.dumps(connection))
    run_id = propose(telling)
    tell(telling, "demo")
    assert f"question (demo) was not sent to webhook kafka_ops: {why}" in caplog.text
    assert SECRET not in caplog.text + recorded(telling, run_id)


def recorded(installation: Installation, run_id: str) -> str:
    events = LedgerView.of(installation.ledger).events(run_id)
    return "\n".join(event.text for event in events if event.kind == "notified")


def test_everybody_is_notified_once_however_often_tasks_run(
    telling: Installation, hook: Webhook
) -> None:
    run_id = propose(telling)
    for _ in range(3):
        tell(telling, "demo")
    assert titles(hook) == ["demo: a plan waits for a yes or a no"]
    assert hook.paths == [f"/{SECRET}"]
    assert hook.bodies[0]["text"].endswith(f"/counterpoise/runs/{run_id}")
    assert recorded(telling, run_id) == f"question {run_id}"


def test_a_question_has_goal_bytes_time_who_may_answer_and_the_link(
    telling: Installation, hook: Webhook
) -> None:
    run_id = propose(telling, by=Person.airflow("carol"))
    tell(telling, "demo")
    title, what, requested, who, link = hook.bodies[0]["text"].splitlines()
    assert title == "*demo: a plan waits for a yes or a no*"
    assert re.fullmatch(r"add-brokers 3: Moves \S+ MB to broker 3 in about \S+ s\.", what)
    assert requested.startswith("Requested by carol")
    assert who == "Who may answer: alice, bob."
    assert link.endswith(f"/counterpoise/runs/{run_id}")


def test_a_question_whose_plan_cannot_be_read_is_told_all_the_same(
    telling: Installation, hook: Webhook, tmp_path: Path
) -> None:
    run_id = propose(telling)
    (tmp_path / "store" / telling.ledger.run(run_id).plan_uri).unlink()
    tell(telling, "demo")
    assert titles(hook) == ["demo: a plan waits for a yes or a no"]


def test_mail_goes_by_the_connection_of_the_policy_and_makes_no_header_or_element(
    telling: Installation, mail: MailServer, tmp_path: Path
) -> None:
    (tmp_path / "clusters.yaml").write_text(CLUSTERS + "notify: {email: [ops@example.org]}\n")
    run_id = propose(telling)
    for _ in range(2):
        tell(telling, "demo")
    title = f"{hostile.MARK}\r\nBcc: {hostile.MARK}@example.org\u2028X: y"
    words = {"title": title, "text": hostile.HOSTILE}
    ClusterNotifier(cluster="demo", title="{{ title }}", text="{{ text }}")(words)
    (asked_of, question), (_, hostile_message) = mail.messages
    assert asked_of == ("ops@example.org",)
    assert question["Subject"] == "demo: a plan waits for a yes or a no"
    assert f"/counterpoise/runs/{run_id}" in html_of(question)
    assert hostile_message["Bcc"] is None and hostile_message["X"] is None
    hostile.check_html(html_of(hostile_message))


def html_of(message: Message) -> str:
    (part,) = [part for part in message.walk() if part.get_content_type() == "text/html"]
    body = part.get_payload(decode=True)
    assert isinstance(body, bytes)
    return body.decode()


def test_what_a_mail_connection_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Target(Channel.EMAIL, "ops@example.org", "smtp_default")
    with pytest.raises(
        notifications.DeliveryError, match="Airflow has no connection 'smtp_default'"
    ):
        post(target, "t", ())
    with MailServer() as mail:
        extra = {"disable_ssl": True, "disable_tls": True, "retry_limit": 1}
        connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": mail.port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        with pytest.raises(
            notifications.DeliveryError, match="smtp_default: You should provide `from"
        ):
            post(target, "t", ())


def test_a_mail_server_that_is_away_keeps_no_webhook_from_being_told(
    telling: Installation,
    hook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    both = NOTIFY.replace("}", ", email: [ops@example.org]}")
    (tmp_path / "clusters.yaml").write_text(CLUSTERS + both)
    extra = {"from_email": "a@b.c", "disable_ssl": True, "disable_tls": True, "retry_limit": 1}
    away = {"conn_type": "smtp", "host": "127.0.0.1", "port": 1, "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(away))
    run_id = propose(telling)
    tell(telling, "demo")
    ClusterNotifier(cluster="demo", title="t")({})
    assert len(hook.bodies) == 2
    assert "question (demo) was not sent to email ops@example.org: " in caplog.text
    tell(telling, "demo")
    assert len(hook.bodies) == 2, "somebody was reached"
    assert recorded(telling, run_id) == f"question {run_id}"


def test_a_webhook_that_was_down_gets_each_message_once_when_it_is_back(
    telling: Installation, hook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = propose(telling)
    down = 3
    hook.answers = [503] * down
    for _ in range(down + 3):
        tell(telling, "demo")
    assert titles(hook) == ["demo: a plan waits for a yes or a no"]
    assert recorded(telling, run_id) == f"question {run_id}"
    why = "question (demo) was not sent to webhook kafka_ops: connection kafka_ops answered 503"
    assert caplog.text.count(why) == down


def test_findings_that_reached_nobody_are_sent_when_the_webhook_is_back(
    telling: Installation, hook: Webhook
) -> None:
    hook.answers = [503]
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_audit"]
    for _ in range(3):
        assert dag.test().state == "success"
    assert titles(hook) == ["demo: the audit has 1 new critical finding"]


def test_a_message_that_fails_shows_no_secret_and_keeps_no_other_from_being_sent(
    telling: Installation,
    hook: Webhook,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    both = NOTIFY.replace("[kafka_ops]", "[kafka_ops, kafka_team]")
    (tmp_path / "clusters.yaml").write_text(CLUSTERS + both)
    team = {"conn_type": "http", "host": hook.url}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TEAM", json.dumps(team))
    caplog.set_level(logging.DEBUG)
    hook.answers = [302]
    propose(telling)
    for _ in range(3):
        tell(telling, "demo")
    assert hook.paths == [f"/{SECRET}", "/"]
    assert titles(hook) == ["demo: a plan waits for a yes or a no"]
    failed = "was not sent to webhook kafka_ops: connection kafka_ops answered 302"
    assert f"question (demo) {failed}" in caplog.text
    written = "".join(capfd.readouterr())
    assert SECRET not in caplog.text + written and hook.url not in caplog.text + written


def test_an_event_by_a_command_is_told_once_by_the_next_task(
    telling: Installation, hook: Webhook
) -> None:
    """Whoever makes it: the ledger says what happened, and what people were notified of."""
    run = telling.ledger.run(propose(telling))
    say_yes(telling, run, "bob")
    change_state(telling.ledger, run.run_id, RunState.RUNNING)
    dag = DagBag(dag_folder=ROOT / "dags").dags["kafka_throttle_watch"]
    dag.test()
    dag.test()
    assert titles(hook).count(f"demo: run {run.run_id} started") == 1


def test_only_what_the_policy_names_is_sent(
    telling: Installation, hook: Webhook, tmp_path: Path
) -> None:
    policy = NOTIFY.replace("}", ", events: [started]}")
    (tmp_path / "clusters.yaml").write_text(CLUSTERS + policy)
    run_id = propose(telling)
    tell(telling, "demo")
    assert titles(hook) == []
    for state in (RunState.APPROVED, RunState.RUNNING):
        change_state(telling.ledger, run_id, state)
    tell(telling, "demo")
    assert titles(hook) == [f"demo: run {run_id} started"]


def test_a_run_is_told_from_question_to_end(telling: Installation, hook: Webhook) -> None:
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


def test_whoever_is_asked_is_told_the_requester_is_not_and_the_second_one_too(
    telling: Installation, hook: Webhook, tmp_path: Path
) -> None:
    two = CLUSTERS.replace("wait_for: 2h", "critical: yes")
    (tmp_path / "clusters.yaml").write_text(two + NOTIFY)
    run = telling.ledger.run(propose(telling, by=Person.airflow("carol")))
    tell(telling, "demo")
    say_yes(telling, run, "alice")
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


def say_yes(installation: Installation, run: Run, name: str) -> None:
    add_event(installation.ledger, run.run_id, "validated", run.fingerprint)
    grant(installation, run, by=Person.airflow(name), reason="x", rate="5MB/s")


def test_no_text_from_outside_makes_a_line_or_an_element(
    telling: Installation, hook: Webhook
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


def test_the_notifier_tells_the_people_of_the_cluster(telling: Installation, hook: Webhook) -> None:
    notifier = ClusterNotifier(cluster="demo", title="{{ what }} failed", text="see\nthe log")
    notifier({"what": "the load"})
    assert [body["text"] for body in hook.bodies] == ["*the load failed*\nsee\nthe log\n"]


def test_a_notifier_whose_webhook_fails_fails_nothing(
    telling: Installation, hook: Webhook, caplog: pytest.LogCaptureFixture
) -> None:
    hook.answers = [500]
    ClusterNotifier(cluster="demo", title="t")({})
    assert "connection kafka_ops answered 500" in caplog.text
    assert SECRET not in caplog.text


def test_a_secret_in_a_text_is_not_sent(telling: Installation, hook: Webhook) -> None:
    ClusterNotifier(cluster="demo", title="t", text="by bob: password=hunter2")({})
    (body,) = hook.bodies
    assert body["text"] == "*t*\nby bob: password=***\n"


def test_names_make_no_links_or_mentions(telling: Installation, hook: Webhook) -> None:
    hostile_text = "<!channel> & <https://evil.example|ok>"
    ClusterNotifier(cluster="demo", title="t", text=hostile_text)({})
    (body,) = hook.bodies
    assert body["text"].startswith("*t*\n&lt;!channel&gt; &amp; ")
    assert "<" not in body["text"]

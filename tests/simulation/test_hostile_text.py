"""Hostile text through everything that shows text: terminals, logs, pages, documents, questions,
lines to paste.
"""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from counterpoise import installation as installations
from counterpoise.cli import repeating
from counterpoise.installation import Installation
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.plan import RebalancePlan
from counterpoise.services import approvals
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support import hostile
from tests.support.audits import BROKER_CONFIGS, connectivity, quorum, snapshot_of
from tests.support.command_line import CommandLine, Typed
from tests.support.hostile import HOSTILE, MARK, NAME
from tests.support.ledger_view import add_event
from tests.support.pictures import ON_TWO_BROKERS, simulated


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """Broker 3 has just joined; whatever Kafka lets people name has a hostile name."""
    made = simulated(ON_TWO_BROKERS, racks="1=a 2=b 3=c", cluster_id=HOSTILE)
    for broker_id, broker in made.brokers.items():
        broker.rack = f"{HOSTILE}{broker_id}"
        listener = f"{HOSTILE}://{HOSTILE}:9092"
        made.configs.static[broker_id] = {
            **BROKER_CONFIGS,
            "listeners": listener,
            "advertised.listeners": f"{listener},OTHER://:9093",
            "inter.broker.listener.name": HOSTILE,
            "broker.rack": broker.rack,
        }
    made.quorum = quorum(observers=tuple(made.brokers))

    def walked(_installation: object, _name: str, **_: object) -> ConnectivityCheck:
        return connectivity(snapshot_of(made))

    monkeypatch.setattr(installations, "connect_by_discovery", lambda _: made)
    monkeypatch.setattr(Installation, "check_connectivity", walked)
    monkeypatch.setattr(repeating, "sleep", made.advance)
    return made


def typed(shell: CommandLine, *words: str | Path, code: int | None = None) -> Typed:
    """What a command says to somebody with a hostile name, checked as every terminal gets it."""
    said = shell.type(*words, user=NAME)
    assert "Traceback" not in said.err, said.err
    assert code is None or said.code == code, said.err or said.out
    hostile.check_terminal(said.out)
    hostile.check_terminal(said.err)
    lines = (said.out + said.err).splitlines()
    assert not [line for line in lines if line.startswith(hostile.LINE_STARTS)], words
    if "--json" in words and said.out:
        hostile.check_json(said.out)
    return said


def planned(shell: CommandLine) -> Path:
    """A plan whose warnings are hostile: they name racks, topics and hosts."""
    path = shell.folder / "plan.json"
    words = ("--goal", "add-brokers", "--brokers", "3", "--out", path)
    typed(shell, "plan", "--cluster", "demo", *words, code=0)
    plan = RebalancePlan.from_json(path.read_text())
    path.write_text(replace(plan, warnings=(HOSTILE, *plan.warnings)).to_json())
    return path


def story(shell: CommandLine) -> Path:
    """Everything that people type around one plan, each checked; the plan's file."""
    back, why = shell.folder / "undo.json", ("--why", HOSTILE)
    typed(shell, "snapshot", "--cluster", "demo", code=0)
    plan = planned(shell)
    for words in (("show", plan), ("show", plan, "--json"), ("preflight", plan)):
        typed(shell, *words)
    typed(shell, "propose", plan)
    said = typed(shell, "reject", plan, "--reason", HOSTILE)
    assert said.code == 0, said.err
    typed(shell, "execute", plan, code=1)
    typed(shell, "propose", plan, code=0)
    yes = ("--rate", "1MB/s", "--reason", HOSTILE)
    typed(shell, "approve", plan, *yes, code=0)
    typed(shell, "freeze", "demo", "--until", "1h", *why, code=0)
    assert MARK in typed(shell, "status", code=0).out
    assert MARK in typed(shell, "execute", plan, code=1).err
    typed(shell, "unfreeze", "demo", *why, code=0)
    for words in (("pause", plan), ("rate", plan, "900kB/s"), ("resume", plan)):
        typed(shell, *words, *why)
    typed(shell, "execute", plan, code=0)
    for words in (
        ("status",),
        ("status", "--json"),
        ("status", plan),
        ("status", plan, "--json"),
        ("status", plan, "--follow"),
        ("verify", plan),
        ("watch", "--cluster", "demo"),
        ("watch", "--cluster", "demo", "--json"),
        ("audit", "--cluster", "demo"),
        ("audit", "--cluster", "demo", "--json"),
        ("ledger", "prune", "--cluster", "demo", "--before", "2000-01-01T00:00"),
        ("ledger", "prune", "--cluster", HOSTILE, "--before", "2000-01-01T00:00"),
    ):
        typed(shell, *words)
    typed(shell, "undo", plan, *why, "--out", back)
    typed(shell, "stop", "--from-plan", plan, "--bootstrap", "simulated:9092")
    typed(shell, "settle", plan)
    return plan


def test_no_command_and_no_log_lets_it_through(
    shell: CommandLine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, logger="counterpoise"):
        story(shell)
    hostile.check_log(caplog.records)
    assert MARK in shell.type("status", shell.folder / "plan.json").out


def test_no_page_and_no_document_lets_it_through(shell: CommandLine) -> None:
    story(shell)
    typed(shell, "audit", "--cluster", "demo", "--out", shell.folder / "audit")
    checks = {".html": hostile.check_html, ".json": hostile.check_json}
    shown = set()
    for folder in ("store/reports", "audit"):
        for path in (shell.folder / folder).rglob("*"):
            if path.suffix in checks:
                text = path.read_text()
                checks[path.suffix](text)
                if MARK in text:
                    shown.add(path.suffix)
    assert shown >= {".html", ".json"}


def test_the_question_to_the_approver_lets_nothing_through(shell: CommandLine) -> None:
    plan = planned(shell)
    typed(shell, "propose", plan, code=0)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in shell.environment.items():
            patch.setenv(name, value)
        with installations.open_installation() as installation:
            (run,) = installation.ledger.runs()
            add_event(installation.ledger, run.run_id, "validated", run.fingerprint)
            question = approvals.open_question(installation, run.run_id)
    assert question is not None
    body = "\n\n".join(question.plan.lines)
    hostile.check_markdown(body)
    hostile.check_terminal(question.plan.sentence)
    assert "\n" not in question.plan.sentence
    assert MARK in body


def test_every_line_to_paste_is_one_command_with_these_words(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    for topic in {key.topic for key in kafka.partitions}:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        kafka.configs.dynamic[resource] = {"retention.ms": "604800"}
    typed(shell, "audit", "--cluster", "demo", "--out", shell.folder / "audit")
    document = json.loads((shell.folder / "audit/audit.json").read_text())
    lines = [line for finding in document["findings"] for line in finding["fix"]]
    pasted = [line for line in lines if line.startswith(("counterpoise ", "kafka-"))]
    assert pasted
    for line in pasted:
        hostile.check_pasted(line)
    properties = [line for line in lines if line.startswith("#") or "=" in line.split(" ")[0]]
    hostile.check_properties(properties)


@pytest.mark.parametrize("text", [HOSTILE, "a\nb", "\u202e", "'", '"', "\\", "$x", "`x`", ""])
def test_a_word_for_a_shell_arrives_as_it_is(text: str) -> None:
    from counterpoise.audit.commands import counterpoise, kafka

    hostile.check_pasted(counterpoise("plan", "--topics", text), (text,))
    line = kafka("kafka-configs", "--entity-name", text).replace('"$BOOTSTRAP"', "x")
    hostile.check_pasted(line, (text,))


@pytest.mark.parametrize("text", [HOSTILE, "a\nb", "\x85", "\u202e", '"', "\\", "*x", "- a", ""])
def test_a_waiver_to_paste_is_yaml_with_these_words(text: str) -> None:
    from counterpoise.reporting.policy_lines import policy_lines

    lines = policy_lines("idle-broker", [text, "plain"], {"n": 3})
    hostile.check_terminal(lines)
    document = yaml.safe_load(lines)
    (waiver,) = document["audit"]["waivers"]
    assert waiver["subjects"] == [text, "plain"]
    assert set(document["audit"]) == {"waivers", "thresholds"}


def test_a_terminal_in_colour_shows_no_markup_of_the_text(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links and colours of rich are made of text in brackets; on a real terminal it must not."""
    plan = planned(shell)
    yes = ("--rate", "1MB/s", "--reason", HOSTILE)
    typed(shell, "approve", plan, *yes, code=0)
    monkeypatch.setattr(Console, "is_terminal", property(lambda _: True))
    monkeypatch.setenv("TERM", "xterm-256color")
    for words in (
        ("show", plan),
        ("status",),
        ("status", plan),
        ("execute", plan),
        ("status", plan, "--follow"),
        ("audit", "--cluster", "demo"),
        ("ledger", "prune", "--cluster", "demo", "--before", "2000-01-01T00:00"),
    ):
        said = shell.type(*words)
        for text in (said.out, said.err):
            assert "\x1b]8" not in text, words
            assert "\x07" not in text and "\x9b" not in text and "\u202e" not in text
            assert "\x1b[31m" not in text.replace("\x1b[31m●", "")
    assert f"[link=https://{MARK}" in shell.type("status", plan).out


# -- where halves of characters can come from: documents, and the command line itself


@pytest.mark.parametrize("text", ["\udcff", "\ud800", "a\x00b"])
def test_what_is_no_text_is_refused_or_shown_as_a_mark(shell: CommandLine, text: str) -> None:
    plan = planned(shell)
    yes = ("--rate", "1MB/s", "--reason", f"why {text}")
    typed(shell, "approve", plan, *yes)
    typed(shell, "status", plan)
    typed(shell, "status", f"run{text}")
    if "\0" not in text:  # which no argument of a process can have
        typed(shell, "show", f"file{text}")


@pytest.mark.parametrize("key", ["rack", "host", "cluster", "cluster_id"])
@pytest.mark.parametrize("text", [HOSTILE, "\ud800", "a\x00b"])
def test_a_document_with_odd_names_is_planned_or_refused(
    shell: CommandLine, key: str, text: str
) -> None:
    from tests.support.broken import documents

    document = json.loads(documents.TEXT)
    target = document["brokers"][0] if key in ("rack", "host") else document
    target[key] = text
    state, plan = shell.folder / "state.json", shell.folder / "plan.json"
    state.write_text(json.dumps(document))
    words = ("--goal", "add-brokers", "--brokers", "4", "--out", plan)
    said = typed(shell, "plan", "--state", state, *words)
    assert said.code in (0, 2)
    if said.code == 0:
        typed(shell, "show", plan, code=0)
        typed(shell, "export", plan, "--out", shell.folder / "r.json")

"""Lines of the audit that show something, make a plan, or are for clients, on real brokers.

A sandbox in which as much as possible is wrong, in stages: broker 4 empty, all brokers live, broker
4 dead, broker 3 frozen. What is proposed for it is pasted as it stands.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from counterpoise.audit.commands import describe_topic
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.finding import WantedPlan
from counterpoise.model.request import Goal
from dev import local_kafka
from dev.local_kafka import LocalKafka, TopicSpec, brokers_in_racks, create_topics
from dev.local_processes import free_ports, wait_until
from tests.support.audit_lines import (
    FEATURES,
    FOR_CLIENTS,
    HOT_TOPIC,
    SHOWN,
    SHOWN_ANYHOW,
    STALLED,
    WITH_A_PLAN,
)
from tests.support.audits import findings_of
from tests.support.command_line import CommandLine, Typed
from tests.support.connected import connected
from tests.support.faults import NOTICED_SOON
from tests.support.kafka_facts import ON_A_SHARED_DISK
from tests.support.pasting import Operator
from tests.support.rule_pairs import PAIRS

SECONDS: Final = 240.0
MIN_ISR: Final = {"min.insync.replicas": "2"}
POLICY: Final = f"""\
    policy:
      {ON_A_SHARED_DISK}
      audit:
        thresholds:
          quorum-size: {{most: 2}}
          quorum-voter-lags: {{seconds: 1}}
          quorum-no-margin: {{seconds: 1}}
          reassignment-stalled: {{minutes: 0}}
        waivers:
          - {{rule: advertised-loopback, reason: clients are here, subjects: ["broker ?"]}}
"""
# Broker 4 is empty at first.
TOPICS: Final = (
    TopicSpec("alone", [(1,)]),
    TopicSpec("mixed", [(1, 2, 3)] * 2),
    TopicSpec("pairs", [(1, 2)]),
    TopicSpec("t", [(1, 2, 3)] * 3),
    TopicSpec("billed", [(1, 2, 3)]),
)
ON_BROKER_4: Final = (
    TopicSpec("orders", [(1, 2, 4)] * 6, configs=MIN_ISR),
    TopicSpec("single", [(4,)]),
    TopicSpec("strict", [(1, 4)], configs=MIN_ISR),
)
OF_LIVE_BROKERS: Final = ("quorum-size",)
OF_A_DEAD_BROKER: Final = (
    "eligible-leaders",
    "partitions-at-min-isr",
    "partitions-offline",
    "partitions-under-min-isr",
    "partitions-under-replicated",
)
UNEVEN: Final = "replicas-uneven"
FEWER: Final = '{"version":1,"partitions":[{"topic":"mixed","partition":1,"replicas":[1,2]}]}'
FEWER_REPLICAS: Final = (
    'kafka-reassign-partitions.sh --bootstrap-server "$BOOTSTRAP" --execute '
    "--reassignment-json-file fewer.json"
)
LOWER: Final = (
    'kafka-features.sh --bootstrap-server "$BOOTSTRAP" downgrade --feature transaction.version=1'
)
Found = Mapping[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalKafka]:
    folder = tmp_path_factory.mktemp("shown")
    with local_kafka.running(folder, brokers_in_racks(*"abcd"), NOTICED_SOON) as started:
        create_topics(started.bootstrap_string, TOPICS)
        yield started


@pytest.fixture(scope="module")
def filled(kafka: LocalKafka) -> None:
    create_topics(kafka.bootstrap_string, ON_BROKER_4)


@pytest.fixture
def shell(kafka: LocalKafka, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    made = CommandLine.in_folder(tmp_path, capsys)
    made.configure(kafka.bootstrap_string, extra=POLICY)
    return made


@pytest.fixture
def operator(kafka: LocalKafka, tmp_path: Path, shell: CommandLine) -> Operator:
    return Operator(kafka, tmp_path / "operator", shell.environment)


def type_audit(shell: CommandLine) -> Typed:
    return shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "critical")


def audited(shell: CommandLine) -> Found:
    return findings(type_audit(shell))


def findings(typed: Typed) -> Found:
    assert typed.code in (0, 1), typed.err
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(typed.out)["findings"]:
        if row["severity"] != "unknown":
            found.setdefault(row["rule"], []).append(row)
    return found


def audited_until(shell: CommandLine, *rules: str) -> Found:
    """Audit until these rules fire: a broker may learn late of what is wrong, and forward a request
    to a controller that was frozen a moment ago.
    """
    found: dict[str, list[dict[str, Any]]] = {}

    def have_fired() -> bool:
        found.clear()
        typed = type_audit(shell)
        if typed.code == 3 and "does not respond" in typed.err:
            return False
        found.update(findings(typed))
        return found.keys() >= set(rules)

    wait_until(have_fired, f"all of {sorted(rules)} to fire", SECONDS)
    return found


def check_what_is_shown(found: Found, operator: Operator, *rules: str) -> None:
    """Paste the lines of these rules, each of which has fired."""
    for rule in rules:
        shown = "\n".join(operator.paste(finding["fix"]) for finding in found[rule])
        assert re.search(SHOWN[rule], shown), f"{rule}: {SHOWN[rule]}\n{shown}"


def test_the_command_of_each_plan_makes_a_plan(
    kafka: LocalKafka, shell: CommandLine, operator: Operator
) -> None:
    with connected(kafka) as admin:
        operator.paste([f"echo '{FEWER}' > fewer.json", FEWER_REPLICAS])
        wait_until(lambda: not admin.list_reassignments(), "one factor is another", SECONDS)
    check_plans(shell, operator, *(set(WITH_A_PLAN) - {UNEVEN}))


def check_plans(shell: CommandLine, operator: Operator, *rules: str) -> None:
    found = audited_until(shell, *rules)
    commands = {command_of(row["plan"]) for rule in rules for row in found[rule]}
    for command in sorted(commands):
        assert "plan for demo: " in operator.paste([command]), command


def command_of(plan: Mapping[str, Any]) -> str:
    wanted = WantedPlan(
        Goal(plan["goal"]),
        tuple(plan.get("broker_ids", ())),
        tuple(plan.get("topics", ())),
        plan.get("replication_factor"),
    )
    return wanted.command(("--cluster", "demo"))


def test_lines_for_a_cluster_whose_brokers_are_live(
    kafka: LocalKafka, shell: CommandLine, operator: Operator
) -> None:
    operator.paste([LOWER])
    found = audited_until(shell, *OF_LIVE_BROKERS, FEATURES)
    check_what_is_shown(found, operator, *OF_LIVE_BROKERS)
    for finding in found[FEATURES]:
        operator.paste(finding["fix"])
    wait_until(lambda: FEATURES not in audited(shell), "the feature is raised", SECONDS)


def test_lines_for_clients(kafka: LocalKafka, shell: CommandLine) -> None:
    """Put where clients have their settings, of which the audit's own connection is one."""
    dead = f"127.0.0.1:{free_ports(1)[0]}"
    shell.configure(f"{kafka.home(1).address},{dead}", extra=POLICY)
    found = audited_until(shell, *FOR_CLIENTS)
    for rule in FOR_CLIENTS:
        line = found[rule][0]["fix"][-1]
        assert line.startswith("bootstrap.servers=")
        shell.configure(line.partition("=")[2], extra=POLICY)
        assert rule not in audited(shell)


def test_the_line_for_a_hot_topic_adds_partitions(operator: Operator) -> None:
    (finding,) = findings_of(HOT_TOPIC, PAIRS[HOT_TOPIC][0]())
    shown = operator.paste([*finding.fix, describe_topic("t")])
    assert re.search(r"Topic: t\s.*PartitionCount: 4\s", shown)


@pytest.mark.usefixtures("filled")
def test_the_command_of_a_plan_for_uneven_replicas(shell: CommandLine, operator: Operator) -> None:
    """An empty broker is a finding of its own."""
    check_plans(shell, operator, UNEVEN)


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("rule", SHOWN_ANYHOW)
def test_lines_of_rules_that_do_not_fire_here(rule: str, operator: Operator) -> None:
    """Those of a simulated cluster with the same names."""
    expected, _ = SHOWN_ANYHOW[rule]
    shown = "\n".join(
        operator.paste(finding.fix) for finding in findings_of(rule, PAIRS[rule][0]())
    )
    assert re.search(expected, shown), f"{rule}: {expected}\n{shown}"


@pytest.mark.usefixtures("filled")
def test_lines_for_a_cluster_with_a_dead_broker(
    kafka: LocalKafka, shell: CommandLine, operator: Operator
) -> None:
    assert shell.type("snapshot", "--cluster", "demo").code == 0
    kafka.kill_broker(4)
    kafka.wait_until_fenced(4)
    with connected(kafka) as admin:
        assert not admin.alter_reassignments({TopicPartition("billed", 0): (1, 2, 4)}).errors
    shell.configure(kafka.bootstrap_string, extra=POLICY)
    assert shell.type("snapshot", "--cluster", "demo").code == 0
    found = audited_until(shell, *OF_A_DEAD_BROKER, STALLED)
    check_what_is_shown(found, operator, *OF_A_DEAD_BROKER)
    for finding in found[STALLED]:
        shown = operator.paste(finding["fix"])
        assert re.search(r"billed-0: .*adding: 4", shown), shown
    wait_until(lambda: STALLED not in audited(shell), "the move is cancelled", SECONDS)


def test_lines_for_a_quorum_without_a_spare_voter(
    kafka: LocalKafka, shell: CommandLine, tmp_path: Path
) -> None:
    kafka.freeze_broker(3)
    try:
        kafka.wait_until_fenced(3)
        shell.configure(kafka.bootstrap_string, extra=POLICY)
        living = Operator(kafka, tmp_path / "living", shell.environment)
        lagging = ("quorum-no-margin", "quorum-voter-lags")
        check_what_is_shown(audited_until(shell, *lagging), living, *lagging)
    finally:
        kafka.thaw_broker(3)
        kafka.wait_until_ready()

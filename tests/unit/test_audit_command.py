"""`counterpoise audit` as typed: exit codes, what is shown, what is written."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from counterpoise import installation
from counterpoise.audit.auditing import chosen_rules
from counterpoise.errors import ClusterError, ClusterUnreachableError
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.kafka import FOLLOWER_RATE, ConfigResource, ConfigResourceType
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import connectivity, healthy, snapshot_of
from tests.support.command_line import CommandLine

BROKER = ConfigResource(ConfigResourceType.BROKER, "2")
RACKS = "    policy:\n      audit:\n        controller_racks: {101: a, 102: b, 103: c}\n"


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    """A healthy cluster but for a throttle that is left over."""
    kafka = healthy()
    kafka.configs.dynamic[BROKER] = {FOLLOWER_RATE: "1000"}

    def walked(_installation: object, _name: str) -> ConnectivityCheck:
        return connectivity(snapshot_of(kafka))

    monkeypatch.setattr(installation, "connect_by_discovery", lambda _settings: kafka)
    monkeypatch.setattr(installation, "cluster_id_at", lambda _settings: "picture-id")
    monkeypatch.setattr(installation.Installation, "check_connectivity", walked)
    return kafka


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka: SimulatedCluster
) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("kafka.invalid:9092", extra=RACKS)
    return shell


@pytest.mark.parametrize(
    ("policy", "asked", "code"),
    [
        ("", (), 0),  # a warning is not critical
        ("", ("--fail-at", "critical"), 0),
        ("", ("--fail-at", "warning"), 1),
        ("", ("--fail-at", "info"), 1),
        ("        fails_at: warning\n", (), 1),
        ("        fails_at: warning\n", ("--fail-at", "critical"), 0),
    ],
)
def test_the_exit_code_says_whether_anything_is_so_bad(
    shell: CommandLine, policy: str, asked: tuple[str, ...], code: int
) -> None:
    shell.configure("kafka.invalid:9092", extra=RACKS + policy)
    assert shell.type("audit", "--cluster", "demo", *asked).code == code


def test_a_gate_on_what_is_unknown_counts_that_alone(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    words = ("audit", "--cluster", "demo", "--fail-at", "unknown")
    assert shell.type(*words).code == 0, "a warning is known"
    assert shell.type(*words, "--fail-at", "warning").code == 1
    kafka.configs.dynamic.clear()
    kafka.fail_next("list_eligible_leaders", ClusterError("not allowed"))
    typed = shell.type(*words)
    assert typed.code == 1
    assert re.match(
        r"1 of \d+ rules could not run: eligible leader replicas: not allowed\n", typed.out
    ), typed.out


def test_the_worst_comes_first_each_with_its_fix(shell: CommandLine) -> None:
    out = shell.type("audit", "--cluster", "demo").out
    lines = out.splitlines()
    assert lines[0].startswith("warning   leftover-throttle  ")
    assert "follower.replication.throttled.rate is set" in lines[0]
    assert lines[1] == "    BOOTSTRAP=kafka.invalid:9092"
    assert lines[2].startswith("    kafka-configs.sh ") and " --delete-config " in lines[2]
    assert "reports/demo/audit.html" in lines[-1]


def test_the_next_audit_says_what_changed(shell: CommandLine, kafka: SimulatedCluster) -> None:
    shell.type("audit", "--cluster", "demo")
    kafka.configs.dynamic.clear()
    kafka.add_broker(4, "a")
    out = shell.type("audit", "--cluster", "demo").out
    assert "1 resolved" in out
    assert "idle-broker" in out and "new" in out
    command = "counterpoise plan --cluster demo --goal add-brokers --brokers 4"
    assert f"\n    {command} --out add-brokers.json\n" in out


def test_json_is_one_document_with_the_words_of_the_rules(shell: CommandLine) -> None:
    typed = shell.type("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    document = json.loads(typed.out)
    assert (typed.code, document["worst"], document["open"]["warning"]) == (1, "warning", 1)
    assert document["findings"][0]["rule"] == "leftover-throttle"
    assert document["rules"]["leftover-throttle"]["area"] == "leftovers"


def test_out_gets_both_files(shell: CommandLine) -> None:
    out = shell.folder / "deep/reports"
    typed = shell.type("audit", "--cluster", "demo", "--out", out)
    assert sorted(path.name for path in out.iterdir()) == ["audit.html", "audit.json"]
    assert str(out / "audit.html") in typed.out
    (shell.folder / "file").write_text("")
    failed = shell.type("audit", "--cluster", "demo", "--out", shell.folder / "file")
    assert failed.code == 3 and "cannot be made" in failed.err


def test_a_cluster_that_no_file_names_is_audited_by_its_addresses(shell: CommandLine) -> None:
    typed = shell.type("audit", "--bootstrap", "kafka.invalid:9092")
    assert typed.code == 0
    assert "leftover-throttle" in typed.out
    assert (shell.folder / "store/reports/kafka-picture-id/audit.html").exists()


def test_a_tool_of_kafka_is_given_no_address_of_another_cluster(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked = connectivity(snapshot_of(kafka))
    own = checked.bootstrap[0]
    assert own.metadata is not None
    elsewhere = replace(own.metadata, cluster_id="another")
    checked = replace(
        checked,
        bootstrap=(own, replace(own, address="other.invalid:9092", metadata=elsewhere)),
    )
    monkeypatch.setattr(installation.Installation, "check_connectivity", lambda *_: checked)
    typed = shell.type("audit", "--bootstrap", f"{own.address},other.invalid:9092")
    assert "bootstrap-other-cluster" in typed.out
    assert f"    BOOTSTRAP={own.address}" in typed.out.splitlines()


def test_trouble_has_one_message_and_its_code(
    shell: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_settings: object) -> SimulatedCluster:
        raise ClusterUnreachableError((("kafka.invalid:9092", "no such host"),))

    monkeypatch.setattr(installation, "connect_by_discovery", refuse)
    unreachable = shell.type("audit", "--cluster", "demo")
    assert (unreachable.code, unreachable.out) == (3, "")
    assert "no bootstrap address answered" in unreachable.err
    assert shell.type("audit", "--cluster", "other").code == 2
    assert shell.type("audit").code == 2
    assert shell.type("audit", "--cluster", "demo", "--fail-at", "never").code == 2
    shell.configure(
        "kafka.invalid:9092", extra=RACKS + "        waivers: [{rule: no-such, reason: x}]\n"
    )
    unknown = shell.type("audit", "--cluster", "demo")
    assert unknown.code == 2 and 'no rule "no-such"' in unknown.err


def test_data_docs_of_the_newest_snapshot_are_written_when_asked(shell: CommandLine) -> None:
    asked = ("audit", "--cluster", "demo", "--data-docs")
    refused = shell.type(*asked)
    assert refused.code == 1
    assert "take one with `counterpoise snapshot`" in refused.err
    assert shell.type("snapshot", "--cluster", "demo").code == 0
    assert shell.type(*asked).code == 0
    docs = shell.folder / "store/reports/demo/data-docs/index.html"
    assert docs.exists()
    assert "data-docs/index.html" in (shell.folder / "store/reports/demo/audit.html").read_text()


# -- as a linter is used


def test_only_the_rules_that_were_asked_for_are_run_and_nothing_is_stored(
    shell: CommandLine,
) -> None:
    typed = shell.type("audit", "--cluster", "demo", "--rule", "quorum-*", "--json")
    document = json.loads(typed.out)
    checked = {*document["passed"], *document["not_applicable"], *document["unknown"]}
    assert checked and all(rule.startswith("quorum-") for rule in checked)
    skipped = ("audit", "--cluster", "demo", "--fail-at", "warning", "--skip", "leftover-*")
    assert shell.type(*skipped).code == 0
    assert not (shell.folder / "store/audits").exists()
    refused = shell.type("audit", "--cluster", "demo", "--rule", "quorum-sizes")
    assert refused.code == 2
    assert 'there is no rule "quorum-sizes"; did you mean "quorum-size"?' in refused.err


def test_a_gate_on_what_is_new_since_a_baseline(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    assert shell.type("audit", "--cluster", "demo", "--out", shell.folder / "out").code == 0
    gate = ("--fail-at", "warning", "--fail-on", "new")
    baseline = ("--baseline", shell.folder / "out/audit.json")
    words = ("audit", "--bootstrap", "kafka.invalid:9092", *gate, *baseline)
    assert shell.type(*words).code == 0, "the throttle is known"
    kafka.configs.dynamic[ConfigResource(ConfigResourceType.BROKER, "1")] = {FOLLOWER_RATE: "1"}
    typed = shell.type(*words)
    assert typed.code == 1 and "1 new, 0 resolved" in typed.out
    (shell.folder / "none.json").write_text("{}")
    assert shell.type(*words[:-1], shell.folder / "none.json").code == 2
    document = json.loads((shell.folder / "out/audit.json").read_text())
    document["cluster_id"] = "another"
    (shell.folder / "other.json").write_text(json.dumps(document))
    refused = shell.type(*words[:-1], shell.folder / "other.json")
    assert refused.code == 2 and "the baseline is of cluster id another" in refused.err


def test_waivers_in_a_file_of_their_own(shell: CommandLine) -> None:
    file = shell.folder / "waivers.yaml"
    file.write_text(
        "waivers:\n"
        "  - {rule: leftover-throttle, reason: being drained}\n"
        "  - {rule: replication-factor-1, reason: scratch, subjects: [topic scratch-*]}\n"
    )
    words = ("audit", "--bootstrap", "kafka.invalid:9092", "--fail-at", "warning")
    typed = shell.type(*words, "--waivers", file)
    assert typed.code == 0 and "1 finding is waived" in typed.out
    assert "the waiver of replication-factor-1 for topic scratch-* waives nothing" in typed.out
    file.write_text("waivers: [{rule: no-such, reason: x}]")
    refused = shell.type(*words, "--waivers", file)
    assert refused.code == 2 and 'no rule "no-such"' in refused.err
    file.write_text("waiver: []")
    assert shell.type(*words, "--waivers", file).code == 2


def test_junit_has_a_case_for_each_rule(shell: CommandLine) -> None:
    words = ("audit", "--cluster", "demo", "--fail-at", "warning", "--format", "junit")
    typed = shell.type(*words)
    suite = ElementTree.fromstring(typed.out)[0]
    cases = {case.attrib["name"]: case for case in suite}
    assert (typed.code, suite.attrib["failures"]) == (1, "1")
    assert len(cases) == int(suite.attrib["tests"]) == len(chosen_rules((), ()))
    failure = cases["leftover-throttle"].find("failure")
    assert failure is not None and " --delete-config " in str(failure.text)
    assert cases["disk-full-soon"].find("skipped") is not None, "there is no history"
    assert len(cases["quorum-size"]) == 0, "it has passed"


def test_a_document_of_another_tool_says_what_it_does_not_have(shell: CommandLine) -> None:
    file = shell.folder / "state.json"
    file.write_text(
        '{"brokers": [{"id": 1}, {"id": 2}, {"id": 3}], "partitions": [["orders", 0, [1], 1]]}'
    )
    typed = shell.type("audit", "--state", file)
    assert typed.code == 1
    first, second, *_ = typed.out.splitlines()
    assert "`counterpoise snapshot --out` writes it" in first
    assert second.startswith("critical  replication-factor-1  1 of 1 partition of topic orders")
    command = f"counterpoise plan --state {file} --goal replication-factor --topics orders"
    assert command in typed.out
    assert not (shell.folder / "store").exists()


def test_a_saved_cluster_has_what_the_audit_of_the_cluster_has(shell: CommandLine) -> None:
    file = shell.folder / "state.json.gz"
    assert shell.type("snapshot", "--cluster", "demo", "--out", file).code == 0
    live, saved = (
        json.loads(shell.type("audit", *words, "--json").out)
        for words in (("--cluster", "demo", "--skip", "bootstrap-*"), ("--state", file))
    )
    for document in (live, saved):
        known = [row["rule"] for row in document["findings"] if row["severity"] != "unknown"]
        assert known == ["leftover-throttle"]
    assert shell.type("audit", "--state", file, "--data-docs").code == 2

"""`counterpoise audit` as typed: exit codes, what is shown, what is written."""

import json
import re
from pathlib import Path

import pytest

from counterpoise import installation
from counterpoise.errors import ClusterError, ClusterUnreachableError
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.kafka import FOLLOWER_RATE, ConfigResource, ConfigResourceType
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import HEALTHY, connectivity, healthy, snapshot_of
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
    assert lines[1].startswith("    kafka-configs.sh ") and " --delete-config " in lines[1]
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


def test_text_from_the_cluster_moves_no_cursor(shell: CommandLine, kafka: SimulatedCluster) -> None:
    hostile = healthy(HEALTHY, racks="1=a 2=b 3=c 4=[bold]\x1b[2J")
    kafka.__dict__.update(hostile.__dict__)
    kafka.configs.dynamic[BROKER] = {"a[red]\x1b[2Jb": "x"}
    typed = shell.type("audit", "--cluster", "demo")
    assert "\x1b[2J" not in typed.out
    assert "a[red]\N{REPLACEMENT CHARACTER}[2Jb" in typed.out


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

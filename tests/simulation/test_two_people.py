"""A policy that asks for two people, walked through the command line."""

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.pictures import simulated

SKEWED = "\n".join(f"orders-{number}: 1 2 size=3000000" for number in range(6))


@pytest.mark.parametrize(
    ("rule", "because"),
    [
        ("critical: yes", "is for a critical cluster (critical)"),
        ("two_people_above: 5MB", "copies more than 5.0 MB (two_people_above)"),
    ],
)
def test_a_run_starts_after_the_second_yes(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rule: str,
    because: str,
) -> None:
    kafka = simulated(SKEWED, racks="1=a 2=b 3=c")
    let_commands_reach(kafka, monkeypatch)
    monkeypatch.chdir(tmp_path)
    shell = CommandLine.in_folder(tmp_path, capsys)
    policy = f"access: {{approve: [alice, bob]}}, approval: {{requester_may_approve: yes, {rule}}}"
    shell.configure("simulated:9092", extra=f"    policy: {{{policy}}}\n")
    plan = ("plan", "--cluster", "demo", "--goal", "add-brokers", "--brokers", "3")
    assert shell.type(*plan, "--out", "p.json").code == 0
    yes = ("approve", "p.json", "--rate", "10MB/s", "--reason", "x")
    assert shell.type(*yes, user="alice").code == 0
    refused = shell.type("execute", "p.json", user="alice")
    assert refused.code == 1 and because in refused.err
    assert "until now the system user alice did" in " ".join(refused.err.split())
    assert not {"alter_configs", "alter_reassignments"} & {call.name for call in kafka.calls}
    assert shell.type(*yes, user="bob").code == 0
    done = shell.type("execute", "p.json", user="bob")
    assert done.code == 0, done.err

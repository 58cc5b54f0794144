"""A cluster that gets another name while runs of it are not at their end: nothing of theirs passes
for somebody's.
"""

from pathlib import Path

from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, interrupted_while_moving
from tests.support.runs import own_configs


def approved(shell: CommandLine, cluster: str, *goal: str) -> Path:
    path = shell.folder / f"{cluster}.json"
    typed = shell.type("plan", "--cluster", cluster, "--goal", *goal, "--out", path)
    assert typed.code == 0, typed.err
    assert shell.type("approve", path, "--rate", "1MB/s", "--reason", "broker 3 is new").code == 0
    return path


def interrupted_under_its_former_name(shell: CommandLine, kafka: SimulatedCluster) -> Path:
    """Return the plan of a run that nobody drives, whose moves have arrived; its keys are set."""
    path = approved(shell, "demo", "add-brokers", "--brokers", "3")
    with interrupted_while_moving(kafka):
        shell.type("execute", path)
    kafka.advance(600)
    assert own_configs(kafka) and not kafka.list_reassignments()
    shell.configure("simulated:9092", cluster="fresh")
    return path


def test_a_run_waits_for_the_end_of_one_that_the_cluster_has_under_its_former_name(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    former = interrupted_under_its_former_name(shell, kafka)
    path = approved(shell, "fresh", "rebalance")
    refused = shell.type("execute", path)
    shown = " ".join(refused.err.split())
    assert refused.code == 1, refused.out
    assert "under the name demo, is running: name the cluster demo in clusters.yaml until" in shown
    shell.configure("simulated:9092")
    assert shell.type("settle", former).code == 0
    shell.configure("simulated:9092", cluster="fresh")
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert own_configs(kafka) == {}


def test_a_run_takes_no_key_for_somebodys_that_one_under_a_former_name_has_left(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    former = interrupted_under_its_former_name(shell, kafka)
    path = approved(
        shell, "fresh", "replication-factor", *("--replication-factor", "3"), "--topics=*"
    )
    shell.configure("simulated:9092")
    kafka.kill_broker(3)
    assert shell.type("settle", former).code == 1, "a restore is pending"
    kafka.restart_broker(3)
    kafka.advance(600)
    shell.configure("simulated:9092", cluster="fresh")
    refused = shell.type("execute", path)
    assert refused.code == 1, refused.out
    assert "`counterpoise watch --cluster demo` has restored them" in " ".join(refused.err.split())
    shell.configure("simulated:9092")
    assert shell.type("watch", "--cluster", "demo").code == 0
    shell.configure("simulated:9092", cluster="fresh")
    ran = shell.type("execute", path)
    assert ran.code == 0, ran.err
    assert own_configs(kafka) == {}


def test_a_freeze_under_a_former_name_holds_until_its_end(
    shell: CommandLine, kafka: SimulatedCluster
) -> None:
    shell.type("snapshot", "--cluster", "demo")
    assert shell.type("freeze", "demo", "--until", "8h", "--why", "month end").code == 0
    shell.configure("simulated:9092", cluster="fresh")
    path = approved(shell, "fresh", "add-brokers", "--brokers", "3")
    refused = shell.type("execute", path)
    assert refused.code == 1, refused.out
    shown = " ".join(refused.err.split())
    assert "this Kafka cluster, under the name demo, is frozen until" in shown
    assert not kafka.list_reassignments()
    shell.configure("simulated:9092")
    assert shell.type("unfreeze", "demo", "--why", "over").code == 0
    shell.configure("simulated:9092", cluster="fresh")
    assert shell.type("execute", path).code == 0

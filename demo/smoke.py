"""The main job against clusters and an Airflow that run already, as in docker-compose: a job that
exits 0 when a rebalance came to its end, and says why otherwise.

    docker-compose --profile smoke run --rm smoke
    python -m demo.smoke --airflow http://api-server:8080 --passwords passwords.json \\
        --bootstrap broker-1:9092 --cluster demo

A new topic has all its leaders on one broker. A snapshot, the analysis, the plan that follows, a
yes by REST, the moves and the verification have to even them out.

Limits: for clusters made for trying out; the topic stays. Each run makes a new one.
"""

import argparse
import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from confluent_kafka.admin import AdminClient

from counterpoise.errors import CounterpoiseError
from dev.local_airflow.api import AirflowApi
from dev.local_kafka import TopicSpec, create_topics, fill
from dev.local_processes import wait_until

PARTITIONS = 12
BROKERS = (1, 2, 3)
PARTITION_BYTES = 500_000
TIMEOUT_SECONDS = 600.0
APPROVER = "alice"
DAGS = ("kafka_snapshot", "kafka_leader_balance", "kafka_rebalance")


class SmokeFailedError(CounterpoiseError):
    """A stage did not end as it should; the message says which."""


def smoke(api: AirflowApi, approver: AirflowApi, bootstrap: str, cluster: str) -> None:
    """Go through the main job once. Raises SmokeFailedError, AirflowApiError."""
    api.wait_for_dags(DAGS, TIMEOUT_SECONDS)
    topic = make_uneven_topic(bootstrap)
    say(f"topic {topic}: leaders {leaders_of(bootstrap, topic)}")
    known = {run.run_id for run in api.dag_runs("kafka_leader_balance")}
    known_rebalances = {run.run_id for run in api.dag_runs("kafka_rebalance")}
    expect_success(api, "kafka_snapshot", api.trigger("kafka_snapshot"))
    analysed = api.wait_for_new_run("kafka_leader_balance", known, TIMEOUT_SECONDS)
    expect_success(api, "kafka_leader_balance", analysed.run_id)
    rebalance = api.wait_for_new_run(
        "kafka_rebalance", known_rebalances, TIMEOUT_SECONDS, partition_key=cluster
    )
    approve(api, approver, rebalance.run_id)
    expect_success(api, "kafka_rebalance", rebalance.run_id)
    leaders = leaders_of(bootstrap, topic)
    say(f"topic {topic}: leaders {leaders}")
    if not set(BROKERS) <= set(leaders):  # others of the cluster may lead, too
        raise SmokeFailedError(f"some of the brokers {BROKERS} lead nothing of {topic} still")


def make_uneven_topic(bootstrap: str) -> str:
    """Make a topic whose leaders are all on the first broker, and return its name."""
    topic = f"smoke-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    create_topics(bootstrap, [TopicSpec(topic, [BROKERS] * PARTITIONS)])
    fill(bootstrap, topic, dict.fromkeys(range(PARTITIONS), PARTITION_BYTES))
    return topic


def leaders_of(bootstrap: str, topic: str) -> dict[int, int]:
    """Return how many partitions of a topic each broker leads."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    described = admin.list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    return dict(Counter(partition.leader for partition in described.partitions.values()))


def approve(api: AirflowApi, approver: AirflowApi, run_id: str) -> None:
    approval = api.wait_for_approval("kafka_rebalance", run_id, TIMEOUT_SECONDS)
    say(approval.subject)
    approver.approve(approval, "smoke test", "4MB/s")


def expect_success(api: AirflowApi, dag_id: str, run_id: str) -> None:
    state = api.wait_for_run(dag_id, run_id, TIMEOUT_SECONDS).state
    say(f"{dag_id}: {state}")
    if state != "success":
        states = api.task_states(dag_id, run_id)
        failed = ", ".join(task for task, state in states.items() if state == "failed")
        raise SmokeFailedError(f"{dag_id} {run_id} failed in {failed}; its logs say why")


def read_passwords(path: Path) -> dict[str, str]:
    """Return the passwords that Airflow made up at its first start, as soon as they are there."""
    wait_until(path.exists, f"{path} to be there", TIMEOUT_SECONDS)
    passwords: dict[str, str] = json.loads(path.read_text())
    return passwords


def say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    """Return the exit code: 0 when the main job came to its end, else 1."""
    parser = argparse.ArgumentParser(prog="python -m demo.smoke", description=__doc__)
    parser.add_argument("--airflow", required=True, metavar="URL")
    parser.add_argument("--passwords", required=True, type=Path, metavar="JSON")
    parser.add_argument("--bootstrap", required=True, metavar="A,B")
    parser.add_argument("--cluster", default="demo")
    arguments = parser.parse_args()
    try:
        passwords = read_passwords(arguments.passwords)
        api, approver = (
            AirflowApi(arguments.airflow, user, passwords[user]) for user in ("admin", APPROVER)
        )
        smoke(api, approver, arguments.bootstrap, arguments.cluster)
    except (CounterpoiseError, TimeoutError) as error:
        print(f"smoke: {error}", file=sys.stderr)
        return 1
    say("the main job came to its end")
    return 0


if __name__ == "__main__":
    sys.exit(main())

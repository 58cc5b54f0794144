"""Every goal from snapshot to settled run, one after another on one real cluster; each ends at
the figures foretold.

The tests build on one another, in their order. What the cluster is like is told by Kafka's own
client and tools.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource

from counterpoise.errors import NotApprovedError, RefusedError
from counterpoise.installation import Installation
from counterpoise.model.approval import Decision
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.reassignment import from_reassignment_json, to_reassignment_json
from counterpoise.model.request import Goal, RebalanceRequest, Scope
from counterpoise.model.run import RunState
from counterpoise.services import (
    execution,
    plans,
    requests,
    snapshots,
    validations,
    verification,
)
from counterpoise.settings import Locations, parse_settings
from dev.local_kafka import LocalKafka, TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.decisions import ALICE, decide
from tests.support.faults import steps
from tests.support.kafka_facts import (
    CLUSTER_TOOL,
    ON_A_SHARED_DISK,
    leaders_per_broker,
    placement,
    replicas_per_broker,
)
from tests.support.ledger_view import LedgerView
from tests.support.planned_runs import planned_run

MB = 1_000_000
SECONDS = 120.0
STORES = Scope(topics=("sto*",))


@dataclass
class Connection:
    """Through whichever brokers are live when it is asked for."""

    kafka: LocalKafka

    def settings_for(self, connection_id: str) -> dict[str, object]:
        return {"bootstrap.servers": self.kafka.bootstrap_string}


@pytest.fixture(scope="module", autouse=True)
def topics(kafka: LocalKafka) -> Iterator[None]:
    """Nearly all leaders are on the first broker, and the fourth holds nothing."""
    topics = [
        TopicSpec("orders", [(1, 2, 3)] * 8, configs={"retention.ms": "-1"}),
        TopicSpec("stores", [(1, 3)] * 6, configs={"min.insync.replicas": "2"}),
    ]
    create_topics(kafka.bootstrap_string, topics)
    fill(kafka.bootstrap_string, "orders", {number: (1 + number % 3) * MB for number in range(8)})
    fill(kafka.bootstrap_string, "stores", dict.fromkeys(range(6), MB))
    yield
    if 4 not in kafka.live_brokers:  # the last test unregisters it
        kafka.restart_broker(4)
        kafka.wait_until_ready()


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory, kafka: LocalKafka
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("installation")
    variables = {
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }
    known = parse_settings(
        f"clusters: {{demo: {{connection: kafka, policy: {{{ON_A_SHARED_DISK}}}}}}}", where="here"
    )
    with Installation(
        Locations.from_environment(variables), Connection(kafka), known_clusters=known
    ) as installation:
        yield installation


@pytest.fixture(autouse=True)
def nothing_kept_empty(installation: Installation) -> None:
    """The undo and the removal of a test before have emptied broker 4."""
    for broker_id in installation.active_requests("demo").kept_empty:
        requests.release(
            installation, "demo", str(broker_id), by=Person.airflow("alice"), why="test"
        )


def own_configs(kafka: LocalKafka) -> dict[str, dict[str, str]]:
    """Every key that is set at a topic or, while it is running, at a live broker itself."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_string})
    topics = [
        ConfigResource(ConfigResource.Type.TOPIC, name)
        for name in admin.list_topics(timeout=30).topics
    ]
    brokers = [
        ConfigResource(ConfigResource.Type.BROKER, str(broker_id))
        for broker_id in kafka.live_brokers
    ]
    own = (ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    found = {}
    for resource in (*topics, *brokers):
        (future,) = admin.describe_configs([resource]).values()
        entries = future.result().values()
        found[f"{resource.restype.name} {resource.name}"] = {
            e.name: e.value for e in entries if e.source in own
        }
    return found


def fresh_snapshot(installation: Installation) -> ClusterSnapshot:
    return snapshots.fresh_snapshot(installation, "demo", installation.clock())


def planned(installation: Installation, rebalance_request: RebalanceRequest) -> plans.PlannedRun:
    run = planned_run(installation, "demo", rebalance_request, plans.Origin(ALICE))
    assert run is not None
    validations.validate(installation, run["run_id"], run["fingerprint"])
    return run


def approve(installation: Installation, run: plans.PlannedRun, by: str = "alice") -> None:
    decide(installation, run["run_id"], Decision.GRANTED, by, rate="50MB/s")


def carry_out(
    kafka: LocalKafka, installation: Installation, run: plans.PlannedRun
) -> RebalancePlan:
    """Open, move, verify, settle and report; return the plan, once the cluster is as planned."""
    made = installation.archive.read_plan(run["plan_uri"], run["fingerprint"])
    before = own_configs(kafka)
    for _ in steps(installation, run, print):  # repeated where a busy broker does not answer
        pass
    verification.verify(installation, run["run_id"], run["fingerprint"])
    assert installation.ledger.run(run["run_id"]).state is RunState.DONE
    assert installation.ledger.run(run["run_id"]).reason == ""
    wait_until(lambda: own_configs(kafka) == before, "configs as before", SECONDS)
    check_figures(kafka, installation, made)
    return made


def check_figures(kafka: LocalKafka, installation: Installation, made: RebalancePlan) -> None:
    """Leaders, replicas and bytes of each broker are what the plan says; nothing was written
    meanwhile.
    """
    leaders, replicas, held = (
        leaders_per_broker(kafka),
        replicas_per_broker(kafka),
        bytes_per_broker(installation),
    )
    for figure in made.figures:
        b = figure.broker_id
        foretold = (figure.leaders_after, figure.replicas_after, figure.bytes_after)
        # One that was unregistered is unknown as soon as no partition names it.
        assert (leaders[b], replicas[b], held.get(b, 0)) == foretold, f"broker {b}"


def bytes_per_broker(installation: Installation) -> dict[int, int]:
    """As the live brokers' log dirs tell, and for dead ones as the partitions that name them are
    large.
    """
    fresh = fresh_snapshot(installation)
    sizes = {
        (row["topic"], row["partition"]): row["size_bytes"] for row in fresh.partitions.to_pylist()
    }
    held = dict.fromkeys(fresh.registered_broker_ids, 0)
    for row in fresh.replicas.to_pylist():
        own = row["size_bytes"]
        held[row["broker_id"]] += sizes[row["topic"], row["partition"]] if own is None else own
    return held


def test_a_rebalance_within_a_scope_and_its_undo(
    kafka: LocalKafka, installation: Installation
) -> None:
    start = placement(kafka)
    run = planned(installation, RebalanceRequest(Goal.REBALANCE, scope=STORES))
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    now = placement(kafka)
    assert made.copied_replicas > 0
    assert {name for name in now if now[name] != start[name]} <= {
        f"stores-{number}" for number in range(6)
    }
    back = from_reassignment_json(to_reassignment_json(made, undo=True))
    undo = plans.plan_of_assignment(
        fresh_snapshot(installation), back, installation.cluster("demo").policy.balance
    )
    run = plans.submit(installation, undo, plans.Origin(ALICE))
    approve(installation, run)
    carry_out(kafka, installation, run)
    assert placement(kafka) == start


def test_a_broker_is_added(kafka: LocalKafka, installation: Installation) -> None:
    run = planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (4,)))
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    assert {b for move in made.moves for b in move.adding} == {4}
    assert made.copied_replicas == made.lower_bound.replicas
    spread = leaders_per_broker(kafka).values()
    assert max(spread) - min(spread) <= 1


def test_a_broker_is_demoted_and_leads_again(kafka: LocalKafka, installation: Installation) -> None:
    run = planned(installation, RebalanceRequest(Goal.DEMOTE_BROKERS, (1,)))
    approve(installation, run)
    held = replicas_per_broker(kafka)
    carry_out(kafka, installation, run)
    assert leaders_per_broker(kafka)[1] == 0
    assert not [name for name, (replicas, _) in placement(kafka).items() if replicas[0] == 1]
    run = planned(installation, RebalanceRequest(Goal.LEADERS))
    approve(installation, run)
    carry_out(kafka, installation, run)
    spread = leaders_per_broker(kafka).values()
    assert max(spread) - min(spread) <= 1
    assert replicas_per_broker(kafka) == held


def test_a_replication_factor_is_raised_by_one_and_lowered_by_two_people(
    kafka: LocalKafka, installation: Installation
) -> None:
    run = planned(
        installation, RebalanceRequest(Goal.REPLICATION_FACTOR, scope=STORES, replication_factor=3)
    )
    approve(installation, run)
    raised = carry_out(kafka, installation, run)
    assert raised.copied_replicas == 6
    run = planned(
        installation, RebalanceRequest(Goal.REPLICATION_FACTOR, scope=STORES, replication_factor=2)
    )
    approve(installation, run)
    three = placement(kafka)
    with pytest.raises(NotApprovedError, match="until now the Airflow user alice did"):
        execution.open_run(installation, run["run_id"], run["fingerprint"])
    assert placement(kafka) == three
    approve(installation, run, by="bob")
    lowered = carry_out(kafka, installation, run)
    assert lowered.copied_replicas == 0
    assert LedgerView.of(installation.ledger).owned_keys(run["run_id"]) == ()
    assert {
        len(replicas)
        for name, (replicas, _) in placement(kafka).items()
        if name.startswith("stores")
    } == {2}


def test_what_a_dead_broker_held_is_repaired_and_it_comes_back_empty(
    kafka: LocalKafka, installation: Installation
) -> None:
    lost = replicas_per_broker(kafka)[4]
    kafka.stop_broker(4)
    wait_until(
        lambda: 4 not in fresh_snapshot(installation).live_broker_ids,
        "the cluster to notice",
        SECONDS,
    )
    run = planned(installation, RebalanceRequest(Goal.REPAIR))
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    assert made.copied_replicas == lost > 0
    kafka.restart_broker(4)
    wait_until(
        lambda: 4 in fresh_snapshot(installation).idle_broker_ids,
        "broker 4 to be back, with nothing",
        SECONDS,
    )


def test_a_broker_gives_its_place_in_each_list_to_one_that_holds_nothing(
    kafka: LocalKafka, installation: Installation
) -> None:
    """kafka-kit 149: what the old broker held goes to the new one, and nothing else moves."""
    lists, held = placement(kafka), replicas_per_broker(kafka)
    assert held[4] == 0
    request = RebalanceRequest(Goal.REPLACE_BROKERS, (2,), new_broker_ids=(4,))
    run = planned(installation, request)
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    assert made.copied_replicas == made.lower_bound.replicas == held[2]
    now = {name: replicas for name, (replicas, _) in placement(kafka).items()}
    assert now == {
        name: tuple(4 if broker == 2 else broker for broker in replicas)
        for name, (replicas, _) in lists.items()
    }


def test_a_dead_broker_is_replaced_by_one_that_holds_nothing(
    kafka: LocalKafka, installation: Installation
) -> None:
    held = replicas_per_broker(kafka)[4]
    kafka.kill_broker(4)
    kafka.wait_until_fenced(4)
    request = RebalanceRequest(Goal.REPLACE_BROKERS, (4,), new_broker_ids=(2,))
    run = planned(installation, request)
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    assert made.copied_replicas == held > 0
    assert replicas_per_broker(kafka)[4] == 0
    kafka.restart_broker(4)
    wait_until(
        lambda: 4 in fresh_snapshot(installation).idle_broker_ids,
        "broker 4 to be back, with nothing",
        SECONDS,
    )


def test_a_broker_is_removed_but_no_controller(
    kafka: LocalKafka, installation: Installation
) -> None:
    with pytest.raises(
        RefusedError, match="broker 3 cannot be removed yet: a controller runs there"
    ):
        planned(installation, RebalanceRequest(Goal.REMOVE_BROKERS, (3,)))
    run = planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (4,)))
    approve(installation, run)
    carry_out(kafka, installation, run)
    drain = RebalanceRequest(Goal.REMOVE_BROKERS, (4,))
    run = planned(installation, drain)
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    assert made.copied_replicas == made.lower_bound.replicas
    assert replicas_per_broker(kafka)[4] == 0
    verdict = verification.removal_verdict(installation, made)
    assert (
        verdict.lines()[0] == "broker 4: safe to stop (0 replicas, 0 voters, in two observations)"
    )
    with pytest.raises(
        RefusedError, match=r"broker 4 is kept empty .* before somebody releases it"
    ):
        planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (4,)))


def test_what_an_unregistered_broker_held_is_repaired(
    kafka: LocalKafka, installation: Installation
) -> None:
    """Kafka lets a broker be unregistered while partitions name it as a replica."""
    run = planned(installation, RebalanceRequest(Goal.ADD_BROKERS, (4,)))
    approve(installation, run)
    carry_out(kafka, installation, run)
    lost = replicas_per_broker(kafka)[4]
    kafka.kill_broker(4)
    kafka.wait_until_fenced(4)
    address = ("--bootstrap-server", kafka.bootstrap_string)
    kafka.tool(CLUSTER_TOOL, "unregister", *address, "--id", "4")
    wait_until(
        lambda: fresh_snapshot(installation).racks[4] is None,
        "nothing but its id to be known",
        SECONDS,
    )
    run = planned(installation, RebalanceRequest(Goal.REPAIR))
    approve(installation, run)
    made = carry_out(kafka, installation, run)
    assert made.copied_replicas == lost > 0
    assert not any(4 in replicas for replicas, _ in placement(kafka).values())

"""A topic that is deleted and made again under the same name is another topic: nothing in it is
ours.
"""

from pathlib import Path

from counterpoise.kafka_admin.simulated import SimulatedCluster
from counterpoise.kafka_admin.simulated_partition import SimulatedPartition
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    LIST_KEYS,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.run import RunState, TouchedKey
from tests.support.runs import SimulatedRun, at_broker, of_topic, own_configs

ORDERS = of_topic("orders")
THEIRS = {
    LEADER_REPLICAS: ",".join(f"{p}:{b}" for p in range(8) for b in (1, 2, 3)),
    FOLLOWER_REPLICAS: ",".join(f"{p}:4" for p in range(8)),
}


def make_again(simulated: SimulatedCluster, topic: str, topic_id: str) -> None:
    """Delete a topic, and make one of the same name with the lists that a run would set."""
    simulated.delete_topic(topic)
    simulated.topic_ids[topic] = topic_id
    key = TopicPartition(topic, 0)
    simulated.partitions[key] = SimulatedPartition((1, 2, 3), isr={1, 2, 3}, leader=1, size_bytes=0)
    for list_key, entries in THEIRS.items():
        change = ConfigChange(of_topic(topic), list_key, ConfigOperation.SET, entries)
        simulated.alter_configs([change])


def lists_of(run: SimulatedRun, topic: str) -> list[TouchedKey]:
    touched_keys = run.ledger.journal(run.run_id).touched()
    return [t for t in touched_keys if t.resource == of_topic(topic) and t.key in LIST_KEYS]


def test_the_lists_of_a_topic_made_again_are_left_alone_while_a_run_settles(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    make_again(run.cluster, "orders", "made-again")
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {ORDERS: THEIRS}
    assert {touched.outcome for touched in lists_of(run, "orders")} == {"its topic is gone"}


def test_a_pending_restore_leaves_a_topic_made_again_alone(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    while not own_configs(run.cluster).get(ORDERS):
        run.cluster.advance(driver.step() or 0)
    journal = run.ledger.journal(run.run_id)
    with journal.step() as step:
        step.sending(lists_of(run, "orders"))
    make_again(run.cluster, "orders", "made-again")
    restored, pending = run.restore_pending()
    assert ORDERS in {touched.resource for touched in restored}
    assert pending == ()
    assert own_configs(run.cluster) == {ORDERS: THEIRS}
    assert at_broker(1) not in own_configs(run.cluster)


def test_a_list_set_anew_at_a_topic_made_again_begins_with_what_is_set_there(
    tmp_path: Path,
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    journal = run.ledger.journal(run.run_id)
    (leaders,) = [t for t in lists_of(run, "orders") if t.key == LEADER_REPLICAS]
    with journal.step() as step:
        step.touching([TouchedKey(ORDERS, LEADER_REPLICAS, "made-again", "9:9", "0:1")])
    (anew,) = [t for t in lists_of(run, "orders") if t.key == LEADER_REPLICAS]
    assert leaders.topic_id != anew.topic_id == "made-again"
    assert (anew.before_value, anew.written_value) == ("9:9", "0:1")

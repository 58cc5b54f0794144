"""What happens on a cluster in an ordinary night. All of it ends well.

night.happen_until(1800.0, HARMLESS)            # nothing that keeps a run from its plan
night.happen_until(1800.0, (*HARMLESS, *OTHERS))    # and what others do
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from counterpoise.errors import ClusterUnreachableError, UnknownOutcomeError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    EVERY_BROKER,
    FOLLOWER_RATE,
    LEADER_RATE,
    LIST_KEYS,
    RATE_KEYS,
    BrokerVersion,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
)
from counterpoise.model.reassignment import reassignment_targets
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.partition import SimulatedPartition
from tests.support.nights import RATE, THEIRS, Night
from tests.support.runs import at_broker, of_topic


def brokers_restart(night: Night) -> None:
    """One after the other; each waits until the one before has caught up."""
    all_ids = night.broker_ids
    ids = night.chance.sample(all_ids, night.chance.choice([1, 1, 2, len(all_ids)]))
    newer = night.chance.choice([None, BrokerVersion("newer", 30)])
    if newer is not None:
        ids = night.chance.sample(all_ids, len(all_ids))
    _restart_next(night, ids, newer)


def _restart_next(night: Night, ids: list[int], newer: BrokerVersion | None) -> None:
    if not ids:
        return
    if night.is_harmless and not night.is_healthy:
        night.at(5.0, lambda: _restart_next(night, ids, newer))
        return
    broker_id, rest = ids[0], ids[1:]
    if not night.cluster.is_responding(broker_id):
        if newer is not None:
            night.cluster.versions[broker_id] = newer
        night.at(30.0, lambda: _restart_next(night, rest, newer))
        return
    night.tell(f"  broker {broker_id} stops")
    night.cluster.kill_broker(broker_id, noticed=night.chance.random() < 0.7)

    def comes_back() -> None:
        night.tell(f"  broker {broker_id} is back")
        night.cluster.restart_broker(broker_id)
        if newer is not None:
            night.cluster.versions[broker_id] = newer
        for partition in night.cluster.partitions.values():
            kept = set(partition.replicas) - set(partition.adding) - partition.isr
            if broker_id in kept:
                lost = night.chance.choice([0.0, 0.1, 0.5]) * min(partition.size_bytes, 2e7)
                copied = partition.copied.get(broker_id, 0.0)
                partition.copied[broker_id] = max(0.0, copied - lost)
        night.at(night.chance.uniform(1, 40), lambda: _restart_next(night, rest, newer))

    night.at(night.chance.uniform(20, 240), comes_back)


def retention_deletes(night: Night) -> None:
    _, partition = night.partition()
    deleted = partition.size_bytes * night.chance.choice([0.1, 0.5, 0.9])
    partition.size_bytes -= deleted
    for broker_id, copied in partition.copied.items():
        partition.copied[broker_id] = max(0.0, copied - deleted)


def compaction_shrinks_the_leader(night: Night) -> None:
    _, partition = night.partition()
    partition.size_bytes *= night.chance.choice([0.3, 0.7, 0.95])


def production_rises(night: Night) -> None:
    tp, partition = night.partition()
    usual = float(night.rates.get(tp, 0))
    partition.bytes_in_per_second = 20_000.0 if night.is_harmless else 3_000_000.0

    def falls() -> None:
        partition.bytes_in_per_second = usual

    night.at(night.chance.uniform(30, 600), falls)


def log_dirs_are_not_reported(night: Night) -> None:
    broker_id = night.chance.choice(night.broker_ids)
    night.cluster.without_log_dirs.add(broker_id)
    night.at(
        night.chance.uniform(30, 400), lambda: night.cluster.without_log_dirs.discard(broker_id)
    )


def people_pause_and_resume(night: Night) -> None:
    night.ask(Control.PAUSE)
    night.at(night.chance.uniform(5, 900), lambda: night.ask(Control.RESUME))


def people_change_the_rate(night: Night) -> None:
    rates = [300_000, 700_000, 1_500_000, 5_000_000]
    night.ask(Control.RATE, rate_bytes_per_second=night.chance.choice(rates))
    agreed = partial(night.ask, Control.RATE, rate_bytes_per_second=RATE)
    night.at(night.chance.uniform(30, 600), agreed)


def the_worker_dies(night: Night) -> None:
    night.kill_worker()


def leaders_are_elected(night: Night) -> None:
    for partition in night.cluster.partitions.values():
        partition.elect_preferred(night.cluster.live_broker_ids)


def a_topic_gains_partitions(night: Night) -> None:
    topic = night.chance.choice(sorted(night.cluster.topic_ids))
    numbers = [tp.partition for tp in night.cluster.partitions if tp.topic == topic]
    live = sorted(night.cluster.live_broker_ids)
    replicas = tuple(night.chance.sample(live, min(night.rf, len(live))))
    fresh = SimulatedPartition(replicas, set(replicas), replicas[0], 0.0)
    night.cluster.partitions[TopicPartition(topic, max(numbers) + 1)] = fresh


def a_broker_is_not_reached(night: Night) -> None:
    broker_id = night.chance.choice(night.broker_ids)
    night.tell(f"  broker {broker_id}")
    night.cluster.unreachable.add(broker_id)
    night.at(night.chance.uniform(5, 120), lambda: night.cluster.unreachable.discard(broker_id))


def the_cluster_is_not_reached(night: Night) -> None:
    night.cluster.unreachable.update(night.broker_ids)
    night.at(night.chance.uniform(5, 300), night.cluster.unreachable.clear)


def answers_are_lost(night: Night) -> None:
    night.may_be_sent_again = True
    for name in ("alter_configs", "alter_reassignments", "elect_preferred_leaders"):
        if night.chance.random() < 0.5:
            night.cluster.lose_response_of_next(name)


def people_freeze_the_cluster(night: Night) -> None:
    night.ask(Control.FREEZE)
    night.at(night.chance.uniform(5, 600), lambda: night.ask(Control.UNFREEZE))


def a_broker_hangs(night: Night) -> None:
    broker_id = night.chance.choice(night.broker_ids)
    if not night.cluster.is_responding(broker_id) or (night.is_harmless and not night.is_healthy):
        return
    night.may_be_sent_again = True
    night.tell(f"  broker {broker_id} hangs")
    night.cluster.freeze_broker(broker_id)

    def goes_on() -> None:
        if night.cluster.brokers[broker_id].is_frozen:
            night.tell(f"  broker {broker_id} goes on")
            night.cluster.thaw_broker(broker_id)

    night.at(night.chance.uniform(2, 60), goes_on)


def metadata_is_behind(night: Night) -> None:
    """After the next change of its kind, some reads show what was there before it."""
    kafka, reads = night.cluster, night.chance.randint(1, 3)
    name = night.chance.choice(["alter_configs", "alter_reassignments", "elect_preferred_leaders"])

    def changes(*arguments: Any, **options: Any) -> Any:
        vars(kafka).pop(name, None)
        topics = SimulatedCluster.describe_topics.__wrapped__(kafka)  # type: ignore[attr-defined]
        try:
            return getattr(kafka, name)(*arguments, **options)
        finally:
            if name == "alter_configs":
                kafka.stale_config_reads = reads
            else:
                kafka.stale_topic_reads = [topics] * reads
            night.at(3.0, is_up_to_date)

    def is_up_to_date() -> None:
        kafka.stale_config_reads, kafka.stale_topic_reads = 0, []

    setattr(kafka, name, changes)


def another_broker_is_asked(night: Night) -> None:
    night.may_be_sent_again = True  # that one may not respond
    night.cluster.addressed_broker = night.chance.choice(night.broker_ids)
    night.at(night.chance.uniform(5, 300), lambda: setattr(night.cluster, "addressed_broker", None))


def a_follower_elsewhere_lags(night: Night) -> None:
    tp, partition = night.partition()
    followers = sorted(partition.isr - {partition.leader})
    if tp.topic == "other" and followers:
        partition.isr.discard(followers[0])
        partition.copied[followers[0]] = partition.size_bytes * 0.9


def calls_fail(night: Night) -> None:
    night.may_be_sent_again = True
    names = ("alter_configs", "alter_reassignments", "describe_topics", "describe_configs")
    for name in night.chance.sample(names, 2):
        error = ClusterUnreachableError((("simulated", "no route"),))
        if name.startswith("alter"):
            error = UnknownOutcomeError("no answer, and nothing was done", broker_id=None)
        night.cluster.fail_next(name, error)


def a_topic_is_deleted(night: Night) -> None:
    topic = night.chance.choice(sorted(night.cluster.topic_ids))
    if len(night.cluster.topic_ids) < 2:
        return
    night.tell(f"  {topic}")
    assignment = [
        p.target[: night.rf]
        for tp, p in sorted(night.cluster.partitions.items())
        if tp.topic == topic
    ]
    night.cluster.delete_topic(topic)
    night.gone.add(topic)
    for key in [key for key in night.settings if key[0] == of_topic(topic)]:
        del night.settings[key]

    def made_again() -> None:
        if topic not in night.cluster.topic_ids and all(
            set(ids) & night.cluster.live_broker_ids for ids in assignment
        ):
            night.tell(f"  {topic} is made again")
            night.cluster.create_topic(topic, assignment)

    if night.chance.random() < 0.5:
        night.at(night.chance.uniform(0, 60), made_again)


def somebody_moves(night: Night) -> None:
    """And it completes."""
    tp, partition = night.partition()
    if partition.is_moving or partition.leader is None:
        return
    target = tuple(night.chance.sample(night.broker_ids, len(partition.replicas)))
    ours = [m for m in night.plan.moves if m.topic_partition == tp]
    if any(
        set(target) == set(t) for m in ours for t in (m.replicas_before, *reassignment_targets(m))
    ):
        return
    if not set(target) <= night.cluster.live_broker_ids or target == partition.replicas:
        return
    night.moved_by_others.add(tp)
    partition.reassign(target, night.cluster.brokers.keys())
    night.cluster.complete_if_ready(partition)


def somebody_cancels(night: Night) -> None:
    for tp, partition in sorted(night.cluster.partitions.items()):
        if partition.is_moving and tp not in night.moved_by_others:
            night.tell(f"  {tp}")
            night.cancelled_by_others.add(tp)
            partition.cancel(night.cluster.live_broker_ids)
            return


def somebody_throttles(night: Night) -> None:
    """A rate, or an entry of a list; it is removed again."""
    if night.chance.random() < 0.6:
        resource = at_broker(night.chance.choice(night.broker_ids))
        key = night.chance.choice([LEADER_RATE, FOLLOWER_RATE])
        value = night.chance.choice(["333333", "800000", "77777777"])
    else:
        resource = of_topic(night.chance.choice(["orders", "payments"]))
        key, value = night.chance.choice(LIST_KEYS), THEIRS
    if resource.is_topic and resource.name not in night.cluster.topic_ids:
        return
    if (resource, key) in night.settings or (resource, key) in night.set_by_others:
        return
    topic_id = night.cluster.topic_ids.get(resource.name)
    if resource.is_topic:
        _alter_entry(night, resource, key, ConfigOperation.APPEND)
    else:
        night.alter(resource, key, value)

    def removed() -> None:
        if topic_id != night.cluster.topic_ids.get(resource.name):
            return
        if resource.is_topic:
            _alter_entry(night, resource, key, ConfigOperation.SUBTRACT)
        else:
            night.alter(resource, key, None)

    night.at(night.chance.uniform(5, 600), removed)


def _alter_entry(night: Night, resource: ConfigResource, key: str, how: ConfigOperation) -> None:
    night.tell(f"  {resource.name} {key} {how} {THEIRS}")
    night.set_by_others.add((resource, key))
    night.cluster.configs.alter(resource, [ConfigChange(resource, key, how, THEIRS)])
    if how is ConfigOperation.APPEND:
        night.settings[resource, key] = THEIRS
    else:
        night.settings.pop((resource, key), None)


def somebody_limits_all_brokers(night: Night) -> None:
    night.default_rate = night.chance.choice([250_000, 5_000_000])
    night.set_by_others.add((EVERY_BROKER, LEADER_RATE))
    for key in RATE_KEYS:
        night.cluster.configs.broker_defaults[key] = str(night.default_rate)

    def removed() -> None:
        night.default_rate = None
        night.cluster.configs.broker_defaults.clear()

    night.at(night.chance.uniform(30, 600), removed)


def a_log_dir_fills(night: Night) -> None:
    broker = night.cluster.brokers[night.chance.choice(night.broker_ids)]
    broker.disk_total_bytes = 1_000
    night.at(night.chance.uniform(30, 600), lambda: setattr(broker, "disk_total_bytes", 10**12))


def people_cancel(night: Night) -> None:
    night.ask(Control.CANCEL)


def people_settle(night: Night) -> None:
    night.settle()


HARMLESS: Final[tuple[Callable[[Night], None], ...]] = (
    brokers_restart,
    brokers_restart,
    retention_deletes,
    compaction_shrinks_the_leader,
    production_rises,
    log_dirs_are_not_reported,
    people_pause_and_resume,
    people_change_the_rate,
    the_worker_dies,
    leaders_are_elected,
    a_topic_gains_partitions,
    a_broker_is_not_reached,
    the_cluster_is_not_reached,
    answers_are_lost,
    people_freeze_the_cluster,
    a_broker_hangs,
    metadata_is_behind,
    another_broker_is_asked,
    a_follower_elsewhere_lags,
    calls_fail,
)
OTHERS: Final[tuple[Callable[[Night], None], ...]] = (
    a_topic_is_deleted,
    somebody_moves,
    somebody_cancels,
    somebody_throttles,
    somebody_throttles,
    somebody_limits_all_brokers,
)
# What ends a run at once, mostly.
STOPS: Final[tuple[Callable[[Night], None], ...]] = (
    a_log_dir_fills,
    people_cancel,
    people_settle,
)

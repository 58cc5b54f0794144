"""Clusters with one thing wrong, and a step away from that: for `tests/unit/audit/test_pairs.py`.

removed_broker("1=a 2=b 3=c")       # facts in which the bootstrap list names a broker that left
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa

from counterpoise.audit.facts import AuditFacts
from counterpoise.errors import ClusterError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.connectivity import (
    Certificate,
    ConnectionStage,
    EndpointCheck,
    MetadataResponse,
    QuorumCheck,
    VoterCheck,
)
from counterpoise.model.inspection import (
    AllowedOperation,
    ConsumerGroup,
    FeatureLevel,
    HangingTransactions,
    LogOffsets,
    OpenTransaction,
)
from counterpoise.model.kafka import (
    BrokerDescription,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    ConfigValue,
)
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Waiver
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.audits import (
    HEALTHY,
    NOW,
    NOW_MS,
    connectivity,
    endpoint,
    facts,
    healthy,
    past,
    quorum,
    snapshot_of,
)

GB = 10**9
FOUR = "1=a 2=b 3=c 4=a"
MOVED = TopicPartition("orders", 0)
Make = Callable[[], AuditFacts]


# -- endpoints


def bootstrap(entries: tuple[EndpointCheck, ...]) -> AuditFacts:
    given = facts()
    return replace(given, connectivity=connectivity(given.snapshot, bootstrap=entries))


def advertised(check: EndpointCheck) -> AuditFacts:
    """What was found at broker 2's endpoint."""
    given = facts()
    usual = connectivity(given.snapshot)
    return replace(given, connectivity=replace(usual, advertised={**usual.advertised, 2: check}))


def certificate(days: int = 100, name: str = "broker-2", matches: bool = True) -> EndpointCheck:
    expires_at = NOW + timedelta(days=days)
    certificate = Certificate(f"CN={name}", "CN=ca", (name,), expires_at, matches)
    return endpoint("broker-2:9092", is_expected_broker=True, certificate=certificate)


def bootstrap_of_rack(racks: str) -> AuditFacts:
    given = facts(healthy("orders-0: 1 2 3", racks=racks))
    two = tuple(endpoint(f"broker-{n}:9092") for n in (1, 2))
    return replace(given, connectivity=connectivity(given.snapshot, bootstrap=two))


def another_cluster(cluster_id: str) -> AuditFacts:
    metadata = MetadataResponse(cluster_id, ())
    return bootstrap((*LIST, endpoint("other:9092", metadata=metadata)))


def dead_ips(dead: dict[str, str]) -> AuditFacts:
    """Of the first address of the list, some IP addresses do not respond."""
    given = facts()
    usual = connectivity(given.snapshot)
    first, *others = usual.bootstrap
    changed = replace(first, address="kafka:9092", ips=("10.0.0.1", *dead), dead_ips=dead)
    return replace(given, connectivity=replace(usual, bootstrap=(changed, *others)))


def quorum_answered(by: tuple[str, ...]) -> AuditFacts:
    """Of brokers 1 and 2 those in `by` got an answer of the active controller."""
    given = facts()
    asked = ("broker-1:9092", "broker-2:9092")
    silent = tuple(address for address in asked if address not in by)
    voters = () if by else (VoterCheck("kafka:9093", 101, False, "nobody listens there"),)
    check = QuorumCheck(by, silent, 101 if by else None, 5.0, voters)
    return replace(given, connectivity=connectivity(given.snapshot, quorum=check))


def metadata(port: int) -> AuditFacts:
    given = facts()
    usual = connectivity(given.snapshot)
    live = [BrokerDescription(n, f"broker-{n}", 9092, r, False) for n, r in enumerate("abc", 1)]
    changed = MetadataResponse("picture-id", (*live[:2], replace(live[2], port=port)))
    check = endpoint("broker-2:9092", metadata=changed, is_expected_broker=True)
    return replace(given, connectivity=replace(usual, advertised={**usual.advertised, 2: check}))


def removed_broker(broker_ids: str) -> AuditFacts:
    """An address that does not respond, of a broker of an earlier snapshot: broker 4."""
    earlier = snapshot_of(healthy(racks=FOUR))
    given = facts(healthy(racks=broker_ids))
    dead = endpoint("broker-4:9092", failed=ConnectionStage.TCP)
    checks = connectivity(given.snapshot, bootstrap=(*LIST, dead))
    seen = replace(past(given.snapshot), recent_snapshots=(earlier,))
    return replace(given, connectivity=checks, past=seen)


LIST = tuple(endpoint(f"broker-{n}:9092") for n in (1, 2, 3))
DEAD = endpoint("old:9092", failed=ConnectionStage.RESOLVE)


def configs(of_broker: int | None, **values: str) -> AuditFacts:
    """Static configs of one broker, or of all; every broker is a controller, too."""
    cluster = healthy()
    cluster.quorum = quorum(voters=(1, 2, 3))
    for broker_id in [of_broker] if of_broker else list(cluster.brokers):
        named = {key.replace("_", "."): value for key, value in values.items()}
        cluster.configs.static[broker_id] = {**cluster.configs.static[broker_id], **named}
    return facts(cluster)


def offsets_factor(value: str) -> AuditFacts:
    """Before the first consumer: there is no internal topic yet."""
    cluster = healthy("orders-0: 1 2 3")
    for configs in cluster.configs.static.values():
        configs["offsets.topic.replication.factor"] = value
    return facts(cluster)


def transactions_min_isr(value: str) -> AuditFacts:
    """Before the first transaction, with a factor of 3."""
    cluster = healthy("orders-0: 1 2 3")
    for configs in cluster.configs.static.values():
        configs["transaction.state.log.min.isr"] = value
    return facts(cluster)


def hosts(names: tuple[str, str]) -> AuditFacts:
    """No racks, and brokers 1 and 2 call each other by these names."""
    cluster = healthy(racks="1 2 3")
    for broker_id, name in enumerate(names, 1):
        listener = f"CLIENT://{name}:909{broker_id}"
        cluster.configs.static[broker_id]["advertised.listeners"] = listener
    return facts(cluster)


def tiered_topic(in_brokers: str) -> AuditFacts:
    cluster = healthy()
    resource = ConfigResource(ConfigResourceType.TOPIC, "orders")
    cluster.configs.dynamic[resource] = {"remote.storage.enable": "true"}
    cluster.configs.static[2]["remote.log.storage.system.enable"] = in_brokers
    return facts(cluster)


def allowed_to_everybody(topic: str) -> AuditFacts:
    cluster = healthy()
    acl = AllowedOperation("User:*", "*", "Write", "topic", topic, is_prefixed=False)
    cluster.acls_for_everybody = (acl,)
    return facts(cluster)


def log_dir(path: str) -> AuditFacts:
    return table("log_dirs", log_dir=path)


def listeners(text: str, of_broker: int | None = 2) -> AuditFacts:
    return configs(of_broker, listeners=text, advertised_listeners=text)


# -- clusters


def with_quorum(**changes: Any) -> AuditFacts:
    cluster = healthy()
    cluster.quorum = quorum(observers=(1, 2, 3), **changes)
    return facts(cluster)


def quorum_racks(racks: str) -> AuditFacts:
    names = dict(zip((101, 102, 103), racks, strict=True))
    return facts(audit=AuditPolicy(controller_racks=names))


def combined(count: int) -> AuditFacts:
    cluster = healthy(racks=" ".join(f"{n}={'abc'[n % 3]}" for n in range(1, count + 1)))
    cluster.quorum = quorum(voters=(1, 2, 3))
    return facts(cluster)


def picture(picture: str, racks: str = "1=a 2=b 3=c") -> AuditFacts:
    return facts(healthy(picture, racks=racks))


def changed(change: Callable[[SimulatedCluster], object], racks: str = "1=a 2=b 3=c") -> Make:
    def make() -> AuditFacts:
        cluster = healthy(racks=racks)
        change(cluster)
        return facts(cluster)

    return make


def lines(orders: list[str], size: int = GB) -> str:
    return "\n".join(f"t-{n}: {replicas} size={size}" for n, replicas in enumerate(orders))


def lagging(earlier_out: bool) -> AuditFacts:
    cluster = healthy()
    partition = cluster.partitions[MOVED]
    earlier = []
    for hours in (2, 1):
        partition.isr = {1, 3} if earlier_out else {1, 2, 3}
        at = NOW - timedelta(hours=hours)
        earlier.append(snapshot_of(cluster, snapshot_id=f"demo-{hours}", observed_at=at))
    partition.isr = {1, 3}
    given = facts(cluster)
    return replace(given, past=replace(past(given.snapshot), recent_snapshots=tuple(earlier)))


def isr(live: tuple[int, ...], min_isr: str = "2") -> AuditFacts:
    cluster = healthy()
    cluster.partitions[MOVED].isr = set(live)
    for configs in cluster.configs.static.values():
        configs["min.insync.replicas"] = min_isr
    return facts(cluster)


def leaders(led_by_1: int) -> AuditFacts:
    """Twelve partitions, evenly held; the first so many led by broker 1, the others in turns."""
    orders = ["1 2 3"] * led_by_1 + ["2 3 1", "3 1 2"] * 6
    return picture(lines(orders[:12]))


def elected(isr_leader: int) -> Callable[[SimulatedCluster], object]:
    def change(cluster: SimulatedCluster) -> None:
        for partition in cluster.partitions.values():
            if partition.replicas[0] == 1:
                partition.leader = isr_leader

    return change


def table(name: str, **values: Any) -> AuditFacts:
    """The healthy cluster with other values in all rows of a table of the snapshot."""
    given = facts()
    table = given.snapshot.tables[name]
    for key, value in values.items():
        index = table.schema.get_field_index(key)
        column = pa.array([value] * table.num_rows, table.schema.field(index).type)
        table = table.set_column(index, table.schema.field(index), column)
    snapshot = replace(given.snapshot, tables={**given.snapshot.tables, name: table})
    return facts(snapshot=snapshot)


def rates(rate_of_1: int) -> AuditFacts:
    given = leaders(8)
    series = past(given.snapshot).series.to_pylist()
    for row in series:
        row["leader_bytes_in_per_second"] = rate_of_1 if row["broker_id"] == 1 else 1_000_000
    table = pa.Table.from_pylist(series, schema=past(given.snapshot).series.schema)
    led_by_1 = [leader == 1 for leader in given.snapshot.partitions["leader"].to_pylist()]
    of_each = {True: rate_of_1 // sum(led_by_1), False: 1_000_000 // sum(led_by_1)}
    usual = pa.array([of_each[is_led] for is_led in led_by_1], pa.int64())
    seen = replace(past(given.snapshot), series=table, usual_bytes_in=usual)
    return replace(given, past=seen)


def topic_rate(topic: str, text: str, rate: int) -> AuditFacts:
    given = picture(text, FOUR)
    loads = past(given.snapshot).topic_load.to_pylist()
    for row in loads:
        row["bytes_in_per_second"] = rate if row["topic"] == topic else 1_000
    table = pa.Table.from_pylist(loads, schema=past(given.snapshot).topic_load.schema)
    return replace(given, past=replace(past(given.snapshot), topic_load=table))


def moving(change: Callable[[SimulatedCluster], object] = lambda _: None) -> SimulatedCluster:
    cluster = healthy(HEALTHY.replace("size=100000000", "size=900000000000"), racks=FOUR)
    assert not cluster.alter_reassignments({MOVED: (4, 2, 3)}).errors
    change(cluster)
    return cluster


def moving_for(hours: int) -> AuditFacts:
    given = facts(moving())
    since = {MOVED: NOW - timedelta(hours=hours)}
    return replace(given, past=replace(past(given.snapshot), moving_since=since))


def redirected(target: tuple[int, ...]) -> AuditFacts:
    """Somebody sends a partition elsewhere that is on its way from (1, 2, 3) to (4, 2, 3)."""
    cluster = moving()
    assert not cluster.alter_reassignments({MOVED: target}).errors
    return facts(cluster)


def copied(seconds: float) -> AuditFacts:
    cluster = moving()
    cluster.advance(1.0)
    at = NOW - timedelta(hours=1)
    before = snapshot_of(cluster, snapshot_id="before", observed_at=at)
    cluster.advance(seconds)
    given = facts(cluster)
    return replace(given, past=replace(past(given.snapshot), recent_snapshots=(before,)))


def dynamic(kind: ConfigResourceType, name: str, **values: str) -> Make:
    named = {key.replace("_", "."): value for key, value in values.items()}
    resource = ConfigResource(kind, name)
    return changed(lambda cluster: cluster.configs.dynamic.update({resource: named}))


def broker_dynamic(names: tuple[str, ...]) -> AuditFacts:
    cluster = healthy()
    for name in names:
        resource = ConfigResource(ConfigResourceType.BROKER, name)
        cluster.configs.dynamic[resource] = {"log.cleaner.threads": "3"}
    return facts(cluster)


def with_value(key: str, value: str) -> AuditFacts:
    given = facts()
    source = ConfigSource.DYNAMIC_BROKER
    configs = {
        broker_id: {**values, key: ConfigValue(value, source)}
        for broker_id, values in given.inspection.broker_configs.items()
    }
    return replace(given, inspection=replace(given.inspection, broker_configs=configs))


def forecast(days_left: float) -> AuditFacts:
    given = facts()
    size = 10**12
    disk = DiskForecast(
        2, ("/data",), size // 2, size, size // 2, GB, 259_200.0, Outlook.FILLS, days_left=days_left
    )
    return replace(given, past=replace(past(given.snapshot), disk_forecasts=(disk,)))


def retention(rate: int) -> AuditFacts:
    given = table("topics", retention_ms=604_800_000, retention_bytes=-1)
    rates = pa.array([rate] * given.snapshot.partitions.num_rows, pa.int64())
    return replace(given, past=replace(past(given.snapshot), usual_bytes_in=rates))


def log_dirs(usable_percent: int) -> AuditFacts:
    given = facts()
    rows = given.snapshot.log_dirs.to_pylist()
    first = rows[0] | {"total_bytes": 10**12, "usable_bytes": 6 * 10**11}
    usable = usable_percent * 10**10 + 1
    other = first | {"log_dir": "/other", "usable_bytes": usable, "total_bytes": 10**12 + 1}
    table = pa.Table.from_pylist([first, other, *rows[1:]], schema=given.snapshot.log_dirs.schema)
    return facts(
        snapshot=replace(given.snapshot, tables={**given.snapshot.tables, "log_dirs": table})
    )


def disk(used_percent: int) -> AuditFacts:
    usable = (100 - used_percent) * 10**10
    return table("log_dirs", total_bytes=10**12, usable_bytes=usable)


def log_dir_error(error: str | None) -> AuditFacts:
    return table("log_dirs", error=error)


def refused(operations: dict[str, str]) -> AuditFacts:
    given = facts()
    return replace(given, inspection=replace(given.inspection, refused=operations))


def eligible(given: dict[TopicPartition, tuple[int, ...]]) -> AuditFacts:
    usual = facts()
    return replace(usual, inspection=replace(usual.inspection, eligible_leaders=given))


def waiver(days: int) -> AuditFacts:
    waiver = Waiver("racks-single", "one room", until=NOW + timedelta(days=days))
    return facts(audit=AuditPolicy(waivers=(waiver,)))


def without_quorum(fails: bool) -> AuditFacts:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    if fails:
        cluster.fail_next("describe_quorum", ClusterError("not allowed"))
    return facts(cluster, snapshot=snapshot)


TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
EVEN = ["1 2 3", "2 3 4", "3 4 1", "4 1 2"] * 3
HEAVIER = ["1 2 3"] * 11 + ["1 2 4"]
ONE_HEAVY = ["1 2 3"] * 9 + ["1 2 4", "1 3 4", "2 3 4"]
CLOSED = endpoint("broker-2:9092", failed=ConnectionStage.TCP)
WRONG = endpoint("broker-2:9092", is_expected_broker=False, actual_broker_id=1)


def with_certificate(of: dict[str, Any]) -> AuditFacts:
    return advertised(certificate(**of))


def voters(ids: tuple[int, ...]) -> AuditFacts:
    return with_quorum(voters=ids)


def directory_id(value: str | None) -> AuditFacts:
    return with_quorum(directory_id=value)


def behind(seconds: dict[int, float]) -> AuditFacts:
    return with_quorum(seconds_behind=seconds)


def picture_on_four(text: str) -> AuditFacts:
    return picture(text, FOUR)


def hot_topic(rate: int) -> AuditFacts:
    return topic_rate("t", f"{HEALTHY}\nt-0: 1 2 3", rate)


def wide_topic(rate: int) -> AuditFacts:
    return topic_rate("t", lines(EVEN * 2), rate)


def limit_of_replicas(most: int) -> AuditFacts:
    audit = AuditPolicy(thresholds={"partitions-per-broker": {"most": most}})
    return facts(healthy(lines(["1 2 3"] * 7)), audit=audit)


def finalized(levels: dict[str, int | None]) -> AuditFacts:
    features = {name: FeatureLevel(level, 0, 29) for name, level in levels.items()}
    return changed(lambda one: one.features.update(dict.fromkeys(one.brokers, features)))()


def group(offset: int, *, members: int = 0, size: int = 0) -> AuditFacts:
    """A group whose next record of orders-0 has this offset, of a log from 100 to 1,000.

    Its records below 500 have used up most of their retention; with a `size`, size alone limits it.
    """
    log = LogOffsets(100, 1000, None if size else 500)
    given = table("topics", cleanup_policy="delete", retention_ms=86_400_000, retention_bytes=size)
    commits = {"orders": {0: offset}}
    shop = ConsumerGroup("shop", "Stable" if members else "Empty", members, ("orders",), commits)
    inspection = replace(given.inspection, groups={1: (shop,), 2: (), 3: ()}, logs={MOVED: log})
    return replace(given, inspection=inspection)


def group_of_members(offset: int) -> AuditFacts:
    return group(offset, members=1)


def quota(rate: float) -> AuditFacts:
    quotas = {"users": {"producer_byte_rate": rate}}
    return changed(lambda cluster: cluster.default_quotas.update(quotas))()


def transactions(count: int) -> AuditFacts:
    """So many transactions hang in orders-0, since an hour."""
    an_hour_ago = NOW_MS - 3_600_000
    found = tuple(OpenTransaction(MOVED, 10 * at, 4000 + at, an_hour_ago) for at in range(count))
    hanging = HangingTransactions(found)
    return changed(lambda cluster: setattr(cluster, "hanging_transactions", hanging))()


def retention_bytes(limit: int, retention_ms: int) -> AuditFacts:
    return table("topics", retention_ms=retention_ms, retention_bytes=limit)

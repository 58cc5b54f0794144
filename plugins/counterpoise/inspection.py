"""Reads what an audit needs beside the snapshot: configs, versions, quorum, groups, permissions.

    inspection = inspect(reader, snapshot, operator=admin)
    inspection.unavailable        # what could not be read, and why

Never writes. An item that cannot be read is noted under its name, and the others are read all the
same. A broker that does not respond is missing in what is read from each broker.

Limits: read once, with some requests to each broker and one for 2,000 topics. Eligible leaders are
read only for topics with a partition below its `min.insync.replicas`, since others have none
(KIP-966).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import ClusterError
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.inspection import TOPIC_KEYS, Inspection, InspectionItem
from counterpoise.model.kafka import EVERY_BROKER, ConfigResource, ConfigResourceType, ConfigValue
from counterpoise.model.words import name_brokers

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader


Value = TypeVar("Value")
Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


def inspect(
    reader: "ClusterReader", snapshot: ClusterSnapshot, *, operator: "ClusterAdmin | None" = None
) -> Inspection:
    """Return what the cluster of `snapshot` reports now.

    Permissions are those of `operator`; without one they are not known. Raises no ClusterError: see
    `Inspection.unavailable`.
    """
    unavailable: dict[str, str] = {}

    def read(item: InspectionItem, call: Callable[[], Value], otherwise: Value) -> Value:
        try:
            return call()
        except ClusterError as error:
            unavailable[item] = str(error)
            return otherwise

    def read_configs(
        item: InspectionItem, resources: list[ConfigResource], keys: tuple[str, ...] | None
    ) -> Configs:
        nothing: Configs = {}
        return read(item, lambda: reader.describe_configs(resources, keys), nothing)

    live_ids = snapshot.live_broker_ids
    brokers = [ConfigResource(ConfigResourceType.BROKER, str(broker_id)) for broker_id in live_ids]
    names = snapshot.topics["topic"].to_pylist()
    topics = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    of_brokers = read_configs(InspectionItem.BROKER_CONFIGS, brokers, None)
    of_every_broker = read_configs(InspectionItem.CLUSTER_DEFAULTS, [EVERY_BROKER], None)
    of_topics = read_configs(InspectionItem.TOPIC_CONFIGS, topics, TOPIC_KEYS)
    inspection = Inspection(
        broker_configs={int(resource.name): values for resource, values in of_brokers.items()},
        cluster_defaults=of_every_broker.get(EVERY_BROKER, {}),
        topic_configs={resource.name: values for resource, values in of_topics.items()},
        versions=read(InspectionItem.VERSIONS, lambda: reader.describe_versions(live_ids), {}),
        features=read(InspectionItem.FEATURES, lambda: reader.describe_features(live_ids), {}),
        quorum=read(InspectionItem.QUORUM, reader.describe_quorum, None),
        reassignments=read(InspectionItem.REASSIGNMENTS, reader.list_reassignments, None),
        eligible_leaders=read(
            InspectionItem.ELIGIBLE_LEADERS,
            lambda: reader.list_eligible_leaders(_topics_below_min_isr(snapshot)),
            None,
        ),
        groups=read(InspectionItem.GROUPS, reader.describe_groups, None),
        refused=read(
            InspectionItem.PERMISSIONS, lambda: _refused_operations(operator, snapshot), None
        ),
        unavailable=unavailable,
    )
    return _with_unresponsive_brokers(inspection, live_ids)


def _refused_operations(
    operator: "ClusterAdmin | None", snapshot: ClusterSnapshot
) -> Mapping[str, str]:
    """Return what is refused on the first live broker and the first topic; others are not tried."""
    if operator is None:
        raise ClusterError("the operator's connection was not used")
    is_own_topic = pc.invert(snapshot.topics["is_internal"])
    topics = sorted(snapshot.topics.filter(is_own_topic)["topic"].to_pylist())
    if not snapshot.live_broker_ids or not topics:
        raise ClusterError("the cluster has no live broker and topic to try them with")
    return operator.refused_operations(snapshot.live_broker_ids[0], topics[:1], topics[:1])


def _topics_below_min_isr(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Return topics with a partition below min ISR, or where ISR or min ISR is not known."""
    min_isr = snapshot.topics.select(["topic", "min_insync_replicas"])
    isr_counts = pa.table(
        {
            "topic": snapshot.partitions["topic"],
            "isr_count": pc.list_value_length(snapshot.partitions["isr"]),
        }
    )
    partitions = isr_counts.join(min_isr, "topic")
    is_below = pc.less(partitions["isr_count"], partitions["min_insync_replicas"])
    below = partitions.filter(pc.fill_null(is_below, True))
    return tuple(sorted(below["topic"].unique().to_pylist()))


def _with_unresponsive_brokers(inspection: Inspection, live_ids: Iterable[int]) -> Inspection:
    """Note the brokers that did not respond, unless the whole item is unavailable."""
    read_by_broker = {
        InspectionItem.BROKER_CONFIGS: inspection.broker_configs,
        InspectionItem.VERSIONS: inspection.versions,
        InspectionItem.FEATURES: inspection.features,
    }
    unavailable = dict(inspection.unavailable)
    for item, by_broker in read_by_broker.items():
        missing_ids = [broker_id for broker_id in live_ids if broker_id not in by_broker]
        if missing_ids and item not in unavailable:
            unavailable[item] = f"no answer from {name_brokers(missing_ids)}"
    return replace(inspection, unavailable=unavailable)

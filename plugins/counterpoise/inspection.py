"""Asks a cluster what an audit wants to know beside the photograph: configs, versions, the quorum,
groups, rights.

    inspection = inspect(reader, snapshot, operator=admin)
    inspection.unanswered        # what could not be asked, and why

Never writes. Whatever one question runs into is noted under its name and holds up no other; a
broker that gives no answer is absent from what is told by broker.

Limits: one look, some requests per broker and one per 2,000 topics; eligible leaders are asked of
topics that have a partition below its `min.insync.replicas`, since others have none (KIP-966).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.errors import ClusterError
from counterpoise.kafka_admin.port import ClusterAdmin, ClusterReader
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.inspection import TOPIC_KEYS, Asked, Inspection
from counterpoise.model.kafka import EVERY_BROKER, ConfigResource, ConfigResourceType, ConfigValue

Answer = TypeVar("Answer")
Configs = Mapping[ConfigResource, Mapping[str, ConfigValue]]


def inspect(
    reader: ClusterReader, snapshot: ClusterSnapshot, *, operator: ClusterAdmin | None = None
) -> Inspection:
    """What the cluster of `snapshot` answers now. Rights are those of `operator`; without one they
    are not asked.

    Raises nothing of the cluster's: see `Inspection.unanswered`.
    """
    unanswered: dict[str, str] = {}

    def ask(what: Asked, question: Callable[[], Answer], otherwise: Answer) -> Answer:
        try:
            return question()
        except ClusterError as error:
            unanswered[what] = str(error)
            return otherwise

    live = snapshot.live_broker_ids
    none: Configs = {}
    brokers = [ConfigResource(ConfigResourceType.BROKER, str(broker_id)) for broker_id in live]
    topics = [
        ConfigResource(ConfigResourceType.TOPIC, name)
        for name in snapshot.topics["topic"].to_pylist()
    ]
    of_brokers = ask(Asked.BROKER_CONFIGS, lambda: reader.describe_configs(brokers, None), none)
    of_all = ask(
        Asked.CLUSTER_DEFAULTS, lambda: reader.describe_configs([EVERY_BROKER], None), none
    )
    of_topics = ask(Asked.TOPIC_CONFIGS, lambda: reader.describe_configs(topics, TOPIC_KEYS), none)
    found = Inspection(
        broker_configs={int(resource.name): values for resource, values in of_brokers.items()},
        cluster_defaults=of_all.get(EVERY_BROKER, {}),
        topic_configs={resource.name: values for resource, values in of_topics.items()},
        versions=ask(Asked.VERSIONS, lambda: reader.describe_versions(live), {}),
        features=ask(Asked.FEATURES, lambda: reader.describe_features(live), {}),
        quorum=ask(Asked.QUORUM, reader.describe_quorum, None),
        reassignments=ask(Asked.REASSIGNMENTS, reader.list_reassignments, None),
        eligible_leaders=ask(
            Asked.ELIGIBLE_LEADERS,
            lambda: reader.list_eligible_leaders(_below_min_insync(snapshot)),
            None,
        ),
        groups=ask(Asked.GROUPS, reader.describe_groups, None),
        refused=ask(Asked.PERMISSIONS, lambda: _refused(operator, snapshot), None),
        unanswered=unanswered,
    )
    return _with_silent(found, live)


def _refused(operator: ClusterAdmin | None, snapshot: ClusterSnapshot) -> Mapping[str, str] | None:
    """Asked with the first live broker and the first topic: permissions of the others are not
    tried.
    """
    if operator is None:
        raise ClusterError("nobody asked with the operator's connection")
    topics = sorted(
        snapshot.topics.filter(pc.invert(snapshot.topics["is_internal"]))["topic"].to_pylist()
    )
    if not snapshot.live_broker_ids or not topics:
        raise ClusterError("the cluster has no live broker and topic to ask with")
    return operator.refused_operations(snapshot.live_broker_ids[0], topics[0])


def _below_min_insync(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Topics with a partition that has fewer in-sync replicas than it needs, or of which that is
    not known.
    """
    least = snapshot.topics.select(["topic", "min_insync_replicas"])
    partitions = snapshot.partitions
    isr = pa.table(
        {"topic": partitions["topic"], "in_sync": pc.list_value_length(partitions["isr"])}
    )
    joined = isr.join(least, "topic")
    is_below = pc.fill_null(pc.less(joined["in_sync"], joined["min_insync_replicas"]), True)
    return tuple(sorted(joined.filter(is_below)["topic"].unique().to_pylist()))


def _with_silent(found: Inspection, live: Iterable[int]) -> Inspection:
    """Notes the brokers that gave no answer, unless the whole question went unanswered."""
    told = {
        Asked.BROKER_CONFIGS: found.broker_configs,
        Asked.VERSIONS: found.versions,
        Asked.FEATURES: found.features,
    }
    notes = dict(found.unanswered)
    for what, answers in told.items():
        silent = [broker_id for broker_id in live if broker_id not in answers]
        if silent and what not in notes:
            notes[what] = f"no answer from broker {', '.join(map(str, silent))}"
    return replace(found, unanswered=notes)

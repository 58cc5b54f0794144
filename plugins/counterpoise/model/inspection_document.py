"""What an audit reads beside the snapshot, as a key of the cluster document: `"inspection"`.

    document = to_document(snapshot) | {"inspection": to_content(inspection)}
    from_content(document["inspection"], where="cluster.json") == inspection

Limits: reads what `to_content` wrote, of this release. What no audit of a saved cluster looks at
(the permissions of an operator) is left out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from counterpoise.errors import InputError, list_complaints
from counterpoise.model import json_values
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.inspection import (
    AllowedOperation,
    ConsumerGroup,
    FeatureLevel,
    Inspection,
    Quorum,
)
from counterpoise.model.json_values import JsonValueError, read_json
from counterpoise.model.kafka import BrokerVersion, ConfigValue, Reassignment

_BY_PARTITION: Final = ("reassignments", "eligible_leaders")


@dataclass(frozen=True, slots=True)
class _OfPartition:
    """A value of a partition: JSON has no keys but text."""

    topic: str
    partition: int
    reassignment: Reassignment | None = None
    broker_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Saved:
    """The fields of `Inspection` as the document has them."""

    broker_configs: Mapping[int, Mapping[str, ConfigValue]]
    cluster_defaults: Mapping[str, ConfigValue]
    topic_configs: Mapping[str, Mapping[str, ConfigValue]]
    versions: Mapping[int, BrokerVersion]
    features: Mapping[int, Mapping[str, FeatureLevel]]
    quorum: Quorum | None
    groups: tuple[ConsumerGroup, ...] | None
    acls_for_everybody: tuple[AllowedOperation, ...] | None
    reassignments: tuple[_OfPartition, ...] | None
    eligible_leaders: tuple[_OfPartition, ...] | None
    unavailable: Mapping[str, str] = field(default_factory=dict)


def to_content(inspection: Inspection) -> dict[str, Any]:
    """Return the inspection, ready for `json.dump`."""
    reassignments = inspection.reassignments
    eligible_leaders = inspection.eligible_leaders
    saved = _Saved(
        **{
            one.name: getattr(inspection, one.name)
            for one in fields(_Saved)
            if one.name not in _BY_PARTITION
        },
        reassignments=None
        if reassignments is None
        else tuple(
            _OfPartition(key.topic, key.partition, reassignment=reassignment)
            for key, reassignment in sorted(reassignments.items())
        ),
        eligible_leaders=None
        if eligible_leaders is None
        else tuple(
            _OfPartition(key.topic, key.partition, broker_ids=tuple(broker_ids))
            for key, broker_ids in sorted(eligible_leaders.items())
        ),
    )
    return json_values.to_content(saved, {})


def from_content(content: object, *, where: str) -> Inspection:
    """Return the inspection. Raises InputError with every complaint."""
    try:
        saved = read_json(_Saved, json.dumps(content))
    except JsonValueError as error:
        raise InputError(list_complaints(f"{where}: inspection", error.complaints)) from None
    return Inspection(
        **{
            one.name: getattr(saved, one.name)
            for one in fields(_Saved)
            if one.name not in _BY_PARTITION
        },
        reassignments=None
        if saved.reassignments is None
        else {
            TopicPartition(row.topic, row.partition): row.reassignment
            for row in saved.reassignments
            if row.reassignment is not None
        },
        eligible_leaders=None
        if saved.eligible_leaders is None
        else {
            TopicPartition(row.topic, row.partition): row.broker_ids
            for row in saved.eligible_leaders
        },
    )

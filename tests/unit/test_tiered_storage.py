"""Tiered storage (KIP-405): a plan, a rule and a rate say which bytes they mean."""

import json

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text, to_document
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.pictures import cluster

LINES = "\n".join(f"{topic}-{n}: 1 2 size=1000" for topic in ("cold", "warm") for n in range(6))


def tiered(**configs: object) -> ClusterSnapshot:
    document = to_document(cluster(LINES, racks="1 2 3"))
    document["topics"][0] |= configs
    return from_document_text(json.dumps(document))


def test_a_plan_that_copies_tiered_topics_says_that_its_bytes_are_local() -> None:
    snapshot = tiered(remote_storage_enable="true", local_retention_ms=3_600_000)
    assert snapshot.tiered_topics == {"cold"}
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (3,)))
    (note,) = [text for text in plan.notes if "tiered storage" in text]
    copied = sum(bool(move.adding) for move in plan.moves if move.topic == "cold")
    assert note.startswith(f"{copied} partitions have tiered storage: bytes, time and disks")


def test_other_plans_do_not_mention_it() -> None:
    plan = make_plan(tiered(), PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert not any("tiered" in text for text in (*plan.warnings, *plan.notes))

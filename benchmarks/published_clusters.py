"""Published clusters with rates: what each broker takes in, before and after a plan.

    .venv/bin/python -m benchmarks.published_clusters

Prints a row per cluster: traffic, leaders and replicas per broker, bytes copied, CPU seconds, and
whether planning again on the result moves nothing. `published/` has the clusters, each file with
its source and licence.
"""

import json
import time
from pathlib import Path
from typing import Any, Final

from counterpoise.model.document import from_document_text
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from counterpoise.views.plan import PlanView

FOLDER: Final = Path(__file__).parent / "published"
_RING: Final = (3, 1, 0, 2)  # the order in which that cluster's controller had its brokers
_SIZE_BYTES: Final = 5_000_000_000


def astraea_experiment_1() -> dict[str, Any]:
    """Return the cluster document of `published/astraea-experiment-1.txt`."""
    partitions = []
    for line in (FOLDER / "astraea-experiment-1.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        topic, first_replicas, *rates = line.split()
        replicas = [int(word) for word in first_replicas.split(",")]
        for partition, rate in enumerate(rates):
            row = _replicas_of(partition, replicas)
            partitions.append([topic, partition, row, row[0], _SIZE_BYTES, int(rate)])
    brokers = [{"id": broker_id, "rack": None} for broker_id in sorted(_RING)]
    return {"cluster": "astraea-experiment-1", "brokers": brokers, "partitions": partitions}


def _replicas_of(partition: int, first: list[int]) -> list[int]:
    """Return where Kafka places a partition of a topic whose partition 0 is on the `first` brokers.

    Leaders follow one another in the ring; followers have a distance from their leader that grows
    with each time round it (org.apache.kafka.metadata.placement, before racks).
    """
    count = len(_RING)
    leader = (_RING.index(first[0]) + partition) % count
    row = [_RING[leader]]
    for follower in first[1:]:
        distance = (_RING.index(follower) - _RING.index(first[0])) % count - 1
        shifted = (distance + partition // count) % (count - 1)
        row.append(_RING[(leader + 1 + shifted) % count])
    return row


CLUSTERS: Final = {"astraea-experiment-1": astraea_experiment_1}


def after(document: dict[str, Any], plan: RebalancePlan) -> dict[str, Any]:
    """Return the document once the plan is executed."""
    moved = {(move.topic, move.partition): list(move.replicas_after) for move in plan.moves}
    rows = []
    for topic, partition, replicas, leader, *figures in document["partitions"]:
        now = moved.get((topic, partition))
        row = (now, now[0]) if now else (replicas, leader)
        rows.append([topic, partition, *row, *figures])
    return document | {"partitions": rows}


def main() -> None:
    request = PlanRequest(Goal.REBALANCE)
    for name, make in CLUSTERS.items():
        document = make()
        snapshot = from_document_text(json.dumps(document))
        start = time.process_time()
        plan = make_plan(snapshot, request)
        seconds = time.process_time() - start
        view = PlanView.of(plan)
        again = make_plan(from_document_text(json.dumps(after(document, plan))), request)
        percent = BalancePolicy().bytes_in_tolerance_percent
        print(f"{name}: {len(document['partitions'])} partitions, tolerance {percent} %")
        for title, before, now, best in view.evenness:
            print(f"  {title:<12}{before}  ->  {now}  (best {best})")
        cost = f"{view.copied_replicas} replicas, {view.copied_bytes / 1e9:.0f} GB"
        print(f"  copied {cost}; {seconds:.2f} CPU s; again: {len(again.moves)} moves")


if __name__ == "__main__":
    main()

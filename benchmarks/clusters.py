"""The clusters that the benchmark plans for.

    case = CASES["d-large"]
    document = make_cluster(case.name)
    named_brokers(document, case.goal)      # ids of the brokers that are "new", or to be drained

A prepared cluster is a folder with the document (`cluster.json.gz`) and the snapshot's tables as
Arrow files, so that a planning process reads what it plans from without the many Python objects of
a JSON document.
"""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.request import Goal

DOCUMENT: Final = "cluster.json.gz"
_IDENTITY = "snapshot.json"
_STATES: Final = {Goal.ADD_BROKERS: "new", Goal.REMOVE_BROKERS: "drain"}


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    goal: Goal


CASES: Final = {
    name: Case(name, goal)
    for name, goal in {
        "a-tiny": Goal.ADD_BROKERS,
        "b-small": Goal.ADD_BROKERS,
        "c-medium": Goal.ADD_BROKERS,
        "d-large": Goal.ADD_BROKERS,
        "e-leaders": Goal.LEADERS,
        "f-drain": Goal.REMOVE_BROKERS,
        "g-huge": Goal.ADD_BROKERS,
    }.items()
}
HUGE: Final = "g-huge"


def named_brokers(document: dict[str, Any], goal: Goal) -> tuple[int, ...]:
    """The brokers that the goal is about."""
    state = _STATES.get(goal)
    return tuple(
        broker["id"] for broker in document["brokers"] if state and broker["state"] == state
    )


def write_cluster(folder: Path, document: dict[str, Any]) -> None:
    """A prepared cluster in a folder that is there."""
    text = json.dumps(document, separators=(",", ":"))
    with gzip.GzipFile(folder / DOCUMENT, "wb", compresslevel=6, mtime=0) as file:
        file.write(text.encode())
    snapshot = from_document_text(text)
    identity = {
        "snapshot_id": snapshot.snapshot_id,
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "tables": list(snapshot.tables),
    }
    (folder / _IDENTITY).write_text(json.dumps(identity))
    for name, table in snapshot.tables.items():
        with pa.ipc.new_file(folder / f"{name}.arrow", table.schema) as file:
            file.write_table(table)


def read_document(folder: Path) -> dict[str, Any]:
    with gzip.open(folder / DOCUMENT, "rt") as file:
        document: dict[str, Any] = json.load(file)
    return document


def read_snapshot(folder: Path) -> ClusterSnapshot:
    """The snapshot of a prepared cluster, without its document."""
    identity = json.loads((folder / _IDENTITY).read_text())
    tables = {}
    for name in identity.pop("tables"):
        with pa.OSFile(str(folder / f"{name}.arrow")) as file:
            tables[name] = pa.ipc.open_file(file).read_all()
    return ClusterSnapshot(observed_at=None, tables=tables, **identity)

"""Which snapshots were analysed in which round, without reading each of hundreds of documents.

    read_rounds(store)      # a row of ANALYSED for each; the last one of a snapshot counts
    index_rounds(store)     # brings the index up to date

The index is a copy: it says of which documents it was made, with their sizes and times of change,
as a list of the folder tells them. A document that is not in it, or was written again, is read. So
an index that is missing, damaged or old costs time and nothing else.
"""

import io
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet as pq

from counterpoise.errors import StoreError
from counterpoise.model.files import StoredFile
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.tables import BOOL, INT64, TEXT, UTC_TIME, optional, required
from counterpoise.storage import Store

ROUNDS: Final = "results/rounds"
PATH: Final = "views/_rounds.parquet"  # no cluster has a name that begins so
_FEW: Final = 8  # documents that are read without looking into the index
_MAX_TRIES: Final = 3
_LOGGER = safe_logger(__name__)
_SNAPSHOT: Final = (
    required("snapshot_id", TEXT),
    required("cluster", TEXT),
    optional("previous_snapshot_id", TEXT),  # what it was compared with
)
_ROUND: Final = (
    required("round", TEXT),
    required("by_cluster", BOOL),  # the results lie in a folder of each cluster
    # of these tables there is one file for all clusters; null: not known
    optional("tables", pa.list_(TEXT)),
)
ANALYSED: Final = pa.schema([*_SNAPSHOT, *_ROUND])
INDEX: Final = pa.schema(
    [
        required("path", TEXT),
        required("size_bytes", INT64),
        # Without one a document is not in the index: nobody can tell when it changes.
        optional("modified_at", UTC_TIME),
        required("finished_at", TEXT),  # "" where it is not known
        *_ROUND,
        optional("merged", pa.list_(TEXT)),  # the rounds that it is made of: they no longer count
        required("snapshots", pa.list_(pa.struct(list(_SNAPSHOT)))),
    ]
)


def round_document(
    round_id: str,
    finished_at: datetime | None,
    rows: Iterable[Mapping[str, Any]],
    *,
    is_by_cluster: bool = True,
    tables: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the document of a round; `tables` are those with one file for all clusters."""
    names = [field.name for field in _SNAPSHOT]
    document = {
        "round": round_id,
        "finished_at": finished_at.isoformat() if finished_at else None,
        "by_cluster": is_by_cluster,
        "snapshots": [{name: row[name] for name in names} for row in rows],
    }
    return document if tables is None else {**document, "tables": sorted(tables)}


def document_path(round_id: str) -> str:
    return f"{ROUNDS}/{round_id}.json"


def write_document(store: Store, document: Mapping[str, Any]) -> None:
    """Write the list of a round's snapshots: from now on the round counts."""
    text = json.dumps(document, indent=1, sort_keys=True)
    store.write_text(document_path(document["round"]), f"{text}\n")


def read_documents(store: Store) -> dict[str, dict[str, Any]]:
    """Return the list of each round's snapshots, by its name. Raises StoreError."""
    found = (_document(store, file.path) for file in _listed(store))
    return {str(document["round"]): document for document in found}


def analysed_in(document: Mapping[str, Any]) -> pa.Table:
    """Return the rows of ANALYSED of one document."""
    return _flat(_rows([(StoredFile("", 0, None), document)]))


def read_rounds(store: Store) -> pa.Table:
    """Return the rows of ANALYSED by the time at which their rounds finished. Raises StoreError."""
    return _flat(_counting(_read(store)[0]))


def index_rounds(store: Store) -> list[dict[str, Any]]:
    """Bring the index up to date, where there are many rounds; return the documents of those with
    one file for all clusters that were not merged, by the time at which they finished.
    With each snapshot is the round that counts for it (`counts_in`). Raises StoreError.
    """
    rounds, are_indexed = _read(store)
    if not are_indexed:
        _write_index(store, rounds.filter(pc.is_valid(rounds["modified_at"])))
    return _packed_documents(rounds)


def _packed_documents(rounds: pa.Table) -> list[dict[str, Any]]:
    rounds = _counting(rounds)
    is_packed = pc.and_(pc.is_valid(rounds["tables"]), pc.not_equal(rounds["finished_at"], ""))
    packed = rounds.filter(is_packed)
    flat = _flat(rounds)
    ids = pc.list_flatten(packed["snapshots"])
    of_packed = flat.filter(pc.is_in(flat["snapshot_id"], pc.struct_field(ids, "snapshot_id")))
    names = (of_packed[name].to_pylist() for name in ("snapshot_id", "round"))
    counts_in = dict(zip(*names, strict=True))  # the last one counts
    documents = packed.sort_by([("finished_at", "ascending"), ("round", "ascending")]).to_pylist()
    for document in documents:
        for row in document["snapshots"]:
            row["counts_in"] = counts_in[row["snapshot_id"]]
    return list(documents)


def _read(store: Store) -> tuple[pa.Table, bool]:
    """Return a row of INDEX for each round, and whether the index needs no other ones.

    A document that is deleted between the list and the read was merged into another one: then both
    are done again.
    """
    for _ in range(_MAX_TRIES):
        listed = _listed(store)
        try:
            return _read_listed(store, listed)
        except StoreError:
            if _listed(store) == listed:
                raise
    raise StoreError(
        f"the files in {store.uri(ROUNDS)} changed {_MAX_TRIES} times while they were read; "
        "try again"
    )


def _listed(store: Store) -> list[StoredFile]:
    return [file for file in store.files(ROUNDS) if file.path.endswith(".json")]


def _read_listed(store: Store, listed: Sequence[StoredFile]) -> tuple[pa.Table, bool]:
    if len(listed) <= _FEW:
        return _rows([(file, _document(store, file.path)) for file in listed]), True
    index = _read_index(store)
    columns = (index[name].to_pylist() for name in ("path", "size_bytes", "modified_at"))
    indexed = [StoredFile(*file) for file in zip(*columns, strict=True)]
    known = set(indexed) & set(listed)
    new = [(file, _document(store, file.path)) for file in listed if file not in known]
    kept = index.filter(pa.array([file in known for file in indexed], pa.bool_()))
    return pa.concat_tables([kept, _rows(new)]), not new and kept.num_rows == index.num_rows


def _read_index(store: Store) -> pa.Table:
    try:
        data = pa.BufferReader(store.read_bytes(PATH, is_document=False))
        index = pq.read_table(data, page_checksum_verification=True)
        return index.select(INDEX.names).cast(INDEX)
    except (StoreError, OSError, ValueError, pa.ArrowException, KeyError) as error:
        if store.info(PATH) is not None:
            _LOGGER.warning("%s is made anew: %s", store.uri(PATH), error)
        return INDEX.empty_table()


def _write_index(store: Store, rounds: pa.Table) -> None:
    data = io.BytesIO()
    pq.write_table(rounds, data, compression="zstd", write_page_checksum=True)
    store.write_bytes(PATH, data.getvalue())


def _document(store: Store, path: str) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(store.read_text(path))
        is_round = {"round", "snapshots"} <= document.keys()
    except (ValueError, AttributeError):
        is_round = False
    if not is_round:
        raise StoreError(
            f"{store.uri(path)} is not a list of analysed snapshots; delete it, "
            "and its snapshots are analysed again"
        )
    return document


def _rows(documents: Iterable[tuple[StoredFile, Mapping[str, Any]]]) -> pa.Table:
    rows = [
        {
            "path": file.path,
            "size_bytes": file.size_bytes,
            "modified_at": file.modified_at,
            "finished_at": document.get("finished_at") or "",
            "round": document["round"],
            "by_cluster": bool(document.get("by_cluster")),
            "tables": document.get("tables"),
            "merged": document.get("merged"),
            "snapshots": document["snapshots"],
        }
        for file, document in documents
    ]
    return pa.Table.from_pylist(rows, schema=INDEX)


def _counting(rounds: pa.Table) -> pa.Table:
    """Return the rounds that were not merged into another one."""
    merged = pc.list_flatten(rounds["merged"])
    return rounds.filter(pc.invert(pc.is_in(rounds["round"], value_set=merged)))


def _flat(rounds: pa.Table) -> pa.Table:
    ordered = rounds.sort_by([("finished_at", "ascending"), ("round", "ascending")])
    ordered = ordered.combine_chunks()
    snapshots = pc.list_flatten(ordered["snapshots"])
    place = pc.list_parent_indices(ordered["snapshots"])
    columns = {field.name: pc.struct_field(snapshots, field.name) for field in _SNAPSHOT}
    columns |= {field.name: ordered[field.name].take(place) for field in _ROUND}
    return pa.table(columns, schema=ANALYSED)

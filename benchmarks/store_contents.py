"""What a store has after a simulated month, folder by folder, and what it should have.

    expected_contents(model)["history/partitions/cluster=small-003/date=2026-10-29"]
    # Content(files=1, rows=12)
    found_contents(folder)     # the same, of a store of files

The files of all rounds of a table and cluster are one folder here: names of rounds are random.

Limits: the marks and checksums that Spark writes beside its files are not looked at, nor is whether
a cluster has an index of its manifests: it is a copy, written when many of them are new.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Final

from pyarrow import parquet as pq

from benchmarks.simulated_month import BROKERS, TABLES_OF_DAYS
from benchmarks.store_model import Content, Snapshot, StoreModel, is_settled

_WITH_ROWS: Final = ("history/", "results/")
_IGNORED: Final = ("_SUCCESS", "manifests.parquet")
_IN_VIEWS: Final = ("series", "log_dirs")
_NAMED: Final = ("reports/", "audits/", "views/")  # whose files have names that are known


def found_contents(folder: Path) -> dict[str, Content]:
    """Return what is below a folder."""
    files: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for file in folder.rglob("*"):
        if file.is_file() and file.name not in _IGNORED and file.suffix != ".crc":
            path = file.relative_to(folder).as_posix()
            place = _place(path)
            files[place] += 1
            if _has_rows(place):
                rows[place] += pq.read_metadata(file).num_rows
    return {
        place: Content(count, rows[place] if _has_rows(place) else None)
        for place, count in files.items()
    }


def expected_contents(model: StoreModel) -> dict[str, Content]:
    contents: dict[str, Content] = {}
    for places in (_history(model), _rounds(model), _tables_of_days(model), _views(model)):
        contents |= places
    counts = Counter(_pages(model))
    contents |= {place: Content(count) for place, count in counts.items()}
    return {place: content for place, content in contents.items() if content.files}


def differing(found: Mapping[str, Content], expected: Mapping[str, Content]) -> Iterator[str]:
    """Yield each folder that has other files or rows than expected."""
    for place in sorted({*found, *expected}):
        has, should_have = found.get(place), expected.get(place)
        if has != should_have:
            yield f"{place}: {_in_words(has)}, expected {_in_words(should_have)}"


def _in_words(content: Content | None) -> str:
    if content is None:
        return "nothing"
    rows = "" if content.rows is None else f" with {content.rows} rows"
    return f"{content.files} files{rows}"


def _place(path: str) -> str:
    """Return the folder of a file, without its round; the file itself where its name is known."""
    folder, _, _ = path.rpartition("/")
    parts = [part for part in folder.split("/") if not part.startswith("round=")]
    is_named = path.startswith(_NAMED) and not folder.endswith("/runs") and "=" not in folder
    return path if is_named else "/".join(parts)


def _has_rows(place: str) -> bool:
    is_table = place.startswith(_WITH_ROWS) and place != "results/rounds"
    return is_table or "/month=" in place


# -- what should be there


def _history(model: StoreModel) -> dict[str, Content]:
    contents = {}
    for name, cluster in model.clusters.items():
        per_snapshot = _rows_of_snapshot(model, name)
        for day, count in Counter(at.date() for at in cluster.snapshots).items():
            files = 1 if is_settled(day, model.ended_at) else count
            for table, rows in per_snapshot.items():
                contents[f"history/{table}/cluster={name}/date={day}"] = Content(
                    files, count * rows
                )
    return contents


def _rows_of_snapshot(model: StoreModel, name: str) -> dict[str, int]:
    partitions = model.fleet.partitions_of(name)
    return {
        "snapshots": 1,
        "brokers": BROKERS,
        "listeners": BROKERS,
        "quorum": BROKERS,
        "log_dirs": BROKERS,
        "topics": model.fleet.topics_of(name),
        "partitions": partitions,
        "replicas": BROKERS * partitions,
        "throttles": 0,
    }


def _rounds(model: StoreModel) -> dict[str, Content]:
    contents = {"results/rounds": Content(len(model.rounds))}
    files: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for round_ in model.rounds:
        of_round: Counter[str] = Counter()
        for snapshot in round_.snapshots:
            of_round.update(_rows_of_results(model, snapshot, has_loads=round_.has_loads))
        files.update(place for place, count in of_round.items() if count)
        rows += of_round
    return contents | {place: Content(count, rows[place]) for place, count in files.items()}


def _rows_of_results(model: StoreModel, snapshot: Snapshot, *, has_loads: bool) -> dict[str, int]:
    name, _ = snapshot
    topics, partitions = model.fleet.topics_of(name), model.fleet.partitions_of(name)
    rows = {
        "broker_balance": BROKERS,
        "topic_balance": topics,
        "leader_changes": model.changes[snapshot],
        "snapshot_changes": 1,
        "partition_load": partitions if has_loads else 0,
        "broker_load": BROKERS,
        "log_dir_load": BROKERS,
        "topic_load": topics,
    }
    return {f"results/{table}/cluster_name={name}": count for table, count in rows.items()}


def _tables_of_days(model: StoreModel) -> dict[str, Content]:
    contents = {}
    for name, cluster in model.clusters.items():
        for table in TABLES_OF_DAYS:
            for day, snapshots in cluster.days_with_table[table].items():
                place = f"results/{table}_daily/cluster={name}/date={day}"
                contents[place] = Content(1, _rows_of_day(model, name, table, snapshots))
    return contents


def _rows_of_day(model: StoreModel, name: str, table: str, snapshots: frozenset[Snapshot]) -> int:
    """The first snapshot of all has no rate, and no time that it is over; the partitions whose
    leader changes are the same each time, since the same broker is away.
    """
    is_rated = not snapshots <= model.first
    rows = {
        "partition_load": model.fleet.partitions_of(name) * is_rated,
        "topic_load": model.fleet.topics_of(name),
        "topic_balance": model.fleet.topics_of(name) * is_rated,
        "leader_changes": max(model.changes[snapshot] for snapshot in snapshots),
    }
    return rows[table]


def _views(model: StoreModel) -> dict[str, Content]:
    contents = {}
    for name, cluster in model.clusters.items():
        for view in _IN_VIEWS:
            for month, count in Counter(f"{at:%Y-%m}" for at in cluster.times_in_views).items():
                contents[f"views/{name}/{view}/month={month}"] = Content(1, count * BROKERS)
    return contents


def _pages(model: StoreModel) -> Iterator[str]:
    """Yield the place of each file without rows: plans, audits, reports, and indexes."""
    for name, cluster in model.clusters.items():
        yield from (f"views/{name}/{table}_daily.parquet" for table in cluster.copied)
        yield from (f"audits/{name}/{name}-{at:%Y%m%dT%H%M%S}Z.json" for at in cluster.audits)
        yield from _current(f"reports/{name}/audit", cluster.audit_pages, ("html", "json"))
        suffixes = ("html", "json")
        yield from _current(f"reports/{name}/leader-balance", cluster.balance_pages, suffixes)
        yield from ["plans", f"reports/{name}/runs"] * cluster.runs
    if model.has_index_of_rounds:
        yield "views/_rounds.parquet"
    if model.rounds:
        yield "views/_fleet.parquet"
        yield from (f"reports/fleet.{suffix}" for suffix in ("html", "json"))


def _current(name: str, days: list[date], suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield a page for each day, and the newest one in several formats."""
    yield from (f"{name}-{day}.html" for day in days)
    if days:
        yield from (f"{name}.{suffix}" for suffix in suffixes)

"""What compaction does to the results of the Spark jobs: fewer rounds, a day's loads in a table
each of partitions and topics, old rows gone.

    for merge in plan_rounds(rounds, existing_ids, policy, now): ...
    for daily in plan_daily("topic_load", rounds, policies, now): ...

`rounds` are documents of `results/rounds/`. Rounds that finished on one day (UTC) become one when
the day is over for a day; those of a month when their rows of PARTITION_LOAD are gone. Of a
snapshot in several rounds only the rows of the one finished last are kept, of one that no longer
exists none. A merged round names those that it was made of: their files stay for the grace,
although nobody looks for them any more.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Final

from counterpoise.history.compaction import age_of, is_settled
from counterpoise.history.names import day_of
from counterpoise.model.grouping import grouped
from counterpoise.model.policy import HistoryPolicy

LOADS: Final = "partition_load"  # the table of results that is kept as long as all snapshots are
Document = Mapping[str, Any]  # of a round


@dataclass(frozen=True, slots=True)
class RoundMerge:
    """Rounds that become one, and of which snapshots it takes the rows of each of them."""

    document: Document  # of the new round; one without snapshots only tells when the others went
    snapshot_ids_by_round: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        return str(self.document["round"])


@dataclass(frozen=True, slots=True)
class DailyPlan:
    """A day of a cluster that needs its table of DAILY_TABLES, and of which snapshots it takes the
    rows of each round.
    """

    table: str  # that it is made of
    cluster: str
    day: date
    snapshot_ids_by_round: Mapping[str, tuple[str, ...]]
    digest: str  # names what it is made of; the file has it in its footer
    # Snapshots of the day may be gone: what was made while all were there is not made again.
    is_thinned: bool

    @property
    def path(self) -> str:
        return f"{daily_folder(self.table, self.cluster, self.day)}/loads.parquet"


def daily_folder(table: str, cluster: str, day: date | None = None) -> str:
    date_folder = f"/date={day.isoformat()}" if day else ""
    return f"results/{table}_daily/cluster={cluster}{date_folder}"


def plan_rounds(
    rounds: Iterable[Document], existing_ids: Collection[str], policy: HistoryPolicy, now: datetime
) -> tuple[RoundMerge, ...]:
    """Return the rounds to merge.

    A single round is written again when at least half of its snapshots are deleted.
    """
    known = [document for document in rounds if document["snapshots"]]
    winners = _winners(known)

    def period(document: Document) -> str:
        return _period(document, policy, now)

    plans = []
    for name, group in groupby(sorted(known, key=lambda d: (period(d), d["round"])), key=period):
        sources = list(group)
        stays = {
            d["round"]: tuple(
                s["snapshot_id"]
                for s in d["snapshots"]
                if winners[s["snapshot_id"]] == d["round"] and s["snapshot_id"] in existing_ids
            )
            for d in sources
        }
        before = sum(len(d["snapshots"]) for d in sources)
        if name and (len(sources) > 1 or 2 * sum(map(len, stays.values())) <= before):
            plans.append(_merge(name, sources, stays))
    return tuple(plans)


def _merge(
    period: str, sources: Sequence[Document], stays: Mapping[str, tuple[str, ...]]
) -> RoundMerge:
    rows = [s for d in sources for s in d["snapshots"] if s["snapshot_id"] in stays[d["round"]]]
    rows.sort(key=lambda row: row["snapshot_id"])
    names = sorted(d["round"] for d in sources)
    digest = hashlib.sha256(
        json.dumps([names, [row["snapshot_id"] for row in rows]]).encode()
    ).hexdigest()[:16]
    document = {
        "round": f"merged-{period}-{digest}",
        "finished_at": max(d["finished_at"] for d in sources),
        "snapshots": rows,
        "merged": names,
        "by_cluster": True,
    }
    return RoundMerge(document, stays)


def _period(document: Document, policy: HistoryPolicy, now: datetime) -> str:
    """Return the day or month whose rounds become one; "" where it is too early."""
    day = _finished_day(document)
    if not is_settled(day, now):
        return ""
    # The month's last day; no round of it has rows of PARTITION_LOAD any more.
    last = (day.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return f"{day:%Y-%m}" if _is_outlived(last, policy, now) else day.isoformat()


def outlived_rounds(
    rounds: Iterable[Document], policy: HistoryPolicy, now: datetime
) -> tuple[str, ...]:
    """Return the rounds whose rows of PARTITION_LOAD may be deleted: their snapshots are older than
    `keep_all`, and the grace is over.
    """
    return tuple(d["round"] for d in rounds if _is_outlived(_finished_day(d), policy, now))


def plan_daily(
    table: str,
    rounds: Iterable[Document],
    policies: Mapping[str, HistoryPolicy],  # by cluster
    now: datetime,
) -> tuple[DailyPlan, ...]:
    """Return the days that are over and may have rows of `table`, made already or not: also those
    from before `keep_all`, in case nothing was compacted for that long.
    """
    documents = list(rounds)
    winners = _winners(documents)

    def is_there(cluster: str, day: date) -> bool:
        return is_settled(day, now) and age_of(day, now) < policies[cluster].keep_daily

    days = grouped(
        (
            (row["cluster"], day),
            (row["snapshot_id"], row.get("previous_snapshot_id") or "", document["round"]),
        )
        for document in documents
        for row in document["snapshots"]
        if row["cluster"] in policies
        and winners[row["snapshot_id"]] == document["round"]
        and is_there(row["cluster"], day := day_of(row["snapshot_id"]))
    )
    plans = []
    for (cluster, day), made_of in sorted(days.items()):
        is_thinned = age_of(day, now) >= policies[cluster].keep_all
        plans.append(_daily(table, cluster, day, sorted(made_of), is_thinned))
    return tuple(plans)


def _daily(
    table: str, cluster: str, day: date, made_of: Sequence[tuple[str, str, str]], is_thinned: bool
) -> DailyPlan:
    ids_by_round = grouped((name, snapshot_id) for snapshot_id, _, name in made_of)
    # Merging rounds does not change what the rows say; comparing with another snapshot does.
    pairs = [[snapshot_id, previous] for snapshot_id, previous, _ in made_of]
    digest = hashlib.sha256(json.dumps(pairs).encode()).hexdigest()[:16]
    by_round = {name: tuple(ids) for name, ids in ids_by_round.items()}
    return DailyPlan(table, cluster, day, by_round, digest, is_thinned)


def old_days(days: Iterable[date], policy: HistoryPolicy, now: datetime) -> tuple[date, ...]:
    """Return the days whose daily tables are older than anything that is kept."""
    return tuple(sorted(day for day in days if age_of(day, now) >= policy.keep_daily))


def _winners(rounds: Iterable[Document]) -> dict[str, str]:
    """Return the round that counts for each snapshot: the one finished last."""
    ordered = sorted(rounds, key=lambda d: (d["finished_at"], d["round"]))
    return {row["snapshot_id"]: d["round"] for d in ordered for row in d["snapshots"]}


def _finished_at(document: Document) -> datetime:
    return datetime.fromisoformat(document["finished_at"]).astimezone(UTC)


def _finished_day(document: Document) -> date:
    return _finished_at(document).date()


def _is_outlived(day: date, policy: HistoryPolicy, now: datetime) -> bool:
    return age_of(day, now) >= policy.keep_all + policy.grace

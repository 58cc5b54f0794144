"""The ledger for people: entries by filter.

    found = ledger_entries(installation, viewing, LedgerQuery(cluster="demo", kind="pause"), page=1)
    found.entries, found.has_more, found.problems

Only what is about clusters that the viewer may view.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from counterpoise.errors import InputError
from counterpoise.installation import Installation
from counterpoise.model.ledger_entry import EntryFilter, LedgerEntry
from counterpoise.services.viewers import MayNotViewError, UnknownClusterError, Viewing
from counterpoise.units import parse_moment

PAGE_ENTRIES: Final = 100
MAX_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class LedgerQuery:
    """What somebody typed; "" is no condition."""

    cluster: str = ""
    run: str = ""
    kind: str = ""
    person: str = ""
    since: str = ""
    until: str = ""

    @property
    def is_narrowed(self) -> bool:
        return self != LedgerQuery()


@dataclass(frozen=True, slots=True)
class LedgerEntries:
    entries: tuple[LedgerEntry, ...]  # the newest first
    page: int  # from 1
    has_more: bool
    is_cut: bool  # it is the last page that is shown, and there are older entries
    clusters: tuple[str, ...]  # that have entries and may be viewed
    kinds: tuple[str, ...]
    problems: tuple[str, ...] = ()  # what of the query cannot be read


def ledger_entries(
    installation: Installation,
    viewing: Viewing,
    query: LedgerQuery,
    *,
    page: int = 1,
    entries_per_page: int = PAGE_ENTRIES,
) -> LedgerEntries:
    """Return a page of entries. Raises UnknownClusterError, MayNotViewError, LedgerError."""
    reader = installation.ledger.entries()
    clusters = viewing.of_these(reader.clusters())
    wanted = EntryFilter(
        _wanted_clusters(viewing, clusters, query.cluster),
        query.run.strip(),
        query.kind.strip(),
        query.person.strip(),
    )
    page, problems = min(max(page, 1), MAX_PAGE), list[str]()
    wanted = replace(
        wanted,
        since=_moment(query.since, "From", problems),
        until=_moment(query.until, "To", problems),
    )
    found = (
        []
        if problems
        else reader.newest(wanted, limit=entries_per_page + 1, offset=(page - 1) * entries_per_page)
    )
    has_older = len(found) > entries_per_page
    return LedgerEntries(
        entries=tuple(found[:entries_per_page]),
        page=page,
        has_more=has_older and page < MAX_PAGE,
        is_cut=has_older and page == MAX_PAGE,
        clusters=clusters,
        kinds=reader.kinds(clusters),
        problems=tuple(problems),
    )


def _wanted_clusters(viewing: Viewing, clusters: tuple[str, ...], cluster: str) -> tuple[str, ...]:
    if not cluster:
        return clusters
    if cluster in clusters or cluster in viewing.clusters:
        return (cluster,)
    if cluster in viewing.settings.clusters:
        raise MayNotViewError
    raise UnknownClusterError(cluster, viewing.clusters)


def _moment(text: str, where: str, problems: list[str]) -> datetime | None:
    if not text.strip():
        return None
    try:
        return parse_moment(text.strip(), where=where)
    except InputError as error:
        problems.append(str(error))
        return None

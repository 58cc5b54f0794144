"""What happened over a period as rows of tables and sentences: events, changes, leaders that flap,
topics that were led unevenly.

    churn_rows(balance)[0] == ("Leader changes", "12")
"""

from counterpoise.model.balance import (
    LeaderBalance,
    TopicSkewOverTime,
)
from counterpoise.model.words import pluralize
from counterpoise.reporting.event_words import event_in_words, how_many
from counterpoise.reporting.html import when
from counterpoise.units import format_count, format_seconds


def event_rows(balance: LeaderBalance) -> list[tuple[str, str, str]]:
    """Return when, what and how many of each event, the newest first."""
    rows = []
    for event in reversed(balance.events):
        first = f"{event.first_at:%Y-%m-%d %H:%M}"
        last = f"{event.last_at:%Y-%m-%d %H:%M}"
        rows.append(
            (
                first if first == last else f"{first} – {last}",
                event_in_words(event),
                how_many(event),
            )
        )
    return rows


def churn_rows(balance: LeaderBalance) -> list[tuple[str, str]]:
    """Return what changed over the period, in all; empty where no snapshot was compared."""
    churn = balance.churn
    if not churn.snapshots:
        return []
    counts = {
        "Leader changes": churn.leaders_changed,
        "of these failovers": churn.failovers,
        "of these back to the preferred leader": churn.preferred_elections,
        "of these by a reassignment": churn.leaders_reassigned,
        "of these otherwise, as at a restart": churn.leaders_moved_otherwise,
        "Elections that no snapshot shows": churn.epochs_unseen,
        "Partitions moved to other brokers": churn.replica_sets_changed,
        "Topics created": churn.topics_created,
        "Topics deleted": churn.topics_deleted,
        "Topics deleted and created again": churn.topics_recreated,
    }
    return [
        (name, "not known" if count is None else format_count(count))
        for name, count in counts.items()
    ]


def before_words(balance: LeaderBalance) -> str:
    """Return which period stands beside the figures; empty where there is only one snapshot."""
    if len(balance.series) < 2:
        return ""
    before = balance.before
    if before is None:
        return (
            "The period before is not known: the history does not reach back that far, or the "
            "cluster was rebuilt since."
        )
    return (
        f"Compared with the period before, {when(before.series[0].observed_at)} – "
        f"{when(before.latest.observed_at)}, {pluralize(len(before.series), 'snapshot')}: ↑ is "
        "more than then, ↓ is less. Figures of one moment are compared with the last snapshot of "
        "that period."
    )


def skew_note(skew: TopicSkewOverTime) -> str:
    """Return how many topics were led unevenly, and for how long that is known."""
    return (
        f"{pluralize(skew.uneven_topic_count, 'topic')} of {format_count(skew.topic_count)} were "
        "led less evenly than whole partitions allow at some time, also topics that are gone by "
        f"now; known for {format_seconds(skew.seconds)}, in whole days (UTC)."
    )


def flapping_note(balance: LeaderBalance) -> str:
    """Return how many partitions flap, and what that is known from."""
    flapping = balance.flapping
    if flapping is None:
        return ""
    return (
        f"{pluralize(flapping.partition_count, 'partition')} had more than "
        f"{flapping.max_elections} leader elections in the period; a restart of a "
        f"broker costs two. From {pluralize(flapping.snapshot_count, 'snapshot')}, those between "
        "them included, in whole days (UTC). With a metadata version below 3.6, KRaft begins a "
        "leader epoch also when a replica leaves the ISR: there a follower that lags counts, too."
    )

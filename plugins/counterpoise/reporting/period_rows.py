"""What happened over a period as rows of tables and sentences: events, changes, leaders that flap,
topics that were led unevenly; each beside the period before.

    churn_rows(balance)[0] == ("Leader changes", "12", "↑ from 3")
"""

from collections.abc import Callable

from counterpoise.model.balance import (
    Flapping,
    LeaderBalance,
    TopicSkew,
    TopicSkewOverTime,
)
from counterpoise.model.events import Churn
from counterpoise.model.words import pluralize
from counterpoise.reporting.event_words import event_in_words, how_many
from counterpoise.reporting.html import percent, when
from counterpoise.reporting.parts import Figure
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


def churn_rows(balance: LeaderBalance) -> list[tuple[str, str, str]]:
    """Return what changed over the period, in all, and beside it the period before; empty where no
    snapshot was compared.
    """
    if not balance.churn.snapshots:
        return []
    before = _churn_counts(balance.before.churn) if balance.before else {}
    return [
        (name, known_count(number), figure.before)
        for name, number in _churn_counts(balance.churn).items()
        for figure in [Figure.of(number, before.get(name), known_count)]
    ]


def _churn_counts(churn: Churn) -> dict[str, int | None]:
    if not churn.snapshots:
        return {}
    return {
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


def known_count(number: float | None) -> str:
    return "not known" if number is None else format_count(number)


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


def skew_rows(balance: LeaderBalance) -> list[tuple[str, Figure, Figure, Figure]]:
    """Return the topics that were led most unevenly over the period: mean excess, highest, and the
    share of the time.
    """
    if balance.topic_skew is None:
        return []
    was = balance.before.topic_skew if balance.before else None
    before = {topic.topic: topic for topic in was.topics} if was else {}

    def figure(topic: TopicSkew, name: str, write: Callable[[float], str]) -> Figure:
        old = before.get(topic.topic)
        return Figure.of(
            getattr(topic, name),
            getattr(old, name) if old else None,
            lambda value: "not known" if value is None else write(value),
            is_compared=balance.before is not None,
        )

    return [
        (
            topic.topic,
            figure(topic, "mean_excess", lambda value: f"{value:.2f}"),
            figure(topic, "max_excess", format_count),
            figure(topic, "uneven_share", percent),
        )
        for topic in balance.topic_skew.topics
    ]


def skew_note(skew: TopicSkewOverTime) -> str:
    """Return how many topics were led unevenly, and for how long that is known."""
    return (
        f"{pluralize(skew.uneven_topic_count, 'topic')} of {format_count(skew.topic_count)} were "
        "led less evenly than whole partitions allow at some time, also topics that are gone by "
        f"now; known for {format_seconds(skew.seconds)}, in whole days (UTC)."
    )


def flapping_rows(balance: LeaderBalance) -> list[tuple[str, Figure]]:
    """Return each partition that flaps, with its number of leader elections."""
    partitions = balance.flapping.partitions if balance.flapping else ()
    was = balance.before.flapping if balance.before else None
    before = {(one.topic, one.partition): one.elections for one in was.partitions} if was else {}
    is_compared = balance.before is not None
    return [
        (
            f"{one.topic}-{one.partition}",
            Figure.of(
                one.elections,
                before.get((one.topic, one.partition)),
                known_count,
                is_compared=is_compared,
            ),
        )
        for one in partitions
    ]


def flapping_topics(flapping: Flapping | None) -> list[tuple[str, str]]:
    """Return each topic that flaps, with how many of its partitions do."""
    topics = flapping.topics if flapping else ()
    return [(topic, pluralize(count, "partition")) for topic, count in topics]


def flapping_note(balance: LeaderBalance) -> str:
    """Return how many partitions flap, and what that is known from."""
    flapping = balance.flapping
    if flapping is None:
        return ""
    was = balance.before.flapping if balance.before else None
    before = Figure.of(
        flapping.partition_count, was.partition_count if was else None, known_count
    ).before
    return (
        f"{pluralize(flapping.partition_count, 'partition')} had more than "
        f"{flapping.max_elections} leader elections in the period ({before}); a restart of a "
        f"broker costs two. From {pluralize(flapping.snapshot_count, 'snapshot')}, those between "
        "them included, in whole days (UTC). With a metadata version below 3.6, KRaft begins a "
        "leader epoch also when a replica leaves the ISR: there a follower that lags counts, too."
    )

"""Balance: leaders, replicas, bytes and traffic over the live brokers, topic by topic.

    leaders of brokers 1 to 3 are 40, 41, 95        # leaders-uneven

What "even" means is in `model/evenness.py`; how much of it a team wants, in its policy. Idle
brokers are a finding of their own (`idle-broker`): the other rules here compare those that hold
something.

Limits: counts are of this moment; bytes in are those of the newest analysed snapshot.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import kafka, unregister
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import by_topic, bytes_per_broker, newest, per_broker, preferred
from counterpoise.audit.rule import (
    CheckResult,
    Measure,
    Need,
    evidence,
    rule,
    unknown,
)
from counterpoise.audit.unavailable_data import LOG_DIRS, causes_of
from counterpoise.model import subjects
from counterpoise.model.columns import Ints
from counterpoise.model.constraints import matching
from counterpoise.model.evenness import (
    Evenness,
    best_max_minus_min,
    evenness,
    scaled_to_equal_shares,
    share_not_preferred,
)
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.tables import rows_of
from counterpoise.model.words import list_brokers, pluralize, verb
from counterpoise.units import format_bytes, format_moment, format_rate

# -- Idle brokers: live, and without a replica: new ones, and ones that are kept empty
#
#     broker 4 is live and holds no replica, since 2026-11-20 10:00 UTC        # idle-broker
#
# Limits: since when is known from the history; of a broker that somebody else emptied nothing says
# that it is to go.


@rule(
    "idle-broker",
    Severity.WARNING,
    title="A broker that holds nothing",
    why="Kafka never gives a new broker partitions of an existing topic: it costs money and takes "
    "no load until somebody reassigns partitions to it.",
    how="Make a plan with the goal add-brokers: it moves replicas to this broker, and none among "
    "the other brokers. One that is kept empty is to be stopped and unregistered instead, or "
    "released (`counterpoise release`); one that `no_new_replicas_on` of the policy names is only "
    "mentioned.",
    source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
    severities={Severity.INFO},
    improves=Measure.ANYTHING,
)
def idle_broker(facts: AuditFacts) -> Iterator[CheckResult]:
    if not facts.snapshot.replicas.num_rows:
        return
    idle_since = facts.history.idle_since
    idle_broker_ids = facts.snapshot.idle_broker_ids
    closed = facts.policy.balance.constraints.no_new_replicas_on
    empty_on_purpose = {*facts.kept_empty, *closed}
    added_broker_ids = tuple(one for one in idle_broker_ids if one not in empty_on_purpose)
    for broker_id in idle_broker_ids:
        since = idle_since.get(broker_id)
        rack = facts.snapshot.racks.get(broker_id) or "none"
        keeping = facts.kept_empty.get(broker_id)
        emptied = f"; {keeping.kept_empty_in_words}" if keeping else ""
        by_policy = "; no_new_replicas_on of the policy keeps it so" if broker_id in closed else ""
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id} is live and holds no replica{_since_when(since, facts.now)}"
            f"{emptied}{by_policy}",
            evidence(("broker", "rack", "idle since"), [(broker_id, rack, _moment(since))]),
            fix=(f"# stop broker {broker_id} for good, then:", unregister(broker_id))
            if keeping
            else (),
            plan=None
            if broker_id in empty_on_purpose
            else WantedPlan(Goal.ADD_BROKERS, added_broker_ids),
            severity=Severity.INFO if broker_id in empty_on_purpose else None,
        )


def _since_when(since: datetime | None, now: datetime) -> str:
    if since is None:
        return "; since when is not known, no earlier snapshot shows it"
    days = (now - since).days
    age = f", {pluralize(days, 'day')} ago" if days > 0 else ""
    return f", since {_moment(since)}{age}"


def _moment(moment: datetime | None) -> str:
    return "not known" if moment is None else format_moment(moment)


_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"
_EXPANSION: Final = f"{_DOCUMENTED}basic_ops_cluster_expansion"
_LEADER_BALANCING: Final = f"{_DOCUMENTED}basic_ops_leader_balancing"


@rule(
    "leaders-uneven",
    Severity.WARNING,
    title="Leaders are uneven over the brokers",
    why="Producers and, by default, consumers talk to leaders only: the broker with the most "
    "leaders is the first to be slow, and its failure affects the most clients at once.",
    how="Make a plan with the goal leaders: it changes the order of replicas and runs elections, "
    "without copying a byte. If replicas are uneven as well, use the goal rebalance.",
    source=_LEADER_BALANCING,
    severities={Severity.INFO},
    improves=Measure.LEADERS,
    thresholds={"most_percent_of_mean": 110},
)
def leaders_uneven(facts: AuditFacts, *, most_percent_of_mean: int) -> Iterator[CheckResult]:
    broker_ids = _brokers_with_replicas(facts)
    leaders = per_broker(facts.snapshot.partitions["leader"], broker_ids)
    spread = evenness(leaders)
    allowed = spread.best_max_minus_min + facts.policy.balance.leaders_max_minus_min
    if spread.max_minus_min <= allowed or not _exceeds_mean(spread, most_percent_of_mean):
        return
    replicas = per_broker(facts.snapshot.replicas["broker_id"], broker_ids)
    by_share = scaled_to_equal_shares(replicas, _weights(facts, broker_ids))
    are_replicas_uneven = _are_replicas_uneven(
        evenness(by_share), **facts.thresholds[replicas_uneven.id]
    )
    yield CheckResult(
        subjects.CLUSTER,
        f"leaders per broker: {_spread_in_words(spread)}; the policy allows max - min {allowed}",
        _broker_table(facts, ("leaders", "replicas"), broker_ids, leaders, replicas),
        plan=WantedPlan(Goal.REBALANCE if are_replicas_uneven else Goal.LEADERS),
    )


@rule(
    "leaders-not-preferred",
    Severity.WARNING,
    title="Partitions are not led by their preferred leader",
    why="After a restart leadership stays with the followers that took over; until an election "
    "returns it, the restarted broker idles and the others serve its clients.",
    how="Elect preferred leaders; and let auto.leader.rebalance.enable do it, which is Kafka's "
    "default.",
    source=_LEADER_BALANCING,
    severities={Severity.INFO},
    thresholds={"most_percent": 10},
)
def leaders_not_preferred(facts: AuditFacts, *, most_percent: int) -> Iterator[CheckResult]:
    partitions, live_broker_ids = facts.snapshot.partitions, facts.snapshot.live_broker_ids
    preferred_leaders = preferred(partitions)
    is_different = pc.not_equal(preferred_leaders, partitions["leader"])
    is_led_by_other = pc.fill_null(is_different, True)
    preferred_counts = per_broker(preferred_leaders, live_broker_ids)
    lost_counts = per_broker(preferred_leaders.filter(is_led_by_other), live_broker_ids)
    max_share = most_percent / 100
    rows = []
    for broker_id, count, lost in zip(live_broker_ids, preferred_counts, lost_counts, strict=True):
        share = share_not_preferred(lost, count)
        if share > max_share:
            rows.append((broker_id, count, lost, f"{share * 100:.1f} %"))
    if not rows:
        return
    lost_total = sum(lost_counts)
    share = share_not_preferred(lost_total, partitions.num_rows)
    elect = ("--election-type", "preferred", "--all-topic-partitions")
    yield CheckResult(
        subjects.CLUSTER,
        f"not led by their preferred leader: {pluralize(lost_total, 'partition')} "
        f"({share * 100:.1f} %); on {pluralize(len(rows), 'broker')} more than {most_percent} % of "
        "the partitions that prefer it",
        evidence(("broker", "partitions that prefer it", "led by others", "share"), rows),
        fix=(kafka("kafka-leader-election", *elect),),
        severity=Severity.INFO if facts.active_run_id else None,  # a run elects at its end
    )


@rule(
    "topic-leaders-uneven",
    Severity.INFO,
    title="Topics whose leaders are on few brokers",
    why="A cluster may be even as a whole while one topic is led by a few brokers: when just that "
    "topic is busy, those brokers are busy alone.",
    how="Make a plan with the goal leaders: of all plans that are equally even over brokers it "
    "chooses one that is even for each topic.",
    source=_LEADER_BALANCING,
    improves=Measure.ANYTHING,
    thresholds={"least_above_best": 2},
)
def topic_leaders_uneven(facts: AuditFacts, *, least_above_best: int) -> Iterator[CheckResult]:
    """Yield topics whose leaders differ by more than whole partitions require.

    Seven leaders as 4, 2, 1 on three brokers have max - min 3; the best is 1 (3, 2, 2), so the
    topic is 2 above the best.
    """
    broker_ids = _brokers_with_replicas(facts)
    leaders = by_topic(facts.snapshot.partitions, "leader", broker_ids)
    if not leaders.topics:
        return
    totals = leaders.totals
    highest, lowest = leaders.counts.max(axis=1), leaders.counts.min(axis=1)
    best = [best_max_minus_min(total, len(broker_ids)) for total in totals]
    above_best = highest - lowest - best
    excluded_topics = matching(facts.policy.balance.excluded_topics, leaders.topics)
    rows = [
        (leaders.topics[row], totals[row], highest[row], lowest[row], above_best[row])
        for row in np.argsort(-above_best, kind="stable").tolist()
        if above_best[row] >= least_above_best and leaders.topics[row] not in excluded_topics
    ]
    if rows:
        have = verb(len(rows), "has", "have")
        columns = ("topic", "partitions", "most leaders", "fewest leaders", "above the best")
        yield CheckResult(
            subjects.CLUSTER,
            f"{pluralize(len(rows), 'topic')} of {len(leaders.topics):,} {have} uneven leaders: "
            f"most and fewest leaders on a broker are {least_above_best} or more farther apart "
            "than whole partitions require",
            evidence(columns, rows),
            plan=WantedPlan(Goal.LEADERS),
        )


@rule(
    "replicas-uneven",
    Severity.WARNING,
    title="Replicas are uneven over the brokers",
    why="Each replica costs its broker file handles, memory and fetches, and a broker that holds "
    "more of them takes longer to start and to recover.",
    how="Make a plan with the goal rebalance.",
    source=_EXPANSION,
    severities={Severity.INFO},
    improves=Measure.REPLICAS,
    thresholds={"most_percent_of_mean": 115, "least_max_minus_min": 4},
)
def replicas_uneven(
    facts: AuditFacts, *, most_percent_of_mean: int, least_max_minus_min: int
) -> Iterator[CheckResult]:
    broker_ids = _brokers_with_replicas(facts)
    replicas = per_broker(facts.snapshot.replicas["broker_id"], broker_ids)
    weights = _weights(facts, broker_ids)
    spread = evenness(scaled_to_equal_shares(replicas, weights))
    if _are_replicas_uneven(spread, most_percent_of_mean, least_max_minus_min):
        yield CheckResult(
            subjects.CLUSTER,
            f"replicas per broker{_by_share(weights)}: {_spread_in_words(spread)}",
            _broker_table(facts, ("replicas",), broker_ids, replicas),
            plan=WantedPlan(Goal.REBALANCE),
        )


def _are_replicas_uneven(
    spread: Evenness, most_percent_of_mean: int, least_max_minus_min: int
) -> bool:
    allowed = max(spread.best_max_minus_min, least_max_minus_min - 1)
    return spread.max_minus_min > allowed and _exceeds_mean(spread, most_percent_of_mean)


@rule(
    "bytes-uneven",
    Severity.WARNING,
    title="Bytes are uneven over the brokers",
    why="The fullest broker decides when the cluster is full, however much room the others have.",
    how="Make a plan with the goal rebalance: it evens bytes with the fewest bytes copied.",
    source=_EXPANSION,
    severities={Severity.INFO},
    improves=Measure.BYTES,
    thresholds={"most_percent_of_mean": 125, "least_gigabytes": 10},
)
def bytes_uneven(
    facts: AuditFacts, *, most_percent_of_mean: int, least_gigabytes: int
) -> Iterator[CheckResult]:
    broker_ids = _brokers_with_replicas(facts)
    held_bytes, unknown_sizes = bytes_per_broker(facts.snapshot, broker_ids)
    if any(unknown_sizes):
        count = pluralize(sum(unknown_sizes), "replica")
        brokers = [broker for broker, n in zip(broker_ids, unknown_sizes, strict=True) if n]
        yield unknown(
            f"the size of {count} on live brokers",
            causes=causes_of(facts, LOG_DIRS, brokers),
        )
        return
    weights = _weights(facts, broker_ids)
    spread = evenness(scaled_to_equal_shares(held_bytes, weights))
    is_large = spread.max_minus_min >= least_gigabytes * 10**9
    if is_large and _exceeds_mean(spread, most_percent_of_mean):
        yield CheckResult(
            subjects.CLUSTER,
            f"bytes per broker{_by_share(weights)}: {format_bytes(spread.minimum)} to "
            f"{format_bytes(spread.maximum)}, the fullest {spread.max_over_mean:.2f} times the "
            "mean",
            _broker_table(facts, ("bytes",), broker_ids, list(map(format_bytes, held_bytes))),
            plan=WantedPlan(Goal.REBALANCE),
        )


@rule(
    "bytes-in-uneven",
    Severity.INFO,
    title="Producers write unevenly to the brokers",
    why="Counts of leaders may be even while a few hot partitions share a broker: producers wait "
    "for its network, not for its count.",
    how="Make a plan with the goal rebalance: where rates are known, it also evens what brokers "
    "take in.",
    source=_LEADER_BALANCING,
    needs={Need.HISTORY},
    improves=Measure.BYTES_IN,
    thresholds={"most_percent_of_mean": 150, "least_kilobytes_per_second": 1000},
)
def bytes_in_uneven(
    facts: AuditFacts, *, most_percent_of_mean: int, least_kilobytes_per_second: int
) -> Iterator[CheckResult]:
    rates = _bytes_in_per_second(facts)
    brokers_without_rate = [broker_id for broker_id, rate in rates.items() if rate is None]
    if not rates or brokers_without_rate:
        which = list_brokers(brokers_without_rate) if rates else "any broker"
        yield unknown(f"the history has no rates of the newest snapshot for {which}")
        return
    known_rates = [rate or 0 for rate in rates.values()]
    spread = evenness(known_rates)
    is_large = spread.max_minus_min >= least_kilobytes_per_second * 1000
    if is_large and _exceeds_mean(spread, most_percent_of_mean):
        yield CheckResult(
            subjects.CLUSTER,
            f"bytes in from producers per broker: {format_rate(spread.minimum)} to "
            f"{format_rate(spread.maximum)}, the busiest {spread.max_over_mean:.2f} times the mean",
            _broker_table(facts, ("bytes in",), tuple(rates), list(map(format_rate, known_rates))),
            plan=WantedPlan(Goal.REBALANCE),
        )


def _bytes_in_per_second(facts: AuditFacts) -> dict[int, int | None]:
    """Return bytes in per second as leader, by broker with replicas, in the newest analysis."""
    if not facts.history.series.num_rows:
        return {}
    series = newest(facts.history.series)
    broker_ids = pa.array(_brokers_with_replicas(facts), pa.int32())
    rows = series.filter(pc.is_in(series["broker_id"], value_set=broker_ids))
    return {
        row["broker_id"]: row["leader_bytes_in_per_second"] if row["leaders"] else 0
        for row in rows.sort_by("broker_id").to_pylist()
    }


def _brokers_with_replicas(facts: AuditFacts) -> tuple[int, ...]:
    """Return the live brokers that hold a replica, by id."""
    idle = set(facts.snapshot.idle_broker_ids)
    return tuple(broker_id for broker_id in facts.snapshot.live_broker_ids if broker_id not in idle)


def _weights(facts: AuditFacts, broker_ids: Sequence[int]) -> Ints:
    """Return the weight of each broker's share: by disk where disks differ."""
    disks = dict(rows_of(facts.snapshot.brokers, "broker_id", "disk_total_bytes"))
    disk_bytes = [disks.get(broker_id) or 0 for broker_id in broker_ids]
    return facts.policy.balance.broker_weight.weights_of(broker_ids, disk_bytes)


def _by_share(weights: Ints) -> str:
    return ", as if all shares were equal" if len(set(weights.tolist())) > 1 else ""


def _exceeds_mean(spread: Evenness, max_percent_of_mean: int) -> bool:
    return spread.max_over_mean * 100 > max_percent_of_mean


def _spread_in_words(spread: Evenness) -> str:
    return (
        f"{spread.minimum:,} to {spread.maximum:,} (max - min {spread.max_minus_min:,}, at best "
        f"{spread.best_max_minus_min}), the highest {spread.max_over_mean:.2f} times the mean"
    )


def _broker_table(
    facts: AuditFacts, names: tuple[str, ...], broker_ids: Sequence[int], *columns: Sequence[object]
) -> Evidence:
    racks = [facts.snapshot.racks.get(broker_id) or "none" for broker_id in broker_ids]
    return evidence(("broker", "rack", *names), zip(broker_ids, racks, *columns, strict=True))

"""Balance: leaders, replicas, bytes and traffic over the live brokers, topic by topic, and brokers
that hold nothing.

    leaders of brokers 1 to 3 are 40, 41, 95        # leaders-uneven

What "even" means is in `model/evenness.py`; how much of it a team wants, in its policy. Idle
brokers are a finding of their own: the others compare the brokers that hold something.

Limits: counts are of this moment; bytes in are those of the newest analysed snapshot.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.audit.commands import counterpoise, kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.figures import by_topic, per_broker, preferred, told_bytes
from counterpoise.audit.rule import (
    MAX_EVIDENCE_ROWS,
    Area,
    CheckResult,
    Need,
    Rule,
    evidence,
    unknown,
)
from counterpoise.audit.unavailable_data import LOG_DIRS, causes_of
from counterpoise.model.evenness import Evenness, best_max_minus_min, evenness, share_not_preferred
from counterpoise.model.finding import Evidence, WantedPlan
from counterpoise.model.request import Goal, matching
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, pluralize
from counterpoise.units import format_bytes, format_moment, format_rate

_CLUSTER: Final = "cluster"
_NO_PRODUCER_TRAFFIC: Final = "rates of the newest snapshot"


def _holding(facts: AuditFacts) -> tuple[int, ...]:
    """The live brokers that hold a replica, by id."""
    idle = set(facts.snapshot.idle_broker_ids)
    return tuple(broker_id for broker_id in facts.snapshot.live_broker_ids if broker_id not in idle)


def _leaders(facts: AuditFacts) -> Iterator[CheckResult]:
    rule = "leaders-uneven"
    holding = _holding(facts)
    leaders = per_broker(facts.snapshot.partitions["leader"], holding)
    found = evenness(leaders)
    allowed = found.best_max_minus_min + facts.policy.balance.leaders_max_minus_min
    if found.max_minus_min <= allowed or not _is_over(
        found, facts.threshold(rule, "most_percent_of_mean")
    ):
        return
    replicas = per_broker(facts.snapshot.replicas["broker_id"], holding)
    goal = Goal.REBALANCE if _replicas_are_uneven(facts, evenness(replicas)) else Goal.LEADERS
    yield CheckResult(
        _CLUSTER,
        f"leaders per broker: {_spread(found)}; the policy allows {allowed} between most and fewest",
        _table(facts, ("leaders", "replicas"), holding, leaders, replicas),
        plan=WantedPlan(goal),
    )


def _not_preferred(facts: AuditFacts) -> Iterator[CheckResult]:
    partitions, live = facts.snapshot.partitions, facts.snapshot.live_broker_ids
    first = preferred(partitions)
    is_other = pc.fill_null(pc.not_equal(first, partitions["leader"]), True)
    named = per_broker(first, live)
    lost = per_broker(first.filter(is_other), live)
    most = facts.threshold("leaders-not-preferred", "most_percent") / 100
    rows = [
        (broker_id, of, away, f"{share_not_preferred(away, of) * 100:.1f} %")
        for broker_id, of, away in zip(live, named, lost, strict=True)
        if share_not_preferred(away, of) > most
    ]
    if not rows:
        return
    share = share_not_preferred(sum(lost), partitions.num_rows)
    yield CheckResult(
        _CLUSTER,
        f"{pluralize(sum(lost), 'partition')} ({share * 100:.1f} %) are not led by their preferred leader; on "
        f"{pluralize(len(rows), 'broker')} more than {most * 100:.0f} % of those that name it first",
        evidence(("broker", "partitions that name it first", "led by others", "share"), rows),
        fix=(
            kafka(
                "kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions"
            ),
        ),
    )


def _topics_lean(facts: AuditFacts) -> Iterator[CheckResult]:
    holding = _holding(facts)
    found = by_topic(facts.snapshot.partitions, "leader", holding)
    if not found.topics:
        return
    totals = found.totals
    best = [best_max_minus_min(total, len(holding)) for total in totals]
    excess = found.counts.max(axis=1) - found.counts.min(axis=1) - best
    left_out = matching(facts.policy.balance.excluded_topics, found.topics)
    least = facts.threshold("topic-leaders-uneven", "least_above_best")
    worst = [at for at in np.argsort(-excess, kind="stable").tolist() if excess[at] >= least]
    rows = [
        (found.topics[at], totals[at], found.counts[at].max(), found.counts[at].min(), excess[at])
        for at in worst
        if found.topics[at] not in left_out
    ]
    if rows:
        yield CheckResult(
            _CLUSTER,
            f"{pluralize(len(rows), 'topic')} of {len(found.topics):,} lead unevenly: most and fewest leaders on a broker "
            f"are {least} or more farther apart than whole partitions ask for",
            evidence(
                ("topic", "partitions", "most leaders", "fewest leaders", "above the best"), rows
            ),
            plan=WantedPlan(Goal.LEADERS),
        )


def _few_partitions(facts: AuditFacts) -> Iterator[CheckResult]:
    """Topics that cannot use every broker, the largest first."""
    live = facts.snapshot.live_broker_ids
    partitions = facts.snapshot.partitions
    is_internal = facts.snapshot.topics.filter(facts.snapshot.topics["is_internal"])["topic"]
    ours = partitions.filter(
        pc.invert(pc.is_in(partitions["topic"], value_set=is_internal.combine_chunks()))
    )
    of_each = ours.group_by("topic").aggregate([("partition", "count"), ("size_bytes", "sum")])
    few = of_each.filter(pc.less(of_each["partition_count"], len(live)))
    if not few.num_rows:
        return
    by_size = [("size_bytes_sum", "descending"), ("topic", "ascending")]
    largest = few.take(pc.sort_indices(few, by_size)).slice(0, MAX_EVIDENCE_ROWS)
    leading = by_topic(
        ours.filter(pc.is_in(ours["topic"], value_set=largest["topic"].combine_chunks())),
        "leader",
        live,
    )
    counts = dict(zip(leading.topics, leading.counts.tolist(), strict=True))
    rows = tuple(
        (
            row["topic"],
            str(row["partition_count"]),
            join_ids([b for b, count in zip(live, counts[row["topic"]], strict=True) if not count]),
            "not told" if row["size_bytes_sum"] is None else format_bytes(row["size_bytes_sum"]),
        )
        for row in largest.to_pylist()
    )
    yield CheckResult(
        _CLUSTER,
        f"{pluralize(few.num_rows, 'topic')} with fewer partitions than the {len(live)} live brokers: for each of them "
        "some brokers lead nothing",
        Evidence(
            ("topic", "partitions", "brokers that lead none of it", "size of one copy"),
            rows,
            few.num_rows,
        ),
    )


def _replicas(facts: AuditFacts) -> Iterator[CheckResult]:
    holding = _holding(facts)
    replicas = per_broker(facts.snapshot.replicas["broker_id"], holding)
    found = evenness(replicas)
    if _replicas_are_uneven(facts, found):
        yield CheckResult(
            _CLUSTER,
            f"replicas per broker: {_spread(found)}",
            _table(facts, ("replicas",), holding, replicas),
            plan=WantedPlan(Goal.REBALANCE),
        )


def _replicas_are_uneven(facts: AuditFacts, found: Evenness) -> bool:
    rule = "replicas-uneven"
    least = max(found.best_max_minus_min, facts.threshold(rule, "least_max_minus_min") - 1)
    return found.max_minus_min > least and _is_over(
        found, facts.threshold(rule, "most_percent_of_mean")
    )


def _bytes(facts: AuditFacts) -> Iterator[CheckResult]:
    rule = "bytes-uneven"
    holding = _holding(facts)
    held, untold = told_bytes(facts.snapshot, holding)
    if untold:
        words = f"the size of {pluralize(untold, 'replica')} on live brokers was not told"
        replicas = facts.snapshot.replicas
        brokers = set(
            replicas.filter(pc.is_null(replicas["size_bytes"]))["broker_id"].to_pylist()
        ) & set(holding)
        yield unknown(_CLUSTER, words, causes_of(facts, LOG_DIRS, brokers))
        return
    found = evenness(held)
    is_much = found.max_minus_min >= facts.threshold(rule, "least_gigabytes") * 10**9
    if is_much and _is_over(found, facts.threshold(rule, "most_percent_of_mean")):
        yield CheckResult(
            _CLUSTER,
            f"bytes per broker: {format_bytes(found.minimum)} to {format_bytes(found.maximum)}, the fullest "
            f"{found.max_over_mean:.2f} times the mean",
            _table(facts, ("bytes",), holding, [format_bytes(value) for value in held]),
            plan=WantedPlan(Goal.REBALANCE),
        )


def _bytes_in(facts: AuditFacts) -> Iterator[CheckResult]:
    rule = "bytes-in-uneven"
    rates = _rates(facts)
    untold = [broker_id for broker_id, rate in rates.items() if rate is None]
    if not rates or untold:
        brokers = f"for broker {join_ids(untold)}" if rates else "for any broker"
        yield unknown(_CLUSTER, f"the history tells no {_NO_PRODUCER_TRAFFIC} {brokers}")
        return
    known = [rate or 0 for rate in rates.values()]
    found = evenness(known)
    is_much = found.max_minus_min >= facts.threshold(rule, "least_kilobytes_per_second") * 1000
    if is_much and _is_over(found, facts.threshold(rule, "most_percent_of_mean")):
        yield CheckResult(
            _CLUSTER,
            f"bytes in from producers per broker: {format_rate(found.minimum)} to {format_rate(found.maximum)}, the "
            f"busiest {found.max_over_mean:.2f} times the mean",
            _table(facts, ("bytes in",), tuple(rates), [format_rate(rate) for rate in known]),
            fix=(
                counterpoise(
                    "plan", "--cluster", facts.snapshot.cluster, "--goal", "leaders", *_BY_BYTES
                ),
            ),
            plan=WantedPlan(Goal.LEADERS),
        )


_BY_BYTES: Final = ("--leader-weight", "bytes-in")


def _rates(facts: AuditFacts) -> dict[int, int | None]:
    """Bytes in per second as leader of each broker that holds something, in the newest analysed
    snapshot.
    """
    if facts.past is None or not facts.past.series.num_rows:
        return {}
    series = facts.past.series
    newest = series.filter(pc.equal(series["observed_at"], pc.max(series["observed_at"])))
    ids = pa.array(_holding(facts), pa.int32())
    rows = newest.filter(pc.is_in(newest["broker_id"], value_set=ids)).sort_by("broker_id")
    return {
        row["broker_id"]: 0 if not row["leaders"] else row["leader_bytes_in_per_second"]
        for row in rows.to_pylist()
    }


def _idle(facts: AuditFacts) -> Iterator[CheckResult]:
    idle = facts.snapshot.idle_broker_ids
    if not facts.snapshot.replicas.num_rows:
        return
    since = facts.past.idle_since if facts.past else {}
    for broker_id in idle:
        yield CheckResult(
            f"broker {broker_id}",
            f"broker {broker_id} is live and holds no replica{_since(since.get(broker_id), facts)}",
            evidence(
                ("broker", "rack", "idle since"),
                [
                    (
                        broker_id,
                        facts.snapshot.racks.get(broker_id) or "none",
                        _day(since.get(broker_id)),
                    )
                ],
            ),
            plan=WantedPlan(Goal.ADD_BROKERS, idle),
        )


def _since(at: datetime | None, facts: AuditFacts) -> str:
    if at is None:
        return "; since when is not known, no earlier snapshot shows it"
    days = (facts.now - at).days
    return f", since {_day(at)}" + (f", {pluralize(days, 'day')} ago" if days > 0 else "")


def _day(at: datetime | None) -> str:
    return "not known" if at is None else format_moment(at)


def _is_over(found: Evenness, most_percent: int) -> bool:
    return found.max_over_mean * 100 > most_percent


def _spread(found: Evenness) -> str:
    return (
        f"{found.minimum:,} to {found.maximum:,} (max - min {found.max_minus_min:,}, at best "
        f"{found.best_max_minus_min}), the highest {found.max_over_mean:.2f} times the mean"
    )


def _table(
    facts: AuditFacts, names: tuple[str, ...], broker_ids: Sequence[int], *columns: Sequence[object]
) -> Evidence:
    racks = [facts.snapshot.racks.get(broker_id) or "none" for broker_id in broker_ids]
    return evidence(("broker", "rack", *names), zip(broker_ids, racks, *columns, strict=True))


RULES: Final = (
    Rule(
        "idle-broker",
        Area.BALANCE,
        Severity.WARNING,
        title="A broker that holds nothing",
        why="Kafka gives a new broker no partition of an old topic, ever: it costs money and takes no load until "
        "somebody reassigns partitions to it.",
        how="Make a plan that gives it its share: add-brokers moves replicas to it and among no others.",
        source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
        check=_idle,
    ),
    Rule(
        "leaders-uneven",
        Area.BALANCE,
        Severity.WARNING,
        title="Leaders are uneven over the brokers",
        why="Producers and, by default, consumers talk to leaders only: the broker with most leaders is the first to "
        "be slow, and its failure moves most clients at once.",
        how="Make a plan: leaders changes the order of replicas and elects, no byte is copied; where replicas are "
        "uneven as well, rebalance.",
        source="https://kafka.apache.org/documentation/#basic_ops_leader_balancing",
        check=_leaders,
        thresholds={"most_percent_of_mean": 110},
    ),
    Rule(
        "leaders-not-preferred",
        Area.BALANCE,
        Severity.WARNING,
        title="Partitions are not led by their preferred leader",
        why="After a restart leadership stays with the followers that took over; until an election gives it back, "
        "the restarted broker idles and the others carry its clients.",
        how="Elect preferred leaders; and let auto.leader.rebalance.enable do it, which is Kafka's default.",
        source="https://kafka.apache.org/documentation/#basic_ops_leader_balancing",
        check=_not_preferred,
        thresholds={"most_percent": 10},
    ),
    Rule(
        "topic-leaders-uneven",
        Area.BALANCE,
        Severity.INFO,
        title="Topics whose leaders sit on few brokers",
        why="A cluster may be even as a whole while one topic is led by a few brokers: when just that topic is busy, "
        "so are they alone.",
        how="Make a plan: leaders evens topics among plans that are equally even over brokers.",
        source="https://kafka.apache.org/documentation/#basic_ops_leader_balancing",
        check=_topics_lean,
        thresholds={"least_above_best": 2},
    ),
    Rule(
        "topic-fewer-partitions-than-brokers",
        Area.BALANCE,
        Severity.INFO,
        title="Topics with fewer partitions than brokers",
        why="A topic of 3 partitions on 4 brokers leaves one of them without a leader of it: that topic never uses "
        "the whole cluster, and neither do its consumers.",
        how="Fine for small topics. For one that grows, add partitions before it is hot. Note that adding partitions "
        "changes which partition a key maps to: order by key breaks once, and compacted topics keep old keys twice.",
        source="https://kafka.apache.org/documentation/#basic_ops_modify_topic",
        check=_few_partitions,
    ),
    Rule(
        "replicas-uneven",
        Area.BALANCE,
        Severity.WARNING,
        title="Replicas are uneven over the brokers",
        why="Each replica costs its broker file handles, memory and fetches, and each broker that holds more of them "
        "takes longer to start and to recover.",
        how="Make a plan: rebalance.",
        source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
        check=_replicas,
        thresholds={"most_percent_of_mean": 115, "least_max_minus_min": 4},
    ),
    Rule(
        "bytes-uneven",
        Area.BALANCE,
        Severity.WARNING,
        title="Bytes are uneven over the brokers",
        why="The fullest broker decides when the cluster is full, however much room the others have.",
        how="Make a plan: rebalance evens bytes with the fewest bytes copied.",
        source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
        check=_bytes,
        thresholds={"most_percent_of_mean": 125, "least_gigabytes": 10},
    ),
    Rule(
        "bytes-in-uneven",
        Area.BALANCE,
        Severity.INFO,
        title="Producers write unevenly to the brokers",
        why="Counts of leaders may be even while a few hot partitions share a broker: its network, not its count, "
        "is what producers wait for.",
        how="Make a plan for leaders by bytes in (leader_weight: bytes-in in the policy makes that the rule).",
        source="https://kafka.apache.org/documentation/#basic_ops_leader_balancing",
        check=_bytes_in,
        needs=frozenset({Need.HISTORY}),
        thresholds={"most_percent_of_mean": 150, "least_kilobytes_per_second": 1000},
    ),
)

"""Every number on a cluster's page, compared with what really was in a month whose truth is known.

The month is a simulation of a cluster (`support/true_month.py`): restarts, a broker that dies, one
that joins, a reassignment, flapping, compaction, retention, DeleteRecords, topics that come, go and
come again, snapshots that are missing. It goes through the Spark jobs and the pipeline; the page is
read as HTML. The truth comes from the simulation's own record, never from formulas of ours.

The constants say which errors are allowed, and why. The last test fails for any number on the page
that no test compares.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from counterpoise.installation import Installation
from counterpoise.services import analyses, reports
from counterpoise.settings import FileConnections, Locations, parse_settings
from tests.support.month_truth import TrueRates, Truth
from tests.support.report_page import (
    ReportPage,
    beside,
    check_tables_of_charts,
    is_bound_of,
    is_near,
)
from tests.support.true_cluster import TICKS_PER_HOUR
from tests.support.true_month import (
    BEGIN,
    CLUSTER,
    DEAD_BROKER,
    DELETED_RECORDS,
    DIED,
    DISK_BYTES,
    GAP,
    HOURS,
    JOINED,
    MISSING,
    MOVE_BEGAN,
    MOVE_ENDED,
    NEW_BROKER,
    OTHER_FILES_BYTES,
    RETURNED,
    live_a_month,
)

pytestmark = pytest.mark.nightly
END: Final = BEGIN + timedelta(hours=HOURS, minutes=1)
TWO_WEEKS: Final = timedelta(days=14)
# Snapshots are up to 8 s late, so that an hour is up to 8 s longer or shorter than it is told.
HOURLY: Final = 0.005
# Hours that no snapshot shows (missing ones) are not among those of a percentile.
SAMPLED: Final = 0.02
# An hour counts as a whole for who leads at its end, so hours in which leaders changed are up to an
# hour wrong: few enough for percentiles. The highest may be such an hour (`highest_by_end`).
LED_WITHIN_THE_HOUR: Final = 0.03
# Growth is of two weeks without the gap, and what retention removes at once in it is missing.
GROWN: Final = 0.03


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("true-month")
    environment = {
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
        "COUNTERPOISE_SPARK_CONF": "spark.sql.shuffle.partitions=4",
    }
    known = parse_settings(f"clusters: {{{CLUSTER}: {{connection: none}}}}", where="clusters.yaml")
    locations = Locations.from_environment(environment)
    with Installation(
        locations, FileConnections(Path("none"), {}), known_clusters=known, clock=lambda: END
    ) as installation:
        yield installation


@pytest.fixture(scope="module")
def truth() -> Truth:
    return Truth(live_a_month())


@pytest.fixture(scope="module")
def reported(installation: Installation, truth: Truth) -> tuple[ReportPage, dict[str, Any]]:
    """Return the page of the whole month, and its values; later tests write others."""
    for snapshot in truth.month.snapshots:
        installation.archive.write_snapshot(snapshot)
    analysed = analyses.analyse(installation, "the whole month", lambda line: None)
    assert analysed == [CLUSTER]
    reports.report_balance(installation, CLUSTER, period=timedelta(days=31))
    page, document = (
        installation.archive.read_report(f"{CLUSTER}/leader-balance.{suffix}")
        for suffix in ("html", "json")
    )
    return ReportPage(page), json.loads(document)


@pytest.fixture(scope="module")
def page(reported: tuple[ReportPage, dict[str, Any]]) -> ReportPage:
    return reported[0]


def assert_rates(texts: Sequence[str], true: TrueRates, *, within: float = SAMPLED) -> None:
    """Compare now, half of the time, 95 % of the time and highest, each a lower bound."""
    named = zip(("now", "p50", "p95", "highest"), texts, strict=True)
    for name, text in named:
        real = getattr(true, name)
        real = max(real, true.highest_by_end) if name == "highest" else real
        known = getattr(true.known, name)
        allowed = HOURLY if name == "now" else within
        assert is_bound_of(text, real, known, allowed), (name, text, real, known)


def share_is(text: str, rate: float, truth: Truth) -> bool:
    """Return whether a share is one of the sum that is known, and told as the most it can be."""
    known = truth.all_rates.known.now
    return text[:2] == "≤ " and is_near(text[2:], 100 * rate / known, 2 * HOURLY)


def at(hour: int) -> str:
    return f"{BEGIN + timedelta(hours=hour):%Y-%m-%d %H:%M}"


# -- what the latest snapshot shows


def test_the_head_counts_what_there_is(page: ReportPage, truth: Truth) -> None:
    last, first = truth.last, truth.seen[0]
    replicas = sum(map(len, last.replicas.values()))
    text = page.sentence("Snapshot of")
    held = sum(map(truth.held_by, truth.live))
    counts, _, size = text.removesuffix(".").rpartition(", ")
    assert counts == (
        f"Snapshot of {last.observed_at:%Y-%m-%d %H:%M:%S} UTC: {len(truth.live)} live brokers, "
        f"{len(last.topic_ids)} topics, {len(last.leaders)} partitions, {replicas} replicas"
    )
    assert is_near(size, held)
    assert page.sentence("Period:") == (
        f"Period: {first.observed_at:%Y-%m-%d %H:%M:%S} UTC – "
        f"{last.observed_at:%Y-%m-%d %H:%M:%S} UTC, {len(truth.seen)} snapshots."
    )
    assert page.sentence("Snapshot true-").startswith(f"Snapshot {CLUSTER}-20260331T000000Z.")
    fair = f"{len(last.leaders) / len(truth.live):.1f}"
    led = [truth.leaders_of(broker_id) for broker_id in truth.live]
    assert f"Leaders per broker: {min(led)} to {max(led)}, fair {fair}" in page.labels


def test_every_broker_has_what_it_has(page: ReportPage, truth: Truth) -> None:
    for broker_id in truth.live:
        rack, leaders, *rest, held, share = page.row("Every broker", str(broker_id))
        assert rack == truth.last.brokers[broker_id]
        assert int(leaders) == truth.leaders_of(broker_id)
        assert [int(text) for text in rest] == [
            truth.not_preferred_of(broker_id),
            truth.preferred_of(broker_id),
            truth.replicas_of(broker_id),
        ]
        assert is_near(held, truth.held_by(broker_id))
        fair = len(truth.last.leaders) / len(truth.live)
        assert is_near(share, truth.leaders_of(broker_id) / fair)


def test_racks_are_the_sums_of_their_brokers(page: ReportPage, truth: Truth) -> None:
    for rack in "abc":
        brokers = [b for b in truth.live if truth.last.brokers[b] == rack]
        led = [truth.leaders_of(b) for b in brokers]
        *counts, size = page.row("Racks", rack)
        assert [int(text) for text in counts] == [
            len(brokers),
            sum(led),
            max(led) - min(led),
            sum(map(truth.replicas_of, brokers)),
        ]
        assert is_near(size, sum(map(truth.held_by, brokers)))


def test_the_tiles_say_how_even_it_is(page: ReportPage, truth: Truth) -> None:
    led = [truth.leaders_of(b) for b in truth.live]
    replicas = [truth.replicas_of(b) for b in truth.live]
    held = [truth.held_by(b) for b in truth.live]
    mean = sum(led) / len(led)
    assert page.tile("Leaders, max − min") == (
        f"{max(led) - min(led)}",
        f"{min(led)} to {max(led)}; best possible {int(sum(led) % len(led) > 0)}",
    )
    assert page.tile("Busiest broker leads") == (f"{max(led) / mean:.2f} ×", "of its fair share")
    not_preferred = sum(map(truth.not_preferred_of, truth.live)) / len(truth.last.leaders)
    assert page.tile("Not led by preferred")[0] == f"{100 * not_preferred:.1f} %"
    assert page.tile("Replicas, max − min") == (
        f"{max(replicas) - min(replicas)}",
        f"{min(replicas)} to {max(replicas)}",
    )
    value, note = page.tile("Fullest broker holds")
    assert is_near(value, max(held) / (sum(held) / len(held)))
    assert is_near(note.removeprefix("of its fair share, "), max(held))
    assert page.tile("Idle brokers") == ("0", "every live broker holds replicas")


def test_topics_that_are_led_unevenly(page: ReportPage, truth: Truth) -> None:
    uneven = set()
    for topic in truth.last.topic_ids:
        led = truth.topic_leaders(topic)
        best = int(sum(led) % len(led) > 0)
        if max(led) - min(led) > best:
            uneven.add(topic)
            *counts, size = page.row("Topics with the largest leader skew", topic)
            assert [int(text) for text in counts] == [sum(led), max(led), min(led)]
            assert is_near(size, truth.topic_bytes(topic))
    rows = page.table("Topics with the largest leader skew")
    assert {row[0] for row in rows} == uneven
    assert page.sentence("topics are led less evenly").startswith(
        f"{len(uneven)} of {len(truth.last.topic_ids)} topics"
    )


def test_what_would_help(page: ReportPage, truth: Truth) -> None:
    preferred = [truth.preferred_of(b) for b in truth.live]
    reason = f"range from {min(preferred)} to {max(preferred)}; the policy allows max - min of"
    assert reason in page.sentence("A rebalance would help")
    assert reason in page.sentence("A plan for leaders reorders")
    assert page.row("What would help", "Replicas copied") == ["0"]
    assert page.row("What would help", "Bytes copied") == ["0 B"]
    assert page.row("What would help", "Expected time") == ["0 s at 20.0 MB/s per broker"]
    # At least what leads too much has to go elsewhere.
    fair = len(truth.last.leaders) / len(truth.live)
    least = sum(max(0, int(truth.leaders_of(b) - fair)) for b in truth.live)
    changed = int(page.row("What would help", "Leaders changed")[0])
    assert least <= changed <= len(truth.last.leaders)


# -- what happened


def test_leader_changes_are_counted(page: ReportPage, truth: Truth) -> None:
    heading = "How often leaders changed"
    counts = true_counts(truth)
    rows = page.table(heading)
    assert dict(map(tuple, rows)) == {name: str(count) for name, count in counts.items()}
    assert page.sentence("each compared with the one before").startswith(
        f"Over {len(truth.seen) - 1} snapshots"
    )


def true_counts(truth: Truth) -> dict[str, int]:
    changed = len(truth.changes)
    return {
        "Leader changes": changed,
        "of these failovers": truth.changed(lambda c: c.cause == "died"),
        "of these back to the preferred leader": truth.changed(
            lambda c: c.cause not in ("died", "reassignment") and c.is_preferred
        ),
        "of these by a reassignment": truth.changed(lambda c: c.cause == "reassignment"),
        "of these otherwise, as at a restart": truth.changed(
            lambda c: c.cause not in ("died", "reassignment") and not c.is_preferred
        ),
        "Elections that no snapshot shows": len(truth.elections) - changed,
        "Partitions moved to other brokers": truth.partitions_moved,
        "Topics created": truth.topics_that("created"),
        "Topics deleted": truth.topics_that("deleted"),
        "Topics deleted and created again": truth.topics_that("recreated"),
    }


def test_each_event_is_told_at_its_hour(page: ReportPage, truth: Truth) -> None:
    told = {(when, what): count for when, what, count in page.table("What happened")}
    died = truth.changed(lambda c: c.cause == "died" and c.hour == DIED)
    expected = {
        (at(JOINED), f"Broker {NEW_BROKER} joined"): "1 broker",
        (f"{at(MOVE_BEGAN)} – {at(MOVE_ENDED)}", "Moved to other brokers"): (
            f"{truth.partitions_moved} partitions"
        ),
        (at(DIED), f"Broker {DEAD_BROKER} died"): "1 broker",
        (at(DIED), "Failover: the leader died or fell behind"): f"{died} partitions",
        (at(RETURNED), f"Broker {DEAD_BROKER} returned"): "1 broker",
    }
    for hour, broker_id in truth.restarts_within_an_hour:
        what = f"Broker {broker_id} lost nearly all leaders and lives: probably restarted"
        expected[at(hour), what] = "1 broker"
    for first, last, count in truth.preferred_runs(at_least=5):
        when = at(first) if first == last else f"{at(first)} – {at(last)}"
        expected[when, "Preferred leaders lead again"] = f"{count} partitions"
    gaps = {key: count for key, count in told.items() if key[1].startswith("No snapshot for")}
    assert list(gaps.values()) == [f"about {GAP[1] - GAP[0] - 1} snapshots"]
    ((when, what),) = gaps
    assert (when, what[:19]) == (f"{at(GAP[0])} – {at(GAP[1])}", "No snapshot for 7 h")
    assert {key: count for key, count in told.items() if key not in gaps} == expected
    assert len(MISSING) - 2 == GAP[1] - GAP[0] - 1  # two single ones are no gap
    page.sentence("2.5 times the usual interval")  # a threshold, which is no figure of the cluster


def test_partitions_whose_leader_flaps(page: ReportPage, truth: Truth) -> None:
    often = truth.flapping
    assert often
    told = {name: int(count) for name, count in page.table("Leaders that flap")}
    assert told == {f"{topic}-{number}": count for (topic, number), count in often.items()}
    words = page.sentence("leader elections in the period")
    assert words.startswith(f"{len(often)} partitions had more than 10 leader elections")
    assert f"From {len(truth.seen)} snapshots" in words
    in_words = page.sentence("By topic:")
    for topic, count in Counter(topic for topic, _ in often).items():
        assert f" {topic} ({count} partition" in in_words


# -- traffic


def test_bytes_in_of_the_cluster(page: ReportPage, truth: Truth) -> None:
    rows = page.table("Over the period")
    assert_rates([row[1] for row in rows], truth.all_rates)
    assert_rates([row[2] for row in rows], truth.all_followed_rates)
    now, note = page.tile("Bytes in")
    assert now == rows[0][1]
    assert note == "from producers; a lower bound"
    assert page.tile("Bytes in, 95 % of the time ≤") == (
        rows[2][1],
        f"highest {rows[3][1]}",
    )
    last, first = truth.last.observed_at, truth.seen[0].observed_at
    assert page.sentence("From 2026") == (
        f"From {first:%Y-%m-%d %H:%M:%S} UTC until {last:%Y-%m-%d %H:%M:%S} UTC, "
        f"{len(truth.seen)} snapshots."
    )


def test_bytes_in_of_every_broker(page: ReportPage, truth: Truth) -> None:
    for broker_id in truth.live:
        texts = page.row("Every broker's bytes in", str(broker_id))
        assert_rates(texts[:4], truth.led_rates(broker_id), within=LED_WITHIN_THE_HOUR)
        assert_rates(texts[4:], truth.followed_rates(broker_id), within=LED_WITHIN_THE_HOUR)
    for role in ("leader", "follower"):
        title = f"Bytes in per broker, as {role} (lower bounds)"
        assert any(label.startswith(title) for label in page.labels)
    for rack in "abc":
        own = [b for b in truth.live if truth.last.brokers[b] == rack]
        texts = page.row("Bytes in per rack", rack)
        assert_rates(texts, truth.led_rates(*own), within=LED_WITHIN_THE_HOUR)
    led = [truth.led_rates(b).now for b in truth.live]
    value, note = page.tile("Busiest broker takes in")
    assert is_near(value, max(led) / (sum(led) / len(led)), 0.05)
    assert is_near(note.removeprefix("of its fair share, ≥ "), max(led), 0.05)


def test_the_hottest_topics(page: ReportPage, truth: Truth) -> None:
    rows = page.table("Hottest topics")
    rates = {topic: truth.topic_rates(topic) for topic in truth.last.topic_ids}
    hottest = sorted(rates, key=lambda topic: -rates[topic].now)
    exact = [t for t in hottest if not truth.is_compacted_topic(t) and rates[t].now]
    assert [row[0] for row in rows if not truth.is_compacted_topic(row[0])] == exact
    for topic, now, p95, share in rows:
        real = rates[topic]
        if truth.is_compacted_topic(topic):
            assert is_bound_of(now, real.now, 0, HOURLY), (topic, now, real)
            assert is_bound_of(p95, real.p95, 0, SAMPLED), (topic, p95, real)
            assert share == "–"
        else:
            assert is_near(now, real.now, HOURLY), (topic, now, real)
            assert is_near(p95, real.p95, SAMPLED), (topic, p95, real)
            assert share_is(share, real.now, truth), (topic, share, real)


def test_the_hottest_partitions(page: ReportPage, truth: Truth) -> None:
    rows = page.table("Hottest partitions now")
    rates = {name: truth.partition_rates(name).now for name in truth.last.leaders}
    hottest = sorted(rates.values(), reverse=True)
    for place, (name, leader, now, share) in enumerate(rows):
        topic, _, number = name.rpartition("-")
        key = topic, int(number)
        assert int(leader) == truth.last.leaders[key]
        assert is_near(now, rates[key], HOURLY)
        assert share_is(share, rates[key], truth)
        assert rates[key] == pytest.approx(hottest[place], rel=HOURLY)


def test_the_hottest_partitions_of_the_period(page: ReportPage, truth: Truth) -> None:
    rows = page.table("Hottest partitions of the period")
    assert_busy_partitions(rows, truth)


def assert_busy_partitions(rows: Sequence[Sequence[str]], truth: Truth) -> None:
    real = truth.rates_by_name
    known = sum(one.total for one in real.values() if not one.is_compacted)
    means = []
    for name, told, highest, share in rows:
        topic, _, number = name.rpartition("-")
        one = real[topic, int(number)]
        if one.is_compacted:
            assert is_bound_of(told, one.mean, 0, SAMPLED), (name, told, one)
            assert is_bound_of(highest, one.highest, 0, SAMPLED), (name, highest, one)
            assert share == "–"
            continue
        means.append(one.mean)
        assert is_near(told, one.mean, SAMPLED), (name, told, one)
        assert is_near(highest, one.highest, SAMPLED), (name, highest, one)
        # Of a sum that is a lower bound it is at most so much.
        assert share[:2] == "≤ "
        total = sum(each.total for each in real.values())
        at_least, at_most = one.total / total, one.total / known
        assert 100 * at_least * (1 - SAMPLED) - 0.05 <= float(share[2:].removesuffix(" %"))
        assert float(share[2:].removesuffix(" %")) <= 100 * at_most * (1 + SAMPLED) + 0.05
    expected = sorted((one.mean for one in real.values() if not one.is_compacted), reverse=True)
    assert means == pytest.approx(expected[: len(means)], rel=SAMPLED)
    assert len(rows) == 20


def test_topics_led_unevenly_over_the_period(page: ReportPage, truth: Truth) -> None:
    heading = "Topics led most unevenly over the period"
    rows = page.table(heading)
    uneven = {topic for topic, excess in truth.max_excess_seen.items() if excess}
    assert {row[0] for row in rows} == uneven
    for topic, mean, highest, share in rows:
        assert_excess(topic, mean, truth)
        assert int(highest) == truth.max_excess_seen[topic]
        assert_uneven_share(topic, share, truth)
    told = [float(row[1]) for row in rows]
    assert told == sorted(told, reverse=True)
    note = page.sentence("were led less evenly than whole partitions allow at some time")
    assert note.startswith(f"{len(uneven)} topics of {len(truth.max_excess_seen)} were led")
    assert "known for 29 d 1" in note  # 30 days without the gap of seven hours


def test_how_many_topics_were_led_unevenly_at_each_snapshot(
    installation: Installation, page: ReportPage, truth: Truth
) -> None:
    assert "Topics led less evenly than whole partitions allow over time" in page.labels
    told = json.loads(installation.archive.read_report(f"{CLUSTER}/leader-balance.json"))
    counts = [point["changes"]["uneven_topics"] for point in told["series"]]
    assert counts == [truth.uneven_topics_in(seen) for seen in truth.seen][-len(counts) :]
    assert len(set(counts)) > 2


def assert_excess(topic: str, text: str, truth: Truth) -> None:
    excess = truth.excess[topic]
    # An election moves it by two at most, for an hour at most.
    allowed = 2 * truth.hours_of_change(topic) * TICKS_PER_HOUR / len(excess)
    assert float(text) == pytest.approx(sum(excess) / len(excess), abs=allowed + 0.005), topic


def assert_uneven_share(topic: str, text: str, truth: Truth) -> None:
    excess = truth.excess[topic]
    allowed = 100 * truth.hours_of_change(topic) * TICKS_PER_HOUR / len(excess)
    real = 100 * sum(map(bool, excess)) / len(excess)
    assert float(text.removesuffix(" %")) == pytest.approx(real, abs=allowed + 0.05), topic


# -- the period before


def test_a_month_has_no_month_before(page: ReportPage) -> None:
    assert page.sentence("The period before is not known")
    assert page.tile_before("Bytes in") == "before: not known"


@dataclass(frozen=True)
class Weeks:
    """A page of the last two weeks, and what was true of them and of the two weeks before."""

    page: ReportPage
    now: Truth
    before: Truth


@pytest.fixture(scope="module")
def weeks(installation: Installation, page: ReportPage, truth: Truth) -> Weeks:
    assert page
    reports.report_balance(installation, CLUSTER, period=TWO_WEEKS)
    html = installation.archive.read_report(f"{CLUSTER}/leader-balance.html")
    begin = truth.last.observed_at - TWO_WEEKS
    # What the first snapshot of a period shows happened since the last one before it.
    middle = max(seen.hour for seen in truth.seen if seen.observed_at < begin)
    first = max(s.hour for s in truth.seen if s.observed_at < begin - TWO_WEEKS)
    month = truth.month
    return Weeks(ReportPage(html), Truth(month, (middle, HOURS)), Truth(month, (first, middle)))


def arrow(now: float, before: float) -> str:
    return "=" if now == before else "↑" if now > before else "↓"


def test_it_says_which_period_stands_beside(weeks: Weeks) -> None:
    first, last = weeks.before.seen[1], weeks.before.last
    assert weeks.page.sentence("Compared with the period before").startswith(
        f"Compared with the period before, {first.observed_at:%Y-%m-%d %H:%M:%S} UTC – "
        f"{last.observed_at:%Y-%m-%d %H:%M:%S} UTC, {len(weeks.before.seen) - 1} snapshots: "
    )


def test_tiles_stand_beside_the_end_of_the_period_before(weeks: Weeks) -> None:
    def spread(truth: Truth) -> int:
        led = [truth.leaders_of(b) for b in truth.live]
        return max(led) - min(led)

    def busiest(truth: Truth) -> float:
        led = [truth.leaders_of(b) for b in truth.live]
        return round(max(led) * len(led) / sum(led), 2)

    def share(truth: Truth) -> float:
        moved = sum(map(truth.not_preferred_of, truth.live))
        return round(100 * moved / len(truth.last.leaders), 1)

    def replicas(truth: Truth) -> int:
        held = [truth.replicas_of(b) for b in truth.live]
        return max(held) - min(held)

    def fullest(truth: Truth) -> float:
        held = [truth.held_by(b) for b in truth.live]
        return round(max(held) * len(held) / sum(held), 2)

    for title, figure, unit in (
        ("Leaders, max − min", spread, "{}"),
        ("Busiest broker leads", busiest, "{:.2f} ×"),
        ("Not led by preferred", share, "{:.1f} %"),
        ("Replicas, max − min", replicas, "{}"),
        ("Fullest broker holds", fullest, "{:.2f} ×"),
        ("Idle brokers", lambda truth: 0, "{}"),
    ):
        now, before = figure(weeks.now), figure(weeks.before)
        value = weeks.page.tile(title)[0]
        found = beside(f"{value} {weeks.page.tile_before(title)}")
        assert found[1:] == (arrow(now, before), unit.format(before)), title
    value, _ = weeks.page.tile("Grows per day")
    _, sign, was = beside(f"{value} {weeks.page.tile_before('Grows per day')}")
    grown = [
        sum(truth.grown_per_day(truth.broker_indexes(b)) for b in truth.live)
        for truth in (weeks.now, weeks.before)
    ]
    assert is_near(was, grown[1], GROWN)
    assert sign == arrow(*grown)
    rates = weeks.before.all_rates
    for title, name, allowed in (
        ("Bytes in", "now", HOURLY),
        ("Bytes in, 95 % of the time ≤", "p95", SAMPLED),
    ):
        value, _ = weeks.page.tile(title)
        _, _, was = beside(f"{value} {weeks.page.tile_before(title)}")
        real, known = getattr(rates, name), getattr(rates.known, name)
        assert is_bound_of(was, real, known, allowed), (title, was, real, known)
    busy = weeks.before.led_rates
    value = beside(f"- {weeks.page.tile_before('Busiest broker takes in')}")[2]
    led = [busy(b).now for b in weeks.before.live]
    assert is_near(value, max(led) / (sum(led) / len(led)), 0.05)
    assert weeks.page.tile_before("First disk full").startswith(("before: in ", "as before"))


# -- growth and disks


def test_growth_of_topics(page: ReportPage, truth: Truth) -> None:
    for topic, size, per_day in page.table("Fastest growing topics"):
        assert is_near(size, truth.topic_bytes(topic))
        grown = truth.grown_per_day(truth.topic_indexes(topic))
        # What is removed at once, by retention or DeleteRecords, counts over fewer hours than it
        # should, by as many as are not known: so the error is a part of what is written.
        is_removed = topic == DELETED_RECORDS or truth.has_retention(topic)
        written = truth.written_per_day(truth.topic_indexes(topic)) if is_removed else grown
        assert is_near(per_day, grown, GROWN * written / grown), (topic, per_day, grown)


def test_disks_and_when_they_are_full(page: ReportPage, truth: Truth) -> None:
    rows = page.table("Every disk")
    assert sorted(int(row[0]) for row in rows) == truth.live
    days_of = {}
    for broker_id, forecast, used, free, per_day, log_dir in rows:
        held = truth.held_by(int(broker_id))
        left = DISK_BYTES - OTHER_FILES_BYTES - held
        grown = truth.grown_per_day(truth.broker_indexes(int(broker_id)))
        days_of[broker_id] = left / grown
        assert is_near(used, 100 * (1 - left / DISK_BYTES))
        assert is_near(free, left)
        assert is_near(per_day, grown, GROWN)
        days = int(forecast.removeprefix("full in ").removesuffix(" days"))
        assert days + 0.5 == pytest.approx(left / grown, abs=0.5 + GROWN * left / grown)
        assert log_dir == "/data"
    first = min(days_of, key=lambda broker_id: days_of[broker_id])
    assert rows[0][0] == first
    assert page.tile("First disk full") == (rows[0][1].removeprefix("full "), f"broker {first}")
    value, note = page.tile("Grows per day")
    together = sum(truth.grown_per_day(truth.broker_indexes(b)) for b in truth.live)
    assert is_near(value, together, GROWN)
    assert is_near(note.removeprefix("holds "), sum(map(truth.held_by, truth.live)))
    # Two weeks, less a gap of seven hours and the time until the first snapshot in them.
    assert "that leaves 13 d 1" in page.sentence("Free space divided by the mean growth")


def test_the_charts_stand_in_a_table_too(reported: tuple[ReportPage, dict[str, Any]]) -> None:
    check_tables_of_charts(*reported)


def test_no_number_is_left_that_nobody_compared(page: ReportPage) -> None:
    """Run after the others, which say what they have read."""
    explanations = (
        "% of the fair share",
        "– ",
        "up to ",
        "95 % ≤:",
        "Times are UTC",
        "next 30 days",
    )
    left = [
        text
        for text in page.unread()
        if not text.startswith(("One column is the mean over", *explanations))
        and not any(words in text for words in explanations)
    ]
    assert left == [], left

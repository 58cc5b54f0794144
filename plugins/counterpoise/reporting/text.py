"""Reports as text: Markdown for chats, tickets and the approval page, JSON for machines, one line for a log."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Any, Final

from counterpoise.model.balance import BalancePoint, LeaderBalance, WantedRebalance
from counterpoise.model.measures import Evenness
from counterpoise.model.overview import (
    MEASURES,
    WHY_IN_WORDS,
    Overview,
    asked_in_words,
    brokers_to_show,
    coordinators_in_words,
    knows,
    largest_moves,
    left_in_words,
    others_in_words,
    rate_warning,
    some,
)
from counterpoise.model.plan import BrokerFigure, RebalancePlan
from counterpoise.model.pulse import Pulse
from counterpoise.reporting.blocks import plan_picture
from counterpoise.reporting.html import count, when
from counterpoise.reporting.leader_balance import plan_command, tiles
from counterpoise.reporting.plan_page import NAMES, UNITS, broker_cell, evenness_rows, fullest, over_in_words
from counterpoise.units import format_bytes, format_rate, format_seconds

FORMAT: Final = "counterpoise-leader-balance/1"
LINKS_SHOWN: Final = 3  # in a log
MOVES_SHOWN: Final = 10  # on the approval page; the plan's own page has more
PICTURE_WIDTH: Final = 72


def leader_balance_json(balance: LeaderBalance, *, wanted: WantedRebalance | None = None) -> str:
    """One JSON object with keys sorted: sizes in bytes, shares 0 to 1, times in ISO 8601 UTC."""
    document = {
        "format": FORMAT,
        "cluster": balance.cluster,
        "latest": _point(balance.latest),
        "brokers": [_values(broker) | {"is_idle": broker.is_idle} for broker in balance.brokers],
        "racks": [_values(rack) for rack in balance.racks],
        "topics_that_lean": [_values(topic) for topic in balance.topics],
        "topic_count": balance.topic_count,
        "leaning_topic_count": balance.leaning_topic_count,
        "series": [_point(point) for point in balance.series],
        "wanted": None
        if wanted is None
        else {"goal": str(wanted.goal), "broker_ids": list(wanted.broker_ids), "reason": wanted.reason},
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def leader_balance_markdown(balance: LeaderBalance, *, wanted: WantedRebalance | None = None) -> str:
    """The latest snapshot's figures; names of racks and topics are escaped, so that they stay names."""
    verdict = f"**A rebalance would help:** {_escaped(wanted.reason)}." if wanted else "**Nothing needs doing.**"
    parts = [
        f"# Leader balance of {_escaped(balance.cluster)}",
        f"As seen at {when(balance.latest.observed_at)}.",
        verdict,
        _table(("Figure", "Value", ""), ((tile.title, tile.value, tile.note) for tile in tiles(balance))),
        "## Brokers",
        _table(
            ("Broker", "Rack", "Leaders", "Not preferred", "Preferred", "Replicas", "Bytes"),
            (
                (
                    f"{broker.broker_id}{' (idle)' if broker.is_idle else ' (dead)' if broker.is_fenced else ''}",
                    broker.rack or "",
                    count(broker.leaders),
                    count(broker.leaders_not_preferred),
                    count(broker.preferred_leaders),
                    count(broker.replicas),
                    format_bytes(broker.bytes),
                )
                for broker in balance.brokers
            ),
        ),
    ]
    if balance.topics:
        rows = (
            (
                t.topic,
                count(t.partition_count),
                count(t.most_leaders),
                count(t.fewest_leaders),
                format_bytes(t.size_bytes),
            )
            for t in balance.topics
        )
        parts += [
            "## Topics that lean most",
            _table(("Topic", "Partitions", "Most led by one", "Fewest", "Size"), rows),
        ]
    if wanted:
        parts += ["## What would help", f"```\n{plan_command(balance.cluster, wanted)}\n```"]
    return "\n\n".join(parts) + "\n"


def plan_markdown(plan: RebalancePlan, *, rate_bytes_per_second: int, at_once: int | None = None) -> str:
    """A plan in short, for the one who approves it: warnings, picture, cost, brokers, what moves and why."""
    seen = Overview.of(plan)
    named = f", brokers {some(plan.broker_ids)}" if plan.broker_ids else ""
    parts = [f"Goal **{plan.goal}**{named}"]
    parts += [_escaped(f"Asked for: {'; '.join(asked)}") for asked in [asked_in_words(plan)] if asked]
    parts += [f"**Nothing needs to move:** {_escaped(plan.reason)}"] if plan.is_empty else []
    warnings = (rate_warning(plan, rate_bytes_per_second, at_once), left_in_words(plan), *plan.warnings)
    parts += [f"**Warning:** {_escaped(warning)}" for warning in warnings if warning]
    if picture := plan_picture(plan, width=PICTURE_WIDTH):
        parts.append(f"```text\n{picture}\n```")
    parts += [_cost_table(plan, seen, rate_bytes_per_second), *map(_escaped, coordinators_in_words(seen))]
    parts.append(_table(("Per broker", "Before", "After", "Best possible"), evenness_rows(seen)))
    parts += _broker_parts(plan.figures)
    if not plan.is_empty:
        parts.append(_moves_table(plan))
    return "\n\n".join([*parts, f"`{plan.fingerprint}`"]) + "\n"


def _cost_table(plan: RebalancePlan, seen: Overview, rate: int) -> str:
    bound = plan.lower_bound
    copied, replicas = format_bytes(bound.bytes), count(bound.replicas)
    seconds = seen.busiest_link_bytes / rate
    return _table(
        ("Cost", "This plan", "Any plan"),
        (
            ("Bytes copied", format_bytes(seen.copied_bytes), f"at least {copied}{over_in_words(seen.over_bytes)}"),
            ("Replicas copied", count(seen.copied_replicas), f"at least {replicas}{over_in_words(seen.over_replicas)}"),
            *_leader_rows(plan, seen),
            ("Partitions that change", count(len(plan.moves)), ""),
            ("Leaders that change", count(seen.leader_changes), ""),
            ("Bytes between racks", format_bytes(seen.cross_rack_bytes), ""),
            ("Expected time", format_seconds(seconds), f"at {format_rate(rate)} per broker"),
        ),
    )


def _leader_rows(plan: RebalancePlan, seen: Overview) -> list[tuple[str, str, str]]:
    if "leaders" not in seen.measures:
        return []
    after, best = seen.measures["leaders"].after.max_minus_min, plan.lower_bound.leaders_max_minus_min
    return [("Leaders, max − min", count(after), f"at best {count(best)}")]


def _broker_parts(figures: Sequence[BrokerFigure]) -> list[str]:
    """A table of the brokers that matter most, and a line for the others."""
    shown, others = brokers_to_show(figures)
    if not shown:
        return []
    measures = [name for name in MEASURES if knows(figures, name)]
    rows = ((str(f.broker_id), *(broker_cell(f, name) for name in measures), fullest(f)) for f in shown)
    parts = [
        "Each broker before → after (best possible):",
        _table(("Broker", *(NAMES[name] for name in measures), "At its fullest"), rows),
    ]
    if others:
        told = "; ".join(f"{NAMES[name].lower()} {words}" for name, words in others_in_words(others, UNITS))
        parts.append(f"and {count(len(others))} others: {told}")
    return parts


def _moves_table(plan: RebalancePlan) -> str:
    shown, rest = largest_moves(plan, MOVES_SHOWN)
    rows = [
        (
            str(move.topic_partition),
            ", ".join(map(str, move.replicas_before)),
            ", ".join(map(str, move.replicas_after)),
            format_bytes(move.copied_bytes) if move.adding else "",
            WHY_IN_WORDS[move.why],
        )
        for move in shown
    ]
    rows += [
        (f"and {count(r.partitions)} more", "", "", format_bytes(r.bytes) if r.bytes else "", WHY_IN_WORDS[r.why])
        for r in rest
    ]
    return _table(("Partition", "Replicas", "Then", "Copied", "Why"), rows)


def progress_line(pulse: Pulse) -> str:
    """`62 %: 120 MB of 193 MB, 14 of 23 partitions, 4 in flight; 15.0 MB/s in all, ...`, while something moves.

    The speed since the look before, the rate in force, the time left, the links with most to copy.
    """
    progress = pulse.progress
    elections = f", {progress.elections_left} leaders to elect" if progress.elections_left else ""
    figures = (
        f"{progress.share * 100:.0f} %: {format_bytes(progress.copied_bytes)} of {format_bytes(progress.total_bytes)}, "
        f"{progress.moves_done} of {progress.moves_total} partitions, {progress.moves_in_flight} in flight{elections}"
    )
    return "; ".join([figures, *_speed_parts(pulse)])


def _speed_parts(pulse: Pulse) -> Iterable[str]:
    if not pulse.links:
        return
    speed = sum(link.bytes_per_second for link in pulse.links if not link.sends)
    left = f", {format_seconds(pulse.seconds_left)} left" if pulse.seconds_left is not None else ""
    brake = f", braked {pulse.brake} times" if pulse.brake else ""
    yield f"{format_rate(speed)} in all, at most {format_rate(pulse.rate_bytes_per_second)} per broker{brake}{left}"
    busiest = sorted(pulse.links, key=lambda link: (-link.bytes_left, link.broker_id, link.sends))[:LINKS_SHOWN]
    told = (f"{k.name} {format_rate(k.bytes_per_second)}, {format_bytes(k.bytes_left)} to go" for k in busiest)
    yield f"busiest: {'; '.join(told)}"


def _point(point: BalancePoint) -> dict[str, Any]:
    return {
        "snapshot_id": point.snapshot_id,
        "observed_at": point.observed_at.astimezone(UTC).isoformat(),
        "leaders": _evenness(point.leaders),
        "preferred_leaders": _evenness(point.preferred_leaders),
        "replicas": _evenness(point.replicas),
        "bytes": _evenness(point.bytes),
        "share_not_preferred": point.share_not_preferred,
        "live_broker_ids": list(point.live_broker_ids),
        "joined_broker_ids": list(point.joined_broker_ids),
        "left_broker_ids": list(point.left_broker_ids),
    }


def _evenness(spread: Evenness) -> dict[str, Any]:
    return _values(spread) | {
        "max_minus_min": spread.max_minus_min,
        "best_max_minus_min": spread.best_max_minus_min,
    }


def _values(row: Any) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__slots__}


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"| {' | '.join('---' for _ in heads)} |"]
    lines += [f"| {' | '.join(_escaped(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Markdown's and HTML's own characters lose their meaning; a line break becomes a blank."""
    return re.sub(r"([\\`*_\[\]<>|#&~!])", r"\\\1", " ".join(text.split()))

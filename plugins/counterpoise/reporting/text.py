"""Reports as text: Markdown for chats, tickets and the approval page, JSON for machines, one line for a log."""

import json
import re
from collections.abc import Iterable, Sequence
from datetime import UTC
from typing import Any, Final

from counterpoise.model.balance import BalancePoint, LeaderBalance, WantedRebalance
from counterpoise.model.measures import Evenness
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.run import Progress
from counterpoise.reporting.html import count, when
from counterpoise.reporting.leader_balance import plan_command, tiles
from counterpoise.units import format_bytes, format_rate, format_seconds

FORMAT: Final = "counterpoise-leader-balance/1"
BROKERS_SHOWN: Final = 40  # on the approval page; the plan's own page has all


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


def plan_markdown(plan: RebalancePlan, *, rate_bytes_per_second: int) -> str:
    """A plan in short, for the one who approves it: cost, brokers before and after, warnings, fingerprint."""
    bound = plan.lower_bound
    seconds = busiest_link_bytes(plan) / rate_bytes_per_second
    figures = (
        ("Partitions that change", count(len(plan.moves)), ""),
        ("Bytes copied", format_bytes(plan.copied_bytes), f"any plan: at least {format_bytes(bound.bytes)}"),
        ("Replicas copied", count(plan.copied_replicas), f"any plan: at least {count(bound.replicas)}"),
        ("Leaders that change", count(plan.leader_changes), ""),
        ("Expected time", format_seconds(seconds), f"at {format_rate(rate_bytes_per_second)} per broker"),
    )
    brokers = (
        (
            str(f.broker_id),
            f"{count(f.leaders_before)} → {count(f.leaders_after)}",
            f"{count(f.replicas_before)} → {count(f.replicas_after)}",
            f"{format_bytes(f.bytes_before)} → {format_bytes(f.bytes_after)}",
        )
        for f in plan.figures[:BROKERS_SHOWN]
    )
    parts = [
        f"Goal **{plan.goal}**" + (f", brokers {', '.join(map(str, plan.broker_ids))}" if plan.broker_ids else ""),
        _table(("Figure", "Value", ""), figures),
        _table(("Broker", "Leaders", "Replicas", "Bytes"), brokers),
    ]
    if len(plan.figures) > BROKERS_SHOWN:
        parts.append(f"and {len(plan.figures) - BROKERS_SHOWN} more brokers")
    parts += [f"Warning: {_escaped(warning)}" for warning in plan.warnings]
    return "\n\n".join([*parts, f"`{plan.fingerprint}`"]) + "\n"


def progress_line(progress: Progress) -> str:
    """`62 %: 120 MB of 193 MB, 14 of 23 partitions, 4 in flight`."""
    elections = f", {progress.elections_left} leaders to elect" if progress.elections_left else ""
    return (
        f"{progress.share * 100:.0f} %: {format_bytes(progress.copied_bytes)} of {format_bytes(progress.total_bytes)}, "
        f"{progress.moves_done} of {progress.moves_total} partitions, {progress.moves_in_flight} in flight{elections}"
    )


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

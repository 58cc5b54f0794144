"""Plans and runs as text: Markdown for chats, tickets and the approval page, one line for a log."""

from collections.abc import Iterable, Sequence
from typing import Final

from counterpoise.model.overview import (
    MEASURES,
    MOVE_REASON_TEXTS,
    Overview,
    brokers_to_show,
    coordinators_in_words,
    deferred_in_words,
    knows,
    largest_moves,
    others_in_words,
    rate_warning,
    request_in_words,
)
from counterpoise.model.plan import BrokerFigure, RebalancePlan
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.words import join_ids
from counterpoise.reporting.blocks import plan_picture
from counterpoise.reporting.html import count
from counterpoise.reporting.markdown import escaped, table
from counterpoise.reporting.plan_page import (
    NAMES,
    UNITS,
    broker_cell,
    evenness_rows,
    fullest,
    over_in_words,
)
from counterpoise.units import format_bytes, format_rate, format_seconds

LINKS_SHOWN: Final = 3  # in a log
MOVES_SHOWN: Final = 10  # on the approval page; the plan's own page has more
PICTURE_WIDTH: Final = 72


def plan_markdown(
    plan: RebalancePlan, *, rate_bytes_per_second: int, at_once: int | None = None
) -> str:
    """Return a plan in short, for the one who approves it: warnings, picture, cost, brokers, what
    moves and why.
    """
    seen = Overview.of(plan)
    named = f", brokers {join_ids(plan.broker_ids)}" if plan.broker_ids else ""
    parts = [f"Goal **{plan.goal}**{named}"]
    parts += [
        escaped(f"Asked for: {'; '.join(asked)}") for asked in [request_in_words(plan)] if asked
    ]
    parts += [f"**Nothing needs to move:** {escaped(plan.reason)}"] if plan.is_empty else []
    warnings = (
        rate_warning(plan, rate_bytes_per_second, at_once),
        deferred_in_words(plan),
        *plan.warnings,
    )
    parts += [f"**Warning:** {escaped(warning)}" for warning in warnings if warning]
    if picture := plan_picture(plan, width=PICTURE_WIDTH):
        parts.append(f"```text\n{picture}\n```")
    parts += [
        _cost_table(plan, seen, rate_bytes_per_second),
        *map(escaped, coordinators_in_words(seen)),
    ]
    parts.append(table(("Per broker", "Before", "After", "Best possible"), evenness_rows(seen)))
    parts += _broker_parts(plan.figures)
    if not plan.is_empty:
        parts.append(_moves_table(plan))
    return "\n\n".join([*parts, f"`{plan.fingerprint}`"]) + "\n"


def _cost_table(plan: RebalancePlan, seen: Overview, rate: int) -> str:
    bound = plan.lower_bound
    copied, replicas = format_bytes(bound.bytes), count(bound.replicas)
    seconds = seen.busiest_link_bytes / rate
    return table(
        ("Cost", "This plan", "Any plan"),
        (
            (
                "Bytes copied",
                format_bytes(seen.copied_bytes),
                f"at least {copied}{over_in_words(seen.over_bytes)}",
            ),
            (
                "Replicas copied",
                count(seen.copied_replicas),
                f"at least {replicas}{over_in_words(seen.over_replicas)}",
            ),
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
    after, best = (
        seen.measures["leaders"].after.max_minus_min,
        plan.lower_bound.leaders_max_minus_min,
    )
    return [("Leaders, max − min", count(after), f"at best {count(best)}")]


def _broker_parts(figures: Sequence[BrokerFigure]) -> list[str]:
    """Return a table of the brokers that change most, and a line for the others."""
    shown, others = brokers_to_show(figures)
    if not shown:
        return []
    measures = [name for name in MEASURES if knows(figures, name)]
    rows = (
        (str(f.broker_id), *(broker_cell(f, name) for name in measures), fullest(f)) for f in shown
    )
    parts = [
        "Each broker before → after (best possible):",
        table(("Broker", *(NAMES[name] for name in measures), "At its fullest"), rows),
    ]
    if others:
        spans = [f"{NAMES[name].lower()} {words}" for name, words in others_in_words(others, UNITS)]
        parts.append(f"and {count(len(others))} others: {'; '.join(spans)}")
    return parts


def _moves_table(plan: RebalancePlan) -> str:
    shown, rest = largest_moves(plan, MOVES_SHOWN)
    rows = [
        (
            str(move.topic_partition),
            ", ".join(map(str, move.replicas_before)),
            ", ".join(map(str, move.replicas_after)),
            format_bytes(move.copied_bytes) if move.adding else "",
            MOVE_REASON_TEXTS[move.why],
        )
        for move in shown
    ]
    rows += [
        (
            f"and {count(r.partitions)} more",
            "",
            "",
            format_bytes(r.bytes) if r.bytes else "",
            MOVE_REASON_TEXTS[r.why],
        )
        for r in rest
    ]
    return table(("Partition", "Replicas", "Then", "Copied", "Why"), rows)


def progress_line(run_progress: RunProgress) -> str:
    """Return `62 %: 120 MB of 193 MB, 14 of 23 partitions, 4 in flight; 15.0 MB/s in all, ...`.

    After the progress come, while replicas are copied, the speed since the last observation, the
    rate in force, the time left, and the links with most to copy.
    """
    return "; ".join([run_progress.progress.in_words, *_speed_parts(run_progress)])


def _speed_parts(run_progress: RunProgress) -> Iterable[str]:
    if not run_progress.links:
        return
    left = (
        f", {format_seconds(run_progress.seconds_left)} left"
        if run_progress.seconds_left is not None
        else ""
    )
    level = run_progress.back_off_level
    backed_off = f", rate halved {level} times by the back-off" if level else ""
    yield f"{run_progress.speed_in_words}{backed_off}{left}"
    links = [
        f"{link.name} {format_rate(link.bytes_per_second)}, {format_bytes(link.bytes_left)} left"
        for link in run_progress.busiest_links[:LINKS_SHOWN]
    ]
    yield f"busiest: {'; '.join(links)}"

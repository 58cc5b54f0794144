"""Snapshots and runs on the terminal, and the same as values for --json.

Text from clusters is shown as text only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.evenness import Evenness, evenness
from counterpoise.model.run import UNDER_WAY_STATES
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import pluralize
from counterpoise.services import snapshots
from counterpoise.units import format_bytes, format_rate, format_seconds
from counterpoise.views.run import RunStatusView


def snapshot_summary(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """Return the values of a snapshot for --json."""
    return {
        "cluster": snapshot.cluster,
        "cluster_id": snapshot.cluster_id,
        "snapshot_id": snapshot.snapshot_id,
        "observed_at": snapshot.observed_at.isoformat() if snapshot.observed_at else None,
        "brokers": len(snapshot.registered_broker_ids),
        "live_brokers": len(snapshot.live_broker_ids),
        "idle_brokers": list(snapshot.idle_broker_ids),
        "topics": snapshot.topics.num_rows,
        "partitions": snapshot.partitions.num_rows,
    }


def print_snapshot(console: Console, snapshot: ClusterSnapshot, written_to: Path | None) -> None:
    """Print a row for each broker, and how even the leaders are."""
    partitions = snapshot.partitions
    knows_sizes = partitions["size_bytes"].null_count < partitions.num_rows
    loads = {load.broker_id: load for load in snapshots.broker_loads(snapshot)}
    rows = table(
        "broker", "rack", "state", ("leaders", "right"), ("replicas", "right"), ("bytes", "right")
    )
    for broker_id in snapshot.registered_broker_ids:
        rack = Text(snapshot.racks[broker_id] or "-")
        row: list[str | Text] = [str(broker_id), rack, _broker_state(snapshot, broker_id)]
        if load := loads.get(broker_id):
            size = format_bytes(load.bytes) if knows_sizes or not load.replicas else "not known"
            row += [str(load.leaders), str(load.replicas), size]
        rows.add_row(*row)
    console.print(
        f"cluster {one_line(snapshot.cluster)} ({one_line(snapshot.cluster_id)}): "
        f"{len(snapshot.live_broker_ids)} of {len(snapshot.registered_broker_ids)} brokers live, "
        f"{pluralize(snapshot.topics.num_rows, 'topic')}, "
        f"{pluralize(snapshot.partitions.num_rows, 'partition')}",
        markup=False,
    )
    console.print(rows)
    console.print(leaders_in_words(evenness([load.leaders for load in loads.values()])))
    if written_to:
        console.print(f"written to {written_to}", markup=False)


def leaders_in_words(spread: Evenness) -> str:
    return (
        f"leaders per live broker: {spread.minimum} to {spread.maximum} "
        f"(max - min {spread.max_minus_min}, at best {spread.best_max_minus_min})"
    )


def _broker_state(snapshot: ClusterSnapshot, broker_id: int) -> str:
    if broker_id in snapshot.idle_broker_ids:
        return "idle: holds nothing"
    return "live" if broker_id in snapshot.live_broker_ids else "dead"


def print_runs(console: Console, runs: Sequence[RunStatusView]) -> None:
    """Print a row for each run."""
    if not runs:
        console.print(
            "no runs yet: `counterpoise plan` makes a plan, `counterpoise approve` opens its run",
            markup=False,
        )
        return
    figures = [("moves", "right"), ("copied", "right")]
    if moves := any(map(_moves_now, runs)):
        figures += [("rate", "right"), ("time left", "right")]
    rows = table("run", "state", *figures, "opened (UTC)", "decision", "why")
    for run in runs:
        rows.add_row(
            run.run_id,
            run.state,
            *_how_far(run),
            *(_how_fast(run) if moves else ()),
            f"{run.opened_at:%Y-%m-%d %H:%M}",
            Text(f"{run.decision} by {run.decided_by}" if run.decision else "-"),
            Text(run.reason),
        )
    console.print(rows)


def _moves_now(run: RunStatusView) -> bool:
    return run.state in UNDER_WAY_STATES and run.progress is not None and run.progress.is_driven


def _how_far(run: RunStatusView) -> tuple[str, str]:
    """Return the moves that are done, and the share that is copied."""
    if found := run.progress:
        return f"{found.moves_done}/{found.moves_total}", f"{found.share * 100:.0f} %"
    return f"{run.moves_done}/{run.moves_submitted}" if run.moves_submitted else "-", "-"


def _how_fast(run: RunStatusView) -> tuple[str, str]:
    """Return what is copied now, and for how long yet; of a run that nobody drives neither."""
    found = run.progress
    if found is None or not _moves_now(run):
        return "-", "-"
    left = "not known" if found.seconds_left is None else format_seconds(found.seconds_left)
    return format_rate(found.bytes_per_second), left


def table(*columns: str | tuple[str, str]) -> Table:
    """Return a table without lines; a column is its name, or its name and `"right"`."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        name, justify = (column, "left") if isinstance(column, str) else column
        rows.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return rows

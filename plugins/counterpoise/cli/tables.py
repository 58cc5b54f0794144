"""Snapshots and runs on the terminal, and the same as values for --json.

Text from clusters is shown as text only.
"""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import ControlRequest
from counterpoise.model.evenness import evenness
from counterpoise.model.run_progress import RunProgress
from counterpoise.model.safe_text import one_line
from counterpoise.model.words import pluralize
from counterpoise.services import snapshots
from counterpoise.services.runs import RunStatus
from counterpoise.units import format_bytes


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
    spread = evenness([load.leaders for load in loads.values()])
    console.print(
        f"leaders per live broker: {spread.minimum} to {spread.maximum} "
        f"(max - min {spread.max_minus_min}, at best {spread.best_max_minus_min})"
    )
    if written_to:
        console.print(f"written to {written_to}", markup=False)


def _broker_state(snapshot: ClusterSnapshot, broker_id: int) -> str:
    if broker_id in snapshot.idle_broker_ids:
        return "idle: holds nothing"
    return "live" if broker_id in snapshot.live_broker_ids else "dead"


def status_summary(status: RunStatus) -> dict[str, Any]:
    """Return the values of a run for --json."""
    run, approval = status.run, status.approval
    return {
        "run_id": run.run_id,
        "cluster": run.cluster,
        "state": str(run.state),
        "reason": run.reason,
        "fingerprint": run.fingerprint,
        "opened_at": run.opened_at.isoformat(),
        "closed_at": run.closed_at.isoformat() if run.closed_at else None,
        "moves_submitted": status.moves_submitted,
        "moves_done": status.moves_done,
        "decision": str(approval.decision) if approval else None,
        "decided_by": approval.person.shown if approval else None,
        "rate_bytes_per_second": approval.rate_bytes_per_second if approval else None,
        "config_keys_owed": [
            f"{key.resource.type} {key.resource.name}: {key.key}" for key in status.pending_restores
        ],
        "pulse": run_progress_summary(status.run_progress) if status.run_progress else None,
        "requests": [request_summary(request) for request in status.requests],
    }


def run_progress_summary(run_progress: RunProgress) -> dict[str, Any]:
    """Return the values of a run's progress for --json."""
    progress = run_progress.progress
    return {
        "at": run_progress.observed_at.isoformat(),
        "share": progress.share,
        "copied_bytes": progress.copied_bytes,
        "total_bytes": progress.total_bytes,
        "moves_done": progress.moves_done,
        "moves_total": progress.moves_total,
        "moves_in_flight": progress.moves_in_flight,
        "elections_left": progress.elections_left,
        "bytes_per_second": run_progress.bytes_per_second,
        "rate_in_force_bytes_per_second": run_progress.rate_bytes_per_second,
        "seconds_left": run_progress.seconds_left,
        "waits_for": run_progress.waits_for,
        "brake": run_progress.back_off_level,
        "links": [
            {
                "broker_id": link.broker_id,
                "sends": link.sends,
                "moves": link.moves,
                "bytes_left": link.bytes_left,
                "bytes_per_second": link.bytes_per_second,
            }
            for link in run_progress.links
        ],
    }


def request_summary(request: ControlRequest) -> dict[str, Any]:
    """Return the values of a request for --json."""
    return {
        "cluster": request.cluster,
        "run_id": request.run_id,
        "control": str(request.control),
        "concerns": "run" if request.run_id else "cluster",
        "by": request.person.shown,
        "why": request.why,
        "at": request.at.isoformat(),
        "rate_bytes_per_second": request.rate_bytes_per_second,
        "until": request.until.isoformat() if request.until else None,
        "broker_id": request.broker_id,
        "obeyed_at": request.done_at.isoformat() if request.done_at else None,
    }


def print_runs(console: Console, statuses: tuple[RunStatus, ...]) -> None:
    """Print a row for each run."""
    if not statuses:
        console.print(
            "no runs yet: `counterpoise plan` makes a plan, `counterpoise approve` opens its run",
            markup=False,
        )
        return
    rows = table("run", "state", "opened (UTC)", "decision", ("moves", "right"), "why")
    for status in statuses:
        run, approval = status.run, status.approval
        decision = f"{approval.decision} by {approval.person.shown}" if approval else "-"
        moves = f"{status.moves_done}/{status.moves_submitted}" if status.moves_submitted else "-"
        rows.add_row(
            run.run_id,
            run.state,
            f"{run.opened_at:%Y-%m-%d %H:%M}",
            Text(decision),
            moves,
            Text(run.reason),
        )
    console.print(rows)


def table(*columns: str | tuple[str, str]) -> Table:
    """Return a table without lines; a column is its name, or its name and `"right"`."""
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        name, justify = (column, "left") if isinstance(column, str) else column
        rows.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return rows

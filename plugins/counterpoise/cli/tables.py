"""Tables that a person likes to read, and the same as values for --json. Text from clusters is shown as text only."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from counterpoise import queries
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.measures import evenness
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import RunState
from counterpoise.queries import RunStatus
from counterpoise.units import format_bytes, format_rate, format_seconds

_MOVES_SHOWN = 15


def snapshot_summary(taken: ClusterSnapshot) -> dict[str, Any]:
    return {
        "cluster": taken.cluster,
        "cluster_id": taken.cluster_id,
        "snapshot_id": taken.snapshot_id,
        "observed_at": taken.observed_at.isoformat() if taken.observed_at else None,
        "brokers": len(taken.registered_broker_ids),
        "live_brokers": len(taken.live_broker_ids),
        "idle_brokers": list(taken.idle_broker_ids),
        "topics": taken.topics.num_rows,
        "partitions": taken.partitions.num_rows,
    }


def print_snapshot(console: Console, taken: ClusterSnapshot, written_to: Path | None) -> None:
    loads = {load.broker_id: load for load in queries.broker_loads(taken)}
    table = _table("broker", "rack", "state", ("leaders", "right"), ("replicas", "right"), ("bytes", "right"))
    for broker_id in taken.registered_broker_ids:
        state = "live" if broker_id in taken.live_broker_ids else "dead"
        state = "idle: holds nothing" if broker_id in taken.idle_broker_ids else state
        row: list[str | Text] = [str(broker_id), Text(taken.racks[broker_id] or "-"), state]
        if load := loads.get(broker_id):
            row += [str(load.leaders), str(load.replicas), format_bytes(load.bytes)]
        table.add_row(*row)
    console.print(
        f"cluster {taken.cluster} ({taken.cluster_id}): {len(taken.live_broker_ids)} of "
        f"{len(taken.registered_broker_ids)} brokers live, {taken.topics.num_rows} topics, "
        f"{taken.partitions.num_rows} partitions",
        markup=False,
    )
    console.print(table)
    spread = evenness([load.leaders for load in loads.values()])
    console.print(
        f"leaders per live broker: {spread.minimum} to {spread.maximum} "
        f"(max - min {spread.max_minus_min}, at best {spread.best_max_minus_min})"
    )
    if written_to:
        console.print(f"written to {written_to}", markup=False)


def plan_summary(plan: RebalancePlan) -> dict[str, Any]:
    return {
        "fingerprint": plan.fingerprint,
        "cluster": plan.cluster,
        "cluster_id": plan.cluster_id,
        "snapshot_id": plan.snapshot_id,
        "goal": str(plan.goal),
        "brokers": list(plan.broker_ids),
        "reason": plan.reason,
        "moves": len(plan.moves),
        "copied_replicas": plan.copied_replicas,
        "copied_bytes": plan.copied_bytes,
        "lower_bound": {"replicas": plan.lower_bound.replicas, "bytes": plan.lower_bound.bytes},
        "leader_changes": plan.leader_changes,
        "bytes_over_busiest_link": busiest_link_bytes(plan),
        "warnings": list(plan.warnings),
        "brokers_before_and_after": [
            {name: getattr(figure, name) for name in type(figure).__slots__} for figure in plan.figures
        ],
    }


def print_plan(
    console: Console, plan: RebalancePlan, *, rate: int | None = None, written_to: Path | None = None
) -> None:
    brokers = f" {', '.join(map(str, plan.broker_ids))}" if plan.broker_ids else ""
    console.print(f"plan for {plan.cluster or 'the cluster'}: {plan.goal}{brokers}", markup=False, style="bold")
    console.print(broker_table(plan))
    if plan.is_empty:
        console.print(f"nothing needs to move: {plan.reason}", markup=False)
    else:
        console.print(_cost(plan), markup=False)
        if rate:
            seconds = busiest_link_bytes(plan) / rate
            console.print(f"takes about {format_seconds(seconds)} at {format_rate(rate)}", markup=False)
        console.print(_moves_table(plan))
    for warning in plan.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    console.print(plan.fingerprint, markup=False)
    if written_to:
        console.print(f"written to {written_to}", markup=False)


def broker_table(plan: RebalancePlan) -> Table:
    """Leaders, replicas and bytes per broker, before and after, with max - min below."""
    table = _table(
        "broker",
        ("leaders", "right"),
        ("", "right"),
        ("replicas", "right"),
        ("", "right"),
        ("bytes", "right"),
        ("", "right"),
    )
    for f in plan.figures:
        table.add_row(
            str(f.broker_id),
            str(f.leaders_before),
            _after(f.leaders_before, f.leaders_after, str(f.leaders_after)),
            str(f.replicas_before),
            _after(f.replicas_before, f.replicas_after, str(f.replicas_after)),
            format_bytes(f.bytes_before),
            _after(f.bytes_before, f.bytes_after, format_bytes(f.bytes_after)),
        )
    if plan.figures:
        table.add_section()
        spreads = [
            evenness([getattr(f, f"{what}_{when}") for f in plan.figures]).max_minus_min
            for what in ("leaders", "replicas", "bytes")
            for when in ("before", "after")
        ]
        shown = [str(s) for s in spreads[:4]] + [format_bytes(s) for s in spreads[4:]]
        table.add_row("max - min", shown[0], f"→ {shown[1]}", shown[2], f"→ {shown[3]}", shown[4], f"→ {shown[5]}")
    return table


def _after(before: int, after: int, shown: str) -> Text:
    return Text(f"→ {shown}", style="bold" if after != before else "dim")


def _cost(plan: RebalancePlan) -> str:
    bound = plan.lower_bound
    times = f" ({plan.copied_bytes / bound.bytes:.3f} x)" if bound.bytes else ""
    return (
        f"copies {plan.copied_replicas} replicas, {format_bytes(plan.copied_bytes)}; any plan copies at least "
        f"{bound.replicas} replicas, {format_bytes(bound.bytes)}{times}; {_changes(plan.leader_changes)}"
    )


def _changes(leaders: int) -> str:
    return "1 leader changes" if leaders == 1 else f"{leaders} leaders change"


def _moves_table(plan: RebalancePlan) -> Table:
    table = _table("partition", "replicas", "", ("copied", "right"))
    largest = sorted(plan.moves, key=lambda m: (-m.copied_bytes, m.topic, m.partition))
    for move in largest[:_MOVES_SHOWN]:
        copied = format_bytes(move.copied_bytes) if move.adding else "-"
        table.add_row(Text(str(move.topic_partition)), _ids(move.replicas_before), _change(move), copied)
    if len(largest) > _MOVES_SHOWN:
        rest = largest[_MOVES_SHOWN:]
        table.add_row(f"and {len(rest)} more", "", "", format_bytes(sum(m.copied_bytes for m in rest)))
    return table


def _change(move: Move) -> str:
    if move.replicas_after == move.replicas_before:
        return f"→ elect {move.replicas_after[0]}"
    return f"→ {_ids(move.replicas_after)}"


def _ids(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))


def status_summary(status: RunStatus) -> dict[str, Any]:
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
        "decided_by": approval.by if approval else None,
        "rate_bytes_per_second": approval.rate_bytes_per_second if approval else None,
        "config_keys_owed": [f"{key.resource.type} {key.resource.name}: {key.key}" for key in status.owed],
    }


def print_runs(console: Console, found: tuple[RunStatus, ...]) -> None:
    if not found:
        console.print(
            "no runs yet: `counterpoise plan` makes a plan, `counterpoise approve` opens its run", markup=False
        )
        return
    table = _table("run", "state", "opened (UTC)", "decision", ("moves", "right"), "why")
    for status in found:
        run, approval = status.run, status.approval
        decision = f"{approval.decision} by {approval.by}" if approval else "-"
        moves = f"{status.moves_done}/{status.moves_submitted}" if status.moves_submitted else "-"
        table.add_row(run.run_id, run.state, f"{run.opened_at:%Y-%m-%d %H:%M}", Text(decision), moves, Text(run.reason))
    console.print(table)


def print_outcome(console: Console, plan: RebalancePlan, status: RunStatus, report: str) -> None:
    run = status.run
    console.print(
        f"run {run.run_id} is {run.state}" + (f": {run.reason}" if run.reason else ""), markup=False, style="bold"
    )
    if run.state is RunState.DONE:
        console.print(broker_table(plan))
        console.print(_cost(plan), markup=False)
    else:
        console.print(f"{status.moves_done} of {len(plan.moves)} partitions are as planned; the report has the rest")
    restored = sum(key.restored_at is not None for key in status.touched)
    console.print(f"config keys touched {len(status.touched)}, as before {restored}, owed {len(status.owed)}")
    console.print(f"report: {report}", markup=False)


def print_markdown(console: Console, text: str) -> None:
    from rich.markdown import Markdown  # slow to import, and only reports need it

    console.print(Markdown(text))


def _table(*columns: str | tuple[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        name, justify = (column, "left") if isinstance(column, str) else column
        table.add_column(name, justify="right" if justify == "right" else "left", overflow="fold")
    return table

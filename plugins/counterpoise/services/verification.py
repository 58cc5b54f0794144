"""After a run: verified, its brokers judged, reported; and whether its Dag run succeeded.

verify(installation, run_id, fingerprint)      # raises with every difference from the plan
report_run(installation, run_id)               # the URI of its page
"""

import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise import analysis, verification
from counterpoise.archive import run_outcome_name, run_report_name
from counterpoise.errors import RefusedError, list_complaints
from counterpoise.installation import Installation
from counterpoise.kafka_admin.combined_reads import read_topics_and_named
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import Control
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.provider import profile_of
from counterpoise.model.report import RunOutcome
from counterpoise.model.request import KINDS, Goal
from counterpoise.model.run import ENDED_BY_PEOPLE, Run, RunState, left_values
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.words import pluralize
from counterpoise.services.runs import status_of, workspace
from counterpoise.services.snapshots import fresh_snapshot
from counterpoise.verification import Comparison, RemovalVerdict, judge_removal
from counterpoise.views.pages import run_copy

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterReader

_LOGGER = safe_logger(__name__)
_SECONDS_BETWEEN_OBSERVATIONS: Final = 2.0


def verify(installation: Installation, run_id: str, fingerprint: str) -> None:
    """Compare a fresh snapshot with the plan; raise RefusedError with every difference.

    After a removal the brokers are judged, too; where they may be stopped, the log says so, and
    which command comes next.
    """
    _, plan = installation.run_and_plan(run_id, fingerprint)
    compared = compare(installation, plan)
    problems = compared.problems
    removal = removal_verdict(installation, plan) if KINDS[plan.goal].empties else None
    # Replaced brokers may keep what could not be copied: the plan has said so.
    if removal and not removal.is_safe and plan.goal is Goal.REMOVE_BROKERS:
        problems += removal.lines()
    if problems:
        raise RefusedError(list_complaints(f"{plan.cluster} is not as planned", problems))
    for line in compared.gone:  # there is nothing left to move
        _LOGGER.warning(line)
    for line in removal.lines() if removal else ():
        _LOGGER.info(line)


def compare(installation: Installation, plan: RebalancePlan) -> Comparison:
    """Compare a fresh snapshot with the plan, and the config keys of an ended run with those
    before it.
    """
    runs = installation.ledger.runs(fingerprint=plan.fingerprint)
    ended = [run for run in runs if run.closed_at]
    return _compared(installation, plan, ended[0].run_id if ended else None)[1]


def _compared(
    installation: Installation, plan: RebalancePlan, run_id: str | None
) -> tuple[ClusterSnapshot, Comparison]:
    """Return a fresh snapshot, compared with the plan; and the config keys of a run.

    A difference counts when a second snapshot has one, too: the metadata of the broker that
    responds may be behind.
    """
    journal = installation.ledger.journal(run_id) if run_id else None
    keys = journal.owned_keys() if journal else ()
    left = left_values(journal.events()) if journal else {}
    fresh = fresh_snapshot(installation, plan.cluster)
    compared = verification.compare(plan, fresh, keys, left)
    if compared.problems:
        time.sleep(_SECONDS_BETWEEN_OBSERVATIONS)
        fresh = fresh_snapshot(installation, plan.cluster)
        compared = verification.compare(plan, fresh, keys, left)
    return fresh, compared


def removal_verdict(installation: Installation, plan: RebalancePlan) -> RemovalVerdict:
    """Return whether the brokers that a plan emptied may be stopped, by two observations.

    Topics that are created meanwhile may put replicas there again (only cordoned log dirs,
    KIP-1066, forbid that).
    """
    own_topics = profile_of(installation.cluster(plan.cluster).policy.provider).own_topics
    with installation.reader(plan.cluster) as reader:
        first = _partitions_with_replicas(reader, plan.broker_ids, own_topics)
        time.sleep(_SECONDS_BETWEEN_OBSERVATIONS)
        second = _partitions_with_replicas(reader, plan.broker_ids, own_topics)
        quorum = reader.describe_quorum()
    voter_ids = [node.node_id for node in quorum.voters] if quorum else []
    return judge_removal(plan.broker_ids, (first, second), voter_ids)


def _partitions_with_replicas(
    reader: "ClusterReader", broker_ids: Sequence[int], own_topics: Sequence[str]
) -> list[tuple[str, tuple[int, ...]]]:
    """Return all partitions but those of the provider's own topics, which it takes away itself.

    Raises ClusterError where a broker stores some that are hidden.
    """
    live_ids = sorted(set(broker_ids) & reader.describe_cluster().live_broker_ids)
    log_dirs = reader.describe_log_dirs(live_ids) if live_ids else ()
    stored = {key.topic for log_dir in log_dirs for key in log_dir.sizes}
    return [
        (f"{topic.topic}-{partition.partition}", tuple(partition.replicas))
        for topic in read_topics_and_named(reader, stored)
        if not any(fnmatchcase(topic.topic, pattern) for pattern in own_topics)
        for partition in topic.partitions
    ]


def moved_cluster(installation: Installation, run_id: str) -> str | None:
    """Return the cluster of a run that has changed its placement; None for one that has not."""
    run = installation.ledger.run(run_id)
    has_moved = run.state is RunState.DONE or installation.ledger.journal(run_id).count_submitted()
    return run.cluster if has_moved else None


def next_removal(installation: Installation, run_id: str) -> dict[str, Any] | None:
    """Return the request to empty the same brokers once more, as an event carries it.

    None unless the plan was carried out and partitions came to the brokers that its snapshot does
    not have: Kafka places new topics on a broker that is being emptied, unless its log dirs are
    cordoned (KIP-1066). What a budget or the policy left there is not asked for again.
    """
    run, plan = installation.run_and_plan(run_id)
    if plan.goal is not Goal.REMOVE_BROKERS or run.state is not RunState.DONE:
        return None
    partitions_left = removal_verdict(installation, plan).partitions_left
    if not partitions_left:
        return None
    partitions = installation.archive.read_snapshot(plan.cluster, plan.snapshot_id).partitions
    names = zip(partitions["topic"].to_pylist(), partitions["partition"].to_pylist(), strict=True)
    known = {f"{topic}-{number}" for topic, number in names}
    new_partitions = sorted(set(partitions_left) - known)
    if not new_partitions:
        return None
    return {
        "cluster": plan.cluster,
        "goal": str(plan.goal),
        "broker_ids": list(plan.broker_ids),
        "reason": (
            f"{pluralize(len(new_partitions), 'partition')} came while they were emptied, first "
            f"{new_partitions[0]}"
        ),
        "requested_by": f"run {run_id}",
    }


def report_run(installation: Installation, run_id: str) -> str:
    """Write what a snapshot shows after a run, and the stored copy of its page; return its URI."""
    run, plan = installation.run_and_plan(run_id)
    problems: tuple[str, ...] = ()
    if run.state is RunState.DONE:
        fresh, compared = _compared(installation, plan, run_id)
        problems = tuple(compared.problems)
    else:
        fresh = fresh_snapshot(installation, run.cluster)
    outcome = RunOutcome(
        installation.ledger.now(),
        analysis.broker_loads(fresh),
        _copied_bytes(plan, fresh),
        problems,
    )
    archive = installation.archive
    archive.write_report(run_outcome_name(run.cluster, run_id), outcome.to_json())
    seen = workspace(installation, status_of(installation, run_id), plan)
    return archive.write_report(run_report_name(run.cluster, run_id), run_copy(seen))


def _copied_bytes(plan: RebalancePlan, fresh: ClusterSnapshot) -> int:
    """Return the size of the replicas that stand where the plan wanted new ones."""
    replicas = fresh.replicas
    of_plan = pc.is_in(replicas["topic"], pa.array(sorted(set(plan.columns.topics)), pa.string()))
    columns = replicas.filter(of_plan).select(["topic", "partition", "broker_id", "size_bytes"])
    rows = zip(*(column.to_pylist() for column in columns.columns), strict=True)
    sizes = {(topic, number, broker): size for topic, number, broker, size in rows}
    moves = zip(plan.columns.topics, plan.columns.partitions, plan.columns.adding, strict=True)
    return sum(
        sizes.get((topic, number, broker)) or 0
        for topic, number, adding in moves
        for broker in adding
    )


def verdict(installation: Installation, run_id: str, task_states: Mapping[str, str | None]) -> str:
    """Return how a run ended, in words. Raises RefusedError, which fails the Dag run, unless it is
    done or people have ended it, and no task has failed.

    Tasks are skipped where people have ended a run, also where all had arrived before the cancel of
    one that is done; elsewhere a skipped task says that somebody has marked the Dag run as failed.
    """
    run = installation.ledger.run(run_id)
    is_ended_by_people = run.state in ENDED_BY_PEOPLE
    may_be_skipped = is_ended_by_people or _was_cancelled(installation, run)
    well = ("success", "skipped") if may_be_skipped else ("success",)
    failed = {task: state for task, state in task_states.items() if state not in well}
    if (is_ended_by_people or run.state is RunState.DONE) and not failed:
        return run.in_words
    tasks = "; ".join(f"{task} is {state}" for task, state in failed.items())
    raise RefusedError(
        f"run {run_id} is {run.state} ({run.reason or 'no reason given'}): "
        f"{tasks or 'every task succeeded'}"
    )


def _was_cancelled(installation: Installation, run: Run) -> bool:
    """Return whether a person has asked to cancel a run."""
    requests = installation.ledger.requests(run.cluster, run.run_id)
    return any(request.control in (Control.CANCEL, Control.UNDO) for request in requests)

"""What came of a run: verified, its brokers judged, reported; and whether the Dag run that carried
it out is well.

verify(site, run_id, fingerprint)                # raises with every difference between the cluster
and the plan report_run(site, run_id)                         # the URI of its page
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from counterpoise import analysis, reporting, verification
from counterpoise.archive import run_report_name
from counterpoise.errors import RefusedError
from counterpoise.installation import Installation
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.report import BrokerLoad, RunReport, ThrottleKey
from counterpoise.model.request import Goal
from counterpoise.model.run import RunState, TouchedKey
from counterpoise.pipeline.looking_up import run_and_plan
from counterpoise.pipeline.observing import photograph

_LOGGER = logging.getLogger(__name__)
_BETWEEN_LOOKS_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class RemovalVerdict:
    """What stops, or does not stop, a team from shutting down brokers that were emptied."""

    broker_ids: tuple[int, ...]
    replicas_left: tuple[str, ...]  # partitions with a replica there
    voters: tuple[int, ...]  # of these brokers, those that vote in the metadata quorum

    @property
    def is_safe(self) -> bool:
        return not self.replicas_left and not self.voters

    def lines(self) -> tuple[str, ...]:
        """The verdict in words, with its evidence and what to type next."""
        ids = ", ".join(map(str, self.broker_ids))
        who = f"broker {ids}" if len(self.broker_ids) == 1 else f"brokers {ids}"
        found = f"{len(self.replicas_left)} replicas, {len(self.voters)} voters, in two looks"
        if self.is_safe:
            unregister = "kafka-cluster.sh unregister --bootstrap-server $BOOTSTRAP --id"
            commands = tuple(
                f"  once it is stopped: {unregister} {broker_id}" for broker_id in self.broker_ids
            )
            return (f"{who}: safe to stop ({found})", *commands)
        told = [f"{who}: NOT safe to stop ({found})"]
        if self.replicas_left:
            shown = ", ".join(self.replicas_left[:5])
            told.append(
                f"  partitions came since the plan was made ({shown}): make the next remove-brokers plan"
            )
        if self.voters:
            told.append(
                f"  controller voters: {', '.join(map(str, self.voters))}; take them out of the quorum first"
            )
        return tuple(told)


def verify(
    installation: Installation,
    run_id: str,
    fingerprint: str,
    log: Callable[[str], None] = _LOGGER.info,
) -> None:
    """Compares a fresh photograph with the plan; raises RefusedError with every difference.

    Brokers that were emptied are judged, too; where they may be stopped, the log says so, and what
    to type next.
    """
    _, made = run_and_plan(installation, run_id, fingerprint)
    problems = find_problems(installation, made)
    removal = removal_verdict(installation, made) if made.goal is Goal.REMOVE_BROKERS else None
    if removal and not removal.is_safe:
        problems += removal.lines()
    if problems:
        shown = "\n".join(f"  {problem}" for problem in problems[:20])
        raise RefusedError(
            f"{made.cluster} is not as planned, {len(problems)} problem(s):\n{shown}"
        )
    for line in removal.lines() if removal else ():
        log(line)


def removal_verdict(installation: Installation, plan: RebalancePlan) -> RemovalVerdict:
    """Whether the brokers that a plan emptied may be stopped: two looks, none of which finds
    anything on them.

    Topics that are created meanwhile may put replicas there again (only cordoned log dirs,
    KIP-1066, forbid that).
    """
    removed = set(plan.broker_ids)
    with installation.reader(plan.cluster) as reader:
        looks = []
        for pause_seconds in (_BETWEEN_LOOKS_SECONDS, 0.0):
            held = {
                f"{topic.topic}-{partition.partition}"
                for topic in reader.describe_topics()
                for partition in topic.partitions
                if removed & set(partition.replicas)
            }
            looks.append(held)
            time.sleep(pause_seconds)
        quorum = reader.describe_quorum()
    return RemovalVerdict(
        broker_ids=plan.broker_ids,
        replicas_left=tuple(sorted(looks[0] | looks[1])),
        voters=tuple(sorted(removed & {node.node_id for node in quorum.voters} if quorum else ())),
    )


def report_run(installation: Installation, run_id: str) -> str:
    """Writes the run's report: before and after, what moved, every config key, every event.

    Its URI.
    """
    run, made = run_and_plan(installation, run_id)
    journal = installation.ledger.journal(run_id)
    approvals = installation.ledger.approvals_of(run_id)
    done = {tp for tp, submission in journal.submissions().items() if submission.done_at}
    fresh = photograph(installation, run.cluster, installation.clock())
    report = RunReport(
        run=run,
        plan=made,
        approval=approvals[-1] if approvals else None,
        before=tuple(
            BrokerLoad(f.broker_id, f.leaders_before, f.replicas_before, f.bytes_before)
            for f in made.figures
        ),
        after=analysis.broker_loads(fresh),
        copied_bytes=sum(move.copied_bytes for move in made.moves if move.topic_partition in done),
        moves_done=len(done),
        throttle_keys=tuple(_throttle_key(touched) for touched in journal.touched()),
        events=journal.events(),
        problems=verification.find_problems(made, fresh, journal.touched())
        if run.state is RunState.DONE
        else (),
    )
    return installation.archive.write_report(
        run_report_name(run.cluster, run_id), reporting.run_report(report)
    )


def _throttle_key(touched: TouchedKey) -> ThrottleKey:
    return ThrottleKey(
        resource=f"{touched.resource.type} {touched.resource.name}",
        key=touched.key,
        before=touched.before_value,
        during=touched.during_value,
        after=touched.after_value,
        owed=touched.restored_at is None,
    )


def verdict(installation: Installation, run_id: str, task_states: Mapping[str, str | None]) -> None:
    """Fails the Dag run unless all is well: done, or nothing was touched because of a no."""
    run = installation.ledger.run(run_id)
    if run.state in (RunState.REJECTED, RunState.SUPERSEDED):
        return
    unwell = {task: state for task, state in task_states.items() if state != "success"}
    if run.state is not RunState.DONE or unwell:
        tasks = (
            "; ".join(f"{task} is {state}" for task, state in unwell.items())
            or "every task succeeded"
        )
        raise RefusedError(
            f"run {run_id} is {run.state} ({run.reason or 'no reason given'}): {tasks}"
        )


def find_problems(installation: Installation, made: RebalancePlan) -> tuple[str, ...]:
    """What in a fresh photograph is not as planned, and which config keys of an ended run are not
    as before.
    """
    ended = [run for run in installation.ledger.runs(fingerprint=made.fingerprint) if run.closed_at]
    touched = installation.ledger.journal(ended[0].run_id).touched() if ended else ()
    return verification.find_problems(
        made, photograph(installation, made.cluster, installation.clock()), touched
    )

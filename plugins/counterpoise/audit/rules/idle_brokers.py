"""Idle brokers: live, and without a replica: new ones, and ones that a run emptied.

    broker 4 is live and holds no replica, since 2026-11-20 10:00 UTC        # idle-broker

Limits: since when is known from the history; of a broker that somebody else emptied nothing says
that it is to go.
"""

from collections.abc import Iterator
from datetime import datetime

from counterpoise.audit.commands import unregister
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, Measure, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.finding import WantedPlan
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.units import format_moment


@rule(
    "idle-broker",
    Severity.WARNING,
    title="A broker that holds nothing",
    why="Kafka never gives a new broker partitions of an existing topic: it costs money and takes "
    "no load until somebody reassigns partitions to it.",
    how="Make a plan with the goal add-brokers: it moves replicas to this broker, and none among "
    "the other brokers. One that a run of ours emptied is to be stopped and unregistered instead; "
    "one that `no_new_replicas_on` of the policy names is only mentioned.",
    source="https://kafka.apache.org/documentation/#basic_ops_cluster_expansion",
    severities={Severity.INFO},
    improves=Measure.ANYTHING,
)
def idle_broker(facts: AuditFacts) -> Iterator[CheckResult]:
    if not facts.snapshot.replicas.num_rows:
        return
    idle_since = facts.history.idle_since
    removed_by_run = facts.removed_by_run
    idle_broker_ids = facts.snapshot.idle_broker_ids
    closed = facts.policy.balance.constraints.no_new_replicas_on
    empty_on_purpose = {*removed_by_run, *closed}
    added_broker_ids = tuple(one for one in idle_broker_ids if one not in empty_on_purpose)
    for broker_id in idle_broker_ids:
        since = idle_since.get(broker_id)
        rack = facts.snapshot.racks.get(broker_id) or "none"
        run_id = removed_by_run.get(broker_id)
        emptied = f"; run {run_id} emptied it" if run_id else ""
        kept_empty = "; no_new_replicas_on of the policy keeps it so" if broker_id in closed else ""
        yield CheckResult(
            subjects.broker(broker_id),
            f"broker {broker_id} is live and holds no replica{_since_when(since, facts.now)}"
            f"{emptied}{kept_empty}",
            evidence(("broker", "rack", "idle since"), [(broker_id, rack, _moment(since))]),
            fix=(f"# stop broker {broker_id} for good, then:", unregister(broker_id))
            if run_id
            else (),
            plan=None
            if broker_id in empty_on_purpose
            else WantedPlan(Goal.ADD_BROKERS, added_broker_ids),
            severity=Severity.INFO if broker_id in empty_on_purpose else None,
        )


def _since_when(since: datetime | None, now: datetime) -> str:
    if since is None:
        return "; since when is not known, no earlier snapshot shows it"
    days = (now - since).days
    age = f", {pluralize(days, 'day')} ago" if days > 0 else ""
    return f", since {_moment(since)}{age}"


def _moment(moment: datetime | None) -> str:
    return "not known" if moment is None else format_moment(moment)

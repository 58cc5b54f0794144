"""Between plan and answer: rules and data are checked, and the operator's permissions tried.

    validate(installation, run["run_id"], run["fingerprint"])       # the task of the Dag
    propose_plan(installation, plan, alice).run_id                  # of a file, on the command line
    check_plan_rules(installation, plan)                            # once more, when the run starts

Whoever proposes validates: the ledger notes that nothing speaks against the plan (VALIDATED), and a
yes asks for no more than that, whoever gives it and wherever.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from counterpoise.archive import plan_docs_folder
from counterpoise.errors import ClusterError, InputError, RefusedError, StoreError, list_complaints
from counterpoise.history import HistoryError
from counterpoise.installation import Installation
from counterpoise.model.acl import SET_LISTS, SET_RATE
from counterpoise.model.constraints import matching
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.movement import BALANCER_TOPICS
from counterpoise.model.person import Person
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.run import MUST_NOT_RUN, NOT_VALIDATED, VALIDATED
from counterpoise.model.safe_text import one_line, safe_logger
from counterpoise.model.words import join_names, pluralize
from counterpoise.services.plans import Origin, check_may_submit, submit
from counterpoise.services.snapshots import checked_snapshot
from counterpoise.validation import (
    OVERRIDABLE_RULES,
    RULES_OF_ONE_SNAPSHOT,
    Violation,
    check_snapshot_data,
    find_violations,
)

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin

_PROBLEMS_KEPT: Final = 5  # in the ledger
_MIN_ISR: Final = "min.insync.replicas"
_LOGGER = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class Proposal:
    """The run of a plan that waits, and what its requester is to know."""

    run_id: str
    warnings: tuple[str, ...]


def validate(installation: Installation, run_id: str, fingerprint: str) -> None:
    """Check the snapshot as data, the plan against its rules, and the operator's permissions.

    Raises RefusedError with all that is wrong. What may be so for a moment in a cluster that
    changes is only a warning. Writes Data Docs, whatever the outcome.
    """
    run, plan = installation.run_and_plan(run_id, fingerprint)
    policy = installation.cluster(plan.cluster).policy
    snapshot = installation.archive.read_snapshot(plan.cluster, plan.snapshot_id)
    violations = find_violations(plan, snapshot, policy.balance)
    docs_folder = plan_docs_folder(plan.cluster, run.run_id)
    with tempfile.TemporaryDirectory(prefix="counterpoise-docs-") as folder:
        data_check = check_snapshot_data(snapshot, docs=Path(folder))
        installation.archive.write_docs(docs_folder, Path(folder))
    for failure in data_check.momentary:
        _LOGGER.warning("%s (this may be so for a moment, while the cluster changes)", failure)

    for warning in preflight_warnings(installation, plan):
        _LOGGER.warning("%s", warning)
    refused_operations = preflight(installation, plan)
    problems = [
        *(f"{violation.subject}: {violation.message}" for violation in violations),
        *map(str, data_check.grave),
        *_in_words(refused_operations),
    ]
    if problems:
        journal = installation.ledger.journal(run_id)
        journal.event(NOT_VALIDATED, fingerprint)
        journal.event(MUST_NOT_RUN, _first_problems(problems))
        docs_uri = installation.archive.store.uri(f"{docs_folder}/index.html")
        raise RefusedError(
            f"{list_complaints(f'plan {fingerprint} must not run', problems)}\n"
            "Make a new plan when this has been put right. "
            f"Data Docs of the snapshot: {docs_uri}"
        )
    installation.ledger.journal(run_id).event(VALIDATED, fingerprint)


def _in_words(refused_operations: Mapping[str, str]) -> list[str]:
    return [
        f"the operator connection may not {operation}: {reason}"
        for operation, reason in refused_operations.items()
    ]


def _first_problems(problems: Sequence[str]) -> str:
    """Return the first problems in one line; the log of the task has all."""
    more = len(problems) - _PROBLEMS_KEPT
    rest = [f"and {more} more"] if more > 0 else []
    return one_line("; ".join([*problems[:_PROBLEMS_KEPT], *rest]))


def propose_plan(
    installation: Installation,
    plan: RebalancePlan,
    by: Person,
    *,
    try_permissions: bool = True,
    verb: str = "propose",
) -> Proposal:
    """Check a plan by its rules, try the operator's permissions, and open a run that is validated.

    Without `try_permissions` the event says so; where the cluster does not respond either, rules
    are checked when the run starts.

    Raises RefusedError with all that is wrong, ClusterError where that cannot be known, and what
    `plans.submit` raises: no run is opened then. `verb` is what somebody typed.
    """
    check_may_submit(installation, plan, by)
    problems, warnings, left_out = [], [], []
    refused_operations: Mapping[str, str] = {}
    try:
        problems += _broken_rules(installation, plan)
    except ClusterError as error:
        if try_permissions or not error.retryable:
            raise _connection_fails(plan, error, verb) from None
        left_out.append("its rules are checked when the run starts")
        warnings.append(
            "the cluster does not respond, and the store has no snapshot of this plan, so its "
            f"rules are checked when the run starts: {error}"
        )
    if try_permissions:
        try:
            refused_operations = preflight(installation, plan)
            warnings += preflight_warnings(installation, plan)
        except ClusterError as error:
            raise _connection_fails(plan, error, verb) from None
    else:
        left_out.insert(0, "the operator's permissions were not tried (--no-preflight)")
    _refuse(plan, problems, refused_operations, verb)
    run = submit(installation, plan, Origin(by))
    text = "; ".join([plan.fingerprint, *left_out])
    installation.ledger.journal(run["run_id"]).event(VALIDATED, text)
    return Proposal(run["run_id"], tuple(warnings))


def _refuse(
    plan: RebalancePlan, problems: Sequence[str], refused: Mapping[str, str], verb: str
) -> None:
    """Raise RefusedError where there are problems, or operations that the cluster refuses."""
    if not (problems or refused):
        return
    where = f"plan {plan.fingerprint} must not run"
    words = list_complaints(where, [*problems, *_in_words(refused)])
    words += "\nMake a new plan." if problems else ""
    if refused:
        words += (
            f"\nThe cluster refuses {len(refused)} of the operations that the plan needs; nothing "
            f"was {verb.removesuffix('e')}ed. Give the operator connection the permissions "
            f"(docs/install.md), or {verb} with --no-preflight"
        )
    raise RefusedError(words)


def _connection_fails(plan: RebalancePlan, error: ClusterError, verb: str) -> ClusterError:
    return ClusterError(
        f"nothing was {verb.removesuffix('e')}ed, since a connection to {plan.cluster} fails: "
        f"{error}\nPut it right (`counterpoise preflight PLAN` tries the operator's), then {verb} "
        f"again; or {verb} with --no-preflight if you know that it works when the run starts"
    )


def check_plan_rules(installation: Installation, plan: RebalancePlan) -> None:
    """Check a plan against the rules, and against the policy as it is now: with the snapshot that
    it was made from, or a fresh one where the store does not have that.

    A rule that the plan names in its warnings was overridden by a person. Raises RefusedError with
    all that is broken.
    """
    if complaints := _broken_rules(installation, plan):
        where = f"plan {plan.fingerprint} must not run"
        raise RefusedError(f"{list_complaints(where, complaints)}\nMake a new plan.")


def _broken_rules(installation: Installation, plan: RebalancePlan) -> list[str]:
    policy = installation.cluster(plan.cluster).policy.balance
    try:
        snapshot = installation.archive.read_snapshot(plan.cluster, plan.snapshot_id)
    except (StoreError, HistoryError, InputError):  # not there, or no snapshot of the history
        violations = _violations_now(installation, plan, policy)
    else:
        violations = find_violations(plan, snapshot, policy)
    return [
        f"{violation.subject}: {violation.message}"
        for violation in violations
        if violation.rule not in OVERRIDABLE_RULES or violation.message not in plan.warnings
    ]


def _violations_now(
    installation: Installation, plan: RebalancePlan, policy: BalancePolicy
) -> tuple[Violation, ...]:
    """Return the broken rules by a fresh snapshot; its figures are others, and may be so."""
    fresh = checked_snapshot(installation, plan.cluster)
    comparable = replace(fresh, snapshot_id=plan.snapshot_id)
    return tuple(
        violation
        for violation in find_violations(plan, comparable, policy)
        if violation.rule not in RULES_OF_ONE_SNAPSHOT
    )


def preflight(installation: Installation, plan: RebalancePlan) -> Mapping[str, str]:
    """Return what the operator connection may not do that the plan needs, each with the cluster's
    reason; {} when all is allowed.

    Hosted Kafka often refuses some operations, and an ACL may be on some topics alone; this shows
    it before the run starts. Changes nothing.
    """
    copying_moves = [move for move in plan.moves if move.adding]
    move = (copying_moves or plan.moves)[0]
    with installation.operator(plan.cluster) as admin:
        live_broker_ids = admin.describe_cluster().live_broker_ids
        live_replicas = [b for b in move.replicas_after if b in live_broker_ids]
        broker_id = live_replicas[0] if live_replicas else min(live_broker_ids)
        refused = admin.refused_operations(
            broker_id, _topics_of(plan.moves), _topics_of(copying_moves)
        )
    not_needed = () if copying_moves else (SET_RATE, SET_LISTS)
    return {name: reason for name, reason in refused.items() if name not in not_needed}


def refused_to_operator(installation: Installation, cluster: str) -> Mapping[str, str]:
    """Return what `preflight` does, before there is a plan: tried on one broker and one topic."""
    with installation.operator_without_ledger(cluster) as admin:
        broker_id = min(admin.describe_cluster().live_broker_ids)
        topics = sorted(topic.topic for topic in admin.describe_topics())[:1]
        return admin.refused_operations(broker_id, topics, topics)


def preflight_warnings(installation: Installation, plan: RebalancePlan) -> tuple[str, ...]:
    """Return traces of other balancers, and what the operator connection may not read outside the
    plan, with how to grant it.

    A run goes on without it, but does not see which of these partitions take no writes.
    """
    planned = {move.topic for move in plan.moves}
    with installation.operator(plan.cluster) as admin:
        topics = {topic.topic for topic in admin.describe_topics()}
        return (*_balancers(topics), *_unreadable(admin, sorted(topics - planned)))


def _balancers(topics: Iterable[str]) -> Iterator[str]:
    for balancer, patterns in BALANCER_TOPICS.items():
        if found := sorted(matching(patterns, topics)):
            yield (
                f"{balancer} has topics here ({join_names(found)}): if it is at work, turn off "
                "what it moves by itself, since two tools undo each other's moves"
            )


def _unreadable(admin: "ClusterAdmin", topics: Sequence[str]) -> Iterator[str]:
    resources = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
    readable = admin.describe_configs(resources, [_MIN_ISR], skip_refused=True)
    refused = [resource for resource in resources if resource not in readable]
    if not refused:
        return
    try:
        admin.describe_configs(refused[:1], [_MIN_ISR])
    except ClusterError as error:
        if error.retryable:
            raise
        yield (
            f"{pluralize(len(refused), 'topic')} outside the plan: whether partitions there take "
            f"writes will not be known while the plan is carried out: {error}"
        )


def _topics_of(moves: Iterable[Move]) -> list[str]:
    return sorted({move.topic for move in moves})

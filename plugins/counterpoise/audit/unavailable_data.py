"""Data that the cluster did not give, so that rules could not check it.

    unavailable(facts, InspectionItem.BROKER_CONFIGS)    # unknown, if a broker did not report them
    unavailable_by_cause(facts)      # {"broker 2": ("broker configs", "versions"), ...}

A broker that does not respond would make a dozen rules say the same. So such results name their
cause, and the report lists those rules in the one finding of that cause, by the rule `not-answered`
below. A cause is a broker ("broker 2"), or what was requested ("metadata quorum") where no broker
responded to it.

What the cluster does not have is another matter: rules about it are not applicable.

Limits: `auditing.compare` puts the list of rules into the finding, after all of them have run.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, Need, rule, unknown
from counterpoise.model import subjects
from counterpoise.model.inspection import InspectionItem
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids, list_brokers

LOG_DIRS: Final = "log dirs"  # read with the snapshot
SNAPSHOT: Final = "snapshot"  # these are subjects: see model/subjects.py
CONNECTIVITY: Final = "walk"
_NO_CONNECTIVITY_CHECK: Final = "the connectivity check of the endpoints was not run, or it failed"
_DEFAULT_REASONS: Final[Mapping[str, str]] = {
    CONNECTIVITY: _NO_CONNECTIVITY_CHECK,
    Need.CONNECTIVITY: _NO_CONNECTIVITY_CHECK,
}
# What not every cluster has, with what one without it is told. All but the groups is read as a
# whole.
_MISSING_THINGS: Final[Mapping[str, str]] = {
    InspectionItem.QUORUM: "the cluster has no metadata quorum",
    InspectionItem.ELIGIBLE_LEADERS: "the brokers know no eligible leader replicas",
    InspectionItem.GROUPS: "the cluster has no consumer groups",
    InspectionItem.QUOTAS: "the brokers know no client quotas",
    InspectionItem.ACLS: "the brokers have no authorizer",
    InspectionItem.TRANSACTIONS: "only live brokers since Kafka 3.0 tell of transactions",
    InspectionItem.PERMISSIONS: "nobody moves partitions here, or there is no topic to try it with",
}
# Read from any broker, for all of them.
_SHARED_ITEMS: Final = (
    InspectionItem.CLUSTER_DEFAULTS,
    InspectionItem.TOPIC_CONFIGS,
    InspectionItem.RECORD_AGES,
)


def unavailable(facts: AuditFacts, item: str) -> Iterator[CheckResult]:
    """Yield an unknown result where a live broker did not report `item`."""
    reporting_brokers = _reporting_brokers(facts)[item]
    live_broker_ids = facts.snapshot.live_broker_ids
    missing = [broker_id for broker_id in live_broker_ids if broker_id not in reporting_brokers]
    if missing:
        reason = f"{item} of {list_brokers(missing)}: {reason_for(facts, item)}"
        yield unknown(reason, causes=causes_of(facts, item, missing))


def absent_needs(facts: AuditFacts, needs: Collection[str]) -> list[CheckResult]:
    """Return an unknown result for what nobody in the cluster gave: the rule cannot run."""
    results = []
    if Need.CONNECTIVITY in needs and facts.connectivity is None:
        reason = reason_for(facts, Need.CONNECTIVITY)
        results.append(unknown(reason, subjects.CLUSTER, (CONNECTIVITY,)))
    for item in sorted(_MISSING_THINGS.keys() - _reporting_brokers(facts)):
        if item in needs and item in facts.inspection.unavailable:
            is_quorum = item == InspectionItem.QUORUM
            subject = subjects.QUORUM if is_quorum else subjects.CLUSTER
            causes = (item,) if is_quorum else ()
            results.append(unknown(f"{item}: {reason_for(facts, item)}", subject, causes))
    return results


def not_applicable(facts: AuditFacts, needs: Collection[str]) -> str:
    """Return what the cluster does not have of what a rule is about; "" if it has all of it."""
    if facts.snapshot_failure:
        return ""  # what is missing is not known
    if Need.CONNECTIVITY in needs and facts.is_saved:
        return "a saved snapshot: no endpoint was connected to"
    if Need.HISTORY in needs and facts.past is None:
        return "no history yet: it begins with the first snapshots"
    if Need.RACKS in needs and not facts.has_racks:
        return "no broker has a rack"
    inspection = facts.inspection
    responses = {
        InspectionItem.QUORUM: inspection.quorum,
        InspectionItem.ELIGIBLE_LEADERS: inspection.eligible_leaders,
        InspectionItem.GROUPS: facts.groups or None,
        InspectionItem.QUOTAS: inspection.default_quotas,
        InspectionItem.ACLS: inspection.acls_for_everybody,
        InspectionItem.TRANSACTIONS: inspection.transactions,
        InspectionItem.PERMISSIONS: inspection.refused,
    }
    for item, response in responses.items():
        if item in needs and response is None and item not in inspection.unavailable:
            return _MISSING_THINGS[item]
    return ""


def out_of_reach(facts: AuditFacts, needs: Collection[str]) -> str:
    """Return whose configs no broker reports, for a rule that found nothing in the others."""
    if Need.CONTROLLERS in needs and facts.controllers_elsewhere:
        return (
            f"no broker reports the configs of controllers {join_ids(facts.controllers_elsewhere)}"
        )
    return ""


def partial_needs(facts: AuditFacts, needs: Collection[str]) -> Iterator[CheckResult]:
    """Yield an unknown result for each need that some live brokers did not report."""
    for item in _reporting_brokers(facts):
        if item in needs:
            yield from unavailable(facts, item)
    for item in _SHARED_ITEMS:
        if item in needs and item in facts.inspection.unavailable:
            yield unknown(f"{item}: {reason_for(facts, item)}")


def causes_of(facts: AuditFacts, item: str, broker_ids: Iterable[int]) -> tuple[str, ...]:
    """Return why `item` is not known of these brokers; nothing if one of them reported it."""
    if _reporting_brokers(facts)[item].intersection(broker_ids):
        return ()
    by_cause = unavailable_by_cause(facts)
    return tuple(cause for cause, items in by_cause.items() if item in items)


def unavailable_by_cause(facts: AuditFacts) -> Mapping[str, tuple[str, ...]]:
    """Return what is not known, by cause: brokers by id, then what no broker reported."""
    brokers_by_item = _reporting_brokers(facts)
    live_broker_ids = facts.snapshot.live_broker_ids
    by_cause: dict[str, tuple[str, ...]] = {}
    for broker_id in live_broker_ids:
        missing_items = tuple(
            item
            for item, brokers in brokers_by_item.items()
            if brokers and broker_id not in brokers
        )
        if missing_items:
            by_cause[subjects.broker(broker_id)] = missing_items
    for item, brokers in brokers_by_item.items():
        if live_broker_ids and not brokers:
            by_cause[item] = (item,)
    if facts.snapshot_failure:
        by_cause[SNAPSHOT] = (SNAPSHOT,)
    if InspectionItem.QUORUM in facts.inspection.unavailable:
        by_cause[InspectionItem.QUORUM] = (InspectionItem.QUORUM,)
    if facts.connectivity is None and not facts.is_saved:
        by_cause[CONNECTIVITY] = (CONNECTIVITY,)
    return by_cause


def reason_for(facts: AuditFacts, item: str) -> str:
    """Return why `item` is unavailable."""
    if item == SNAPSHOT and facts.snapshot_failure:
        return facts.snapshot_failure
    default = _DEFAULT_REASONS.get(item, "not reported")
    return facts.inspection.unavailable.get(item, default)


def _reporting_brokers(facts: AuditFacts) -> dict[str, frozenset[int]]:
    """Return the brokers that responded, by what is requested from every live broker."""
    inspection = facts.inspection
    if facts.snapshot_failure:
        return {InspectionItem.BROKER_CONFIGS: frozenset(inspection.broker_configs)}
    log_dir_brokers = facts.snapshot.log_dirs["broker_id"].unique().to_pylist()
    return {
        InspectionItem.BROKER_CONFIGS: frozenset(inspection.broker_configs),
        InspectionItem.VERSIONS: frozenset(inspection.versions),
        InspectionItem.FEATURES: frozenset(inspection.features),
        InspectionItem.GROUPS: frozenset(inspection.groups),
        LOG_DIRS: frozenset(log_dir_brokers),
    }


@rule(
    "not-answered",
    Severity.UNKNOWN,
    title="Data that the cluster did not give",
    why="The rules listed here needed it and could not run, so problems of their kind may exist "
    "without being shown.",
    how="If a finding says that the broker's endpoint cannot be reached, fix that first. Otherwise "
    "check whether the broker process hangs, and whether our principal has the ACLs to read this.",
    source="https://kafka.apache.org/documentation/#operations_in_kraft",
)
def data_not_available(facts: AuditFacts) -> Iterator[CheckResult]:
    for cause, items in unavailable_by_cause(facts).items():
        if items == (cause,):
            yield unknown(f"{cause}: {reason_for(facts, cause)}", cause)
        else:
            yield unknown(f"{', '.join(items)} of {cause}", cause)

"""Access: what ACLs allow to everybody.

    every client may Write on topic *, by an ACL for User:*         # acl-for-everybody

`User:*` is every client, and `User:ANONYMOUS` is who comes through a listener without a login.

Limits: ACLs for others are not read, and DENY is not looked at. A row of `configs.py` finds brokers
without an authorizer.
"""

from collections.abc import Iterator
from typing import Final

from counterpoise.audit.commands import kafka
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.inspection import AllowedOperation, InspectionItem
from counterpoise.model.severity import Severity
from counterpoise.model.words import list_brokers

_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#security_authz"
_EVERY_CLIENT: Final = "User:*"
_OPEN_WITHOUT_ACL: Final = "allow.everyone.if.no.acl.found"
_CHANGING: Final = ("All", "Write", "Delete", "Alter", "AlterConfigs", "ClusterAction")


@rule(
    "acl-for-everybody",
    Severity.WARNING,
    title="ACLs that let everybody change the cluster or all topics",
    why="Any client, also one with a stolen or mistaken login, can write to, empty or delete every "
    "topic, or change the cluster. Such an ACL is often left from a migration to ACLs.",
    how="Give each client the ACLs that it needs, then remove this one.",
    source=_DOCUMENTED,
    needs={InspectionItem.ACLS},
)
def acl_for_everybody(facts: AuditFacts) -> Iterator[CheckResult]:
    acls = [acl for acl in facts.inspection.acls_for_everybody or () if _is_about_everything(acl)]
    for principal in sorted({acl.principal for acl in acls}):
        own = [acl for acl in acls if acl.principal == principal]
        allowed = " and ".join(
            f"{acl.operation} on {acl.resource_type} {acl.resource_name}" for acl in own
        )
        who = "every client" if principal == _EVERY_CLIENT else "every client without a login"
        rows = [
            (acl.operation, f"{acl.resource_type} {acl.resource_name}", acl.host) for acl in own
        ]
        yield CheckResult(
            subjects.principal(principal),
            f"{who} may {allowed}, by an ACL for {principal}",
            evidence(("operation", "resource", "from host"), rows),
            fix=(
                "# when each client has ACLs of its own for what it does:",
                *(_removal(acl) for acl in own),
            ),
        )


def _is_about_everything(acl: AllowedOperation) -> bool:
    is_everything = acl.resource_type == "cluster" or (
        acl.resource_type == "topic" and acl.resource_name == "*" and not acl.is_prefixed
    )
    return is_everything and acl.operation in _CHANGING


def _removal(acl: AllowedOperation) -> str:
    which = ("--allow-principal", acl.principal, "--allow-host", acl.host)
    resource = ("--cluster",) if acl.resource_type == "cluster" else ("--topic", acl.resource_name)
    operation = ("--operation", acl.operation)
    return kafka("kafka-acls", "--remove", "--force", *which, *operation, *resource)


@rule(
    "acl-missing-allows",
    Severity.INFO,
    title="Everybody may use what has no ACL",
    why="With allow.everyone.if.no.acl.found=true an authorizer allows everything on each topic, "
    "group or cluster that no ACL names: a new topic is open to everybody, and the first ACL for "
    "it shuts everybody else out. Brokers do not show the value.",
    how="Write ACLs for brokers and clients first, then remove it: by default what no ACL allows "
    "is refused.",
    source=_DOCUMENTED,
    needs={InspectionItem.BROKER_CONFIGS},
    severities={Severity.WARNING},
)
def acl_missing_allows(facts: AuditFacts) -> Iterator[CheckResult]:
    configs = {
        broker_id: config
        for broker_id, config in facts.values_of(_OPEN_WITHOUT_ACL).items()
        if config.value != "false"
    }
    if not configs:
        return
    is_shown = any(config.value == "true" for config in configs.values())
    brokers = list_brokers(list(configs))
    yield CheckResult(
        subjects.config(_OPEN_WITHOUT_ACL),
        f"{_OPEN_WITHOUT_ACL} is true on {brokers}: everybody may use what has no ACL"
        if is_shown
        else f"{_OPEN_WITHOUT_ACL} is set on {brokers}, which do not show its value: if it is "
        "true, everybody may use what has no ACL",
        fix=(
            f"# remove {_OPEN_WITHOUT_ACL} from server.properties of all brokers and controllers, "
            "when ACLs allow what clients and brokers do; then restart them one by one",
        ),
        severity=Severity.WARNING if is_shown else None,
    )

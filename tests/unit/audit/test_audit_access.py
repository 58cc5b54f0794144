"""ACLs for everybody: not applicable without an authorizer, unknown without the right to read."""

import pytest

from counterpoise.audit.auditing import compare, find
from counterpoise.errors import NotPermittedError
from counterpoise.model.inspection import AllowedOperation
from counterpoise.model.severity import Severity
from tests.support.audits import facts, findings_of, healthy, snapshot_of

RULE = "acl-for-everybody"


def test_without_an_authorizer_it_is_not_applicable() -> None:
    cluster = healthy()
    cluster.acls_for_everybody = None
    given = facts(cluster)
    report = compare(None, find(given), given)
    assert report.not_applicable[RULE] == "the brokers have no authorizer"


def test_without_the_right_it_is_not_known() -> None:
    cluster = healthy()
    snapshot = snapshot_of(cluster)
    cluster.fail_next("describe_acls_for_everybody", NotPermittedError("needs Describe"))
    (found,) = findings_of(RULE, facts(cluster, snapshot=snapshot))
    assert found.severity is Severity.UNKNOWN
    assert found.summary == "not known: ACLs for everybody: needs Describe"


@pytest.mark.parametrize(
    ("operation", "resource_type", "name", "is_prefixed", "is_found"),
    [
        ("All", "cluster", "kafka-cluster", False, True),
        ("AlterConfigs", "topic", "*", False, True),
        ("Describe", "cluster", "kafka-cluster", False, False),
        ("Read", "topic", "*", False, False),
        ("Write", "topic", "scratch-", True, False),
        ("Read", "group", "*", False, False),
    ],
)
def test_what_everybody_may_change(
    operation: str, resource_type: str, name: str, is_prefixed: bool, is_found: bool
) -> None:
    cluster = healthy()
    acl = AllowedOperation("User:ANONYMOUS", "*", operation, resource_type, name, is_prefixed)
    cluster.acls_for_everybody = (acl,)
    assert bool(findings_of(RULE, facts(cluster))) is is_found

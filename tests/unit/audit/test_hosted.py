"""What an audit says where somebody else owns configs."""

from dataclasses import replace

from counterpoise.audit.auditing import find
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, rule
from counterpoise.model import subjects
from counterpoise.model.provider import Provider
from counterpoise.model.severity import Severity
from tests.support.audits import facts

COMMAND = 'kafka-configs.sh --bootstrap-server "$BOOTSTRAP" --alter --entity-type topics'
LOOK = "kafka-topics.sh --describe"


def on(provider: Provider | None) -> AuditFacts:
    given = facts()
    return replace(given, policy=replace(given.policy, provider=provider))


def fix_on(provider: Provider | None, *fix: str) -> tuple[str, ...]:
    @rule("example", Severity.WARNING, title="t", why="w", how="h", source="https://example.org")
    def example(_: AuditFacts) -> list[CheckResult]:
        return [CheckResult(subjects.CLUSTER, "a config is odd", fix=fix)]

    (finding,) = find(on(provider), [example])
    return finding.fix


def test_a_fix_says_first_who_owns_the_configs() -> None:
    assert fix_on(None, COMMAND) == (COMMAND,)
    comment, command = fix_on(Provider.STRIMZI, COMMAND)
    assert comment.startswith("# Strimzi: change configs in the resources Kafka and KafkaTopic")
    assert command == COMMAND


def test_a_fix_that_changes_no_config_stays_as_it_is() -> None:
    assert fix_on(Provider.STRIMZI, LOOK) == (LOOK,)

"""What did not answer: one finding for each broker or question, with the rules that could not look
because of it.

    broker 2 told no broker configs, versions, features, log dirs: 22 rules could not look       # not-answered

Limits: which rules those are is put in afterwards, by `auditing.compare`, when all of them have
looked.
"""

from collections.abc import Iterator
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, Rule, Sighting, unknown
from counterpoise.audit.unavailable_data import NOT_ANSWERED, silent, why
from counterpoise.model.severity import Severity


def _not_answered(facts: AuditFacts) -> Iterator[Sighting]:
    for cause, whats in silent(facts).items():
        is_one = (cause,) == whats
        yield unknown(
            cause, f"{cause}: {why(facts, cause)}" if is_one else f"{', '.join(whats)} of {cause}"
        )


RULES: Final = (
    Rule(
        NOT_ANSWERED,
        Area.ANSWERS,
        Severity.UNKNOWN,
        title="What did not answer",
        why="The rules that are listed needed it, and could not look: what they would have found is not known.",
        how="Where a broker's endpoint cannot be reached there is a finding that says so: mend that first. Otherwise "
        "see whether the broker hangs, and whether our principal may ask.",
        source="https://kafka.apache.org/documentation/#operations_in_kraft",
        look=_not_answered,
    ),
)

"""Validation: may this plan be shown for approval, and may this snapshot join the history?

Rules check the plan, expectations the data it was made from.

    from counterpoise.validation import check_snapshot_data, find_violations, quick_check

    quick_check(snapshot, before).grave == ()          # the snapshot may join the history
    find_violations(plan, snapshot, policy) == ()      # an empty tuple is a yes
    check_snapshot_data(snapshot).success              # Great Expectations; imports for 10 to 17 s

It knows nothing of how plans are made: it reads the plan and the snapshot, and nothing else.
"""

from counterpoise.validation.data import (
    COUNTED_TABLES,
    BadSnapshotError,
    CountsBefore,
    DataCheck,
    DataFailure,
    RepeatedLoss,
    quarantine_report,
    repeated_loss,
)
from counterpoise.validation.expectations import check_snapshot_data
from counterpoise.validation.plan_rules import (
    OVERRIDABLE_RULES,
    RULES,
    RULES_OF_ONE_SNAPSHOT,
    find_violations,
)
from counterpoise.validation.quick import quick_check
from counterpoise.validation.violation import Violation

__all__ = [
    "COUNTED_TABLES",
    "OVERRIDABLE_RULES",
    "RULES",
    "RULES_OF_ONE_SNAPSHOT",
    "BadSnapshotError",
    "CountsBefore",
    "DataCheck",
    "DataFailure",
    "RepeatedLoss",
    "Violation",
    "check_snapshot_data",
    "find_violations",
    "quarantine_report",
    "quick_check",
    "repeated_loss",
]

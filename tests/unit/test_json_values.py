"""JSON that is kept: its keys and its bytes stay, and what is wrong in it is said in our words."""

import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import pytest

from counterpoise.model.finding import (
    AuditReport,
    Evidence,
    Finding,
    ReportedFinding,
    WantedPlan,
    from_json,
    to_json,
)
from counterpoise.model.json_values import Id, Range, read_json
from counterpoise.model.request import Goal
from counterpoise.model.run import Progress
from counterpoise.model.run_progress import Activity, Condition, Link, RunProgress
from counterpoise.model.severity import Severity, Waiver

NOON: Final = datetime(2026, 1, 31, 12, tzinfo=UTC)
SOON: Final = datetime(2026, 1, 31, 12, 0, 5, 123456, tzinfo=UTC)

RUN_PROGRESS: Final = RunProgress(
    observed_at=SOON,
    progress=Progress(1, 8, 6, 150, 600, 2),
    rate_bytes_per_second=100,
    activity=Activity(Condition.PAUSED, ("12:00",), 1, "bob: month end", None, SOON, NOON),
    links=(Link(4, False, 6, 450, 50, SOON), Link(1, True, 6, 450, 50, NOON)),
    arrived_bytes={"orders-0": 5},
    seconds_left=125,
    back_off_level=2,
    has_isr_loss=True,
    isr_loss_changed_at=NOON,
    throttle_gaps=3,
    is_cancelling=True,
    conditions={Condition.DEAD: {"4": SOON}},
    under_replicated_at_start={"orders-7 on broker 3": True},
    unavailable_at_start={"x-1": True, "x-2": False},
)

AUDIT: Final = AuditReport(
    cluster="demo",
    cluster_id="id",
    audited_at=NOON,
    snapshot_id="demo-1",
    findings=(
        ReportedFinding(
            Finding(
                "rack-unaware",
                Severity.CRITICAL,
                "topic örders",
                "12 partitions",
                Evidence(("partition",), (("örders-1",),), 12),
                ("a command",),
                WantedPlan(Goal.REBALANCE, topics=("örders",)),
            ),
            NOON,
            True,
        ),
        ReportedFinding(
            Finding("idle-broker", Severity.INFO, "broker 4", "it is idle"),
            SOON,
            False,
            Waiver("idle-broker", "a spare", until=NOON),
        ),
    ),
    resolved=(Finding("clock", Severity.WARNING, "cluster", "it was late"),),
    passed=("disk-full",),
    previous_at=NOON,
    unknown={"quorum-size": "it did not answer"},
    not_applicable={"racks-uneven": "no racks"},
)
AUDIT_DOCUMENT: Final = {
    "at": "2026-01-31T12:00:00+00:00",
    "cluster": "demo",
    "cluster_id": "id",
    "findings": [
        {
            "causes": [],
            "evidence": {"columns": ["partition"], "rows": [["örders-1"]], "total": 12},
            "first_seen": "2026-01-31T12:00:00+00:00",
            "fix": ["a command"],
            "is_new": True,
            "plan": {"goal": "rebalance", "topics": ["örders"]},
            "rule": "rack-unaware",
            "seen": "12 partitions",
            "severity": "critical",
            "subject": "topic örders",
            "waived_by": None,
        },
        {
            "causes": [],
            "evidence": None,
            "first_seen": "2026-01-31T12:00:05.123456+00:00",
            "fix": [],
            "is_new": False,
            "plan": None,
            "rule": "idle-broker",
            "seen": "it is idle",
            "severity": "info",
            "subject": "broker 4",
            "waived_by": {
                "reason": "a spare",
                "rule": "idle-broker",
                "subjects": ["*"],
                "until": "2026-01-31T12:00:00+00:00",
            },
        },
    ],
    "format": "counterpoise-audit/1",
    "gone": [
        {
            "causes": [],
            "evidence": None,
            "fix": [],
            "plan": None,
            "rule": "clock",
            "seen": "it was late",
            "severity": "warning",
            "subject": "cluster",
        }
    ],
    "not_applicable": {"racks-uneven": "no racks"},
    "unknown": {"quorum-size": "it did not answer"},
    "unused_waivers": [],
    "open": {"unknown": 0, "info": 0, "warning": 0, "critical": 1},
    "passed": ["disk-full"],
    "previous_at": "2026-01-31T12:00:00+00:00",
    "snapshot_id": "demo-1",
    "worst": "critical",
}


def test_a_row_of_run_progress_reads_back_equal() -> None:
    assert RunProgress.from_json(RUN_PROGRESS.to_json()) == RUN_PROGRESS


def test_an_audit_has_its_documented_keys_and_reads_back_equal() -> None:
    text = json.dumps(AUDIT_DOCUMENT, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    assert to_json(AUDIT) == text
    assert from_json(text, where="here.json") == AUDIT


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Entry:
    id: Id
    name: str
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Document:
    entries: tuple[Entry, ...]
    size_bytes: Annotated[int, Range(0, 2**63 - 1)] | None = None
    is_open: bool = False
    at: datetime | None = None


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({}, "entries is missing"),
        ([], "must be an object, not []"),
        ({"entries": 5}, "entries must be a list, not 5"),
        ({"entries": [5]}, "entries[0] must be an object, not 5"),
        ({"entries": [{"id": "4", "name": "x"}]}, "entries[0].id must be a whole number, not '4'"),
        ({"entries": [{"id": True, "name": "x"}]}, "entries[0].id must be a whole number, not"),
        ({"entries": [{"id": 1.0, "name": "x"}]}, "entries[0].id must be a whole number, not"),
        ({"entries": [{"id": -1, "name": "x"}]}, "entries[0].id must be 0 or more, not -1"),
        ({"entries": [{"id": 2**31, "name": "x"}]}, "entries[0].id must be 2147483647 or less"),
        ({"entries": [{"id": 1, "name": 7}]}, "entries[0].name must be text, not 7"),
        (
            {"entries": [{"id": 1, "name": "x", "colour": "green"}]},
            "entries[0].colour must be 'red' or 'blue', not 'green'",
        ),
        ({"entries": [], "size_bytes": 10**30}, "size_bytes must be 9223372036854775807 or less"),
        ({"entries": [], "is_open": 1}, "is_open must be true or false, not 1"),
        ({"entries": [], "at": 5}, "at must be a time like 2026-01-31T12:00:00+00:00, not 5"),
        ({"entries": [], "at": "soon"}, "at must be a time like 2026-01-31T12:00:00+00:00, not"),
        ({"entries": "x" * 5000}, "entries must be a list, not '" + "x" * 59),
    ],
)
def test_what_is_wrong_is_said_with_its_place_in_our_words(content: object, says: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_json(Document, json.dumps(content))
    assert str(caught.value).startswith(says)
    assert len(str(caught.value)) < 120


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ValueError, match=r"entries\[0\]\.id .*; entries\[0\]\.name .*; is_open "):
        read_json(Document, '{"entries": [{"id": null, "name": null}], "is_open": null}')


def test_pydantic_is_imported_with_the_first_value_that_is_read() -> None:
    script = (
        "import sys\n"
        "from counterpoise.cli import main\n"
        "from counterpoise.model import finding, json_values, plan, policy, run_progress\n"
        "assert 'pydantic' not in sys.modules\n"
        "json_values.read_json(int, '5')\n"
        "assert 'pydantic' in sys.modules\n"
    )
    plugins = Path(__file__).parents[2] / "plugins"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=plugins, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr

"""Schedules that broke a promise when the explorer printed them; `test_exploration.py` finds more.

When the product no longer comes to a point of a schedule, ScheduleError says so, and the schedule
has to be printed anew.
"""

from tests.exploration.paths import At, replay
from tests.exploration.scenarios import (
    EXECUTOR_AND_CANCEL,
    EXECUTOR_AND_FOREIGN_REASSIGNMENT,
    UNDO_AFTER_HALT,
)


def test_a_task_that_froze_between_two_reads_revives_no_cancelled_run() -> None:
    replay(EXECUTOR_AND_CANCEL, At("executor", "run", 2, "freeze"))


def test_a_change_of_lists_that_comes_20_seconds_late_is_taken_back() -> None:
    replay(UNDO_AFTER_HALT, At("executor", "alter_configs", 1, "late"))


def test_a_task_that_froze_before_it_submitted_sends_nothing_of_what_it_knew() -> None:
    replay(
        EXECUTOR_AND_FOREIGN_REASSIGNMENT,
        At("executor", "together", 6, "freeze"),
        At("executor's successor", "held_step", 1, "then executor"),
    )


def test_what_an_ended_run_wrote_is_no_value_of_before_for_the_next_one() -> None:
    """The first change of lists comes after the undo run looked for what is left."""
    replay(
        UNDO_AFTER_HALT,
        At("executor", "alter_configs", 1, "late"),
        At("undoer", "describe_configs", 9, "then late alter_configs 3"),
    )

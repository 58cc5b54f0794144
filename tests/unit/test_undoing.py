"""In which replicas a run may have left a partition; whatever else it has, somebody else set."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from counterpoise.model.run import ANY_BROKER, Submission
from counterpoise.undoing import is_as_left
from tests.support.plans import move

AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = AT + timedelta(minutes=5)
ONE_STEP = move("orders-0", "1 2 3", "4 2 3")
TWO_STEPS = move("orders-0", "1 2 3", "4 5 3")  # by way of 1 5 3
REORDERED = move("orders-0", "1 2 3", "2 1 3")


def submission(**changes: Any) -> Submission:
    values: dict[str, Any] = {"submitted_at": AT, "answered_at": AT, "done_at": None} | changes
    return Submission(ONE_STEP.topic_partition, **values)


ARRIVED = submission(done_at=LATER, in_order_at=LATER)
STOPPED = submission()  # before it could restore the order
ENDED = submission(in_order_at=LATER)
CANCELLED_AFTER_ARRIVAL = submission(submitted_at=LATER, done_at=AT)


@pytest.mark.parametrize(
    ("planned", "last", "replicas"),
    [
        (ONE_STEP, ARRIVED, (4, 2, 3)),
        (ONE_STEP, ARRIVED, (1, 2, 3)),
        (ONE_STEP, CANCELLED_AFTER_ARRIVAL, (2, 3, 4)),
        (ONE_STEP, ENDED, (4, 2, 3)),
        (ONE_STEP, STOPPED, (2, 3, 1)),
        (TWO_STEPS, ENDED, (1, 5, 3)),
        (TWO_STEPS, STOPPED, (5, 3, 1)),
        (
            TWO_STEPS,
            submission(done_at=AT, target=(1, 5, 3), asked_broker_id=ANY_BROKER),
            (1, 5, 3),
        ),
        (REORDERED, ARRIVED, (2, 1, 3)),
    ],
    ids=[
        "arrived",
        "where it was before",
        "a late call was cancelled",
        "arrived, and nobody saw it",
        "cancelled, its order not restored",
        "between its steps",
        "cancelled there",
        "taken there by a late call",
        "another order alone",
    ],
)
def test_what_a_run_may_have_left_is_undone(
    planned: Any, last: Submission, replicas: tuple[int, ...]
) -> None:
    assert is_as_left(planned, last, replicas)


@pytest.mark.parametrize(
    ("planned", "last", "replicas"),
    [
        (ONE_STEP, ARRIVED, (4, 2, 5)),
        (ONE_STEP, ARRIVED, (2, 4, 3)),
        (ONE_STEP, ARRIVED, (4, 2, 3, 5)),
        (ONE_STEP, STOPPED, (5, 2, 3)),
        (ONE_STEP, STOPPED, (2, 4, 3)),
        (ONE_STEP, ENDED, (2, 3, 1)),
        (TWO_STEPS, ARRIVED, (1, 5, 3)),
        (REORDERED, ARRIVED, (3, 1, 2)),
    ],
    ids=[
        "moved on",
        "another order",
        "more replicas",
        "redirected",
        "finished in another order",
        "another order since the end",
        "back to a step",
        "another order again",
    ],
)
def test_what_a_run_cannot_have_left_is_somebody_elses(
    planned: Any, last: Submission, replicas: tuple[int, ...]
) -> None:
    assert not is_as_left(planned, last, replicas)

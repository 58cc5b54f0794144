"""The line in a task's log that says how far a run is, how fast, and where most is left to copy."""

from dataclasses import replace
from datetime import UTC, datetime

from counterpoise.model.run import Progress
from counterpoise.model.run_progress import Link, RunProgress

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
FIGURES = "62 %: 120 MB of 193 MB, 14 of 23 partitions, 4 in flight"
PROGRESS = RunProgress(
    observed_at=NOON,
    progress=Progress(14, 23, 4, 120_000_000, 193_000_000, 0),
    rate_bytes_per_second=20_000_000,
    links=tuple(
        Link(broker_id, sends, 2, left, 9_000_000, NOON)
        for broker_id, sends, left in (
            (1, True, 7),
            (2, True, 30_000_000),
            (4, False, 61_000_000),
            (5, False, 9),
        )
    ),
    seconds_left=720,
)


def test_a_pulse_tells_speed_rate_time_left_and_the_busiest_links() -> None:
    assert PROGRESS.in_words == (
        f"{FIGURES}; 18.0 MB/s in all, at most 20.0 MB/s per broker, 12 min left; "
        "busiest: broker 4 receiving 9.0 MB/s, 61.0 MB left; "
        "broker 2 sending 9.0 MB/s, 30.0 MB left; "
        "broker 5 receiving 9.0 MB/s, 9 B left"
    )


def test_a_slowed_run_says_so() -> None:
    slowed = replace(PROGRESS, rate_bytes_per_second=5_000_000, back_off_level=2)
    assert "at most 5.0 MB/s per broker, rate halved 2 times by the back-off" in slowed.in_words


def test_where_nothing_copies_there_is_no_speed() -> None:
    assert replace(PROGRESS, links=()).in_words == FIGURES

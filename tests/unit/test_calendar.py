"""When moves may be submitted and how fast, in the team's own time zone."""

from datetime import UTC, datetime, time, timedelta

import pytest

from counterpoise.errors import InputError
from counterpoise.model.calendar import opens_at, rate_at
from counterpoise.model.policy import DailyRate, MaintenanceWindow, MovementPolicy
from counterpoise.model.setting import read_cron

NIGHTS = MaintenanceWindow("0 22 * * mon-fri", timedelta(hours=6))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def in_berlin(*windows: MaintenanceWindow) -> MovementPolicy:
    return MovementPolicy(windows=windows, time_zone="Europe/Berlin")


def test_without_windows_it_is_always_open() -> None:
    assert opens_at(MovementPolicy(), at("2026-01-31T12:00")) is None


@pytest.mark.parametrize(
    ("now", "opens"),
    [
        (
            "2026-01-30T20:59:59",
            "2026-01-30T21:00:00",
        ),  # a Friday; 22:00 in Berlin is 21:00 UTC in winter
        ("2026-01-30T21:00:00", None),
        ("2026-01-31T02:59:59", None),  # Saturday morning still belongs to Friday's window
        ("2026-01-31T03:00:00", "2026-02-02T21:00:00"),
        ("2026-07-01T12:00:00", "2026-07-01T20:00:00"),  # 20:00 UTC in summer
    ],
)
def test_a_window_opens_and_closes_by_the_clock_on_the_wall(now: str, opens: str | None) -> None:
    assert opens_at(in_berlin(NIGHTS), at(now)) == (at(opens) if opens else None)


def test_of_several_windows_the_first_to_open_counts() -> None:
    sundays = MaintenanceWindow("0 8 * * sun", timedelta(hours=1))
    assert opens_at(in_berlin(NIGHTS, sundays), at("2026-01-31T12:00")) == at("2026-02-01T07:00")


@pytest.mark.parametrize("night", ["2026-03-29", "2026-10-25"])
def test_a_window_opens_when_it_said_it_would_also_when_clocks_change(night: str) -> None:
    policy = in_berlin(
        MaintenanceWindow("30 2 * * *", timedelta(hours=1))
    )  # 02:30 does not exist, or comes twice
    start = at(f"{night}T00:00") - timedelta(hours=6)
    minutes = [start + timedelta(minutes=count) for count in range(0, 24 * 60, 5)]
    for now in minutes:
        opens = opens_at(policy, now)
        assert opens is None or (opens > now and opens_at(policy, opens) is None)
    assert any(opens_at(policy, now) is None for now in minutes), "it opens in this night too"


@pytest.mark.parametrize(
    ("starts", "first", "last"),
    [
        ("2026-03-28T21:00", "2026-03-29T00:30", "2026-03-29T02:59"),  # 22:00 to 05:00
        ("2026-10-24T20:00", "2026-10-24T20:00", "2026-10-25T01:59"),  # 22:00 to 03:00
    ],
    ids=["an hour is left out", "an hour comes twice"],
)
def test_a_window_is_as_long_when_clocks_change_as_in_any_other_night(
    starts: str, first: str, last: str
) -> None:
    policy = in_berlin(MaintenanceWindow("0 22 * * *", timedelta(hours=6)))
    assert opens_at(policy, at(starts) - timedelta(minutes=1)) == at(starts)
    assert opens_at(policy, at(first)) is None
    assert opens_at(policy, at(last)) is None
    assert opens_at(policy, at(last) + timedelta(minutes=1)) is not None


@pytest.mark.parametrize(
    ("starts", "says"),
    [
        ("0 0 30 2 *", "never comes true"),
        ("0 0 31 4,6 *", "never comes true"),
        ("61 * * * *", "is no cron expression"),
        ("at ten o clock sharp", "is no cron expression"),
        ("0 22 * *", "five fields"),
        ("@daily", "five fields"),
        ("", "five fields"),
    ],
)
def test_a_window_that_never_opens_is_told_apart_from_one_that_nobody_can_read(
    starts: str, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read_cron(starts)
    assert read_cron("0 0 29 2 *")


@pytest.mark.parametrize(
    ("now", "rate"),
    [
        ("06:59", None),
        ("07:00", 5),
        ("11:30", 3),
        ("18:59", 5),
        ("19:00", None),
        ("22:00", 9),
        ("23:30", 9),
    ],
)
def test_the_lowest_daily_rate_in_force_counts_past_midnight_too(
    now: str, rate: int | None
) -> None:
    rates = (
        DailyRate(time(8), time(20), 5),
        DailyRate(time(12), time(13), 3),
        DailyRate(time(23), time(6), 9),
    )
    policy = MovementPolicy(daily_rates=rates, time_zone="Europe/Berlin")
    assert rate_at(policy, at(f"2026-01-31T{now}")) == rate  # an hour later in Berlin

"""Rates and durations as people write them."""

import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from counterpoise.errors import InputError
from counterpoise.units import (
    format_bytes,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_duration,
    parse_moment,
    parse_rate,
    parse_until,
)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB/s", 50_000_000),
        ("50 mb / s", 50_000_000),
        ("1.5GB/s", 1_500_000_000),
        ("512KiB/s", 524_288),
    ],
)
def test_a_rate_is_read_with_its_unit(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10", "10 B/s or 10 MB/s"),
        ("10MB", "10MB/s"),
        ("10 bananas/s", "unknown unit"),
        ("-5MB/s", "not a rate"),
        ("0MB/s", "must lie between"),
        ("999999GB/s", "must lie between"),
        ("9" * 400 + "GB/s", "must lie between"),
        ("10Gbit/s", "counts bits; rates are in bytes here: 1.2GB/s"),
        ("100 Mb/s", "counts bits; rates are in bytes here: 12.5MB/s"),
        ("fast", "not a rate"),
        ("", "not a rate"),
    ],
)
def test_an_unusable_rate_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InputError, match=f"^--rate: .*{says}"):
        parse_rate(text, where="--rate")


@pytest.mark.parametrize(
    ("text", "says"),
    [("5GB/s", "is a rate, not an amount; did you mean 5GB"), ("5XB", "unknown unit")],
)
def test_an_unusable_amount_is_refused_with_its_place(text: str, says: str) -> None:
    with pytest.raises(InputError, match=f"^--max-bytes: .*{says}"):
        parse_bytes(text, where="--max-bytes")


def test_what_is_printed_can_be_read_back() -> None:
    for rate in (1_000, 1_500, 20_000_000, 123_000_000_0):
        assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=0.05)


def test_durations() -> None:
    assert parse_duration("90m") == timedelta(minutes=90)
    for bad in ("0h", "h", "1.5h", "-1d", "tomorrow"):
        with pytest.raises(InputError, match="not a duration"):
            parse_duration(bad)

    with pytest.raises(InputError, match="longer than 3650d"):
        parse_duration("99999999999h")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("8h", "2026-01-31T20:00"),
        ("3d", "2026-02-03T12:00"),
        ("2026-12-01T06:00", "2026-12-01T06:00"),
        ("2026-12-01T06:00Z", "2026-12-01T06:00"),
        ("2026-12-01T06:00+01:00", "2026-12-01T05:00"),
        ("2026-12-01", "2026-12-01T00:00"),
    ],
)
def test_an_end_is_a_time_or_a_duration_from_now(text: str, moment: str) -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_until(text, now) == datetime.fromisoformat(moment).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    ["2026-01-31T12:00", "2026-01-31T13:00+02:00", "tomorrow", "", "0h", "9999-01-01", "6:00"],
)
def test_an_end_that_is_past_or_unreadable_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"^--until: "):
        parse_until(text, datetime(2026, 1, 31, 12, tzinfo=UTC), where="--until")


def test_numbers_read_well() -> None:
    assert [format_bytes(n) for n in (0, 999, 1_500, 999_999, 10**9)] == [
        "0 B",
        "999 B",
        "1.5 kB",
        "1.0 MB",
        "1.0 GB",
    ]
    assert [format_seconds(s) for s in (0.2, 59.6, 61, 3_600, 90_061)] == [
        "0 s",
        "1 min",
        "1 min 1 s",
        "1 h",
        "1 d 1 h",
    ]


@pytest.mark.parametrize("text", ["1{}!", "1{}MB{}!", "1MB/{}!", "{}!"])
@pytest.mark.parametrize("parse", [parse_rate, parse_bytes, parse_duration])
def test_many_blanks_take_no_processor(parse: Callable[[str], object], text: str) -> None:
    """It is the api-server's, whose other pages would wait."""

    def end(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, 5)
    try:
        with pytest.raises(InputError):
            parse(text.replace("{}", " " * 2_000))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    "text", ["2027-01-31\n12:00", "2027-01-31#12:00", "2027-01-31\x1b12:00", "2027-01-31]12:00"]
)
def test_nothing_but_a_time_is_a_time(text: str) -> None:
    """It is written into lines to paste as somebody typed it."""
    with pytest.raises(InputError, match="is not a time"):
        parse_moment(text)

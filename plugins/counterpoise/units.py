"""Bytes, rates, durations and times, as people write them and as they are printed.

    parse_rate("50MB/s") == 50_000_000
    parse_bytes("500GB") == 500_000_000_000
    parse_until("8h", now) == now + 8 hours
    format_bytes(1_500_000) == "1.5 MB"

Kafka's throttles are in bytes per second, and people who mean megabytes write "10". So a rate
without a unit is refused, and the message names both readings. Decimal units (kB, MB, GB, TB) are
powers of 1000, binary ones (KiB ...) of 1024. `Mb` and `Mbit` mean bits to network engineers, and
are refused as rates.
"""

import re
from datetime import UTC, datetime, timedelta

from counterpoise.errors import InputError

_BYTES_PER_UNIT = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
# Possessive (`*+`): blanks are tried once, where three places could share them in many ways.
_QUANTITY = re.compile(
    r"\s*(?P<number>[0-9]+(?:\.[0-9]+)?)\s*+(?P<unit>[A-Za-z]*+)\s*+(?P<per>/\s*s)?\s*+"
)
_BITS_PER_UNIT = {
    "kbit": 10**3,
    "mbit": 10**6,
    "gbit": 10**9,
    "tbit": 10**12,
    "Mb": 10**6,
    "Gb": 10**9,
    "Tb": 10**12,
}
_DURATION = re.compile(r"\s*(?P<number>[0-9]{1,18})\s*(?P<unit>[smhd])\s*")
_MOMENT = re.compile(r"[0-9W:.,+Zz-]+(?:[Tt ][0-9:.,+Zz-]+)?")
_DURATION_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_MAX_DURATION = timedelta(days=3650)

MIN_RATE_BYTES_PER_SECOND = 1_000
MAX_RATE_BYTES_PER_SECOND = 100 * 10**9


def parse_rate(text: str, *, where: str = "rate") -> int:
    """Return the bytes per second of `50MB/s`, `512KiB/s`.

    Raises InputError, naming `where`, for anything else.
    """
    text = text.strip()
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: {text!r} is not a rate; write it like 50MB/s")
    number, unit = match["number"], match["unit"].lower()
    if not unit:
        raise InputError(
            f"{where}: {text!r} has no unit: {number} B/s or {number} MB/s? Write the one you mean"
        )
    if bits := _BITS_PER_UNIT.get(match["unit"]) or _BITS_PER_UNIT.get(unit):
        in_bytes = format_rate(float(number) * bits / 8).replace(" ", "")
        raise InputError(f"{where}: {text!r} counts bits; rates are in bytes here: {in_bytes}")
    if unit not in _BYTES_PER_UNIT:
        raise InputError(
            f"{where}: unknown unit {match['unit']!r} in {text!r}; "
            "use B, kB, MB, GB or KiB, MiB, GiB, and /s"
        )
    if match["per"] is None:
        raise InputError(f"{where}: {text!r} is an amount, not a rate; did you mean {text}/s?")
    rate = float(number) * _BYTES_PER_UNIT[unit]
    if not MIN_RATE_BYTES_PER_SECOND <= rate <= MAX_RATE_BYTES_PER_SECOND:
        lowest = format_rate(MIN_RATE_BYTES_PER_SECOND)
        highest = format_rate(MAX_RATE_BYTES_PER_SECOND)
        raise InputError(
            f"{where}: {text} is {rate:.0f} bytes per second; "
            f"it must lie between {lowest} and {highest}"
        )
    return int(rate)


def parse_bytes(text: str, *, where: str = "amount") -> int:
    """Return the bytes of `500GB`, `2TiB`.

    Raises InputError, naming `where`, for anything else, and for less than one byte.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise InputError(f"{where}: {text!r} is not an amount of bytes; write it like 500GB")
    number, unit = match["number"], match["unit"].lower()
    if match["per"] is not None:
        raise InputError(
            f"{where}: {text!r} is a rate, not an amount; did you mean {number}{match['unit']}?"
        )
    if not unit:
        raise InputError(
            f"{where}: {text!r} has no unit: {number} B or {number} GB? Write the one you mean"
        )
    if unit not in _BYTES_PER_UNIT:
        raise InputError(
            f"{where}: unknown unit {match['unit']!r} in {text!r}; "
            "use B, kB, MB, GB, TB or KiB, MiB, GiB, TiB"
        )
    amount = float(number) * _BYTES_PER_UNIT[unit]
    if not 1 <= amount < 2**63:
        raise InputError(
            f"{where}: {text.strip()} is out of range; it must be from 1 B to 1000000 TB"
        )
    return int(amount)


def parse_duration(text: str, *, where: str = "duration") -> timedelta:
    """Return the duration of `90s`, `30m`, `24h`, `7d`.

    Raises InputError, naming `where`, for anything else, for zero, and for more than ten years.
    """
    match = _DURATION.fullmatch(text)
    if match is None or int(match["number"]) == 0:
        raise InputError(f"{where}: {text!r} is not a duration; write it like 30m, 24h or 7d")
    unit = _DURATION_UNITS[match["unit"]]
    count = int(match["number"])
    if count > _MAX_DURATION / timedelta(**{unit: 1}):
        raise InputError(f"{where}: {text.strip()} is longer than {_MAX_DURATION.days}d")
    return timedelta(**{unit: count})


def parse_until(text: str, now: datetime, *, where: str = "until") -> datetime:
    """Return the time (UTC) of `2026-12-01T06:00`, or of a duration from `now` as `8h`.

    A time may have an offset (`+01:00`, `Z`); without one it is UTC. Raises InputError, naming
    `where`, for anything else, and for the past.
    """
    word = text.strip()
    if _DURATION.fullmatch(word):
        return now + parse_duration(word, where=where)
    moment = parse_moment(word, where=where, like="2026-12-01T06:00+01:00, 8h or 3d")
    if moment <= now:
        raise InputError(f"{where}: {word} is in the past; it is {now:%Y-%m-%dT%H:%M} UTC now")
    if moment - now > _MAX_DURATION:
        raise InputError(f"{where}: {word} is more than {_MAX_DURATION.days}d away")
    return moment


def parse_moment(text: str, *, where: str = "time", like: str = "2026-12-01T06:00") -> datetime:
    """Return the time (UTC) of `2026-12-01T06:00`, with an offset or without (then it is UTC).

    `like` is the example in messages. Raises InputError, naming `where`, for anything else.
    """
    word = text.strip()
    try:
        if not _MOMENT.fullmatch(word):  # Python takes any character between day and hour
            raise ValueError
        named = datetime.fromisoformat(word)
        return (named if named.tzinfo else named.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError(f"{where}: {word!r} is not a time; write it like {like}") from None


def format_count(number: float) -> str:
    """Return `12,500` of 12500; one decimal where it is not whole."""
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.1f}"


def format_bytes(count: float) -> str:
    """Return `1.5 MB` of 1500000: decimal units, three significant digits at most."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(size) < 999.5 or unit == "TB":
            digits = 0 if unit == "B" or abs(size) >= 99.95 else 1
            return f"{size:.{digits}f} {unit}"
        size /= 1000
    raise AssertionError("unreachable: the last unit always returns")


def format_rate(bytes_per_second: float) -> str:
    """Return `50.0 MB/s` of 50000000."""
    return f"{format_bytes(bytes_per_second)}/s"


def format_seconds(seconds: float) -> str:
    """Return `2 h 5 min`, `1 min 30 s`, `12 s`: two units at most."""
    days, rest = divmod(round(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    minutes, whole_seconds = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (whole_seconds, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count]
    return " ".join(shown[:2]) or "0 s"


def format_clock(at: datetime, now: datetime | None = None) -> str:
    """Return `10:08`, in UTC, of the day that it is now, and `29 Nov 10:08` of any other day."""
    is_today = now is not None and at.astimezone(UTC).date() == now.astimezone(UTC).date()
    return f"{at.astimezone(UTC):{'%H:%M' if is_today else '%-d %b %H:%M'}}"


def format_moment(at: datetime) -> str:
    """Return a time in UTC to the minute: `2026-12-01 06:00 UTC`."""
    return f"{at:%Y-%m-%d %H:%M} UTC"

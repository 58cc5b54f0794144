"""When a run may submit moves, and how fast it may copy at this time of day.

    opens_at(policy, now)        # None: it may now; otherwise when the next window opens
    rate_at(policy, now)         # the lowest daily rate in force; None: no daily rate is

Windows are cron expressions with a length, in the policy's time zone; daily rates are times of day
in the same zone. A window is as long in a night in which clocks change as in any other.
"""

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

from croniter import croniter

from counterpoise.model.policy import MaintenanceWindow, MovementPolicy


def opens_at(policy: MovementPolicy, now: datetime) -> datetime | None:
    """Return when the next window opens (UTC); None while one is open or the policy has none."""
    if not policy.windows:
        return None
    local = now.astimezone(ZoneInfo(policy.time_zone))
    if any(_is_open(window, local) for window in policy.windows):
        return None
    next_starts: list[datetime] = [
        croniter(window.starts, local).get_next(datetime) for window in policy.windows
    ]
    return min(next_starts).astimezone(now.tzinfo)


def rate_at(policy: MovementPolicy, now: datetime) -> int | None:
    """Return the lowest of the daily rates in force, in bytes per second; None where none is."""
    local = now.astimezone(ZoneInfo(policy.time_zone)).time()
    rates = [
        daily_rate.rate_bytes_per_second
        for daily_rate in policy.daily_rates
        if _is_between(daily_rate.from_, local, daily_rate.until)
    ]
    return min(rates, default=None)


def _is_open(window: MaintenanceWindow, local: datetime) -> bool:
    # get_prev is strictly earlier: a window that starts this minute is looked for by itself.
    latest_start = croniter(window.starts, local).get_prev(datetime)
    this_minute = local.replace(second=0, microsecond=0)
    if croniter.match(window.starts, this_minute):
        latest_start = this_minute
    # Two times of one zone would be subtracted as the clock on the wall shows them.
    return bool(local.astimezone(UTC) - latest_start.astimezone(UTC) < window.lasts)


def _is_between(starts: time, local: time, until: time) -> bool:
    if starts < until:
        return starts <= local < until
    return local >= starts or local < until  # past midnight; the same time twice: all day

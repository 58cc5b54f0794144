"""When a run may submit moves, and how fast it may copy at this time of day.

    opens_at(policy, now)        # None: now; otherwise the next time that a window opens
    rate_at(policy, now)         # the lowest daily rate in force, None where none is

Windows are cron expressions with a length, in the policy's time zone; daily rates are times of day
in the same zone.
"""

from datetime import datetime, time
from zoneinfo import ZoneInfo

from croniter import CroniterBadCronError, CroniterBadDateError, croniter

from counterpoise.errors import InputError
from counterpoise.model.policy import MaintenanceWindow, MovementPolicy

_FIELDS = 5


def check_window(window: MaintenanceWindow, *, where: str) -> None:
    """Raises InputError, naming `where`, for an expression that cron does not know, or that never
    comes true.
    """
    if len(window.starts.split()) != _FIELDS:
        raise InputError(
            f"{where}: {window.starts!r} needs five fields: minute, hour, day, month, day of week"
        )
    try:
        croniter(window.starts, datetime(2026, 1, 1)).get_next(datetime)
    except CroniterBadDateError:
        raise InputError(
            f"{where}: {window.starts!r} never comes true, so nothing would ever move"
        ) from None
    except CroniterBadCronError as error:
        raise InputError(f"{where}: {window.starts!r} is no cron expression ({error})") from None


def opens_at(policy: MovementPolicy, now: datetime) -> datetime | None:
    """When the next window opens (UTC); None while one is open, and where the policy has none."""
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
    """Bytes per second: the lowest of the daily rates in force."""
    local = now.astimezone(ZoneInfo(policy.time_zone)).time()
    rates = [
        r.rate_bytes_per_second for r in policy.daily_rates if _is_between(r.starts, local, r.until)
    ]
    return min(rates, default=None)


def _is_open(window: MaintenanceWindow, local: datetime) -> bool:
    # get_prev is strictly earlier: a window that starts this very second is found from one second
    # later.
    latest = croniter(window.starts, local).get_prev(datetime)
    if croniter.match(window.starts, local.replace(second=0, microsecond=0)):
        latest = local.replace(second=0, microsecond=0)
    return bool(local - latest < window.lasts)


def _is_between(starts: time, local: time, until: time) -> bool:
    if starts < until:
        return starts <= local < until
    return local >= starts or local < until  # past midnight; the same time twice: all day

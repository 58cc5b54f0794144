"""How a value of `config/clusters.yaml` is written, read and shown; the base of its sections.

    @dataclass(frozen=True, slots=True)
    class DailyRate(Section):
        until: TimeOfDay
        rate_bytes_per_second: Rate        # the key `rate`, written like 5MB/s

A value is text as the file has it, before YAML makes a number of it: 20:30 is a time here, and not
1230. `settings/yaml_document.py` reads the file with pydantic. Nothing here imports pydantic, which
takes 0.2 s.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, time, timedelta
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from counterpoise.errors import InputError
from counterpoise.model.person import AIRFLOW_ROLE, GROUP, AccountKind, readable_name
from counterpoise.units import (
    format_bytes,
    format_moment,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_duration,
    parse_moment,
    parse_rate,
)

TOPIC_PATTERN: Final = r"[A-Za-z0-9._*?-]+"
_PATTERN: Final = re.compile(TOPIC_PATTERN)
_TIME_OF_DAY: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_MAX_DIGITS: Final = 20  # Python refuses to read numbers of thousands
_CRON_FIELDS: Final = 5


@dataclass(frozen=True, slots=True)
class Written:
    """How a value is written: `Annotated[int, Written("rate, like 20MB/s", parse_rate)]`."""

    form: str  # for people, such as `rate, like 20MB/s`
    parse: Callable[[str], Any]  # raises InputError
    show: Callable[[Any], str] = str

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> object:
        function = {"type": "no-info", "function": self.read}
        return {"type": "function-plain", "function": function}

    def read(self, value: object) -> object:
        """Return the value of text in the file. Raises what pydantic turns into a complaint."""
        from pydantic_core import PydanticKnownError

        if not isinstance(value, str):
            raise PydanticKnownError("string_type")
        try:
            return self.parse(value)
        except InputError as error:
            raise ValueError(str(error).removeprefix(": ")) from None


@dataclass(frozen=True, slots=True)
class NotEmpty:
    """A list that names something: an empty one would look like a choice, and be none."""

    complaint: str = "names nobody; leave the key out where everybody may"

    def __get_pydantic_core_schema__(
        self, source: object, handler: Callable[[object], object]
    ) -> object:
        function = {"type": "no-info", "function": self.check}
        return {"type": "function-after", "function": function, "schema": handler(source)}

    def check(self, value: tuple[object, ...]) -> tuple[object, ...]:
        if not value:
            raise ValueError(self.complaint)
        return value


# -- sections


def _key(name: str) -> str:
    """Return the key of a field: `rate` of `rate_bytes_per_second`, `from` of `from_`."""
    for ending in ("_bytes_per_second", "_bytes", "_"):
        name = name.removesuffix(ending)
    return name


class Section:
    """A mapping of the file. Each key is a field, without the unit that its value brings along."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Mapping[str, object]] = {
        "extra": "forbid",
        "alias_generator": _key,
    }


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of a section."""

    key: str
    field_name: str
    type_: Any  # without its marks, and without None
    marks: tuple[Any, ...] = field(default=())

    @property
    def written(self) -> Written | None:
        return next((mark for mark in self.marks if isinstance(mark, Written)), None)


@cache
def settings_of(section: Any) -> tuple[Setting, ...]:
    """Return the keys of a section, in the order of its fields."""
    hints = get_type_hints(section, include_extras=True)
    return tuple(
        Setting(_key(one.name), one.name, *type_and_marks(hints[one.name]))
        for one in fields(section)
    )


def type_and_marks(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return (int, (mark,)) of `Annotated[int, mark]`, of `... | None` too."""
    if NoneType in get_args(hint):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


# -- values


def choice(*members: StrEnum) -> Written:
    """Return how one of some words is written."""

    def parse(text: str) -> StrEnum:
        if text not in members:
            raise InputError(f"{text!r} is none of {', '.join(members)}")
        return members[members.index(text)]

    return Written(", ".join(f"`{member}`" for member in members), parse)


def whole(lowest: int, highest: int) -> Written:
    """Return how a whole number is written, both ends included."""

    def parse(text: str) -> int:
        is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
        if not is_number or not lowest <= int(text) <= highest:
            raise InputError(f"{text!r} must be a whole number from {lowest} to {highest}")
        return int(text)

    return Written(f"whole number from {lowest} to {highest}", parse)


def at_least(shortest: str) -> Written:
    """Return how a duration is written that is not shorter than `30s`, say."""

    def parse(text: str) -> timedelta:
        duration = parse_duration(text, where="")
        if duration < parse_duration(shortest):
            raise InputError(f"{text!r} is too short; it must be at least {shortest}")
        return duration

    return Written(f"duration of at least {shortest}", parse, _show_duration)


def _show_duration(duration: timedelta) -> str:
    return format_seconds(duration.total_seconds())


def read_pattern(text: str, where: str) -> str:
    """Return a topic's name or a pattern. Raises InputError for characters no topic can have."""
    if not _PATTERN.fullmatch(text):
        raise InputError(
            f"{where}: {text!r} is no topic; write names or patterns of letters, digits, "
            "'.', '_', '-', with * for any text and ? for one character"
        )
    return text


def _time_of_day(text: str) -> time:
    match = _TIME_OF_DAY.fullmatch(text)
    if match is None:
        raise InputError(
            f'{text!r} is no time of day; write it like "08:00", from "00:00" to "23:59", in quotes'
        )
    return time(int(match[1]), int(match[2]))


def _time_zone(text: str) -> str:
    try:
        ZoneInfo(text)
    # OSError: the name of a folder, such as Europe
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"{text!r} is no time zone; write its IANA name, like Europe/Berlin"
        ) from None
    return text


def read_cron(text: str) -> str:
    """Return a cron expression. Raises InputError for what is none, or never comes true."""
    from croniter import CroniterBadCronError, CroniterBadDateError, croniter

    if len(text.split()) != _CRON_FIELDS:
        raise InputError(f"{text!r} needs five fields: minute, hour, day, month, day of week")
    try:
        croniter(text, datetime(2026, 1, 1)).get_next(datetime)
    except CroniterBadDateError:
        raise InputError(f"{text!r} never comes true, so nothing would ever move") from None
    except CroniterBadCronError as error:
        raise InputError(f"{text!r} is no cron expression ({error})") from None
    return text


def _goal(text: str) -> StrEnum:
    # Imported here, since it imports this module.
    from counterpoise.model.request import PLANNED_GOALS

    goal: StrEnum = choice(*PLANNED_GOALS).parse(text)
    return goal


def _connection_id(text: str) -> str:
    if "/" in text or ":" in text:
        raise InputError(
            "an address is a secret and belongs into an Airflow connection of type http; "
            "write the id of that connection"
        )
    return text


def _filled(text: str) -> str:
    if not text.strip():
        raise InputError("is empty")
    return text


def _controller_id(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > _MAX_DIGITS:
        raise InputError(f"{text!r} must be the node id of a controller, like 3001")
    return int(text)


_ACCOUNTS: Final = (f"{AccountKind.AIRFLOW}:", f"{AccountKind.SYSTEM}:")


def _entry(text: str, *prefixes: str) -> str:
    """Return an entry of `access` or of a group: a login name, or a prefix and a name."""
    entry = readable_name(text.strip(), where="")
    prefix, colon, name = entry.partition(":")
    if not colon:
        return entry
    prefix += colon
    if prefix == AIRFLOW_ROLE and prefix not in prefixes:
        raise InputError(
            f"{entry!r}: only pages can see the roles of Airflow, tasks and the "
            "command line cannot, so only view may name them; name people or a group here"
        )
    if prefix not in prefixes:
        known = ", ".join(f"{prefix}NAME" for prefix in prefixes)
        raise InputError(f"{entry!r} is unknown; write a login name, or one of {known}")
    return prefix + readable_name(name.strip(), where=prefix)


Rate = Annotated[int, Written("rate, like 20MB/s", partial(parse_rate, where=""), format_rate)]
Bytes = Annotated[int, Written("amount, like 500GB", partial(parse_bytes, where=""), format_bytes)]
Percent = Annotated[int, whole(1, 100)]
Duration = Annotated[
    timedelta, Written("duration, like 30m", partial(parse_duration, where=""), _show_duration)
]
TimeOfDay = Annotated[time, Written('time of day, like "08:00"', _time_of_day, "{:%H:%M}".format)]
Moment = Annotated[
    datetime, Written("time, like 2027-01-31", partial(parse_moment, where=""), format_moment)
]
TimeZone = Annotated[str, Written("time zone, like Europe/Berlin", _time_zone)]
Cron = Annotated[str, Written("cron expression of five fields", read_cron)]
Text = Annotated[str, Written("text", _filled)]
TopicPattern = Annotated[
    str, Written("topic or pattern, like audit-*", partial(read_pattern, where=""))
]
BrokerId = Annotated[int, replace(whole(0, 2**31 - 1), form="broker id")]
Threshold = Annotated[int, replace(whole(0, 10**15), form="whole number")]
GoalName = Annotated[str, Written("goal, like leaders", _goal)]
ControllerId = Annotated[int, Written("node id of a controller", _controller_id)]
ConnectionId = Annotated[str, Written("id of an Airflow connection", _connection_id)]
Account = Annotated[str, Written("login name, like alice", lambda text: _entry(text, *_ACCOUNTS))]
AccountOrGroup = Annotated[
    str,
    Written("login name or group:NAME", lambda text: _entry(text, *_ACCOUNTS, GROUP)),
]
Viewer = Annotated[
    str,
    Written(
        "login name, group:NAME or airflow-role:NAME",
        lambda text: _entry(text, *_ACCOUNTS, GROUP, AIRFLOW_ROLE),
    ),
]

"""What a team wants, from the section `policy` of a cluster.

    policy = read_policy(section)     # of `{movement: {rate: 50MB/s}}`; the rest has its default

Names, types, ranges and defaults are those of `model/policy.py`; here is how each type is read.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import time, timedelta
from enum import StrEnum
from functools import cache
from itertools import pairwise
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml

from counterpoise.errors import InputError
from counterpoise.model.calendar import check_window
from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.json_values import Range
from counterpoise.model.notification import NotificationEvent
from counterpoise.model.policy import (
    AuditPolicy,
    ClusterPolicy,
    HistoryPolicy,
    MaintenanceWindow,
    NotifyPolicy,
)
from counterpoise.model.request import PLANNED_GOALS
from counterpoise.model.written import AtLeast, Key, Written
from counterpoise.settings.audits import read_audit
from counterpoise.settings.people import approvers, named_people
from counterpoise.settings.sections import (
    Section,
    amount,
    broker_ids,
    choice,
    duration,
    duration_from,
    patterns,
    rate,
    text,
    texts,
    time_of_day,
    truth,
    whole,
)
from counterpoise.units import format_seconds

Reader = Callable[[yaml.Node, str], Any]

_UNITS: Final = ("_bytes_per_second", "_per_second")  # a rate brings its unit along
_RULE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")
_KEPT: Final = ("keep_all", "keep_hourly", "keep_daily")


def read_policy(section: Section | None) -> ClusterPolicy:
    policy: ClusterPolicy = _read(ClusterPolicy, section)
    return policy


def read_notify(section: Section | None) -> NotifyPolicy:
    policy: NotifyPolicy = _read(NotifyPolicy, section)
    return policy


def _read(type_: Any, section: Section | None) -> Any:
    """Return the dataclass that a section describes; absent keys have their defaults."""
    if section is None:
        return type_()
    return type_(**_values(type_, section))


def _read_entries(type_: Any, sections: list[Section]) -> tuple[Any, ...]:
    """Return the entries of a list; one that lacks a key or has a wrong value was complained of."""
    rows = [_values(type_, section) for section in sections]
    return tuple(type_(**values) for values in rows if None not in values.values())


def _values(type_: Any, section: Section) -> dict[str, Any]:
    hints = hints_of(type_)
    values = {field.name: _value(section, field, hints[field.name]) for field in fields(type_)}
    if type_ is HistoryPolicy:
        _check_order(section, values)
    if type_ is Constraints:
        _check_sets(section, values["broker_sets"])
    section.finish()
    return values


def _value(section: Section, field: Field[Any], hint: Any) -> Any:
    """Return the value of one field: what its key has, else its default, else None."""
    type_, marks = type_and_marks(hint)
    key = key_of(field, marks)
    if type_ is AuditPolicy:
        return read_audit(section.section(key))
    if is_dataclass(type_):
        return _read(type_, section.section(key))
    entry_type: Any = next(iter(get_args(type_)), None)
    if is_dataclass(entry_type):
        return _read_entries(entry_type, section.sections(key))
    reader = _reader(type_, marks)
    if field.default is MISSING:
        return section.needed(key, reader)
    return section.value(key, reader, field.default)


def key_of(field: Field[Any], marks: tuple[Any, ...]) -> str:
    """Return the key of a field in the file: `rate` of `rate_bytes_per_second`."""
    key = field.name
    for unit in _UNITS:
        key = key.removesuffix(unit)
    for mark in marks:
        if isinstance(mark, Key):
            key = mark.name
    return key


@cache
def hints_of(type_: type) -> Mapping[str, Any]:
    """Return the types of a dataclass by field, with their marks."""
    return get_type_hints(type_, include_extras=True)


def type_and_marks(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return (int, (Range(1, 5),)) of `Annotated[int, Range(1, 5)]`, of `... | None` too."""
    if NoneType in get_args(hint):
        (hint,) = (part for part in get_args(hint) if part is not NoneType)
    if get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def _reader(type_: Any, marks: tuple[Any, ...]) -> Reader:
    for mark in marks:
        if isinstance(mark, Range):
            return whole(mark.lowest, mark.highest)
        if isinstance(mark, AtLeast):
            return duration_from(mark.duration)
        if isinstance(mark, Written):
            return _WRITTEN[mark]
    if isinstance(type_, type) and issubclass(type_, StrEnum):
        return choice(type_)
    return _PLAIN[type_]


def _check_order(part: Section, values: Mapping[str, timedelta]) -> None:
    """Check that each time reaches as far as the one before it, also where one of the two is
    a default.
    """
    for before, after in pairwise(_KEPT):
        shorter, longer = values[before], values[after]
        if longer < shorter:
            written = next((key for key in (after, before) if key in part.names()), None)
            part.complain(
                written,
                f"{after} ({format_seconds(longer.total_seconds())}) must not be shorter than "
                f"{before} ({format_seconds(shorter.total_seconds())})",
            )


def _check_sets(section: Section, broker_sets: Sequence[BrokerSet]) -> None:
    """Check that each set has brokers, and no broker id or rack is in two sets."""
    places: Counter[int | str] = Counter()
    for broker_set in broker_sets:
        places.update({*broker_set.broker_ids, *broker_set.racks})
        if not broker_set.broker_ids and not broker_set.racks:
            section.complain(
                "broker_sets",
                f"broker set {broker_set.name!r} has no brokers; give broker_ids or racks",
            )
    for place in sorted(map(str, (place for place, count in places.items() if count > 1))):
        section.complain("broker_sets", f"{place} is in two broker sets; a broker is in one")


def _cron(node: yaml.Node, name: str) -> str:
    words = text(node, name)
    check_window(MaintenanceWindow(words, lasts=timedelta(hours=1)), where=name)
    return words


def _connection_ids(node: yaml.Node, name: str) -> tuple[str, ...]:
    ids = texts(node, name)
    if any("/" in one or ":" in one for one in ids):
        raise InputError(
            f"{name}: an address is a secret and belongs into an Airflow connection of type http; "
            "write the id of that connection"
        )
    return ids


def _events(node: yaml.Node, name: str) -> tuple[str, ...]:
    known = tuple(map(str, NotificationEvent))
    for event in (events := texts(node, name)):
        if event not in known:
            raise InputError(f"{name}: {event!r} is unknown; there are: {', '.join(known)}")
    return events


def _goals(node: yaml.Node, name: str) -> tuple[str, ...]:
    known = tuple(map(str, PLANNED_GOALS))
    goals = texts(node, name)
    if not goals:
        raise InputError(f"{name}: names no goal, so the rule would approve nothing")
    for goal in goals:
        if goal not in known:
            raise InputError(f"{name}: {goal!r} is unknown; there are: {', '.join(known)}")
    return goals


def _rule_name(node: yaml.Node, name: str) -> str:
    word = text(node, name)
    if not _RULE_NAME.fullmatch(word):
        raise InputError(
            f"{name}: {word!r} is no name of a rule; write up to 60 letters, digits, dots, dashes "
            "and underscores, like small-moves"
        )
    return word


def _time_zone(node: yaml.Node, name: str) -> str:
    zone = text(node, name)
    try:
        ZoneInfo(zone)
    # OSError: the name of a folder, such as Europe
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InputError(
            f"{name}: {zone!r} is no time zone; write its IANA name, like Europe/Berlin"
        ) from None
    return zone


_PLAIN: Final[Mapping[Any, Reader]] = {
    bool: truth,
    timedelta: duration,
    time: time_of_day,
    str: text,
    tuple[str, ...]: texts,
}
_WRITTEN: Final[Mapping[Written, Reader]] = {
    Written.RATE: rate,
    Written.BYTES: amount,
    Written.TOPIC_PATTERNS: patterns,
    Written.BROKER_IDS: broker_ids,
    Written.CRON: _cron,
    Written.TIME_ZONE: _time_zone,
    Written.CONNECTION_IDS: _connection_ids,
    Written.EVENTS: _events,
    Written.GOALS: _goals,
    Written.RULE_NAME: _rule_name,
    Written.APPROVERS: approvers,
    Written.PEOPLE: named_people(),
    Written.PEOPLE_OR_ROLES: named_people(with_roles=True),
}

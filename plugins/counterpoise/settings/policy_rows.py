"""A policy as the file writes it: one row per key, whether the file names it or the default holds.

    rows = policy_rows(policy)
    rows[0].key, rows[0].value, rows[0].is_default      # balance.leader_weight, equal, True

Limits: values are written for people; amounts are rounded to three digits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime, time, timedelta
from typing import Any, Final

from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.written import Written
from counterpoise.settings.policies import hints_of, key_of, type_and_marks
from counterpoise.units import format_bytes, format_moment, format_rate, format_seconds

_EVERYBODY: Final = frozenset({Written.PEOPLE, Written.PEOPLE_OR_ROLES})  # where nobody is named


@dataclass(frozen=True, slots=True)
class PolicyRow:
    key: str  # movement.rate
    value: str
    is_default: bool


def policy_rows(policy: ClusterPolicy) -> tuple[PolicyRow, ...]:
    """Return every key of a policy, in the order of its sections."""
    return tuple(_rows(policy, type(policy)(), ""))


def _rows(values: Any, defaults: Any, prefix: str) -> Iterator[PolicyRow]:
    of_type: Any = type(values)
    hints = hints_of(of_type)
    for field in fields(values):
        _, marks = type_and_marks(hints[field.name])
        key = f"{prefix}{key_of(field, marks)}"
        value, default = getattr(values, field.name), getattr(defaults, field.name)
        if is_dataclass(value):
            yield from _rows(value, default, f"{key}.")
        else:
            yield PolicyRow(key, _text(value, marks), value == default)


def _text(value: Any, marks: tuple[Any, ...]) -> str:
    if value is None:
        return "not set"
    if not value and not _EVERYBODY.isdisjoint(mark for mark in marks if isinstance(mark, Written)):
        return "everybody"
    if Written.RATE in marks:
        return format_rate(value)
    if Written.BYTES in marks:
        return format_bytes(value)
    return _plain_text(value)


def _plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, timedelta):
        return format_seconds(value.total_seconds())
    if isinstance(value, datetime):
        return format_moment(value)
    if isinstance(value, time):
        return f"{value:%H:%M}"
    if is_dataclass(value):
        rows = _rows(value, value, "")
        return ", ".join(f"{row.key}: {row.value}" for row in rows)
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_plain_text(of)}" for name, of in value.items()) or "none"
    if isinstance(value, (tuple, list, frozenset)):
        return "; ".join(map(_plain_text, value)) or "none"
    return str(value)

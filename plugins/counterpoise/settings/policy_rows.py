"""A policy as the file writes it: one row per key, whether the file names it or the default holds.

    rows = policy_rows(policy)
    rows[0].key, rows[0].value, rows[0].is_default      # balance.bytes_tolerance_percent, 10, True

Limits: values are written for people; amounts are rounded to three digits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any, get_args

from counterpoise.model.policy import AccessPolicy, ClusterPolicy
from counterpoise.model.setting import Setting, settings_of, type_and_marks


@dataclass(frozen=True, slots=True)
class PolicyRow:
    key: str  # movement.rate
    value: str
    is_default: bool


def policy_rows(policy: ClusterPolicy) -> tuple[PolicyRow, ...]:
    """Return every key of a policy, in the order of its sections."""
    return tuple(_rows(policy, type(policy)(), ""))


def _rows(section: Any, defaults: Any, prefix: str) -> Iterator[PolicyRow]:
    of_type: Any = type(section)
    for setting in settings_of(of_type):
        key = f"{prefix}{setting.key}"
        value = getattr(section, setting.field_name)
        default = getattr(defaults, setting.field_name)
        if is_dataclass(value):
            yield from _rows(value, default, f"{key}.")
        else:
            is_everybody = isinstance(section, AccessPolicy) and not value
            text = "everybody" if is_everybody else shown(value, setting)
            yield PolicyRow(key, text, value == default)


def shown(value: Any, setting: Setting) -> str:
    """Return a value of a setting for people."""
    if value is None:
        return "not set"
    if setting.written is not None:
        return setting.written.show(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "; ".join(f"{name}: {_item(one, setting)}" for name, one in value.items()) or "none"
    if isinstance(value, tuple):
        return "; ".join(_item(one, setting) for one in value) or "none"
    return str(value)


def _item(item: Any, setting: Setting) -> str:
    """Return an item of a list or a mapping, such as a window, for people."""
    if is_dataclass(item):
        return ", ".join(f"{row.key}: {row.value}" for row in _rows(item, item, ""))
    of_items = [one for one in get_args(setting.type_) if one is not Ellipsis][-1]
    return shown(item, Setting("", "", *type_and_marks(of_items)))

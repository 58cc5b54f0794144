"""What a team wants of audits, from the section `audit` of its policy: limits, what it knows
already, what fails a run.

Limits: whether a rule has the name that is given here, and such a threshold, is known where the
rules are; the pipeline asks there.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import yaml

from counterpoise.errors import InputError
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.severity import Severity, Waiver
from counterpoise.settings.sections import Section, choice, text, texts, whole
from counterpoise.units import parse_moment

_MOST: Final = 10**15


def read_audit(part: Section | None) -> AuditPolicy:
    unset = AuditPolicy()
    if part is None:
        return unset
    policy = AuditPolicy(
        thresholds=_thresholds(part.section("thresholds")),
        waivers=_waivers(part),
        controller_racks=_controller_racks(part.section("controller_racks")),
        fails_at=part.value("fails_at", _bad_enough, unset.fails_at),
    )
    part.finish()
    return policy


def _thresholds(part: Section | None) -> Mapping[str, Mapping[str, int]]:
    """Rule -> name -> whole number."""
    if part is None:
        return {}
    found: dict[str, dict[str, int]] = {}
    for rule in part.names():
        values = part.section(rule)
        if values is not None and values.is_mapping:
            read = {name: values.value(name, whole(0, _MOST), None) for name in values.names()}
            found[rule] = {name: value for name, value in read.items() if value is not None}
    return found


def _waivers(part: Section) -> tuple[Waiver, ...]:
    found = []
    everything: tuple[str, ...] = ("*",)
    for entry in part.sections("waivers"):
        rule, reason = entry.needed("rule", text), entry.needed("reason", _reason)
        subjects = entry.value("subjects", _subjects, everything)
        until = entry.value("until", _moment, None)
        entry.finish()
        if rule is not None and reason is not None:
            found.append(Waiver(rule, reason, subjects, until))
    return tuple(found)


def _controller_racks(part: Section | None) -> Mapping[int, str]:
    if part is None:
        return {}
    found: dict[int, str] = {}
    for name in part.names():
        rack = part.value(name, text, None)
        if not name.isdecimal() or len(name) > 10:
            part.complain(
                name, f"controller_racks: {name!r} must be the node id of a controller, like 3001"
            )
        elif rack is not None:
            found[int(name)] = rack
    return found


def _bad_enough(node: yaml.Node, name: str) -> Severity:
    severity = choice(Severity)(node, name)
    if severity is Severity.UNKNOWN:
        raise InputError(
            f"{name}: 'unknown' is not worse than anything; there are: info, warning, critical"
        )
    return severity


def _reason(node: yaml.Node, name: str) -> str:
    words = text(node, name).strip()
    if not words:
        raise InputError(f"{name} is empty; say why the finding may stay")
    return words


def _subjects(node: yaml.Node, name: str) -> tuple[str, ...]:
    found = texts(node, name)
    if not found or not all(subject.strip() for subject in found):
        raise InputError(
            f'{name}: write subjects as the report names them, or patterns like "topic audit-*"'
        )
    return found


def _moment(node: yaml.Node, name: str) -> datetime:
    return parse_moment(text(node, name), where=name)

"""What a team wants of audits: the section `audit` of its policy.

    audit:
      fails_at: critical                                  # a finding that fails a run
      thresholds: {leaders-uneven: {most_percent_of_mean: 120}}
      waivers: [{rule: quorum-static, reason: planned for June}]

Limits: whether there is a rule of this name with such a threshold is checked where the rules are,
by `audit.auditing.resolve`.
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

_MAX_THRESHOLD: Final = 10**15
_MAX_NODE_ID_DIGITS: Final = 10
_EVERY_SUBJECT: Final[tuple[str, ...]] = ("*",)


def read_audit(part: Section | None) -> AuditPolicy:
    """Return the policy of audits; without the section, the defaults."""
    defaults = AuditPolicy()
    if part is None:
        return defaults
    policy = AuditPolicy(
        thresholds=_thresholds(part.section("thresholds")),
        waivers=_waivers(part),
        controller_racks=_controller_racks(part.section("controller_racks")),
        fails_at=part.value("fails_at", _failing_severity, defaults.fails_at),
    )
    part.finish()
    return policy


def _thresholds(part: Section | None) -> Mapping[str, Mapping[str, int]]:
    """Return whole numbers by rule and name."""
    if part is None:
        return {}
    thresholds: dict[str, dict[str, int]] = {}
    for rule in part.names():
        values = part.section(rule)
        if values is not None and values.is_mapping:
            parsed = {
                name: values.value(name, whole(0, _MAX_THRESHOLD), None) for name in values.names()
            }
            thresholds[rule] = {name: value for name, value in parsed.items() if value is not None}
    return thresholds


def _waivers(part: Section) -> tuple[Waiver, ...]:
    waivers = []
    for entry in part.sections("waivers"):
        rule = entry.needed("rule", text)
        reason = entry.needed("reason", _reason)
        subjects = entry.value("subjects", _subjects, _EVERY_SUBJECT)
        until = entry.value("until", _moment, None)
        entry.finish()
        if rule is not None and reason is not None:
            waivers.append(Waiver(rule, reason, subjects, until))
    return tuple(waivers)


def _controller_racks(part: Section | None) -> Mapping[int, str]:
    if part is None:
        return {}
    racks: dict[int, str] = {}
    for name in part.names():
        rack = part.value(name, text, None)
        is_node_id = name.isdecimal() and len(name) <= _MAX_NODE_ID_DIGITS
        if not is_node_id:
            part.complain(
                name, f"controller_racks: {name!r} must be the node id of a controller, like 3001"
            )
        elif rack is not None:
            racks[int(name)] = rack
    return racks


def _failing_severity(node: yaml.Node, name: str) -> Severity:
    severity = choice(Severity)(node, name)
    if severity is Severity.UNKNOWN:
        raise InputError(
            f"{name}: 'unknown' is not worse than anything; write info, warning or critical"
        )
    return severity


def _reason(node: yaml.Node, name: str) -> str:
    reason = text(node, name).strip()
    if not reason:
        raise InputError(f"{name} is empty; say why the finding may stay")
    return reason


def _subjects(node: yaml.Node, name: str) -> tuple[str, ...]:
    patterns = texts(node, name)
    if not patterns or not all(pattern.strip() for pattern in patterns):
        raise InputError(
            f'{name}: write subjects as the report names them, or patterns like "topic audit-*"'
        )
    return patterns


def _moment(node: yaml.Node, name: str) -> datetime:
    return parse_moment(text(node, name), where=name)

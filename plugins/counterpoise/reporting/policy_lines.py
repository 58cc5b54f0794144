"""Lines to paste into clusters.yaml: a waiver of findings, or the thresholds of their rule.

policy_lines("racks-missing", ["broker 3"], {}, reason="is replaced in May", until="2027-05-31")
"""

from collections.abc import Mapping, Sequence
from typing import Final

_MAX_SUBJECTS_TO_PASTE: Final = 10


def policy_lines(
    rule_id: str,
    subjects: Sequence[str],
    thresholds: Mapping[str, int],
    *,
    reason: str = "WHY IT MAY STAY",
    until: str = "YYYY-MM-DD",
) -> str:
    """Return what to put under `policy:` of the cluster to waive these findings, or to change the
    thresholds; without `until` the waiver has no end.
    """
    quoted = ", ".join(_yaml_text(subject) for subject in subjects[:_MAX_SUBJECTS_TO_PASTE])
    more_count = len(subjects) - _MAX_SUBJECTS_TO_PASTE
    more = (
        f'  # and {more_count} more; or a pattern like "topic scratch-*"' if more_count > 0 else ""
    )
    lines = [
        "audit:",
        "  waivers:",
        f"    - rule: {rule_id}",
        f"      subjects: [{quoted}]{more}",
        f"      reason: {_yaml_text(reason)}",
        *([f"      until: {until}"] if until else []),
    ]
    if thresholds:
        values = ", ".join(f"{name}: {value}" for name, value in thresholds.items())
        lines += ["  thresholds:", f"    {rule_id}: {{{values}}}"]
    return "\n".join(lines)


def _yaml_text(text: str) -> str:
    """Return the text in double quotes; what could end them or is not printable is escaped."""
    return '"' + "".join(map(_yaml_character, text)) + '"'


def _yaml_character(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"

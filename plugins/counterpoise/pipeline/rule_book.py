"""docs/audit-rules.md, made of the rules themselves.

    python -m counterpoise.pipeline.rule_book docs/audit-rules.md

`make docs-audit` does it; a test fails when the file is not what the rules say.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from counterpoise.audit import RULES
from counterpoise.audit.rule import Area, Need, Rule

_HEAD: Final = """\
# Audit rules

Made by `make docs-audit` from the rules in `plugins/counterpoise/audit/rules/`; do not change it by hand.

`counterpoise audit --cluster NAME` and the Dag `kafka_audit` hold a cluster against every rule below. A finding is
named by its rule and its subject ("topic orders", "broker 3", "cluster"): by that the next audit knows it again. What a
rule needs and could not read is a finding, too: *unknown*, and never fine. Rules that all lack the answer of one
broker, or to one question, are listed in one such finding ([not-answered](#not-answered)). Rules that need the history
are named in one line of the report, "not asked", until the first snapshots are there.

A rule's thresholds are whole numbers; the policy of a cluster changes them, and waives findings that a team knows of:

```yaml
policy:
  audit:
    fails_at: critical
    thresholds:
      leaders-uneven: {most_percent_of_mean: 120}
    waivers:
      - rule: replication-factor-1
        subjects: ["topic scratch-*"]
        reason: scratch data, made anew each night
        until: 2027-01-31
```
"""


def rule_book(rules: Sequence[Rule] = RULES) -> str:
    """The whole file, a chapter for each area."""
    by_area = {area: [rule for rule in rules if rule.area is area] for area in Area}
    parts = [_HEAD, _overview(rules)]
    for area, its in by_area.items():
        if its:
            parts += [f"## {area.capitalize()}\n", *("\n".join(_chapter(rule)) for rule in its)]
    return "\n".join(parts)


def _overview(rules: Sequence[Rule]) -> str:
    lines = ["| rule | severity | area | needs the history |", "| --- | --- | --- | --- |"]
    lines += [
        f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.area} | {'yes' if Need.HISTORY in rule.needs else 'no'} |"
        for area in Area
        for rule in rules
        if rule.area is area
    ]
    return "\n".join(lines) + "\n"


def _chapter(rule: Rule) -> Iterator[str]:
    needs = [need for need in Need if need in rule.needs]
    yield f"### {rule.id}\n"
    yield f"**{rule.title}** ({rule.severity})\n"
    yield f"{rule.why}\n"
    yield f"*What to do:* {rule.how}\n"
    if rule.thresholds:
        yield f"*Thresholds:* {', '.join(f'`{name}: {value}`' for name, value in rule.thresholds.items())}\n"
    yield f"*Looks at:* the snapshot{''.join(f'; {need}' for need in needs)}\n"
    yield (
        f"*Source:* <{rule.source}>\n"
        if rule.source.startswith("https://")
        else f"*Source:* {rule.source}\n"
    )


def main(argv: Sequence[str]) -> int:
    """Writes the file that is named."""
    if len(argv) != 1:
        sys.stderr.write("rule_book: name the file to write, like docs/audit-rules.md\n")
        return 2
    Path(argv[0]).write_text(rule_book())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`audit`: what is wrong, the worst first; the report that it writes has the commands to fix it."""

import argparse
import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from counterpoise.cli.common import (
    add_cluster_arguments,
    add_json_argument,
    installation_for,
    print_json,
)
from counterpoise.cli.output_files import path_argument, write_text
from counterpoise.errors import RefusedError, StoreError
from counterpoise.model import subjects
from counterpoise.model.finding import AuditReport, RuleText, WantedPlan, merged_plans
from counterpoise.model.finding_groups import FindingGroup, groups_of
from counterpoise.model.grouping import grouped
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize, verb
from counterpoise.services import audits, snapshots
from counterpoise.units import format_moment

_FOUND: Final = 1
_FAILING: Final = tuple(Severity)
_STYLES: Final = {
    Severity.CRITICAL: "bold red",
    Severity.WARNING: "yellow",
    Severity.UNKNOWN: "dim",
}
_OF_THE_WHOLE: Final = (subjects.CLUSTER, subjects.QUORUM)
_MAX_LINES: Final = 12  # of a fix; the page has all
_SUFFIXES: Final = ("html", "json")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "audit",
        help="what is wrong with this cluster, with evidence and the fix; reads only",
        description="Takes a snapshot of a cluster, checks that its endpoints can be reached, "
        "reads configs, quorum, groups, rights and the history, and lists what is wrong, the worst "
        "first. Changes nothing on the cluster. The report (HTML, JSON) goes to the "
        "store, with what is new since the last audit. docs/audit-rules.md has the rules.",
        epilog="exit codes: 0 no finding as bad as --fail-at, except waived ones; 1 findings; "
        "2 usage, or a policy that names unknown rules; 3 cluster trouble",
    )
    add_cluster_arguments(parser)
    parser.add_argument(
        "--fail-at",
        action="append",
        choices=[str(severity) for severity in _FAILING],
        help="exit 1 for findings as bad as this or worse, and for `unknown` where a rule could "
        "not run; may be given twice (default: fails_at of the cluster's policy, else critical)",
    )
    parser.add_argument(
        "--out",
        type=path_argument,
        metavar="DIR",
        help="also write audit.html and audit.json there",
    )
    parser.add_argument(
        "--data-docs",
        action="store_true",
        help="first check the newest snapshot of the history with Great Expectations (10 to 20 s "
        "more), and write its Data Docs, to which the report links",
    )
    add_json_argument(parser)
    parser.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace, console: Console) -> int:
    installation, name = installation_for(arguments)
    with closing(installation):
        fails_at = _fails_at(arguments.fail_at, installation.cluster(name).policy.audit.fails_at)
        if arguments.data_docs and not snapshots.write_data_docs(installation, [name]):
            raise RefusedError(f"{name} has no snapshot yet: take one with `counterpoise snapshot`")
        report = audits.audit(installation, name, installation.clock())
        texts = {
            suffix: audits.audit_report(installation, name, suffix=suffix) for suffix in _SUFFIXES
        }
        page = audits.audit_page(installation, name)
        cluster_words = installation.cluster_words(name)
        rule_texts = audits.rule_texts(installation.cluster(name).policy.audit)
    if arguments.out:
        page = _write(arguments.out, texts)
    if arguments.json:
        print_json(json.loads(texts["json"]))
    else:
        _print(console, report, rule_texts, cluster_words, page)
    return _FOUND if any(map(report.open_at, fails_at)) else 0


def _fails_at(options: list[str] | None, policy: Severity | None) -> list[Severity]:
    if options:
        return [Severity(option) for option in options]
    return [policy or Severity.CRITICAL]


def _write(folder: Path, texts: dict[str, str]) -> str:
    """Write the reports; return the path of the page."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"--out {folder}: cannot be made ({error.strerror})") from None
    for suffix, text in texts.items():
        write_text(folder / f"audit.{suffix}", text, "report")
    return str(folder / "audit.html")


def _print(
    console: Console,
    report: AuditReport,
    texts: Mapping[str, RuleText],
    cluster_words: tuple[str, str],
    page: str,
) -> None:
    """Print each group of findings with its consequences and its fix, the worst first."""
    waived = len(report.waived)
    if report.unknown:
        _print_line(console, report.unknown_in_words)
    groups = groups_of(report)
    if not groups:
        console.print("no findings" + (", except waived ones" if waived else ""))
    plans = merged_plans(plan for group in groups for plan in group.plans)
    printed_plans: set[WantedPlan] = set()
    for group in groups:
        _print_group(console, group, report, texts)
        for plan in plans:
            is_of_group = any(replace(plan, topics=own.topics) == own for own in group.plans)
            if is_of_group and plan not in printed_plans:
                printed_plans.add(plan)
                _print_line(console, f"    {plan.command(cluster_words)}")
    if report.previous_at:
        since = format_moment(report.previous_at)
        console.print(f"since {since}: {len(report.new)} new, {len(report.resolved)} resolved")
    for reason, rule_ids in _rules_by_reason(report).items():
        _print_line(console, f"not applicable: {reason}: {', '.join(rule_ids)}")
    console.print(
        f"{pluralize(len(report.passed), 'rule')} found nothing, {pluralize(waived, 'finding')} "
        f"{verb(waived, 'is', 'are')} waived"
    )
    _print_line(console, f"evidence, reasons, and all of the commands: {page}")


def _rules_by_reason(report: AuditReport) -> dict[str, list[str]]:
    return grouped((reason, rule_id) for rule_id, reason in report.not_applicable.items())


def _print_group(
    console: Console,
    group: FindingGroup,
    report: AuditReport,
    texts: Mapping[str, RuleText],
) -> None:
    head = Text(f"{group.severity:<8}  ", style=_STYLES.get(group.severity, ""))
    if any(map(report.has_as_new, group.findings)):
        since = "new"
    else:
        since = f"since {min(one.first_seen for one in group.findings):%Y-%m-%d}"
    head.append(f"{group.rule}  {_in_words(group, texts)}  ({since})", style="default")
    console.print(head, soft_wrap=True)
    for consequence in group.consequences:
        _print_line(console, f"  and so {consequence.rule}: {_in_words(consequence, texts)}")
    if group.severity is Severity.UNKNOWN:
        return
    for line in group.fix[:_MAX_LINES]:
        _print_line(console, f"    {line}")
    if len(group.fix) > _MAX_LINES:
        _print_line(console, f"    # and {len(group.fix) - _MAX_LINES} more lines")


def _in_words(group: FindingGroup, texts: Mapping[str, RuleText]) -> str:
    """Return the sentence of the only finding, else what the rule is about, and the subjects."""
    if len(group.findings) == 1:
        finding = group.findings[0].finding
        is_said = finding.subject in finding.summary or finding.subject in _OF_THE_WHOLE
        return finding.summary if is_said else f"{finding.subject}: {finding.summary}"
    return f"{texts[group.rule].title}, {group.subjects_in_words}"


def _print_line(console: Console, line: str) -> None:
    console.print(line, markup=False, soft_wrap=True)

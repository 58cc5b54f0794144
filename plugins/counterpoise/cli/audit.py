"""`audit`: what is wrong, the worst first; the report that it writes has the commands to fix it."""

import argparse
import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from counterpoise.cli.common import (
    add_cluster_arguments,
    add_json_argument,
    installation_for,
    print_json,
    read_saved_cluster,
    read_text,
)
from counterpoise.cli.output_files import path_argument, write_text
from counterpoise.errors import InputError, RefusedError, StoreError
from counterpoise.installation import now_utc
from counterpoise.model import subjects
from counterpoise.model.finding import AuditReport, ReportedFinding, from_json
from counterpoise.model.finding_groups import FindingGroup
from counterpoise.model.grouping import grouped
from counterpoise.model.policy import AuditPolicy
from counterpoise.model.safe_text import shell_word
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_names, pluralize, verb
from counterpoise.services import audits, snapshots
from counterpoise.units import format_moment
from counterpoise.views.audit import AuditView, audit_html, audit_json
from counterpoise.views.audit_junit import audit_junit

_FOUND: Final = 1
_NEW: Final = "new"
_ELSEWHERE: Final = "bootstrap-other-cluster"
_FORMATS: Final = ("text", "json", "junit")
_FAILING: Final = tuple(Severity)
_STYLES: Final = {
    Severity.CRITICAL: "bold red",
    Severity.WARNING: "yellow",
    Severity.UNKNOWN: "dim",
}
_BOOTSTRAP: Final = "$BOOTSTRAP"  # in the commands of Kafka's tools
_MAX_LINES: Final = 12  # of a fix; the page has all


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "audit",
        description="Takes a snapshot of a cluster, checks that its endpoints can be reached, "
        "reads configs, quorum, groups, rights and the history, and lists what is wrong, the worst "
        "first. Changes nothing on the cluster. The report (HTML, JSON) goes to the "
        "store, with what is new since the last audit. docs/audit-rules.md has the rules.",
        epilog="exit codes: 0 no finding as bad as --fail-at, except waived ones; 1 findings; "
        "2 usage, or a policy that names unknown rules; 3 cluster trouble",
    )
    add_cluster_arguments(parser, or_document=True)
    parser.add_argument(
        "--fail-at",
        action="append",
        choices=[str(severity) for severity in _FAILING],
        help="exit 1 for findings as bad as this or worse, and for `unknown` where a rule could "
        "not run; may be given twice (default: fails_at of the cluster's policy, else critical)",
    )
    parser.add_argument(
        "--fail-on",
        choices=[_NEW],
        help="exit 1 only for findings that the last audit, or --baseline, does not have",
    )
    parser.add_argument(
        "--rule",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only rules with such ids, like 'quorum-*'; may be repeated",
    )
    parser.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="PATTERN",
        help="no rules with such ids; may be repeated",
    )
    parser.add_argument(
        "--baseline",
        type=path_argument,
        metavar="AUDIT.json",
        help="say what is new since that audit, which --out or --json wrote",
    )
    parser.add_argument(
        "--waivers",
        type=path_argument,
        metavar="FILE.yaml",
        help="waivers beside those of the policy: `waivers:` as in clusters.yaml",
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
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format", choices=_FORMATS, default="text", help="what to print (default: text)"
    )
    add_json_argument(form)
    parser.set_defaults(run=_audit)


def _audit(arguments: argparse.Namespace, console: Console) -> int:
    choice = _choice(arguments)
    audited = _audit_file if arguments.state else _audit_cluster
    result = audited(arguments, choice)
    report, page = result.report, result.page
    seen = audits.audit_view(report, result.policy, result.cluster_words)
    if arguments.out:
        page = _write(arguments.out, seen)
    fails_at = _fails_at(arguments.fail_at, result.policy.fails_at)
    failing = _failing(report, fails_at, only_new=arguments.fail_on == _NEW)
    if arguments.json or arguments.format == "json":
        print_json(json.loads(audit_json(seen)))
    elif arguments.format == "junit":
        console.out(audit_junit(seen, failing), end="", highlight=False)
    else:
        _Printer(console, seen, result.addresses).print(page)
    return _FOUND if failing else 0


@dataclass(frozen=True)
class _Audited:
    report: AuditReport
    policy: AuditPolicy
    cluster_words: tuple[str, ...]  # name the cluster in our commands
    addresses: str = ""  # of the cluster
    page: str = ""  # where the stored report is


def _audit_cluster(arguments: argparse.Namespace, choice: audits.AuditChoice) -> _Audited:
    installation, name = installation_for(arguments)
    with closing(installation):
        if arguments.data_docs and not snapshots.write_data_docs(installation, [name]):
            raise RefusedError(f"{name} has no snapshot yet: take one with `counterpoise snapshot`")
        report = audits.audit(installation, name, installation.clock(), choice)
        listed = installation.connectivity_settings(name).bootstrap_servers
        return _Audited(
            report,
            installation.cluster(name).policy.audit,
            installation.cluster_words(name),
            ",".join(_of_this_cluster(listed, report)),
            audits.audit_page(installation, name) if choice == audits.USUAL else "",
        )


def _of_this_cluster(addresses: Iterable[str], report: AuditReport) -> Iterator[str]:
    """Yield the addresses that Kafka's tools may use: they connect to any that they are given."""
    elsewhere = {one.finding.subject for one in report.findings if one.finding.rule == _ELSEWHERE}
    for address in addresses:
        if subjects.bootstrap_address(address) not in elsewhere:
            yield address


def _audit_file(arguments: argparse.Namespace, choice: audits.AuditChoice) -> _Audited:
    if arguments.data_docs:
        raise InputError("--data-docs is about the history of a cluster: not with --state")
    file = arguments.state
    snapshot, inspection = read_saved_cluster(file)
    report = audits.audit_saved(snapshot, inspection, now_utc(), choice, file=str(file))
    return _Audited(report, AuditPolicy(), ("--state", str(file)))


def _choice(arguments: argparse.Namespace) -> audits.AuditChoice:
    baseline = None
    if arguments.baseline:
        text = read_text(arguments.baseline, "audit")
        baseline = from_json(text, where=str(arguments.baseline))
    return audits.AuditChoice(
        rules=tuple(arguments.rule),
        skipped=tuple(arguments.skip),
        waivers_file=arguments.waivers,
        baseline=baseline,
    )


def _failing(
    report: AuditReport, fails_at: list[Severity], *, only_new: bool
) -> list[ReportedFinding]:
    """Return the findings for which the command ends with 1."""
    found = [reported for severity in fails_at for reported in report.open_at(severity)]
    return [reported for reported in found if reported.is_new or not only_new]


def _fails_at(options: list[str] | None, policy: Severity | None) -> list[Severity]:
    if options:
        return [Severity(option) for option in options]
    return [policy or Severity.CRITICAL]


def _write(folder: Path, seen: AuditView) -> str:
    """Write the reports; return the path of the page."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"--out {folder}: cannot be made ({error.strerror})") from None
    write_text(folder / "audit.html", audit_html(seen), "report")
    write_text(folder / "audit.json", audit_json(seen), "report")
    return str(folder / "audit.html")


@dataclass
class _Printer:
    """Prints each group of findings with its consequences and its fix, the worst first."""

    console: Console
    seen: AuditView
    addresses: str  # of the cluster, for Kafka's tools

    def print(self, page: str) -> None:
        """`page` is where the report is; "" where it was not written."""
        report, waived = self.seen.report, len(self.seen.report.waived)
        if report.unknown:
            self._line(report.unknown_in_words)
        if not self.seen.groups:
            self._line("no findings" + (", except waived ones" if waived else ""))
        for group in self.seen.groups:
            self._print_group(group)
        if report.previous_at:
            since = format_moment(report.previous_at)
            self._line(f"since {since}: {len(report.new)} new, {len(report.resolved)} resolved")
        reasons = ((reason, rule_id) for rule_id, reason in report.not_applicable.items())
        for reason, rule_ids in grouped(reasons).items():
            self._line(f"not applicable: {reason}: {', '.join(rule_ids)}")
        for waiver in report.unused_waivers:
            names = join_names(waiver.subjects)
            self._line(f"the waiver of {waiver.rule} for {names} waives nothing")
        self._line(
            f"{pluralize(len(report.passed), 'rule')} found nothing, "
            f"{pluralize(waived, 'finding')} {verb(waived, 'is', 'are')} waived"
        )
        if page:
            self._line(f"evidence, reasons, and all of the commands: {page}")

    def _print_group(self, group: FindingGroup) -> None:
        head = Text(f"{group.severity:<8}  ", style=_STYLES.get(group.severity, ""))
        head.append(f"{group.rule}  {group.in_words}  ({self._since(group)})", style="default")
        self.console.print(head, soft_wrap=True)
        if len(group.findings) > 1:
            self._line(f"    such as: {group.findings[0].finding.summary}")
        for consequence in group.consequences:
            self._line(f"  and so {consequence.rule}: {consequence.in_words}")
        if group.severity is not Severity.UNKNOWN:
            self._print_fix(group)

    def _since(self, group: FindingGroup) -> str:
        is_new = any(map(self.seen.report.has_as_new, group.findings))
        return "new" if is_new else f"since {group.since:%Y-%m-%d}"

    def _print_fix(self, group: FindingGroup) -> None:
        if not group.has_mending_lines:
            self._line(f"    # {group.text.how}")
        shown = group.fix[:_MAX_LINES]
        if self.addresses and any(_BOOTSTRAP in line for line in shown):
            self._line(f"    {_BOOTSTRAP[1:]}={shell_word(self.addresses)}")
            self.addresses = ""  # once is enough
        for line in shown:
            self._line(f"    {line}")
        if len(group.fix) > _MAX_LINES:
            self._line(f"    # and {len(group.fix) - _MAX_LINES} more lines, in the page")
        for plan in group.plans:
            self._line(f"    {self.seen.shown(plan).command}")

    def _line(self, line: str) -> None:
        self.console.print(line, soft_wrap=True)

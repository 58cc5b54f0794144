"""An audit of one cluster: photograph, walk, inspection, what the history knows; then rules,
comparison and report.

    report = audit(site, "orders-eu", scheduled_at)
    report.worst                                       # of what nobody waived
    audit_page(site, "orders-eu")                      # where its page lies

What cannot be read is noted and holds up nothing: rules that need it say "unknown". Only a cluster
that does not answer at all, or a policy with names that no rule has, fails an audit. Nothing is
changed on the cluster.
"""

import logging
from contextlib import ExitStack
from datetime import datetime
from typing import Final

from counterpoise import inspection, reporting
from counterpoise.archive import DATA_DOCS, audit_report_name
from counterpoise.audit import RULES, auditing
from counterpoise.audit.facts import AuditFacts
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.port import ClusterAdmin, ClusterReader
from counterpoise.model.finding import AuditReport, RuleText, ReportedFinding
from counterpoise.model.run import UNDER_WAY_STATES
from counterpoise.model.severity import Severity
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.words import pluralize
from counterpoise.pipeline.snapshots import photograph_by
from counterpoise.pipeline.remembering import past_facts, set_aside, usual_interval

_LOGGER = logging.getLogger(__name__)
_NAMED: Final = 20


def audit(installation: Installation, cluster: str, at: datetime) -> AuditReport:
    """Audits a cluster, keeps what was found, writes the report. `at`, the scheduled time, names
    what is kept.

    Raises what a photograph raises (ClusterUnreachableError, ClusterError), InputError for a policy
    whose thresholds or waivers name no rule, StoreError.
    """
    policy = installation.cluster(cluster).policy
    thresholds = _thresholds(installation, cluster)
    with ExitStack() as stack:
        reader, operator = _connected(installation, cluster, stack)
        taken = photograph_by(reader, installation, cluster, at)
        connectivity = _connectivity(installation, cluster)
        found = inspection.inspect(reader, taken, operator=operator)
    past = past_facts(installation, taken)
    facts = AuditFacts(
        now=installation.clock(),
        snapshot=taken,
        policy=policy,
        thresholds=thresholds,
        snapshot_interval=usual_interval(past.manifests) if past else None,
        connectivity=connectivity,
        inspection=found,
        past=past,
        quarantined=tuple(set_aside(installation, taken, past)),
        active_run_id=_run_under_way(installation, cluster),
    )
    before = installation.archive.audit_before(cluster, at)
    report = auditing.compare(
        auditing.PreviousAudit.of(before) if before else None, auditing.find(facts), facts
    )
    installation.archive.write_audit(report)
    _write_pages(installation, report, thresholds)
    return report


def _thresholds(installation: Installation, cluster: str) -> dict[str, dict[str, int]]:
    try:
        return auditing.resolve(installation.cluster(cluster).policy.audit)
    except InputError as error:
        raise InputError(f"{installation.settings.where}: cluster {cluster}: {error}") from None


def failure_of(installation: Installation, report: AuditReport) -> str | None:
    """Why this audit fails a run, with the titles of what was found; None: the policy lets it pass."""
    fails_at = installation.cluster(report.cluster).policy.audit.fails_at
    if fails_at is None:
        return None
    grave = [one.finding for one in open_at(report, fails_at)]
    if not grave:
        return None
    titles = {rule.id: rule.title for rule in RULES}
    named = [
        f"{finding.severity}: {titles.get(finding.rule, finding.rule)} ({finding.subject})"
        for finding in grave
    ]
    more = f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    count = pluralize(len(named), "finding")
    return f"{report.cluster}: {count} as bad as {fails_at} or worse: {'; '.join(named[:_NAMED])}{more}"


def open_at(report: AuditReport, severity: Severity) -> tuple[ReportedFinding, ...]:
    """What nobody waived and is so bad, or worse."""
    return tuple(one for one in report.open if one.finding.severity.rank >= severity.rank)


def audit_page(installation: Installation, cluster: str) -> str:
    """The URI of a cluster's newest audit page."""
    return installation.archive.store.uri(f"reports/{audit_report_name(cluster)}")


def rule_texts(thresholds: dict[str, dict[str, int]]) -> dict[str, RuleText]:
    """The words of every rule, by id."""
    return {
        rule.id: RuleText(
            rule.id,
            rule.area,
            rule.title,
            rule.why,
            rule.how,
            rule.source,
            thresholds.get(rule.id, {}),
        )
        for rule in RULES
    }


def _write_pages(
    installation: Installation, report: AuditReport, thresholds: dict[str, dict[str, int]]
) -> None:
    texts = rule_texts(thresholds)
    docs = f"{DATA_DOCS}/index.html" if installation.archive.has_data_docs(report.cluster) else None
    page = reporting.audit_report(report, texts, data_checks=docs)
    write = installation.archive.write_report
    write(audit_report_name(report.cluster, report.audited_at.date()), page)
    write(audit_report_name(report.cluster, suffix="md"), reporting.audit_markdown(report, texts))
    write(audit_report_name(report.cluster, suffix="json"), reporting.audit_json(report, texts))
    write(audit_report_name(report.cluster), page)


def _connectivity(installation: Installation, cluster: str) -> ConnectivityCheck | None:
    try:
        return installation.check_connectivity(cluster)
    except CounterpoiseError as error:
        _LOGGER.warning("nobody walked to the endpoints of %s: %s", cluster, error)
        return None


def _connected(
    installation: Installation, cluster: str, stack: ExitStack
) -> tuple[ClusterReader, ClusterAdmin | None]:
    """Reader and operator, whose rights are looked at, where that one leads to the cluster; often
    the same.
    """
    names = installation.cluster(cluster)
    if names.operator_connection_id == names.connection_id:
        both = stack.enter_context(installation.operator(cluster))
        return both, both
    reader = stack.enter_context(installation.reader(cluster))
    try:
        return reader, stack.enter_context(installation.operator(cluster))
    except CounterpoiseError as error:
        _LOGGER.warning("rights on %s are not known: the operator's connection: %s", cluster, error)
        return reader, None


def _run_under_way(installation: Installation, cluster: str) -> str | None:
    return next(
        (
            run.run_id
            for run in installation.ledger.runs(cluster=cluster)
            if run.state in UNDER_WAY_STATES
        ),
        None,
    )

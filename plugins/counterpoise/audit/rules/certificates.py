"""Certificates that brokers show: how long they hold, and for whom they are.

    the certificate of kafka-2:9093 expires at 2026-12-01 00:00 UTC       # certificate-expires

Limits: those of the listener that the walk came by; truststores, and certificates of clients, are
not seen.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Area, CheckResult, Need, Rule, evidence
from counterpoise.model.connectivity import EndpointCheck
from counterpoise.model.finding import Evidence
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids

_WALK: Final = frozenset({Need.CONNECTIVITY})
_A_WEEK: Final = timedelta(days=7)


def _certificates(facts: AuditFacts) -> Iterator[CheckResult]:
    days = facts.threshold("certificate-expires", "days")
    for subject, one in _walked(facts):
        if one.certificate is None:
            continue
        left = one.certificate.expires_at - facts.now
        if left < timedelta(days=days):
            is_over = left <= timedelta(0)
            yield CheckResult(
                subject,
                f"the certificate of {one.address} {'expired' if is_over else 'expires'} at "
                f"{one.certificate.expires_in_words}",
                _certificate(one),
                severity=Severity.CRITICAL if left < _A_WEEK else None,
            )


def _other_host(facts: AuditFacts) -> Iterator[CheckResult]:
    for subject, one in _walked(facts):
        if one.certificate is not None and not one.certificate.matches_host:
            yield CheckResult(
                subject,
                f"the certificate of {one.address} is for {join_ids(one.certificate.names) or one.certificate.subject}",
                _certificate(one),
            )


def _walked(facts: AuditFacts) -> list[tuple[str, EndpointCheck]]:
    """Bootstrap addresses that no broker advertises are walked to like these."""
    if facts.connectivity is None:
        return []
    brokers = [
        (f"broker {broker_id}", one)
        for broker_id, one in sorted(facts.connectivity.advertised.items())
    ]
    known = {one.address for _, one in brokers}
    return [
        *brokers,
        *(
            (f"bootstrap address {one.address}", one)
            for one in facts.connectivity.bootstrap
            if one.address not in known
        ),
    ]


def _certificate(one: EndpointCheck) -> Evidence | None:
    its = one.certificate
    if its is None:
        return None
    row = (its.subject, its.issuer, join_ids(its.names), its.expires_in_words)
    return evidence(("subject", "issuer", "names", "expires"), [row])


RULES: Final = (
    Rule(
        "certificate-expires",
        Area.LISTENERS,
        Severity.WARNING,
        title="Certificates that expire soon",
        why="At that minute no client and no other broker connects any more.",
        how="Renew the certificate; brokers load a new keystore without a restart when its config is set again.",
        source="https://kafka.apache.org/documentation/#security_ssl",
        check=_certificates,
        needs=_WALK,
        thresholds={"days": 30},
    ),
    Rule(
        "certificate-other-host",
        Area.LISTENERS,
        Severity.WARNING,
        title="Certificates for another host",
        why="Clients refuse it unless they have switched off the check of host names, and then anybody's "
        "certificate will do.",
        how="Issue a certificate that names what the broker advertises.",
        source="https://kafka.apache.org/documentation/#security_confighostname",
        check=_other_host,
        needs=_WALK,
    ),
)

"""Certificates that brokers present: when they expire, and for which hosts they are.

    the certificate of kafka-2:9093 expires at 2026-12-01 00:00 UTC       # certificate-expires

Limits: those of the listener to which the connectivity check connects; truststores, and
certificates of clients, are not seen.
"""

from collections.abc import Iterator
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import CheckResult, Need, evidence, rule
from counterpoise.model import subjects
from counterpoise.model.connectivity import (
    EXPIRY_DAYS,
    EXPIRY_PERCENT,
    Certificate,
    EndpointCheck,
)
from counterpoise.model.finding import Evidence
from counterpoise.model.severity import Severity
from counterpoise.model.words import join_ids

_DOCUMENTED: Final = "https://kafka.apache.org/documentation/#"


@rule(
    "certificate-expires",
    Severity.WARNING,
    title="Certificates that expire soon",
    why="At that minute clients and other brokers cannot connect any more.",
    how="Renew the certificate; brokers load a new keystore without a restart when its config is "
    "set again.",
    source=f"{_DOCUMENTED}security_ssl",
    needs={Need.CONNECTIVITY},
    severities={Severity.CRITICAL},
    thresholds={
        "days": EXPIRY_DAYS,
        "percent_of_lifetime": EXPIRY_PERCENT,
        "critical_days": 7,
        "critical_percent_of_lifetime": 10,
    },
)
def certificate_expires(
    facts: AuditFacts,
    *,
    days: int,
    percent_of_lifetime: int,
    critical_days: int,
    critical_percent_of_lifetime: int,
) -> Iterator[CheckResult]:
    """Yield certificates with less left than so many days, and than that share of their lifetime.

    One of 72 hours that is renewed when a third of them is left is healthy at every hour.
    """
    for subject, check, certificate in _certificates(facts):
        if certificate.is_near_its_end(facts.now, days, percent_of_lifetime):
            is_critical = certificate.is_near_its_end(
                facts.now, critical_days, critical_percent_of_lifetime
            )
            verb = "expired" if certificate.expires_at <= facts.now else "expires"
            yield CheckResult(
                subject,
                f"the certificate of {check.address} {verb} at {certificate.expires_in_words}",
                _certificate_table(certificate),
                severity=Severity.CRITICAL if is_critical else None,
            )


@rule(
    "certificate-other-host",
    Severity.WARNING,
    title="Certificates for another host",
    why="Clients refuse it unless they have switched off the check of host names, and then they "
    "accept anybody's certificate.",
    how="Issue a certificate for the name that the broker advertises.",
    source=f"{_DOCUMENTED}security_confighostname",
    needs={Need.CONNECTIVITY},
)
def certificate_other_host(facts: AuditFacts) -> Iterator[CheckResult]:
    for subject, check, certificate in _certificates(facts):
        if not certificate.matches_host:
            names = join_ids(certificate.names) or certificate.subject
            yield CheckResult(
                subject,
                f"the certificate of {check.address} is for {names}",
                _certificate_table(certificate),
            )


def _certificates(facts: AuditFacts) -> Iterator[tuple[str, EndpointCheck, Certificate]]:
    """Yield the certificates of brokers, then of bootstrap addresses that no broker advertises."""
    advertised = sorted(facts.endpoints.advertised.items())
    advertised_addresses = {check.address for _, check in advertised}
    checks = [(subjects.broker(broker_id), check) for broker_id, check in advertised]
    checks += [
        (subjects.bootstrap_address(check.address), check)
        for check in facts.endpoints.bootstrap
        if check.address not in advertised_addresses
    ]
    for subject, check in checks:
        if check.certificate is not None:
            yield subject, check, check.certificate


def _certificate_table(certificate: Certificate) -> Evidence:
    row = (
        certificate.subject,
        certificate.issuer,
        join_ids(certificate.names),
        certificate.expires_in_words,
    )
    return evidence(("subject", "issuer", "names", "expires"), [row])

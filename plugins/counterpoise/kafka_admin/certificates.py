"""The certificate that a broker presents, and in plain words why it is not accepted.

    certificate = read_certificate(der, "kafka-1")
    certificate.expires_at, certificate.matches_host

Limits: the broker's own certificate; of the chain above it only what OpenSSL says.
"""

import ssl
from datetime import datetime
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.x509.oid import NameOID

from counterpoise.model.connectivity import Certificate
from counterpoise.units import format_moment

# OpenSSL's numbers (x509_vfy.h).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_NOT_TRUSTED: Final = frozenset({18, 19, 20, 21})
_WRONG_HOST: Final = frozenset({62, 64})


def read_certificate(der: bytes, host: str) -> Certificate | None:
    """Return the certificate, compared with `host`; None where it cannot be read."""
    try:
        parsed = x509.load_der_x509_certificate(der)
        dns_names, ips = _alternative_names(parsed)
        attributes = parsed.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        common_names = [str(attribute.value) for attribute in attributes]
        return Certificate(
            subject=parsed.subject.rfc4514_string(),
            issuer=parsed.issuer.rfc4514_string(),
            names=(*dns_names, *ips),
            expires_at=parsed.not_valid_after_utc,
            matches_host=is_valid_for(host, dns_names or common_names, ips),
            issued_at=parsed.not_valid_before_utc,
        )
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None


def explain_refusal(
    error: ssl.SSLCertVerificationError, certificate: Certificate | None, host: str, now: datetime
) -> str:
    """Say why OpenSSL does not accept the certificate, and what to do; `now` is in UTC."""
    code = error.verify_code
    if certificate is None:
        return f"the certificate was not accepted: {error.verify_message}"
    if code == _EXPIRED:
        if certificate.expires_at > now:
            return "a certificate above the broker's own has expired; renew it on the broker"
        return (
            f"the certificate expired on {format_moment(certificate.expires_at)}; renew it, and "
            "make the broker load the new one"
        )
    if code == _NOT_YET_VALID:
        return "the certificate is not valid yet; set the clocks here and on the broker right"
    if code in _WRONG_HOST:
        names = ", ".join(certificate.names) or certificate.subject
        return (
            f"the certificate is for {names}, not for {host}; connect by a name that it has, or "
            "have it name this host"
        )
    if code in _NOT_TRUSTED:
        return (
            f"the certificate was issued by {certificate.issuer}, which is not trusted here; "
            'name the certificate of that authority in "ssl.ca.location" or "ssl.ca.pem"'
        )
    return f"the certificate was not accepted: {error.verify_message}"


def _alternative_names(certificate: x509.Certificate) -> tuple[list[str], list[str]]:
    """Return the DNS names and the IP addresses of the certificate's extension."""
    extension_type = x509.SubjectAlternativeName
    try:
        names = certificate.extensions.get_extension_for_class(extension_type).value
    except x509.ExtensionNotFound:
        return [], []
    ips = [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.DNSName), ips


def is_valid_for(host: str, dns_names: list[str], ips: list[str]) -> bool:
    """Compare as clients do (RFC 6125).

    IP addresses match exactly, names without regard to case, and `*` matches one whole label at the
    left: `*.example` matches kafka-1.example, not a.b.example.
    """
    try:
        return str(ip_address(host)) in ips
    except ValueError:
        pass
    name = host.lower().rstrip(".")
    return any(_matches(pattern.lower().rstrip("."), name) for pattern in dns_names)


def _matches(pattern: str, name: str) -> bool:
    if not pattern.startswith("*."):
        return pattern == name
    label, dot, domain = name.partition(".")
    return bool(label and dot) and domain == pattern[2:]

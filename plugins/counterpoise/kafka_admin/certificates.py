"""The certificate that a broker shows, trusted or not, and in plain words why it is not accepted.

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

from counterpoise.model.walk import Certificate
from counterpoise.units import format_moment

# OpenSSL's numbers (x509_vfy.h).
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_NOT_TRUSTED: Final = frozenset({18, 19, 20, 21})
_WRONG_HOST: Final = frozenset({62, 64})


def read_certificate(der: bytes, host: str) -> Certificate | None:
    """None where it cannot be read."""
    try:
        read = x509.load_der_x509_certificate(der)
        dns, ips = _alternative_names(read)
        common = [
            str(name.value) for name in read.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ]
        return Certificate(
            subject=read.subject.rfc4514_string(),
            issuer=read.issuer.rfc4514_string(),
            names=(*dns, *ips),
            expires_at=read.not_valid_after_utc,
            matches_host=is_for(host, dns or common, ips),
        )
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return None


def refusal_in_words(
    error: ssl.SSLCertVerificationError, certificate: Certificate | None, host: str, now: datetime
) -> str:
    """Why OpenSSL does not accept the certificate, and what to do; `now` in UTC."""
    code = error.verify_code
    if certificate is None:
        return f"the certificate was not accepted: {error.verify_message}"
    if code == _EXPIRED:
        if certificate.expires_at > now:
            return "a certificate above the broker's own has expired"
        return f"the certificate expired on {format_moment(certificate.expires_at)}"
    if code == _NOT_YET_VALID:
        return "the certificate is not valid yet; is a clock wrong?"
    if code in _WRONG_HOST:
        names = ", ".join(certificate.names) or certificate.subject
        return f"the certificate is for {names}, not for {host}"
    if code in _NOT_TRUSTED:
        return f'the certificate was issued by {certificate.issuer}, which is not trusted here; set "ssl.ca.location"'
    return f"the certificate was not accepted: {error.verify_message}"


def _alternative_names(read: x509.Certificate) -> tuple[list[str], list[str]]:
    try:
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return [], []
    return names.get_values_for_type(x509.DNSName), [
        str(ip) for ip in names.get_values_for_type(x509.IPAddress)
    ]


def is_for(host: str, dns: list[str], ips: list[str]) -> bool:
    """As clients compare (RFC 6125): addresses exactly, names without case, `*` for one whole label
    at the left.
    """
    try:
        return str(ip_address(host)) in ips
    except ValueError:
        pass
    wanted = host.lower().rstrip(".")
    return any(_matches(pattern.lower().rstrip("."), wanted) for pattern in dns)


def _matches(pattern: str, host: str) -> bool:
    if not pattern.startswith("*."):
        return pattern == host
    first, dot, rest = host.partition(".")
    return bool(first and dot) and rest == pattern[2:]

"""The TLS settings of a connection for Python's sockets, the same as librdkafka's.

    context = ssl_context({"ssl.ca.location": "/etc/kafka/ca.pem"})

kafka-python's own arguments cannot express all of them. Inline PEM goes to OpenSSL from memory, but
for certificate and key of our own: Python reads these from a file, so they are in a file of mode
0600 while they are read, and nowhere afterwards.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from counterpoise.errors import ConfigurationError
from counterpoise.kafka_admin.connection_rules import HOST_NAMES, VERIFICATION, choice_of, is_true

_SYSTEM_ROOTS: Final = "probe"  # librdkafka's word for the authorities of the system


def ssl_context(given: Mapping[str, str], *, where: str = "connection") -> ssl.SSLContext:
    """Return a context with these settings, which were checked.

    Raises ConfigurationError, naming `where` and the setting, for a file or PEM text that cannot be
    used.
    """
    is_verified = is_true(given, VERIFICATION, "true")
    context = _trusting_context(given, where)
    context.check_hostname = is_verified and choice_of(given, HOST_NAMES, "https") != "none"
    context.verify_mode = ssl.CERT_REQUIRED if is_verified else ssl.CERT_NONE
    if certificate := _first_name(given, "ssl.certificate.location", "ssl.certificate.pem"):
        with _naming(certificate, where):
            _load_own_certificate(context, given)
    if crl := given.get("ssl.crl.location"):
        with _naming("ssl.crl.location", where):
            context.load_verify_locations(cafile=crl)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def https_context(given: Mapping[str, str], *, where: str = "connection") -> ssl.SSLContext:
    """Return a context for the address that gives tokens (`https.ca.location`, `https.ca.pem`)."""
    return _trusting_context(
        {key.replace("https.", "ssl."): given[key] for key in given if key.startswith("https.")},
        where,
        prefix="https",
    )


def _trusting_context(
    given: Mapping[str, str], where: str, *, prefix: str = "ssl"
) -> ssl.SSLContext:
    """Return a context that trusts the given authority alone, or else those of the system."""
    location = given.get("ssl.ca.location", _SYSTEM_ROOTS)
    pem = given.get("ssl.ca.pem")
    if location == _SYSTEM_ROOTS and not pem:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with _naming(f"{prefix}.ca.pem" if pem else f"{prefix}.ca.location", where):
        if pem:
            context.load_verify_locations(cadata=pem)
        elif Path(location).is_dir():
            context.load_verify_locations(capath=location)
        else:
            context.load_verify_locations(cafile=location)
    return context


def _load_own_certificate(context: ssl.SSLContext, given: Mapping[str, str]) -> None:
    # With no password, OpenSSL would ask for a missing one on the terminal; with an empty one it
    # fails.
    password = given.get("ssl.key.password", "")
    with (
        _as_file(given, "ssl.certificate") as certificate,
        _as_file(given, "ssl.key") as key,
    ):
        context.load_cert_chain(certificate, key, password)


@contextmanager
def _as_file(given: Mapping[str, str], name: str) -> Iterator[str]:
    """Yield the file of `<name>.location`, or one of mode 0600 with the text of `<name>.pem`."""
    if location := given.get(f"{name}.location"):
        yield location
        return
    descriptor, path = tempfile.mkstemp(prefix="counterpoise-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(given[f"{name}.pem"])
        yield path
    finally:
        Path(path).unlink()


def _first_name(given: Mapping[str, str], *names: str) -> str | None:
    return next((name for name in names if name in given), None)


@contextmanager
def _naming(key: str, where: str) -> Iterator[None]:
    """Raise ConfigurationError, with the setting, for what OpenSSL says in this block."""
    try:
        yield
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        complaint = f'"{key}" cannot be used: {_reason(key, error)}'
        raise ConfigurationError(where, (complaint,)) from None


def _reason(key: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return str(error.strerror)
    if not key.startswith(("ssl.certificate", "ssl.key")):
        return "it holds no certificate in PEM form, which begins with -----BEGIN CERTIFICATE-----"
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    return (
        "certificate or private key are not in PEM form, or the key needs another "
        f'"ssl.key.password" ({getattr(error, "reason", None) or error})'
    )

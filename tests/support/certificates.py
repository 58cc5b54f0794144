"""Certificates for the brokers of a test, signed by a new authority.

authority = Authority(folder)                        # clients trust authority.file
authority.sign("EXPIRED", ends=now - 3 * DAY)        # folder/EXPIRED.pem: a broker's keystore
"""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

NAME: Final = "the authority of a test"
DAY: Final = timedelta(days=1)
_HERE: Final = x509.IPAddress(ip_address("127.0.0.1"))
_A_YEAR: Final = 365 * DAY


class Authority:
    """A certificate authority; clients with its `file` trust it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._valid_from = datetime.now(UTC) - _A_YEAR
        self.file = folder / "ca.pem"
        name, end = _named(NAME), self._valid_from + 2 * _A_YEAR
        own = (
            x509.CertificateBuilder(name, name, self._key.public_key(), 1, self._valid_from, end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file.write_bytes(own.public_bytes(Encoding.PEM))

    def sign(self, name: str, *, ends: datetime, host: x509.GeneralName = _HERE) -> Path:
        """Write a certificate of `CN=<name>` and its key to one PEM file, and return the file."""
        key = ec.generate_private_key(ec.SECP256R1())
        number = x509.random_serial_number()
        signed = (
            x509.CertificateBuilder(
                _named(NAME), _named(name), key.public_key(), number, self._valid_from, ends
            )
            .add_extension(x509.SubjectAlternativeName([host]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self._folder / f"{name}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(private + signed.public_bytes(Encoding.PEM))
        return file


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

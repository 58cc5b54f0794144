"""A cluster with a listener for every way in, and what a person writes to come that way.

    with secured_kafka(folder) as secured:
        secured.settings("SCRAM-SHA-512", "reader")     # librdkafka's settings
        secured.allow("reader", READER_ACLS)

Three brokers in racks a, b and none. `reader` and `operator` have no permission but those of the
ACLs of a test; certificates name them as CN=reader and CN=operator.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cryptography import x509

from counterpoise.model.acl import Acl
from dev import local_kafka
from dev.local_kafka import BrokerSpec, Listener, LocalKafka, security
from dev.local_processes import free_ports
from tests.support.certificates import DAY, Authority
from tests.support.command_line import CommandLine
from tests.support.kafka_facts import CLIENTS_HERE, ON_A_SHARED_DISK
from tests.support.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint, token_endpoint

_ON_PURPOSE: Final = "{rule: certificate-expires, reason: made so, subjects: ['listener *']}"
_WAIVED: Final = f"audit: {{waivers: [{CLIENTS_HERE}, {_ON_PURPOSE}]}}"
RACKS: Final = {1: "a", 2: "b", 3: None}
PASSWORDS: Final = {"reader": "read-secret", "operator": "operate-secret"}
SASL_MECHANISMS: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
MECHANISMS: Final = (*SASL_MECHANISMS, "mTLS")
# The protocol of each listener; MIXED shows an expired certificate on broker 2 only.
LISTENERS: Final = {
    "SASL": "SASL_SSL",
    "CLEAR": "SASL_PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
    "MIXED": "SSL",
}


@dataclass(frozen=True)
class SecuredKafka:
    kafka: LocalKafka
    listeners: dict[int, dict[str, Listener]]  # by broker and name
    folder: Path  # certificates: <name>.pem
    tokens: TokenEndpoint

    @property
    def ca(self) -> Path:
        """Return the certificate that signed all others."""
        return self.folder / "ca.pem"

    def addresses(self, listener: str) -> str:
        """Return the bootstrap list of a listener."""
        return ",".join(by_name[listener].address for by_name in self.listeners.values())

    def at(self, listener: str, broker_id: int = 1) -> str:
        return self.listeners[broker_id][listener].address

    def settings(self, mechanism: str, who: str) -> dict[str, str]:
        """Return the settings of a connection as `who` by one of MECHANISMS."""
        ca = {"ssl.ca.location": str(self.ca)}
        if mechanism == "mTLS":
            own = str(self.folder / f"{who}.pem")
            return ca | {
                "bootstrap.servers": self.addresses("MUTUAL"),
                "security.protocol": "SSL",
                "ssl.certificate.location": own,
                "ssl.key.location": own,
            }
        settings = ca | {
            "bootstrap.servers": self.addresses("SASL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            return settings | {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": who,
                "sasl.oauthbearer.client.secret": PASSWORDS[who],
                "sasl.oauthbearer.token.endpoint.url": self.tokens.token_url,
            }
        return settings | {"sasl.username": who, "sasl.password": PASSWORDS[who]}

    def principals(self, who: str) -> tuple[str, str]:
        """Return how Kafka names `who`: by SASL, and by certificate."""
        return f"User:{who}", f"User:CN={who}"

    def allow(self, who: str, acls: Iterable[Acl]) -> None:
        for acl in acls:
            for principal in self.principals(who):
                security.allow(
                    self.kafka.bootstrap_string, principal, acl.operation, acl.resource_type
                )

    def disallow(self, who: str, acl: Acl) -> None:
        for principal in self.principals(who):
            security.disallow(
                self.kafka.bootstrap_string, principal, acl.operation, acl.resource_type
            )

    @contextmanager
    def allowing(self, who: str, acls: Iterable[Acl]) -> Iterator[None]:
        """Allow this for the time of the block; nothing else, where nothing was allowed before."""
        known = tuple(acls)
        self.allow(who, known)
        try:
            yield
        finally:
            for acl in known:
                self.disallow(who, acl)


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """Start the cluster and the token endpoint, and stop both afterwards."""
    ports = iter(free_ports(len(RACKS) * len(LISTENERS)))
    listeners = {
        broker_id: {
            name: Listener(name, next(ports), protocol) for name, protocol in LISTENERS.items()
        }
        for broker_id in RACKS
    }
    make_certificates(folder)
    brokers = [
        BrokerSpec(broker_id, rack, certificates(folder, broker_id), listeners=tuple(own.values()))
        for broker_id, rack in RACKS.items()
        for own in [listeners[broker_id]]
    ]
    with token_endpoint(PASSWORDS) as tokens:
        issuer = security.TokenIssuer(tokens.keys_url, ISSUER, AUDIENCE)
        properties = {
            **security.sasl(listeners[1]["SASL"], PASSWORDS, issuer),
            **security.sasl(listeners[1]["CLEAR"], PASSWORDS),
            **security.authorizer(),
        }
        with local_kafka.running(
            folder / "kafka", brokers, properties, jvm_options=[issuer.jvm_option]
        ) as kafka:
            security.add_scram_users(kafka.bootstrap_string, PASSWORDS)
            yield SecuredKafka(kafka, listeners, folder, tokens)


def make_certificates(folder: Path) -> None:
    """Write one of each kind; "unknown" is signed by an authority that nobody trusts."""
    now = datetime.now(UTC)
    authority = Authority(folder)
    for name in ("broker", *PASSWORDS):
        authority.sign(name, ends=now + 200 * DAY)
    authority.sign("EXPIRED", ends=now - 3 * DAY)
    authority.sign("ELSEWHERE", ends=now + 10 * DAY, host=x509.DNSName("*.kafka.example"))
    (folder / "other").mkdir()
    Authority(folder / "other").sign("unknown", ends=now + 200 * DAY)


def certificates(folder: Path, broker_id: int) -> dict[str, str]:
    """Return which certificate a broker shows on each listener."""
    good, expired = folder / "broker.pem", folder / "EXPIRED.pem"
    shown = {"SASL": good, "TLS": good, "EXPIRED": expired, "ELSEWHERE": folder / "ELSEWHERE.pem"}
    shown["MIXED"] = expired if broker_id == 2 else good
    properties = security.tls(Listener("MUTUAL", 0), good, folder / "ca.pem")
    for name, file in shown.items():
        properties |= security.tls(Listener(name, 0), file)
    return properties


def connect(
    shell: CommandLine,
    reader: Mapping[str, str],
    operator: Mapping[str, str] | None = None,
    policy: str = "",
) -> None:
    """Write the cluster "demo" with these connections; one serves both where there is one.

    `policy` is more of it: `"provider: msk"`.
    """
    names = "" if operator is None else "    operator_connection: kafka_operator\n"
    whole = ", ".join(filter(None, (ON_A_SHARED_DISK, _WAIVED, policy)))
    extra = f"{names}    policy: {{{whole}}}\n"
    shell.configure(reader["bootstrap.servers"], extra=extra)
    connections = {"kafka": dict(reader)} | ({"kafka_operator": dict(operator)} if operator else {})
    file = shell.folder / "connections.yaml"
    file.chmod(0o600)
    file.write_text(json.dumps(connections))

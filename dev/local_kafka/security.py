"""Properties of brokers with TLS, SASL and ACLs, and what is set up when they run.

    outside = Listener("OUTSIDE", 19093, "SASL_SSL")
    properties = tls(outside, keystore) | sasl(outside, {"me": "a secret"}) | authorizer("me")
    with running(directory, [BrokerSpec(1, "a", listeners=(outside,))], properties) as kafka:
        add_scram_users(kafka.bootstrap_string, {"me": "a secret"})
        allow(kafka.bootstrap_string, "User:reader", "Describe", "topic")

The first listener of a broker stays plaintext: brokers and the set-up come that way, as ANONYMOUS.

Limits: certificates are PEM files that the caller made; passwords stand in the brokers' files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from dev.local_kafka.broker import Listener

TIMEOUT_SECONDS: Final = 20.0
_MODULES: Final = "org.apache.kafka.common.security"
_SCRAM: Final = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
_SCRAM_ITERATIONS: Final = 4096


@dataclass(frozen=True, slots=True)
class TokenIssuer:
    """Whose tokens brokers accept: `keys_url` serves the public keys (JWKS)."""

    keys_url: str
    issuer: str
    audience: str

    @property
    def jvm_option(self) -> str:
        """Return the option without which a broker asks no address for keys."""
        return f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.keys_url}"


def tls(listener: Listener, keystore: Path, truststore: Path | None = None) -> dict[str, str]:
    """Return TLS for a listener; with `truststore`, clients need a certificate that it signed.

    `keystore` has key and certificate, and may differ by broker.
    """
    prefix = f"listener.name.{listener.name.lower()}.ssl"
    properties = {f"{prefix}.keystore.type": "PEM", f"{prefix}.keystore.location": str(keystore)}
    if truststore is not None:
        properties[f"{prefix}.client.auth"] = "required"
        properties[f"{prefix}.truststore.type"] = "PEM"
        properties[f"{prefix}.truststore.location"] = str(truststore)
    return properties


def sasl(
    listener: Listener, passwords: Mapping[str, str], issuer: TokenIssuer | None = None
) -> dict[str, str]:
    """Return SASL for a listener: PLAIN, SCRAM (`add_scram_users`) and, with `issuer`, tokens.

    `passwords` are those of PLAIN, by user.
    """
    prefix = f"listener.name.{listener.name.lower()}"
    users = " ".join(f'user_{user}="{password}"' for user, password in passwords.items())
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    properties = {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {users};",
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
    }
    if issuer is not None:
        package = f"{_MODULES}.oauthbearer"
        properties[f"{prefix}.sasl.enabled.mechanisms"] += ",OAUTHBEARER"
        properties |= {
            f"{prefix}.oauthbearer.sasl.jaas.config": f"{package}.OAuthBearerLoginModule required;",
            f"{prefix}.oauthbearer.sasl.server.callback.handler.class": (
                f"{package}.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": issuer.keys_url,
            "sasl.oauthbearer.expected.issuer": issuer.issuer,
            "sasl.oauthbearer.expected.audience": issuer.audience,
        }
    return properties


def authorizer(*super_users: str) -> dict[str, str]:
    """Return KRaft's authorizer; brokers, which are ANONYMOUS here, may do everything."""
    users = ["User:ANONYMOUS", *(f"User:{user}" for user in super_users)]
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(users),
    }


def add_scram_users(bootstrap: str, passwords: Mapping[str, str]) -> None:
    """Give these users a password for SCRAM-SHA-256 and SCRAM-SHA-512."""
    admin = _admin(bootstrap)  # a client without a name would end before the responses
    for mechanism in _SCRAM:  # Kafka refuses a user twice in one request
        credential = ScramCredentialInfo(mechanism, _SCRAM_ITERATIONS)
        changes: list[Any] = [
            UserScramCredentialUpsertion(user, credential, password.encode())
            for user, password in passwords.items()
        ]
        for future in admin.alter_user_scram_credentials(changes).values():
            future.result(TIMEOUT_SECONDS)


def allow(bootstrap: str, principal: str, operation: str, resource_type: str) -> None:
    """Add an ACL for all resources of a type: `allow(..., "User:me", "DescribeConfigs", "topic")`.

    Brokers act on it a moment later.
    """
    binding = AclBinding(*_pattern(principal, operation, resource_type))
    admin = _admin(bootstrap)
    admin.create_acls([binding])[binding].result(TIMEOUT_SECONDS)


def disallow(bootstrap: str, principal: str, operation: str, resource_type: str) -> None:
    """Take away what `allow` gave."""
    found = AclBindingFilter(*_pattern(principal, operation, resource_type))
    admin = _admin(bootstrap)
    admin.delete_acls([found])[found].result(TIMEOUT_SECONDS)


def _pattern(principal: str, operation: str, resource_type: str) -> tuple[Any, ...]:
    """Return the arguments of an ACL binding; `operation` is as kafka-acls.sh writes it."""
    is_cluster = resource_type == "cluster"
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in operation)
    return (
        ResourceType.BROKER if is_cluster else ResourceType[resource_type.upper()],
        "kafka-cluster" if is_cluster else "*",
        ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[words.lstrip("_").upper()],
        AclPermissionType.ALLOW,
    )


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

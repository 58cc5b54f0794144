"""Both Kafka clients at secured listeners of a real broker: every usual mistake there, and
permissions.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

import local_kafka
from counterpoise.discovery import discover
from counterpoise.errors import ClusterUnreachableError
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.cluster_admin import KafkaClusterAdmin
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.kafka import LIST_KEYS, RATE_KEYS, ConfigResource, ConfigResourceType
from local_kafka import TopicSpec, create_topics
from local_processes import free_ports, wait_until
from tests.support.certificates import DAY, Authority


def settings(bootstrap: str, **extra: str) -> ConnectionSettings:
    given = {key.replace("_", "."): value for key, value in extra.items()}
    return ConnectionSettings.parse({"bootstrap.servers": bootstrap} | given)


@dataclass(frozen=True)
class SecuredBroker:
    """Addresses by security protocol; `ca` is the certificate that signs the broker's."""

    addresses: dict[str, str]
    ca: Path


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    folder = tmp_path_factory.mktemp("secured")
    authority = Authority(folder)
    keystore = authority.sign("broker", ends=datetime.now(UTC) + 2 * DAY)
    ports = dict(zip(("SASL_PLAINTEXT", "SSL", "SASL_SSL"), free_ports(3), strict=True))
    with local_kafka.running(folder / "kafka", 1) as cluster:
        file = cluster.home(1).properties_file
        properties = dict(line.split("=", 1) for line in file.read_text().splitlines())
        for protocol, port in ports.items():
            for key in ("listeners", "advertised.listeners"):
                properties[key] += f",{protocol}://127.0.0.1:{port}"
            properties["listener.security.protocol.map"] += f",{protocol}:{protocol}"
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            properties[f"listener.name.{protocol.lower()}.plain.sasl.jaas.config"] = (
                f'{module} required user_me="hush-hush" user_limited="hush-hush";'
            )
        properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(keystore)}
        properties["sasl.enabled.mechanisms"] = "PLAIN"
        properties["authorizer.class.name"] = (
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        )
        properties["super.users"] = "User:ANONYMOUS;User:me"  # the broker itself comes as ANONYMOUS
        cluster.stop_broker(1)
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        cluster.restart_broker(1)
        addresses = {protocol: f"127.0.0.1:{port}" for protocol, port in ports.items()}
        yield SecuredBroker(addresses | {"PLAINTEXT": cluster.home(1).address}, authority.file)


SASL = {"sasl_mechanism": "PLAIN", "sasl_username": "me", "sasl_password": "hush-hush"}


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SSL", "SASL_SSL"])
def test_both_clients_pass_a_secured_listener(
    secured: SecuredBroker, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    extra = {"security_protocol": protocol} | (SASL if "SASL" in protocol else {})
    extra |= {"ssl_ca_location": str(secured.ca)} if "SSL" in protocol else {}
    with closing(connect(settings(secured.addresses[protocol], **extra))) as admin:
        assert [d.broker_id for d in admin.describe_log_dirs()] == [1]
        assert admin.describe_cluster().brokers[0].port == int(
            secured.addresses[protocol].rpartition(":")[2]
        )
    assert "hush-hush" not in caplog.text


@pytest.mark.parametrize(
    ("at", "extra", "reason"),
    [
        (
            "PLAINTEXT",
            {"security_protocol": "SSL"},
            'it does not speak TLS, but "security.protocol" is SSL',
        ),
        ("PLAINTEXT", SASL, "SASL PLAIN failed"),
        ("SASL_PLAINTEXT", {}, 'it wants SASL (PLAIN), but "security.protocol" is PLAINTEXT'),
        (
            "SASL_PLAINTEXT",
            SASL | {"sasl_password": "wrong"},
            "SASL PLAIN failed: .*Invalid username or password",
        ),
        (
            "SASL_PLAINTEXT",
            SASL | {"sasl_mechanism": "SCRAM-SHA-256"},
            "SASL SCRAM-SHA-256 .*supported mechanisms: PLAIN",
        ),
        ("SSL", {}, 'it speaks TLS, but "security.protocol" is PLAINTEXT'),
        ("SSL", {"security_protocol": "SSL"}, "TLS failed: .*certificate verify failed"),
        (
            "SASL_SSL",
            {"security_protocol": "SSL", "enable_ssl_certificate_verification": "false"},
            "it wants SASL (PLAIN)",
        ),
    ],
)
def test_every_mistake_at_a_secured_listener_is_named(
    secured: SecuredBroker, at: str, extra: dict[str, str], reason: str
) -> None:
    protocol = {"security_protocol": "SASL_PLAINTEXT" if "sasl_password" in extra else "PLAINTEXT"}
    with pytest.raises(ClusterUnreachableError) as caught:
        discover(connect(settings(secured.addresses[at], **(protocol | extra))))
    pattern = reason if ".*" in reason else re.escape(reason)
    assert re.search(pattern, caught.value.attempts[0][1])
    assert "hush-hush" not in str(caught.value)


# What a principal is allowed to do in turn, and what is then still refused.
GRANTS = (
    (
        None,
        {
            "set a broker's throttle rate",
            "set a topic's throttle lists",
            "reassign partitions",
            "elect leaders",
        },
    ),
    (
        (ResourceType.TOPIC, "orders", AclOperation.ALTER_CONFIGS),
        {"set a broker's throttle rate", "reassign partitions", "elect leaders"},
    ),
    ((ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER), {"set a broker's throttle rate"}),
    ((ResourceType.BROKER, "kafka-cluster", AclOperation.ALTER_CONFIGS), set()),
)


def test_what_the_principal_may_not_do_is_found_and_nothing_changes(secured: SecuredBroker) -> None:
    create_topics(secured.addresses["PLAINTEXT"], [TopicSpec("orders", [(1,)])])
    acls = AdminClient({"bootstrap.servers": secured.addresses["PLAINTEXT"]})
    limited = {"security_protocol": "SASL_PLAINTEXT"} | SASL | {"sasl_username": "limited"}
    with (
        closing(connect(settings(secured.addresses["PLAINTEXT"]))) as all_powerful,
        closing(connect(settings(secured.addresses["SASL_PLAINTEXT"], **limited))) as admin,
    ):
        before = everything(all_powerful)
        for grant, refused in GRANTS:
            if grant is not None:
                type_, name, operation = grant
                binding = AclBinding(
                    type_,
                    name,
                    ResourcePatternType.LITERAL,
                    "User:limited",
                    "*",
                    operation,
                    AclPermissionType.ALLOW,
                )
                acls.create_acls([binding])[binding].result(10)

            def is_found(refused: set[str] = refused) -> bool:
                return set(admin.refused_operations(1, "orders")) == refused

            wait_until(is_found, f"exactly these to be refused: {sorted(refused)}", 10.0)
            reasons = admin.refused_operations(1, "orders").values()
            assert all("the principal lacks a permission (ACL)" in reason for reason in reasons)
        assert everything(all_powerful) == before


def everything(admin: KafkaClusterAdmin) -> tuple[object, ...]:
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, "orders"),
        ConfigResource(ConfigResourceType.BROKER, "1"),
    ]
    return (
        admin.describe_topics(),
        admin.list_reassignments(),
        admin.describe_configs(resources, [*RATE_KEYS, *LIST_KEYS]),
    )

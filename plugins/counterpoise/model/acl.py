"""Kafka's permissions (ACLs) that Counterpoise needs, and the command that grants one.

    DESCRIBE_CONFIGS_OF_TOPICS.grant("User:counterpoise-reader")
    # kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --add --allow-principal User:counterpoise-reader
    #   --operation DescribeConfigs --topic '*'     (in one line)

Alter includes Describe, and AlterConfigs includes DescribeConfigs.

Limits: those of Kafka's own authorizers; a managed service may name and grant them in another way.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Final

_INCLUDED: Final = {"Alter": "Describe", "AlterConfigs": "DescribeConfigs"}


@dataclass(frozen=True, slots=True)
class Acl:
    """One permission: on the cluster, or on all topics or groups."""

    operation: str  # as kafka-acls.sh writes it
    resource_type: str  # cluster, topic, group or transactional-id

    def __str__(self) -> str:
        on = "the cluster" if self.resource_type == "cluster" else f"{self.resource_type} *"
        return f"{self.operation} on {on}"

    def includes(self, other: "Acl") -> bool:
        """Return whether whoever has this one has the other, too."""
        operations = (self.operation, _INCLUDED.get(self.operation))
        return other.resource_type == self.resource_type and other.operation in operations

    @property
    def in_words(self) -> str:
        """Return the permission, with the one that includes it."""
        if self.resource_type == "transactional-id":  # nobody can have Alter on one
            return str(self)
        including = [more for more, less in _INCLUDED.items() if less == self.operation]
        return f"{self} ({including[0]} includes it)" if including else str(self)

    def grant(self, principal: str) -> str:
        """Return the command that grants it, to be pasted into a shell."""
        resource = f"--{self.resource_type}"
        if self.resource_type != "cluster":
            resource += " '*'"
        return (
            'kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --add '
            f"--allow-principal {quote(principal)} --operation {self.operation} {resource}"
        )


DESCRIBE_CLUSTER: Final = Acl("Describe", "cluster")
DESCRIBE_CONFIGS_OF_BROKERS: Final = Acl("DescribeConfigs", "cluster")
DESCRIBE_TOPICS: Final = Acl("Describe", "topic")
DESCRIBE_CONFIGS_OF_TOPICS: Final = Acl("DescribeConfigs", "topic")
DESCRIBE_GROUPS: Final = Acl("Describe", "group")
ALTER_CLUSTER: Final = Acl("Alter", "cluster")
READ_RECORDS: Final = Acl("Read", "topic")
DESCRIBE_TRANSACTIONAL_IDS: Final = Acl("Describe", "transactional-id")
ALTER_CONFIGS_OF_BROKERS: Final = Acl("AlterConfigs", "cluster")
ALTER_CONFIGS_OF_TOPICS: Final = Acl("AlterConfigs", "topic")

# What the two connections of a cluster need, and nothing more.
READER_ACLS: Final = (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_OF_BROKERS,
    DESCRIBE_TOPICS,
    DESCRIBE_CONFIGS_OF_TOPICS,
    DESCRIBE_GROUPS,
)
OPERATOR_ACLS: Final = (
    ALTER_CLUSTER,
    ALTER_CONFIGS_OF_BROKERS,
    ALTER_CONFIGS_OF_TOPICS,
    DESCRIBE_TOPICS,
)

# What a cluster may refuse, and the permission that is missing then.
SET_RATE: Final = "set a broker's throttle rate"
SET_LISTS: Final = "set a topic's throttle lists"
REASSIGN: Final = "reassign partitions"
ELECT: Final = "elect leaders"
READ_CLUSTER: Final = "read reassignments, log dirs and the metadata quorum"
READ_BROKER_CONFIGS: Final = "read the configs of brokers"
READ_TOPICS: Final = "see every topic"
READ_TOPIC_CONFIGS: Final = "read the configs of topics"
READ_GROUPS: Final = "read consumer groups"

CHANGES: Final[Mapping[str, Acl]] = {
    SET_RATE: ALTER_CONFIGS_OF_BROKERS,
    SET_LISTS: ALTER_CONFIGS_OF_TOPICS,
    REASSIGN: ALTER_CLUSTER,
    ELECT: ALTER_CLUSTER,
}
READS: Final[Mapping[str, Acl]] = {
    READ_CLUSTER: DESCRIBE_CLUSTER,
    READ_BROKER_CONFIGS: DESCRIBE_CONFIGS_OF_BROKERS,
    READ_TOPICS: DESCRIBE_TOPICS,
    READ_TOPIC_CONFIGS: DESCRIBE_CONFIGS_OF_TOPICS,
    READ_GROUPS: DESCRIBE_GROUPS,
}

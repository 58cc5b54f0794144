"""What is done in tests with the lines that each rule of the audit gives to paste.

    executed = {*IN_FILES, *BY_COMMANDS, *FOR_CLIENTS, *SHOWN, *WITH_A_PLAN}
    NOT_EXECUTED["racks-missing"]        # why there is nothing that could be executed

A rule stands in one of these tables: `tests/unit/audit/test_lines.py` says which one is missing.
`tests/integration/test_audit_lines*.py` do with the lines what the tables say.
"""

from typing import Final

# Lines that mend the finding: edits of server.properties, and commands.
IN_FILES: Final = (
    "auto-create-topics",
    "auto-leader-rebalance",
    "controlled-shutdown-off",
    "default-replication-factor",
    "default-retention-typo",
    "flush-each-record",
    "internal-min-isr",
    "internal-replication-factor",
    "offsets-retention-short",
    "replication-factor-above-brokers",
    "static-configs-differ",
)
BY_COMMANDS: Final = (
    "broker-fenced",
    "cordoned-log-dirs",
    "dynamic-config-drift",
    "leaders-not-preferred",
    "leftover-throttle",
    "min-insync-1",
    "messages-very-large",
    "min-insync-blocks",
    "quorum-static",
    "reassignment-old",
    "retention-typo",
    "segment-above-retention",
    "throttle-rate-of-all-brokers",
    "unclean-leader-election",
)
ACL: Final = "acl-for-everybody"
FEATURES: Final = "features-below-possible"
HOT_TOPIC: Final = "hot-topic-few-partitions"
STALLED: Final = "reassignment-stalled"
ENDLESS: Final = "reassignment-endless"
# Each has a test of its own.
ONE_BY_ONE: Final = (
    ACL,
    ENDLESS,
    FEATURES,
    HOT_TOPIC,
    STALLED,
    "client-quota-tiny",
    "group-abandoned",
    "group-lost-records",
    "group-near-retention",
    "transactions-hanging",
)

# Lines for the configuration of clients, of which ours is one.
FOR_CLIENTS: Final = ("bootstrap-few-addresses", "bootstrap-dead-address")

# Lines that only show something, and what their output has to contain, as a pattern.
SHOWN: Final = {
    "eligible-leaders": r"Topic: strict\s.*\n?.*Elr: \d",
    "partitions-at-min-isr": r"Topic: orders\s+Partition: 0\s",
    "partitions-offline": r"Topic: single\s+Partition: 0\s+Leader: none",
    "partitions-under-min-isr": r"Topic: strict\s+Partition: 0\s",
    "partitions-under-replicated": r"Topic: orders\s+Partition: 0\s",
    "quorum-no-margin": r"NodeId\s.*LastCaughtUpTimestamp\s(?:.*\n)*3\s",
    "quorum-size": r"CurrentVoters:.*1.*2.*3",
    "quorum-voter-lags": r"NodeId\s.*LastCaughtUpTimestamp\s(?:.*\n)*3\s",
}
# The same for rules that do not fire in a sandbox, with the reason: their lines are those of a
# simulated cluster whose brokers and topics have the same names.
SHOWN_ANYHOW: Final = {
    "log-dirs-uneven": (r'"logDir":', "all log dirs of this machine are on one disk"),
    "metadata-differs": (
        r"\n3\s+c\s+live\s+\d+\s+127\.0\.0\.1:",
        "takes a broker that answers clients and is cut off from the controllers",
    ),
    "mixed-versions": (
        r"id: 3 [^$]*Feature: metadata.version",
        "a local cluster has one release of Kafka",
    ),
    "quorum-observer-lags": (
        r"NodeId\s.*LastCaughtUpTimestamp\s",
        "a broker that is behind for as long as this is fenced, and another rule tells of it",
    ),
    "replica-long-out-of-sync": (
        r"^\s*$",  # nothing is under-replicated
        "takes a replica that lags through three snapshots on a broker that is live",
    ),
}

# The line is the command of a plan.
WITH_A_PLAN: Final = (
    "idle-broker",
    "leaders-uneven",
    "replicas-uneven",
    "replication-factor-1",
    "replication-factor-low",
    "replication-factor-mixed",
    "topic-leaders-uneven",
)

_RACKS_OF_SEVERAL: Final = "its plan is that of a cluster whose racks are of several brokers"
_PLACE: Final = "names a file and a key; the value is one that only people know"
_DECISION: Final = "what to do is a decision of people, or work on machines"
_CLIENTS: Final = "gives clients the same line as bootstrap-dead-address"
NOT_EXECUTED: Final = {
    "acl-missing-allows": "ACLs come first: they are a decision of people",
    "advertised-duplicate": _PLACE,
    "advertised-ip-address": _PLACE,
    "advertised-loopback": _PLACE,
    "advertised-unreachable": _PLACE,
    "advertised-wrong-broker": _PLACE,
    "bootstrap-one-rack": _CLIENTS,
    "bootstrap-other-cluster": _CLIENTS,
    "bootstrap-removed-broker": _CLIENTS,
    "bytes-in-uneven": "its plan takes a history of traffic: test_load_on_brokers.py",
    "bytes-uneven": "its plan takes gigabytes: a difference below is none",
    "certificate-expires": _DECISION,
    "certificate-other-host": _DECISION,
    "controllers-combined": _DECISION,
    "disk-full-soon": _PLACE,
    "disk-nearly-full": _PLACE,
    "listener-security-differs": _PLACE,
    "listener-unencrypted": _DECISION,
    "log-dir-offline": _DECISION,
    "log-dirs-temporary": _PLACE,
    "name-with-dead-addresses": _DECISION,
    "not-answered": _DECISION,
    "no-authorizer": "ACLs come first: they are a decision of people",
    "partitions-in-one-rack": _RACKS_OF_SEVERAL,
    "partitions-uneven-over-racks": _RACKS_OF_SEVERAL,
    "partitions-per-broker": _DECISION,
    "quorum-no-leader": _DECISION,
    "quorum-one-rack": _DECISION,
    "racks-missing": _PLACE,
    "racks-single": _DECISION,
    "racks-uneven": _DECISION,
    "replicas-on-one-host": _PLACE,
    "retention-cannot-fit": _PLACE,
    "retention-without-end": _PLACE,
    "rights-refused": _PLACE,
    "tiered-storage-off": "names a storage manager that only people know",
    "topic-names-collide": _DECISION,
    "topics-over-provisioned": _DECISION,
    "waiver-expired": _DECISION,
}

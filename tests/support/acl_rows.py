"""What each of Kafka's permissions (ACLs) is for, and what happens without it.

`tests/nightly/test_acls.py` takes them away one at a time on a real cluster; the table in
docs/security.md is made from them:

    python -m tests.support.acl_rows            # prints it
    python -m tests.support.acl_rows --write    # into docs/security.md
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoise.model.acl import (
    ALTER_CLUSTER,
    ALTER_CONFIGS_OF_BROKERS,
    ALTER_CONFIGS_OF_TOPICS,
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_OF_BROKERS,
    DESCRIBE_CONFIGS_OF_TOPICS,
    DESCRIBE_GROUPS,
    DESCRIBE_TOPICS,
    OPERATOR_ACLS,
    READER_ACLS,
    Acl,
)

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "security.md"
BEGIN: Final = "<!-- acls: made by tests/support/acl_rows.py -->"
END: Final = "<!-- end of acls -->"
PRINCIPALS: Final = {"reader": "User:counterpoise-reader", "operator": "User:counterpoise-operator"}


@dataclass(frozen=True)
class AclRow:
    """One permission of one principal; `fails` are the commands that fail without it."""

    who: str  # reader or operator
    acl: Acl
    purpose: str
    fails: tuple[str, ...]
    found_by: str  # the command that finds it missing before anything is approved

    def __str__(self) -> str:
        return f"{self.who}: {self.acl}"


_READING: Final = ("snapshot", "plan", "verify", "audit")
ROWS: Final = (
    AclRow(
        "reader",
        DESCRIBE_CLUSTER,
        "reassignments, log dirs, metadata quorum, ACLs, list of consumer groups",
        _READING,
        "doctor",
    ),
    AclRow(
        "reader",
        DESCRIBE_CONFIGS_OF_BROKERS,
        "configs and throttle rates of brokers, quotas",
        _READING,
        "doctor",
    ),
    AclRow(
        "reader",
        DESCRIBE_TOPICS,
        "topics, partitions, leaders, offsets (Kafka leaves topics out without an error; what "
        "brokers store tells)",
        _READING,
        "doctor",
    ),
    AclRow(
        "reader",
        DESCRIBE_CONFIGS_OF_TOPICS,
        "configs and throttled replicas of topics",
        _READING,
        "doctor",
    ),
    AclRow(
        "reader",
        DESCRIBE_GROUPS,
        "consumer groups and their offsets, for audits (not known without it)",
        (),
        "doctor",
    ),
    AclRow(
        "operator",
        ALTER_CLUSTER,
        "reassignments, elections, and reading what is under way",
        ("execute",),
        "preflight",
    ),
    AclRow(
        "operator",
        ALTER_CONFIGS_OF_BROKERS,
        "throttle rates of brokers, and reading them back",
        ("execute",),
        "preflight",
    ),
    AclRow(
        "operator",
        ALTER_CONFIGS_OF_TOPICS,
        "throttled replicas of topics, and reading them back",
        ("execute",),
        "preflight",
    ),
    AclRow("operator", DESCRIBE_TOPICS, "topics, partitions, leaders", ("execute",), "preflight"),
)


def table() -> str:
    """Return the commands and the table, as docs/security.md has them."""
    lines = [BEGIN]
    for who, acls in (("reader", READER_ACLS), ("operator", OPERATOR_ACLS)):
        lines += [f"    {acl.grant(PRINCIPALS[who])}" for acl in acls]
        lines.append("")
    lines += ["| principal | ACL | for | fails without it | found by |", "|" + " --- |" * 5]
    for row in ROWS:
        fails = ", ".join(f"`{command}`" for command in row.fails) or "nothing"
        cells = (row.who, f"`{row.acl}`", row.purpose, fails, f"`{row.found_by}`")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, END])


def main() -> None:
    if sys.argv[1:] != ["--write"]:
        sys.stdout.write(table() + "\n")
        return
    before, rest = DOCUMENT.read_text().split(BEGIN)
    DOCUMENT.write_text(before + table() + rest.split(END)[1])


if __name__ == "__main__":
    main()

"""Who does something: a kind of account, and its login name.

    Person.airflow("alice").shown                    # alice
    Person.system("alice").in_full                   # the system user alice
    Person.from_ledger("airflow:alice").recorded     # airflow:alice

The api-server, Airflow's scheduler or the operating system says which account it is. Limits:
whether an account of Airflow and one of the system belong to one human is not known, so where two
people have to differ, both have to have accounts of one kind (`access.py`).
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from counterpoise.errors import InputError


class AccountKind(StrEnum):
    AIRFLOW = "airflow"  # the name is that of Airflow's login
    SYSTEM = "system"  # of the operating system, on the command line
    DAG = "airflow-dag"  # the name is the Dag's id; "" where Airflow does not say it
    RULE = "policy-rule"  # of `approval: automatic`; the name is the goal
    UNKNOWN = "unknown"  # nobody, or somebody whom Airflow does not name


AIRFLOW_ROLE: Final = "airflow-role:"  # before its name, where a policy lists who may view
GROUP: Final = "group:"  # before its name, where a policy lists people
ANALYSIS_DAG: Final = "kafka_leader_balance"
_OWN_DAGS: Final = frozenset({ANALYSIS_DAG, "kafka_rebalance"})
KIND_NAMES: Final = {AccountKind.AIRFLOW: "Airflow user", AccountKind.SYSTEM: "system user"}
_SHOWN: Final = {
    AccountKind.SYSTEM: "{} (system user)",
    AccountKind.DAG: "{} (Dag)",
    AccountKind.RULE: "rule {} (policy)",
}


@dataclass(frozen=True, slots=True)
class Person:
    kind: AccountKind
    name: str

    @classmethod
    def airflow(cls, name: str) -> "Person":
        """Return a user of Airflow. Raises InputError for a name that cannot be read."""
        return cls(AccountKind.AIRFLOW, readable_name(name, where="Airflow user"))

    @classmethod
    def system(cls, name: str) -> "Person":
        """Return a user of the operating system. Raises InputError as `airflow` does."""
        return cls(AccountKind.SYSTEM, readable_name(name, where="system user"))

    @classmethod
    def dag(cls, dag_id: str) -> "Person":
        return cls(AccountKind.DAG, dag_id)

    @classmethod
    def of_analysis(cls) -> "Person":
        """Return as whom the analysis asks for plans, and withdraws what is no longer needed."""
        return cls.dag(ANALYSIS_DAG)

    @classmethod
    def of_rule(cls, goal: str) -> "Person":
        """Return as whom a rule of the policy approves plans for a goal."""
        return cls(AccountKind.RULE, goal)

    @classmethod
    def unknown(cls, name: str = "somebody unknown") -> "Person":
        return cls(AccountKind.UNKNOWN, name)

    @classmethod
    def from_ledger(cls, recorded: str) -> "Person":
        kind, separator, name = recorded.partition(":")
        if separator and kind in set(AccountKind):
            return cls(AccountKind(kind), name)
        return cls.unknown(recorded)

    @property
    def recorded(self) -> str:
        """Return what the ledger keeps, such as `airflow:alice`."""
        return f"{self.kind}:{self.name}"

    @property
    def shown(self) -> str:
        """Return for example `alice`, `alice (system user)`, `kafka_leader_balance (Dag)`."""
        if self.kind is AccountKind.DAG and not self.name:
            return "a Dag"
        return _SHOWN.get(self.kind, "{}").format(self.name)

    @property
    def in_full(self) -> str:
        """Return the person with the kind of account, such as `the Airflow user alice`."""
        return f"the {KIND_NAMES[self.kind]} {self.name}" if self.is_human else self.shown

    @property
    def is_human(self) -> bool:
        return self.kind in KIND_NAMES

    @property
    def is_own_dag(self) -> bool:
        """Return whether nobody but a Dag of ours asks: the analysis, or a removal repeated."""
        return self.kind is AccountKind.DAG and self.name in _OWN_DAGS

    @property
    def is_rule(self) -> bool:
        """Return whether no human, but a rule of the policy approves."""
        return self.kind is AccountKind.RULE

    @property
    def identity(self) -> tuple[AccountKind, str]:
        """Return what different spellings of one login have in common: `Alice` is `alice`."""
        folded = unicodedata.normalize("NFKC", self.name).casefold()
        return self.kind, unicodedata.normalize("NFKC", folded)

    def is_same(self, other: "Person") -> bool:
        """Return whether both are one account, however its name is spelt."""
        return self.identity == other.identity


def readable_name(name: str, *, where: str) -> str:
    """Return a name as it is. Raises InputError for an empty one, and for one with characters that
    nobody can see.
    """
    if not name.strip():
        raise InputError(f"{where}: must not be empty; the ledger keeps it for later questions")
    if not name.isprintable():
        raise InputError(f"{where}: {name!a} has characters that cannot be seen")
    return name


# -- whom the settings name


def accounts_of(entry: str) -> tuple[Person, ...]:
    """Return the accounts that an entry of `access` stands for; () for a role of Airflow."""
    if entry.startswith(AIRFLOW_ROLE):
        return ()
    for kind in KIND_NAMES:
        if entry.startswith(f"{kind}:"):
            return (Person(kind, entry.removeprefix(f"{kind}:")),)
    return tuple(Person(kind, entry) for kind in KIND_NAMES)


def count_of_one_kind(entries: Iterable[str]) -> int:
    """Return how many different people these are for sure: accounts of one kind."""
    identities = {account.identity for entry in entries for account in accounts_of(entry)}
    kinds = [kind for kind, _ in identities]
    return max((kinds.count(kind) for kind in KIND_NAMES), default=0)

"""People, and the accounts by which Airflow and the operating system know them.

    people = People({"airflow:2": "alice", "system:asmith": "alice"}, {"sre": ("alice", "bob")})
    people.airflow_user("2", "alice.smith").shown                # alice (airflow:2)
    asmith = people.system_user("asmith")                        # alice (system:asmith)
    people.claimed_by(asmith, "carol").shown                     # carol (claimed by system user asmith)

An account is verified: the api-server or the operating system says so. A name that somebody types
is only claimed. What somebody may do follows from the account (`People.name_of`), which has to
match exactly; whether two are the same person is judged generously, so that nobody counts twice.
"""  # noqa: E501 - an example a line

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from counterpoise.errors import InputError

AIRFLOW: Final = "airflow"
SYSTEM: Final = "system"
DAG: Final = "airflow-dag"
ANALYSIS_DAG: Final = "kafka_leader_balance"  # its account is of the kind DAG
RULE: Final = "policy-rule"  # of `approval: by_rule`
GROUP: Final = "group:"  # before its name, where a policy lists people
_CLAIMED: Final = "claimed:"
# Python calls them printable, but nobody sees them: joiners, fillers, variation selectors, and the
# pattern of Braille that has no dot.
_INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)


def normalized_name(text: str, *, where: str) -> str:
    """Return a name in Unicode's normal form, without blanks around it or doubled ones inside.

    Raises InputError for an empty name, and for one with characters that nobody can see.
    """
    name = " ".join(unicodedata.normalize("NFKC", text).split())
    if not name:
        raise InputError(f"{where}: must not be empty; the ledger keeps it for later questions")
    if not name.isprintable() or _INVISIBLE.search(name):
        raise InputError(f"{where}: {text!a} has characters that cannot be seen")
    return name


def name_key(name: str) -> str:
    """Return what two spellings of one name have in common: `Alice  Smith ` is `alice smith`."""
    folded = unicodedata.normalize("NFKC", name).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


@dataclass(frozen=True, slots=True)
class Person:
    """Who does something: a name for people to read, and the account that was verified.

    `account` is like "airflow:2", "system:asmith", "airflow-dag:kafka_leader_balance" or
    "policy-rule:small"; "" where the name alone is known.
    """

    name: str
    account: str = ""
    is_claimed: bool = False  # by the account: nobody has verified the name
    # Airflow's word for the account, where it is not the name; the ledger does not keep it.
    user_name: str = field(default="", compare=False, repr=False)

    @property
    def account_id(self) -> str:
        """Return `2` of the account "airflow:2"."""
        return self.account.partition(":")[2]

    @property
    def shown(self) -> str:
        """Return for example `alice`, `alice (airflow:2)`, `carol (claimed by system user bob)`."""
        if self.is_claimed:
            return f"{self.name} (claimed by {_account_in_words(self.account)})"
        if self.is_rule:
            return f"rule {self.account_id} (policy)"
        has_more_to_say = bool(self.account) and self.account_id != self.name
        return f"{self.name} ({self.account})" if has_more_to_say else self.name

    @property
    def is_dag(self) -> bool:
        """Return whether nobody but a Dag of ours asks: the analysis, or a removal repeated."""
        return self.account.startswith(f"{DAG}:") and not self.is_claimed

    @property
    def is_rule(self) -> bool:
        """Return whether no human, but a rule of the policy approves."""
        return self.account.startswith(f"{RULE}:") and not self.is_claimed

    @classmethod
    def of_analysis(cls) -> "Person":
        """Return as whom the analysis asks for plans, and withdraws what is no longer needed."""
        return cls("analysis", f"{DAG}:{ANALYSIS_DAG}")

    @classmethod
    def of_rule(cls, name: str) -> "Person":
        """Return as whom a rule of the policy approves."""
        return cls(f"rule {name}", f"{RULE}:{name}")

    @property
    def recorded_account(self) -> str | None:
        """Return what the ledger keeps beside the name; `from_ledger` reads it."""
        if self.is_claimed:
            return f"{_CLAIMED}{self.account}"
        return self.account or None

    @classmethod
    def from_ledger(cls, name: str, recorded_account: str | None) -> "Person":
        recorded = recorded_account or ""
        return cls(name, recorded.removeprefix(_CLAIMED), recorded.startswith(_CLAIMED))

    def is_same(self, other: "Person") -> bool:
        """Return whether both may be one human: by account, whatever it claims, or by name."""
        has_same_account = bool(self.account) and self.account == other.account
        return has_same_account or not self._keys.isdisjoint(other._keys)

    @property
    def _keys(self) -> set[str]:
        keys = {name_key(self.name)}
        if self.account and not self.is_claimed and not self.is_rule:
            keys.add(name_key(self.account_id))
        if self.user_name:
            keys.add(name_key(self.user_name))
        return keys


def _account_in_words(account: str) -> str:
    kind, _, account_id = account.partition(":")
    dag = f"the Dag {account_id}" if account_id else "a Dag"
    words = {SYSTEM: f"system user {account_id}", DAG: dag}
    return words.get(kind) or account or "somebody unknown"


@dataclass(frozen=True, slots=True)
class People:
    """Who is behind which account, and who belongs to which group: the top of clusters.yaml."""

    accounts: Mapping[str, str] = field(default_factory=dict)  # "airflow:2": "alice"
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def name_of(self, account: str) -> str:
        """Return the name that an account stands for: its person's, else its own id.

        An id that is spelt like a person whose accounts of this kind are listed, and is none of
        them, belongs to somebody else: the whole account is the name then.
        """
        if account in self.accounts:
            return self.accounts[account]
        kind, _, account_id = account.partition(":")
        is_nobody = not account_id or self._is_listed(account_id, kind)
        return account if is_nobody else account_id

    def names_in(self, entry: str) -> tuple[str, ...]:
        """Return the names that an entry of a policy stands for: its own, or those of its group."""
        if not entry.startswith(GROUP):
            return (entry,)
        return self.groups.get(entry.removeprefix(GROUP), (entry,))  # never nobody: () is everybody

    def accounts_of(self, name: str, kind: str) -> tuple[str, ...]:
        """Return the ids by which a system knows a person: as listed, else the name itself."""
        listed = tuple(
            account.partition(":")[2]
            for account, person in self.accounts.items()
            if account.startswith(f"{kind}:") and name_key(person) == name_key(name)
        )
        return listed or (name,)

    def airflow_user(self, user_id: str, user_name: str = "") -> Person:
        """Return who a user of Airflow is. `user_name` is for reading: it gives no permission.

        Raises InputError for an id that cannot be told from another one.
        """
        account = f"{AIRFLOW}:{user_id}"
        normalized_name(user_id, where="Airflow user")
        name = self.name_of(account)
        if account not in self.accounts and user_name and not self._is_listed(user_name, AIRFLOW):
            name = user_name
        return Person(normalized_name(name, where="Airflow user"), account, user_name=user_name)

    def system_user(self, user_name: str) -> Person:
        """Return who a user of the operating system is."""
        account = f"{SYSTEM}:{user_name}"
        return Person(normalized_name(self.name_of(account), where="system user"), account)

    def claimed_by(self, person: Person, name: str) -> Person:
        """Return `person` where `name` is theirs, else that name as one that they only claim.

        Raises InputError for an empty name.
        """
        claimed = normalized_name(name, where="by")
        own_names = {name_key(person.name), name_key(self.name_of(person.account))}
        if name_key(claimed) in own_names:
            return person
        known = {name_key(known): known for known in self.accounts.values()}
        return Person(known.get(name_key(claimed), claimed), person.account, is_claimed=True)

    def verified(self, person: Person) -> Person:
        """Return a person without what they claim: the name that their account stands for."""
        if not person.account or person.is_rule:
            return person
        return replace(person, name=self.name_of(person.account), is_claimed=False)

    def may_be_one(self, person: Person, other: Person) -> bool:
        """Return whether both may be one human: by name, by account, or as the file lists them,
        whatever names they claim.
        """
        return any(
            one.is_same(another)
            for one in (person, self.verified(person))
            for another in (other, self.verified(other))
        )

    def _is_listed(self, name: str, kind: str) -> bool:
        """Return whether a name is that of a person with accounts of a kind, or one of the ids."""
        listed = {
            name_key(text)
            for account, person in self.accounts.items()
            if account.startswith(f"{kind}:")
            for text in (person, account.partition(":")[2])
        }
        return name_key(name) in listed

"""`config/clusters.yaml`: its sections, what it comes to, and what has to hold between its values.

    people: {alice: {airflow: ["2", alice], command_line: [asmith]}}
    groups: {sre: [alice, bob]}
    clusters: {orders-eu: {connection: kafka_eu, policy: {access: {approve: ["group:sre"]}}}}

    read_settings(path).cluster("orders-eu").policy.access.approve      # ("group:sre",)

What a single value has to look like is said by its type, in `model/policy.py` and here.
"""

import re
import stat
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

from counterpoise.errors import ConfigurationError, InputError, UnknownNameError
from counterpoise.input_files import CLUSTERS, read_input_text
from counterpoise.model.constraints import Constraints
from counterpoise.model.person import AIRFLOW, GROUP, SYSTEM, People, name_key
from counterpoise.model.policy import (
    Action,
    ApprovalPolicy,
    ApprovalRule,
    ClusterPolicy,
    HistoryPolicy,
    NotifyPolicy,
)
from counterpoise.model.request import Goal
from counterpoise.model.setting import (
    AccountId,
    NotEmpty,
    PersonName,
    Section,
    Text,
    Written,
)
from counterpoise.settings.yaml_document import YamlDocument
from counterpoise.units import format_bytes, format_seconds

Complaint = tuple[tuple[str | int, ...], str]  # the path in the file, and what is wrong
Identity = tuple[str, int, int, int, int]  # of a file: what changes with its content

_CLUSTER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
# Whatever these plan, they copy replicas; fewer replicas are what two people approve.
_COPYING_GOALS: Final = frozenset(
    {Goal.ADD_BROKERS, Goal.REMOVE_BROKERS, Goal.REPAIR, Goal.REPLICATION_FACTOR}
)


def _cluster_name(text: str) -> str:
    if not _CLUSTER_NAME.fullmatch(text):
        raise InputError(
            "a cluster's name has lower-case letters, digits, dots, dashes and underscores only"
        )
    return text


ClusterName = Annotated[str, Written("name, like orders-eu", _cluster_name)]
_Listed = NotEmpty("the list is empty; leave the key out")


@dataclass(frozen=True, slots=True)
class Accounts(Section):
    """The accounts of one person."""

    airflow: Annotated[tuple[AccountId, ...], _Listed] = ()
    """Ids and user names in Airflow."""
    command_line: Annotated[tuple[AccountId, ...], _Listed] = ()
    """User names of the operating system."""


@dataclass(frozen=True, slots=True)
class ClusterSection(Section):
    connection: Text
    """Id of the Kafka connection for reading."""
    operator_connection: Text | None = None
    """Id of the Kafka connection for runs; without it the same. Set it to keep reading apart from
    changing."""
    cluster_id: Text | None = None
    """Kafka's id of the cluster: any other cluster at this connection is refused. Set it once you
    have seen it in the first snapshot."""
    policy: ClusterPolicy = field(default_factory=ClusterPolicy)


@dataclass(frozen=True, slots=True)
class ClustersFile(Section):
    clusters: Mapping[ClusterName, ClusterSection]
    people: Mapping[PersonName, Accounts] = field(default_factory=dict)
    """Who is behind which account. List people whose names in Airflow and on the command line
    differ."""
    groups: Mapping[Text, Annotated[tuple[PersonName, ...], NotEmpty("names nobody")]] = field(
        default_factory=dict
    )
    """People by group, which a policy names as `group:NAME`."""
    notify: NotifyPolicy = field(default_factory=NotifyPolicy)


# -- what it comes to


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    name: str
    connection_id: str  # read-only work
    operator_connection_id: str  # work that changes the cluster
    pinned_cluster_id: str | None
    policy: ClusterPolicy
    listed_as: str = ""  # in the file, where somebody typed an address of the cluster


@dataclass(frozen=True, slots=True)
class Settings:
    where: str
    clusters: Mapping[str, ClusterSettings]
    people: People = field(default_factory=People)

    def named(
        self, cluster_id: str, pinned_by_ledger: Mapping[str, str] | None = None
    ) -> ClusterSettings | None:
        """Return the cluster with Kafka's id: the one that the file gives it, or, for a cluster
        without, the one that the ledger has pinned for its name.
        """
        pinned = pinned_by_ledger or {}
        for cluster in self.clusters.values():
            if cluster_id and cluster_id == (cluster.pinned_cluster_id or pinned.get(cluster.name)):
                return cluster
        return None

    def cluster(self, name: str) -> ClusterSettings:
        """Return a cluster by its name. Raises InputError for a name that is not there."""
        if name not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none"
            raise UnknownNameError(f"cluster {name!r} is not in {self.where}; there are: {known}")
        return self.clusters[name]


_READ: Final[dict[Identity, Settings]] = {}  # of the file that was read last


def read_settings(path: Path) -> Settings:
    """Return the settings in a file; a file that has not changed since the last time is not parsed
    again: with 200 clusters that takes half a second, and pages read it with each request.

    Raises ConfigurationError when it cannot be read, or is malformed.
    """
    identity = _identity(path)
    known = _READ.get(identity) if identity is not None else None
    if known is not None:
        return known
    try:
        content = read_input_text(path, "", CLUSTERS)
    except InputError as error:
        complaint = f"{error}; COUNTERPOISE_CONFIG names another file".removeprefix(f"{path}: ")
        raise ConfigurationError(str(path), (complaint,)) from None
    settings = parse_settings(content, where=str(path))
    # Not kept where the file was changed meanwhile.
    if identity is not None and identity == _identity(path):
        _READ.clear()
        _READ[identity] = settings
    return settings


def _identity(path: Path) -> Identity | None:
    """Return what changes with a file's content; None for what is no regular file."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return str(path), found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def parse_settings(content: str, *, where: str) -> Settings:
    """Return the settings. Raises ConfigurationError with every complaint, each with its line."""
    document = YamlDocument(content, where=where)
    if document.is_empty:
        raise ConfigurationError(where, ('line 1: the file is empty; it needs "clusters"',))
    file = document.read(ClustersFile)
    if file is not None:
        for path, message in (*_of_people(file), *_of_clusters(file)):
            document.complain(path, message)
    document.finish()
    assert file is not None, "what cannot be read was complained of"
    return Settings(where, _clusters(file, document), people_in(file))


def _clusters(file: ClustersFile, document: YamlDocument) -> dict[str, ClusterSettings]:
    clusters = {}
    for name, cluster in file.clusters.items():
        policy = cluster.policy
        if "notify" not in document.content["clusters"][name].get("policy", {}):
            policy = replace(policy, notify=file.notify)
        operator = cluster.operator_connection or cluster.connection
        clusters[name] = ClusterSettings(
            name, cluster.connection, operator, cluster.cluster_id, policy
        )
    return clusters


# -- what has to hold between its values


def people_in(file: ClustersFile) -> People:
    accounts = {f"{kind}:{account_id}": name for name, kind, account_id in _accounts(file)}
    return People(accounts, dict(file.groups))


def _accounts(file: ClustersFile) -> Iterator[tuple[str, str, str]]:
    """Yield person, kind of account, and its id."""
    for name, accounts in file.people.items():
        yield from ((name, AIRFLOW, account_id) for account_id in accounts.airflow)
        yield from ((name, SYSTEM, account_id) for account_id in accounts.command_line)


def _of_people(file: ClustersFile) -> Iterator[Complaint]:
    spellings: dict[str, str] = {}
    for name in file.people:
        earlier = spellings.setdefault(name_key(name), name)
        if earlier != name:
            complaint = f"people: {name!r} and {earlier!r} are the same name; list it once"
            yield ("people", name), complaint
    owners: dict[tuple[str, str], str] = {}
    for name, kind, account_id in _accounts(file):
        owner = owners.setdefault((kind, account_id), name)
        if owner != name:
            key = "airflow" if kind == AIRFLOW else "command_line"
            yield (
                ("people", name, key),
                f"people: {key} {account_id!r} belongs to {owner} and to {name}; "
                "an account is one person",
            )
    for name, accounts in file.people.items():
        if not accounts.airflow and not accounts.command_line:
            yield ("people", name), f"people: {name} has no account; list airflow or command_line"


def _of_clusters(file: ClustersFile) -> Iterator[Complaint]:
    people = people_in(file)
    names: dict[str, str] = {}
    for name, cluster in file.clusters.items():
        first = names.setdefault(cluster.cluster_id or name, name)
        if first != name:
            # Two names of one cluster would have a run, a step lock and a policy each.
            yield (
                ("clusters", name, "cluster_id"),
                f"clusters {first} and {name} have the same cluster_id: one Kafka cluster has one "
                "name",
            )
        for path, message in _of_policy(cluster.policy, people):
            yield ("clusters", name, "policy", *path), message


def _of_policy(policy: ClusterPolicy, people: People) -> Iterator[Complaint]:
    yield from _of_access(policy, people)
    yield from _of_two_people(policy, people)
    yield from _of_rules(policy.approval)
    for path, message in _of_broker_sets(policy.balance.constraints):
        yield ("balance", "constraints", *path), message
    for path, message in _of_history(policy.history):
        yield ("history", *path), message
    max_rate = policy.approval.max_rate_bytes_per_second
    if max_rate and policy.movement.rate_bytes_per_second > max_rate:
        yield (
            ("approval", "max_rate"),
            "max_rate is less than the rate of movement, which approvers are offered",
        )


def _of_access(policy: ClusterPolicy, people: People) -> Iterator[Complaint]:
    """Yield complaints of unknown groups, and of groups without their prefix."""
    for action in Action:
        path = ("access", str(action))
        for entry in getattr(policy.access, action):
            group = entry.removeprefix(GROUP)
            if entry.startswith(GROUP) and group not in people.groups:
                known = ", ".join(sorted(people.groups)) or "none"
                yield path, f"{action}: there is no group {group!r}; there are: {known}"
            elif entry in people.groups and entry not in people.accounts.values():
                yield path, f'{action}: {entry!r} is a group; write "{GROUP}{entry}"'


def _of_two_people(policy: ClusterPolicy, people: People) -> Iterator[Complaint]:
    """Yield a complaint where two people have to approve, and the policy names one."""
    approvers = policy.access.approve
    if not policy.approval.may_need_two_people or not approvers:
        return
    names = {name_key(name) for entry in approvers for name in people.names_in(entry)}
    if len(names) < 2:
        key = "critical" if policy.approval.critical else "two_people_above"
        yield (
            ("approval", key),
            f"{key} asks for two people, but the policy names nobody but "
            f"{', '.join(approvers)} to approve, so such a plan could never be approved; "
            "name another person",
        )


def _of_broker_sets(constraints: Constraints) -> Iterator[Complaint]:
    """Yield complaints of sets without brokers, and of brokers and racks in two sets."""
    places: Counter[int | str] = Counter()
    for broker_set in constraints.broker_sets:
        places.update({*broker_set.broker_ids, *broker_set.racks})
        if not broker_set.broker_ids and not broker_set.racks:
            yield (
                ("broker_sets",),
                f"broker set {broker_set.name!r} has no brokers; give broker_ids or racks",
            )
    for place in sorted(str(place) for place, count in places.items() if count > 1):
        yield ("broker_sets",), f"{place} is in two broker sets; a broker is in one"


def _of_history(history: HistoryPolicy) -> Iterator[Complaint]:
    """Yield complaints of times that reach less far than the one before, defaults included."""
    kept = {key: getattr(history, key) for key in ("keep_all", "keep_hourly", "keep_daily")}
    for before, after in pairwise(kept):
        if kept[after] < kept[before]:
            is_default = kept[after] == getattr(HistoryPolicy(), after)
            yield (
                (before if is_default else after,),
                f"{after} ({format_seconds(kept[after].total_seconds())}) must not be shorter "
                f"than {before} ({format_seconds(kept[before].total_seconds())})",
            )


# -- rules that approve without a person


def _of_rules(policy: ApprovalPolicy) -> Iterator[Complaint]:
    """Yield complaints of rules with one name, and of those that could approve no plan."""
    if policy.by_rule and policy.critical:
        yield (
            ("approval", "by_rule"),
            "two people approve every plan of a critical cluster, so no rule could ever approve "
            "one; leave out by_rule or critical",
        )
    names = [rule.name for rule in policy.by_rule]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield ("approval", "by_rule"), f"two rules are called {name}; the ledger names them"
    for number, rule in enumerate(policy.by_rule):
        for key, complaint in _of_rule(rule, policy):
            yield ("approval", "by_rule", number, key), f"rule {rule.name}: {complaint}"


def _of_rule(rule: ApprovalRule, policy: ApprovalPolicy) -> Iterator[tuple[str, str]]:
    """Yield the key and what is wrong with it."""
    max_bytes = rule.copies_at_most_bytes
    for goal in rule.goals:
        if not max_bytes and goal in _COPYING_GOALS:
            yield (
                "goals",
                f"without copies_at_most it approves only what copies no replica, and no plan for "
                f"{goal} is such; give copies_at_most or leave out {goal}",
            )
    two_people_above = policy.two_people_above_bytes
    if two_people_above is not None and max_bytes > two_people_above:
        yield (
            "copies_at_most",
            f"two people approve what copies more than {format_bytes(two_people_above)} "
            "(two_people_above); write at most that",
        )

"""`config/clusters.yaml`: its sections, what it comes to, and what has to hold between its values.

    groups: {sre: [alice, bob]}
    clusters: {orders-eu: {connection: kafka_eu, policy: {access: {approve: ["group:sre"]}}}}

    read_settings(path).cluster("orders-eu").policy.access.approve      # ("alice", "bob")

What a single value has to look like is said by its type, in `model/policy.py` and here.
"""

import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

from counterpoise.errors import ConfigurationError, InputError, UnknownNameError
from counterpoise.input_files import CLUSTERS, read_input_text
from counterpoise.model.constraints import Constraints
from counterpoise.model.person import GROUP, count_of_one_kind
from counterpoise.model.policy import (
    AccessPolicy,
    Action,
    ApprovalPolicy,
    ClusterPolicy,
    HistoryPolicy,
    NotifyPolicy,
)
from counterpoise.model.request import Goal, goals_that
from counterpoise.model.setting import (
    Account,
    NotEmpty,
    Section,
    Text,
    Written,
)
from counterpoise.settings.yaml_document import YamlDocument
from counterpoise.units import format_seconds

Complaint = tuple[tuple[str | int, ...], str]  # the path in the file, and what is wrong
Groups = Mapping[str, tuple[str, ...]]
Identity = tuple[str, int, int, int, int]  # of a file: what changes with its content

_CLUSTER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
# Whatever these plan, they copy replicas; fewer replicas are what two people approve.
_COPYING_GOALS: Final = {*goals_that(lambda kind: kind.copies)} - {Goal.REBALANCE}


def _cluster_name(text: str) -> str:
    if not _CLUSTER_NAME.fullmatch(text):
        raise InputError(
            "a cluster's name has lower-case letters, digits, dots, dashes and underscores only"
        )
    return text


ClusterName = Annotated[str, Written("name, like orders-eu", _cluster_name)]


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
    groups: Mapping[Text, Annotated[tuple[Account, ...], NotEmpty("names nobody")]] = field(
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
        for path, message in _of_clusters(file):
            document.complain(path, message)
    document.finish()
    assert file is not None, "what cannot be read was complained of"
    return Settings(where, _clusters(file, document))


def _clusters(file: ClustersFile, document: YamlDocument) -> dict[str, ClusterSettings]:
    clusters = {}
    for name, cluster in file.clusters.items():
        policy = replace(cluster.policy, access=_with_members(cluster.policy.access, file.groups))
        if "notify" not in document.content["clusters"][name].get("policy", {}):
            policy = replace(policy, notify=file.notify)
        operator = cluster.operator_connection or cluster.connection
        clusters[name] = ClusterSettings(
            name, cluster.connection, operator, cluster.cluster_id, policy
        )
    return clusters


def _members(entries: Iterable[str], groups: Groups) -> tuple[str, ...]:
    """Return the entries, and in place of each group its members."""
    names: list[str] = []
    for entry in entries:
        is_group = entry.startswith(GROUP)
        names += groups.get(entry.removeprefix(GROUP), ()) if is_group else (entry,)
    return tuple(dict.fromkeys(names))


def _with_members(access: AccessPolicy, groups: Groups) -> AccessPolicy:
    return AccessPolicy(*(_members(getattr(access, action), groups) for action in Action))


# -- what has to hold between its values


def _of_clusters(file: ClustersFile) -> Iterator[Complaint]:
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
        for path, message in _of_policy(cluster.policy, file.groups):
            yield ("clusters", name, "policy", *path), message


def _of_policy(policy: ClusterPolicy, groups: Groups) -> Iterator[Complaint]:
    yield from _of_access(policy, groups)
    yield from _of_two_people(policy, groups)
    yield from _of_automatic(policy.approval)
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


def _of_access(policy: ClusterPolicy, groups: Groups) -> Iterator[Complaint]:
    """Yield complaints of unknown groups, and of groups without their prefix."""
    for action in Action:
        path = ("access", str(action))
        for entry in getattr(policy.access, action):
            group = entry.removeprefix(GROUP)
            if entry.startswith(GROUP) and group not in groups:
                known = ", ".join(sorted(groups)) or "none"
                yield path, f"{action}: there is no group {group!r}; there are: {known}"
            elif entry in groups:
                yield path, f'{action}: {entry!r} is a group; write "{GROUP}{entry}"'


def _of_two_people(policy: ClusterPolicy, groups: Groups) -> Iterator[Complaint]:
    """Yield a complaint where two people have to approve, and the policy names one."""
    approvers = policy.access.approve
    if not policy.approval.may_need_two_people or not approvers:
        return
    if count_of_one_kind(_members(approvers, groups)) < 2:
        key = "critical" if policy.approval.critical else "two_people_above"
        yield (
            ("approval", key),
            f"{key} asks for two people, but the policy names nobody but "
            f"{', '.join(approvers)} to approve, and two users of Airflow, or of the system, have "
            "to; name another",
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


def _of_automatic(policy: ApprovalPolicy) -> Iterator[Complaint]:
    """Yield complaints of two entries for one goal, and of those that could approve no plan."""
    if policy.automatic and policy.critical:
        yield (
            ("approval", "automatic"),
            "two people approve every plan of a critical cluster, so no plan would ever be "
            "approved automatically; leave out automatic or critical",
        )
    goals = [rule.goal for rule in policy.automatic]
    for number, rule in enumerate(policy.automatic):
        path = ("approval", "automatic", number, "goal")
        if rule.goal in goals[:number]:
            yield path, f"there are two entries for {rule.goal}; write one"
        if not rule.max_bytes_per_day and rule.goal in _COPYING_GOALS:
            yield (
                path,
                f"each plan for {rule.goal} copies replicas, so without max_bytes_per_day none is "
                "approved; give it",
            )

"""The file itself: clusters, their connections, their policies, and what holds for all of them
together.
"""

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Final

from counterpoise.errors import ConfigurationError, InputError, UnknownNameError
from counterpoise.input_files import (
    CLUSTERS,
    MIN_LIMIT_BYTES,
    InputLimits,
    read_input_text,
    use_limits,
)
from counterpoise.model.person import People
from counterpoise.model.policy import ClusterPolicy, NotifyPolicy
from counterpoise.settings.locations import Locations
from counterpoise.settings.people import check_policy, read_people
from counterpoise.settings.policies import read_notify, read_policy
from counterpoise.settings.sections import Section, amount_from, compose, line_of, text

Identity = tuple[str, int, int, int, int]

CLUSTER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")


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
    inputs: InputLimits = field(default_factory=InputLimits)

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
    root = compose(content, where=where)
    complaints: list[str] = []
    clusters: dict[str, ClusterSettings] = {}
    people = People()
    inputs = InputLimits()
    top = Section(root, "the file", complaints) if root else None
    if top is None:
        complaints.append('line 1: the file is empty; it needs "clusters:"')
    else:
        people = read_people(top)
        notify = read_notify(top.section("notify"))
        inputs = _input_limits(top.section("inputs"))
        listed = top.section("clusters", required=True)
        if listed:
            clusters = {
                name: _cluster(name, listed.section(name, required=True), listed, people, notify)
                for name in listed.names()
            }
            _complain_of_ids_given_twice(listed, clusters)
        top.finish()
    if complaints:
        raise ConfigurationError(where, tuple(sorted(dict.fromkeys(complaints), key=line_of)))
    return Settings(where, clusters, people, inputs)


def _complain_of_ids_given_twice(listed: Section, clusters: Mapping[str, ClusterSettings]) -> None:
    """Two names of one cluster would have a run, a step lock and a policy each."""
    names: dict[str, str] = {}
    for name, cluster in clusters.items():
        section = listed.section(name) if cluster.pinned_cluster_id else None
        first = names.setdefault(cluster.pinned_cluster_id or "", name)
        if section and first != name:
            section.complain(
                "cluster_id",
                f"clusters {first} and {name} have the same cluster_id: one Kafka cluster has one "
                "name",
            )


def _input_limits(section: Section | None) -> InputLimits:
    if section is None:
        return InputLimits()
    limit = amount_from(MIN_LIMIT_BYTES)
    limits = InputLimits(
        **{
            key.name: section.value(key.name, limit, getattr(InputLimits(), key.name))
            for key in fields(InputLimits)
        }
    )
    section.finish()
    return limits


def _cluster(
    name: str, section: Section | None, parent: Section, people: People, notify: NotifyPolicy
) -> ClusterSettings:
    if not CLUSTER_NAME.fullmatch(name):
        parent.complain(
            name,
            "a cluster's name has lower-case letters, digits, dots, dashes and underscores only",
        )
    if section is None:
        return ClusterSettings(name, "", "", None, ClusterPolicy())
    connection = section.value("connection", text, "")
    if not connection:
        section.complain(None, f'cluster {name} needs "connection", the id of a Kafka connection')
    operator = section.value("operator_connection", text, connection)
    pinned = section.value("cluster_id", text, "")
    policy_section = section.section("policy")
    policy = read_policy(policy_section)
    check_policy(policy_section, policy, people)
    if policy_section is None or "notify" not in policy_section.names():
        policy = replace(policy, notify=notify)
    section.finish()
    return ClusterSettings(name, connection, operator, pinned or None, policy)


def limit_inputs(environment: Mapping[str, str] = os.environ) -> None:
    """Use the limits of the file that the environment names, once an input may be too large.

    Where it cannot be read, the defaults hold: whoever needs the settings says what is wrong.
    """

    @cache
    def limits() -> InputLimits:
        try:
            return read_settings(Locations.from_environment(environment).settings_file).inputs
        except InputError:
            return InputLimits()

    use_limits(limits)

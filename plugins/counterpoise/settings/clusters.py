"""The file itself: clusters, their connections, their policies, and what holds for all of them
together.
"""

import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from counterpoise.errors import ConfigurationError, InputError, UnknownNameError
from counterpoise.input_files import (
    CLUSTERS,
    read_input_text,
)
from counterpoise.model.person import People
from counterpoise.model.policy import ClusterPolicy
from counterpoise.settings.clusters_file import ClustersFile, people_in, read_clusters_file
from counterpoise.settings.yaml_document import YamlDocument

Identity = tuple[str, int, int, int, int]


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
    file = read_clusters_file(document)
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

"""The wiring's ground: builds the adapters once, and hands them out.

    with open_installation(connections=AirflowConnections()) as site:
        with site.reader("orders-eu") as cluster: ...      # cannot change anything
        with site.operator("orders-eu") as cluster: ...

Where things lie comes from environment variables (`settings.Locations`), the same natively and in
containers.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

import yaml

from counterpoise.archive import Archive
from counterpoise.discovery import discover
from counterpoise.errors import InputError, WrongClusterError
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.port import ClusterAdmin, ClusterReader
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.walk import Walk
from counterpoise.results import Results
from counterpoise.settings import ClusterSettings, Locations, Settings, read_settings
from counterpoise.storage import Store

if TYPE_CHECKING:
    from counterpoise.ledger import Ledger


_LOGGER = logging.getLogger(__name__)


class Connections(Protocol):
    """Where librdkafka settings come from: Airflow, or file and environment."""

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        """Raises InputError for an unknown id."""
        ...


@dataclass(frozen=True)
class FileConnections:
    """Connections of the command line: AIRFLOW_CONN_<ID> as Airflow itself reads it (JSON), else a
    YAML file of `id: {librdkafka settings}`. Secrets stay in there."""

    path: Path
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        if text := self.environment.get(variable):
            return _extra_of(text, variable)
        listed = self._listed()
        if connection_id not in listed:
            raise InputError(
                f"connection {connection_id!r} is neither in {self.path} nor in the variable {variable}; "
                'give it like {"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}'
            )
        if not isinstance(listed[connection_id], dict):
            raise InputError(
                f"{self.path}: {connection_id} must be a mapping of librdkafka settings"
            )
        return dict(listed[connection_id])

    def _listed(self) -> Mapping[str, dict[str, object]]:
        try:
            listed = yaml.safe_load(self.path.read_text()) or {}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
            mark = getattr(
                error, "problem_mark", None
            )  # the message itself would show the line, secrets included
            raise InputError(
                f"{self.path} cannot be read{f' (line {mark.line + 1})' if mark else ''}"
            ) from None
        if not isinstance(listed, dict):
            raise InputError(f"{self.path}: must map connection ids to librdkafka settings")
        return listed


def _extra_of(text: str, variable: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
        extra = document["extra"]
        extra = json.loads(extra) if isinstance(extra, str) else extra
    except (ValueError, KeyError, TypeError):
        extra = None
    if not isinstance(extra, dict):
        raise InputError(
            f'{variable} must be JSON like {{"conn_type": "kafka", "extra": {{"bootstrap.servers": "..."}}}}'
        )
    return extra


def now_utc() -> datetime:
    return datetime.now(UTC)


@dataclass
class Installation:
    """Settings, connections, archive, ledger and clock of one installation.

    Archive and ledger open on first use.
    """

    locations: Locations
    connections: Connections
    clock: Callable[[], datetime] = now_utc
    connect_to: Callable[[ConnectionSettings], ClusterAdmin] | None = (
        None  # default: the real clients
    )
    known_clusters: Settings | None = None  # default: the file that `locations` names
    walk_to: Callable[[ConnectionSettings], Walk] | None = None  # default: over the network

    @cached_property
    def settings(self) -> Settings:
        return self.known_clusters or read_settings(self.locations.config)

    @cached_property
    def archive(self) -> Archive:
        return Archive(Store(self.locations.store))

    @property
    def results(self) -> Results:
        """As they are now: what it has read of the list of rounds, it keeps."""
        return Results(self.archive.store)

    @cached_property
    def ledger(self) -> "Ledger":
        from counterpoise.ledger import (
            Ledger,
        )  # planning needs no database, and starts faster without one

        return Ledger.open(self.locations.ledger, self.clock)

    def cluster(self, name: str) -> ClusterSettings:
        return self.settings.cluster(name)

    @contextmanager
    def reader(self, name: str) -> Iterator[ClusterReader]:
        """Raises ClusterUnreachableError, WrongClusterError, InputError."""
        with self._connected(name, self.cluster(name).connection_id) as admin:
            yield admin

    @contextmanager
    def operator(self, name: str) -> Iterator[ClusterAdmin]:
        """As `reader`, with the connection that may change the cluster."""
        with self._connected(name, self.cluster(name).operator_connection_id) as admin:
            yield admin

    @contextmanager
    def operator_alone(self, name: str) -> Iterator[ClusterAdmin]:
        """As `operator`, without a look into the ledger: for the stop that has to work when nothing
        else does.
        """
        admin = (self.connect_to or connect_by_discovery)(
            self._connection(self.cluster(name).operator_connection_id)
        )
        try:
            yield admin
        finally:
            admin.close()

    def walk(self, name: str, *, topics: Sequence[str] = ()) -> Walk:
        """From every bootstrap address to every advertised endpoint; `topics`: whose leaders each
        is asked for.

        What is wrong there is in the values. Raises InputError for a connection that cannot be
        used.
        """
        settings = self.walk_settings(name)
        if self.walk_to is not None:
            return self.walk_to(settings)
        from counterpoise.kafka_admin.walking import walk_cluster  # the clients are slow to import

        return walk_cluster(settings, topics=topics)

    def walk_settings(self, name: str) -> ConnectionSettings:
        """How to reach a cluster with a bare walk, which knows more mechanisms than the calls do."""
        connection_id = self.cluster(name).connection_id
        return ConnectionSettings.parse_for_walk(
            self.connections.settings_for(connection_id), where=f"connection {connection_id}"
        )

    def security_protocol(self, name: str) -> str:
        return self._connection(self.cluster(name).connection_id).security_protocol

    def close(self) -> None:
        if "ledger" in self.__dict__:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connection(self, connection_id: str) -> ConnectionSettings:
        return ConnectionSettings.parse(
            self.connections.settings_for(connection_id), where=f"connection {connection_id}"
        )

    @contextmanager
    def _connected(self, name: str, connection_id: str) -> Iterator[ClusterAdmin]:
        admin = (self.connect_to or connect_by_discovery)(self._connection(connection_id))
        try:
            self._check_identity(name, admin.describe_cluster().cluster_id)
            yield admin
        finally:
            admin.close()

    def _check_identity(self, name: str, cluster_id: str) -> None:
        pinned = self.cluster(name).pinned_cluster_id
        if pinned and pinned != cluster_id:
            raise WrongClusterError(
                f"cluster {name}: the brokers that answered belong to cluster id {cluster_id}, but "
                f"{self.settings.where} pins {pinned}. Check the bootstrap addresses. Nothing was changed."
            )
        self.ledger.pin_cluster(name, cluster_id)


def connect_by_discovery(settings: ConnectionSettings) -> ClusterAdmin:
    """Walks the bootstrap list until an address answers, and warns of those that did not.

    Raises ClusterUnreachableError.
    """
    admin = connect(settings)
    try:
        for attempt in discover(admin).silent:
            _LOGGER.warning(
                "bootstrap address %s did not answer: %s", attempt.address, attempt.reason
            )
    except BaseException:
        admin.close()
        raise
    return admin


def open_installation(
    *,
    connections: Connections | None = None,
    known_clusters: Settings | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Installation:
    """The site that the environment describes; by default with the command line's connections."""
    locations = Locations.from_environment(environment)
    return Installation(
        locations,
        connections or FileConnections(locations.connections, environment),
        known_clusters=known_clusters,
    )


@dataclass(frozen=True)
class _OneConnection:
    """Plaintext, no login: what `--bootstrap` can say. Anything more belongs in a connection."""

    addresses: str

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        return {"bootstrap.servers": self.addresses}


def open_bootstrap_installation(
    addresses: str, name: str | None = None
) -> tuple[Installation, str]:
    """A site with one cluster that no file names, and its name: the one given, else one made of the
    cluster's id.
    """
    connections = _OneConnection(addresses)
    settings = ConnectionSettings.parse(connections.settings_for(""), where="--bootstrap")
    if name is None:
        admin = connect_by_discovery(settings)
        try:
            name = f"kafka-{admin.describe_cluster().cluster_id.lower()}"
        finally:
            admin.close()
    cluster = ClusterSettings(name, "bootstrap", "bootstrap", None, ClusterPolicy())
    return open_installation(
        connections=connections, known_clusters=Settings("the command line", {name: cluster})
    ), name

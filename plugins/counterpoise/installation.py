"""One installation of Counterpoise: its settings, store, ledger, clock and connections to clusters.

    with open_installation(connections=AirflowConnections()) as installation:
        with installation.reader("orders-eu") as cluster: ...      # cannot change anything
        with installation.operator("orders-eu") as cluster: ...
        run, plan = installation.run_and_plan(run_id)

Paths and the ledger's URL come from environment variables (`settings.Locations`), with and without
containers.
"""

import json
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
from counterpoise.errors import InputError, StalePlanError, WrongClusterError
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.kafka_admin.port import ClusterAdmin, ClusterReader
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.person import People
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.run import Run
from counterpoise.model.safe_text import safe_logger
from counterpoise.results import Results
from counterpoise.settings import ClusterSettings, Locations, Settings, read_settings
from counterpoise.storage import Store

if TYPE_CHECKING:
    from counterpoise.ledger import Ledger


_LOGGER = safe_logger(__name__)


class Connections(Protocol):
    """Where librdkafka settings come from: Airflow, or file and environment."""

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        """Return librdkafka settings. Raises InputError for an unknown id."""
        ...


@dataclass(frozen=True)
class FileConnections:
    """Connections of the command line.

    A connection is the environment variable AIRFLOW_CONN_<ID>, in Airflow's JSON form, or else an
    entry `id: {librdkafka settings}` of a YAML file. No message repeats what they hold: it may be
    secret.
    """

    path: Path
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        if text := self.environment.get(variable):
            return _extra_of(text, variable)
        listed = self._listed()
        if connection_id not in listed:
            raise InputError(
                f"connection {connection_id!r} is neither in {self.path} nor in the environment "
                f"variable {variable}; "
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
            # The error's own message would show the line, with its secrets.
            mark = getattr(error, "problem_mark", None)
            line = f" (line {mark.line + 1})" if mark else ""
            raise InputError(f"{self.path} cannot be read as YAML{line}") from None
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
            f'{variable} must be JSON like {{"conn_type": "kafka", '
            f'"extra": {{"bootstrap.servers": "..."}}}}'
        )
    return extra


def now_utc() -> datetime:
    return datetime.now(UTC)


@dataclass
class Installation:
    """Settings, connections, archive, ledger and clock. Archive and ledger open on first use.

    Tests replace the clients with `connect_to` and `connectivity_checker`, and the file of settings
    with `known_clusters`.
    """

    locations: Locations
    connections: Connections
    clock: Callable[[], datetime] = now_utc
    connect_to: Callable[[ConnectionSettings], ClusterAdmin] | None = None
    known_clusters: Settings | None = None
    connectivity_checker: Callable[[ConnectionSettings], ConnectivityCheck] | None = None
    may_migrate_ledger: bool = True

    @cached_property
    def settings(self) -> Settings:
        return self.known_clusters or read_settings(self.locations.config)

    @cached_property
    def archive(self) -> Archive:
        return Archive(Store(self.locations.store))

    @property
    def results(self) -> Results:
        """Return what the Spark jobs made, as it is now; one instance never reads it anew."""
        return Results(self.archive.store)

    @cached_property
    def ledger(self) -> "Ledger":
        # Imported here: planning needs no database, and starts faster without one.
        from counterpoise.ledger import Ledger

        url = self.locations.ledger
        return Ledger.open(url, self.clock, migrate=self.may_migrate_ledger)

    @property
    def people(self) -> People:
        """Return who is behind which account, as the settings say."""
        return self.settings.people

    def cluster(self, name: str) -> ClusterSettings:
        """Return the settings of a cluster. Raises InputError for a name that the file lacks."""
        return self.settings.cluster(name)

    def run_and_plan(
        self, run_id: str, fingerprint: str | None = None
    ) -> tuple[Run, RebalancePlan]:
        """Return a run and its plan.

        Raises StalePlanError where the run, or what the store holds, is another plan than the one
        of `fingerprint`; LedgerError.
        """
        run = self.ledger.run(run_id)
        if fingerprint is not None and run.fingerprint != fingerprint:
            raise StalePlanError(
                f"run {run_id} is for plan {run.fingerprint}, not for {fingerprint}; nothing was "
                "changed"
            )
        return run, self.plan_of(run)

    def plan_of(self, run: Run) -> RebalancePlan:
        """Read the plan of a run. Raises StalePlanError where the store holds another one there."""
        return self.archive.read_plan(run.plan_uri, run.fingerprint)

    @contextmanager
    def reader(self, name: str) -> Iterator[ClusterReader]:
        """Yield a connection that cannot change the cluster.

        Raises ClusterUnreachableError, WrongClusterError, InputError.
        """
        with self._connected(name, self.cluster(name).connection_id) as admin:
            yield admin

    @contextmanager
    def operator(self, name: str) -> Iterator[ClusterAdmin]:
        """Yield a connection that may change the cluster; raises what `reader` raises."""
        with self._connected(name, self.cluster(name).operator_connection_id) as admin:
            yield admin

    @contextmanager
    def operator_without_ledger(self, name: str) -> Iterator[ClusterAdmin]:
        """Yield what `operator` yields, but never open the ledger: an emergency stop works when the
        ledger does not.
        """
        admin = (self.connect_to or connect_by_discovery)(
            self._connection(self.cluster(name).operator_connection_id)
        )
        try:
            yield admin
        finally:
            admin.close()

    def check_connectivity(self, name: str, *, topics: Sequence[str] = ()) -> ConnectivityCheck:
        """Connect to every bootstrap address and every advertised endpoint, as a client does.

        Each is asked for the leaders of `topics`. What fails is in the values; raises InputError
        for a connection that cannot be used.
        """
        settings = self.connectivity_settings(name)
        if self.connectivity_checker is not None:
            return self.connectivity_checker(settings)
        # Imported here: the Kafka clients are slow to import.
        from counterpoise.kafka_admin.connectivity import check_connectivity

        return check_connectivity(settings, topics=topics)

    def connectivity_settings(self, name: str) -> ConnectionSettings:
        """Return the settings of the connection that reads."""
        return self._connection(self.cluster(name).connection_id)

    def security_protocol(self, name: str) -> str:
        return self.connectivity_settings(name).security_protocol

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
                f"{self.settings.where} pins {pinned}. Check the bootstrap addresses. Nothing was "
                "changed."
            )
        self.ledger.pin_cluster(name, cluster_id)


def connect_by_discovery(settings: ConnectionSettings) -> ClusterAdmin:
    """Connect to the first bootstrap address that answers, and warn of those that did not.

    Raises ClusterUnreachableError.
    """
    for warning in settings.warnings:
        _LOGGER.warning("%s", warning)
    admin = connect(settings)
    try:
        for attempt in discover(admin).unreachable:
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
    may_migrate_ledger: bool = True,
) -> Installation:
    """Return the installation that the environment describes.

    `connections` are those of the command line by default. Without `may_migrate_ledger`, as for
    pages, the ledger is neither made nor migrated.
    """
    locations = Locations.from_environment(environment)
    return Installation(
        locations,
        connections or FileConnections(locations.connections, environment),
        known_clusters=known_clusters,
        may_migrate_ledger=may_migrate_ledger,
    )


@dataclass(frozen=True)
class _OneConnection:
    """The connection of `--bootstrap`: plaintext, no login. Anything more needs a connection."""

    addresses: str

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        return {"bootstrap.servers": self.addresses}


def open_bootstrap_installation(
    addresses: str, name: str | None = None
) -> tuple[Installation, str]:
    """Return an installation with one cluster that no file names, and the cluster's name.

    Without `name` that is "kafka-" and the cluster's id.
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

"""One installation of Counterpoise: its settings, store, ledger, clock and connections to clusters.

    with open_installation(connections=AirflowConnections()) as installation:
        with installation.reader("orders-eu") as cluster: ...      # cannot change anything
        with installation.operator("orders-eu") as cluster: ...
        run, plan = installation.run_and_plan(run_id)

Paths and the ledger's URL come from environment variables (`settings.Locations`).
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Protocol, Self

from counterpoise.airflow_process import connection_in_airflow
from counterpoise.archive import Archive
from counterpoise.errors import (
    ClusterUnreachableError,
    LedgerError,
    RefusedError,
    StalePlanError,
    WrongClusterError,
)
from counterpoise.kafka_admin import connect
from counterpoise.kafka_admin.connection import ConnectionSettings, split_address
from counterpoise.model.acl import OPERATOR_ACLS
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.model.connectivity import ConnectivityCheck
from counterpoise.model.control import ActiveRequests, find_active_requests
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import ClusterPolicy
from counterpoise.model.run import Run
from counterpoise.model.safe_text import safe_logger
from counterpoise.results import Results
from counterpoise.settings import (
    ClusterSettings,
    FileConnections,
    Locations,
    Settings,
    check_worker_variables,
    read_settings,
)
from counterpoise.storage import Store

if TYPE_CHECKING:
    from counterpoise.kafka_admin.cluster_admin import ClusterAdmin, ClusterReader
    from counterpoise.ledger import Ledger

_LOGGER = safe_logger(__name__)


class Connections(Protocol):
    """Where librdkafka settings come from: Airflow, or file and environment."""

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        """Return librdkafka settings. Raises InputError for an unknown id."""
        ...


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
    connect_to: "Callable[[ConnectionSettings], ClusterAdmin] | None" = None
    known_clusters: Settings | None = None
    connectivity_checker: Callable[[ConnectionSettings], ConnectivityCheck] | None = None
    may_migrate_ledger: bool = True
    may_make_ledger: bool = True  # at the default place; where a variable names one, it is meant

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

        new_at = self.locations.new_default_ledger
        if new_at and not self.may_make_ledger:
            raise LedgerError(
                f"there is no ledger at {new_at} yet; `counterpoise approve` makes it, for one. If "
                "your runs are in another one, set COUNTERPOISE_LEDGER"
            )
        clock = None if self.clock is now_utc else self.clock  # a test's
        ledger = Ledger.open(self.locations.ledger, clock, migrate=self.may_migrate_ledger)
        if new_at:
            _LOGGER.warning("a new ledger was made: %s (COUNTERPOISE_LEDGER is not set)", new_at)
        return ledger

    def cluster(self, name: str) -> ClusterSettings:
        """Return the settings of a cluster. Raises InputError for a name that the file lacks."""
        return self.settings.cluster(name)

    def active_requests(self, cluster: str, run_id: str | None = None) -> ActiveRequests:
        """Return what people request of a cluster now, and of one run there if given."""
        return find_active_requests(self.ledger.requests(cluster, run_id), self.ledger.now())

    def check_name(self, plan: RebalancePlan) -> None:
        """Raise RefusedError for a plan of a cluster that the settings know by another name: what
        holds for that name, like a freeze, would not hold for the plan.
        """
        settings = self.cluster(plan.cluster)
        if settings.listed_as and settings.listed_as != plan.cluster:
            raise RefusedError(
                f"the plan is for {plan.cluster}, which {self.settings.where} names "
                f"{settings.listed_as}: make the plan for {settings.listed_as} "
                f"(`counterpoise plan --cluster {settings.listed_as}`)"
            )

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
    def reader(self, name: str) -> "Iterator[ClusterReader]":
        """Yield a connection that cannot change the cluster.

        Raises ClusterUnreachableError, WrongClusterError, InputError.
        """
        with self._connected(name, self.connectivity_settings(name)) as admin:
            yield admin

    @contextmanager
    def operator(self, name: str) -> "Iterator[ClusterAdmin]":
        """Yield a connection that may change the cluster; raises what `reader` raises."""
        with self._connected(name, self._operator_connection(name)) as admin:
            yield admin

    @contextmanager
    def operator_without_ledger(self, name: str) -> "Iterator[ClusterAdmin]":
        """Yield what `operator` yields, but never open the ledger: an emergency stop works when the
        ledger does not.
        """
        admin = (self.connect_to or connect_by_discovery)(self._operator_connection(name))
        try:
            yield admin
        finally:
            admin.close()

    def check_connectivity(
        self,
        name: str,
        *,
        topics: Sequence[str] = (),
        progress: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> ConnectivityCheck:
        """Connect to every bootstrap address and every advertised endpoint, as a client does.

        Each is asked for the leaders of `topics`; `progress` gets how many checks are done, of how
        many. What fails is in the values; raises InputError for a connection that cannot be used.
        """
        settings = self.connectivity_settings(name)
        if self.connectivity_checker is not None:
            return self.connectivity_checker(settings)
        # Imported here: the Kafka clients are slow to import.
        from counterpoise.kafka_admin.connectivity import check_connectivity

        return check_connectivity(settings, topics=topics, progress=progress)

    def connectivity_settings(self, name: str) -> ConnectionSettings:
        """Return the settings of the connection that reads."""
        return self.connection_settings(self.cluster(name).connection_id)

    def cluster_words(self, name: str) -> tuple[str, str]:
        """Return the words that name the cluster in a command of ours, typed where this runs."""
        if isinstance(self.connections, _OneConnection):
            return "--bootstrap", self.connections.addresses
        return "--cluster", name

    def security_protocol(self, name: str) -> str:
        return self.connectivity_settings(name).security_protocol

    def close(self) -> None:
        if "ledger" in self.__dict__:
            self.ledger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connection_settings(self, connection_id: str) -> ConnectionSettings:
        """Return the settings of a connection. Raises InputError where they cannot be used."""
        return ConnectionSettings.parse(
            self.connections.settings_for(connection_id), where=f"connection {connection_id}"
        )

    def _operator_connection(self, name: str) -> ConnectionSettings:
        settings = self.connection_settings(self.cluster(name).operator_connection_id)
        return replace(settings, needed_acls=OPERATOR_ACLS)

    @contextmanager
    def _connected(self, name: str, settings: ConnectionSettings) -> "Iterator[ClusterAdmin]":
        try:
            admin = (self.connect_to or connect_by_discovery)(settings)
        except ClusterUnreachableError as error:
            self._note_failure(name, error.in_one_line)
            raise
        try:
            self.check_identity(name, self._cluster_id(name, admin))
            yield admin
        finally:
            admin.close()

    def _cluster_id(self, name: str, admin: "ClusterAdmin") -> str:
        """Return what a cluster says that it is. Pages are told whether any broker answered."""
        try:
            cluster_id = admin.describe_cluster().cluster_id
        except ClusterUnreachableError as error:
            self._note_failure(name, error.in_one_line)
            raise
        self._note_failure(name, "")
        return cluster_id

    def _note_failure(self, name: str, text: str) -> None:
        """Record that no broker of a cluster answers, or that one does again ("").

        An address that somebody typed says nothing of the cluster that others know by the name. No
        ledger is made for it: where none is, nobody looks at its pages.
        """
        if isinstance(self.connections, _OneConnection):
            return
        try:
            from counterpoise.ledger import is_made

            if not is_made(self.locations.ledger):
                return
            if text:
                self.ledger.record_failure(name, FailureKind.NOT_ANSWERING, text)
            else:
                self.ledger.end_failure(name, FailureKind.NOT_ANSWERING)
        except LedgerError as error:
            _LOGGER.warning("not recorded whether %s answers: %s", name, error)

    def check_identity(self, name: str, cluster_id: str) -> None:
        """Raise WrongClusterError where `name` stands for another cluster; pin it otherwise."""
        cluster = self.cluster(name)
        pinned = cluster.pinned_cluster_id
        meant = self.settings.named(cluster_id, self.ledger.pinned_clusters())
        if meant and pinned != cluster_id and meant.name not in (name, cluster.listed_as):
            raise WrongClusterError(
                f"cluster {name}: the brokers that answered belong to cluster id {cluster_id}, "
                f"which is {meant.name} of {self.settings.where}. Use that name, or check the "
                "bootstrap addresses. Nothing was changed."
            )
        if pinned and pinned != cluster_id:
            raise WrongClusterError(
                f"cluster {name}: the brokers that answered belong to cluster id {cluster_id}, but "
                f"{self.settings.where} pins {pinned}. Check the bootstrap addresses. Nothing was "
                "changed."
            )
        self.ledger.pin_cluster(name, cluster_id)


def connect_by_discovery(settings: ConnectionSettings) -> "ClusterAdmin":
    """Connect to the first address that answers, and warn of those before it that do not.

    A dead address costs 3 s at most, one that accepts connections and does not respond some 8 s.
    Raises ClusterUnreachableError with every address and its reason when all fail.
    """
    for warning in settings.warnings:
        _LOGGER.warning("%s", warning)
    admin = connect(settings)
    try:
        admin.describe_cluster()
        for attempt in admin.attempts:
            if not attempt.is_reachable:
                _LOGGER.warning(
                    "bootstrap address %s did not answer: %s", attempt.address, attempt.failure
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
    may_make_ledger: bool = True,
) -> Installation:
    """Return what the environment describes, by default with the connections of the command line.

    Without `may_migrate_ledger`, as for pages, the ledger is neither made nor migrated; without
    `may_make_ledger`, as for commands about its runs, none is made at the default place.
    """
    locations = Locations.from_environment(environment)
    return Installation(
        locations,
        connections or FileConnections(locations.connections, environment, connection_in_airflow),
        known_clusters=known_clusters,
        may_migrate_ledger=may_migrate_ledger,
        may_make_ledger=may_make_ledger,
    )


def open_worker_installation(
    *, connections: Connections | None = None, may_migrate_ledger: bool = True
) -> Installation:
    """Return the installation of a component of Airflow, which has no defaults.

    Raises InputError where the variables do not name its settings, store and ledger.
    """
    check_worker_variables()
    return open_installation(connections=connections, may_migrate_ledger=may_migrate_ledger)


_TYPED: Final = "bootstrap"  # the id of a connection that nobody configured


@dataclass(frozen=True)
class _OneConnection:
    """That of `--bootstrap`: plaintext, no login. Anything more needs a connection."""

    addresses: str = field(repr=False)  # where somebody may have put a password

    @classmethod
    def typed(cls, addresses: str) -> Self:
        """Return the connection. Raises InputError for addresses that cannot be used."""
        connection = cls(addresses)
        connection.parsed()
        return connection

    def parsed(self) -> ConnectionSettings:
        return ConnectionSettings.parse(self.settings_for(_TYPED), where="--bootstrap")

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        return {"bootstrap.servers": self.addresses}


def open_address(addresses: str, name: str) -> Installation:
    """Return one cluster under any name, without a policy: to look at it, and to stop at once."""
    cluster = ClusterSettings(name, _TYPED, _TYPED, None, ClusterPolicy())
    return open_installation(
        connections=_OneConnection.typed(addresses),
        known_clusters=Settings("the command line", {name: cluster}),
    )


def open_bootstrap_installation(
    addresses: str, name: str | None = None, cluster_id: str = "", *, may_make_ledger: bool = True
) -> tuple[Installation, str]:
    """Return an installation that meets a cluster at these addresses, and the cluster's name.

    Where clusters.yaml names the cluster, by name or by its id (its own, or the one that the ledger
    pinned), its policy holds and it has that name. `name` and `cluster_id` are those of a plan or a
    run; without `name` the cluster is asked for its id, and one that the file does not name is
    "kafka-" and the id. Raises InputError, ClusterUnreachableError, LedgerError.
    """
    connections = _OneConnection.typed(addresses)
    installation = open_installation(connections=connections, may_make_ledger=may_make_ledger)
    settings = settings_in(installation.locations)
    installation.known_clusters = settings
    if name is None:
        cluster_id = cluster_id_at(connections.parsed())
    if settings.clusters:
        pinned = installation.ledger.pinned_clusters()
        cluster_id = cluster_id or pinned.get(name or "", "")
        named = settings.named(cluster_id, pinned)
    else:
        named = None
    name = name or (named.name if named else f"kafka-{cluster_id.lower()}")
    # The id comes first: under the name of another cluster, the policy would be another one.
    cluster = _at_the_address(named or settings.clusters.get(name), name, cluster_id)
    clusters = {**settings.clusters, name: cluster}
    installation.known_clusters = replace(settings, clusters=clusters)
    return installation, name


def settings_in(locations: Locations) -> Settings:
    """Return the settings of the file, none where there is no file. Raises InputError for a file
    that cannot be read: that must not switch its policies off.
    """
    config = locations.config
    try:
        config.stat()
    except FileNotFoundError:
        return Settings("the command line", {})
    except OSError:
        pass  # reading it says why
    return read_settings(config)


def cluster_id_at(settings: ConnectionSettings) -> str:
    """Return the id of the cluster at the first bootstrap address that responds.

    What its brokers advertise may lead nowhere, so that no other address is tried. Raises
    ClusterUnreachableError.
    """
    # Imported here: the Kafka clients are slow to import.
    from counterpoise.kafka_admin.endpoint import EndpointChecker

    checker = EndpointChecker(settings)
    failures = []
    for address in settings.bootstrap_servers:
        check = checker.check(*split_address(address))
        if check.cluster_id:
            return check.cluster_id
        failures.append((address, check.failure or "it does not tell the id of its cluster"))
    raise ClusterUnreachableError(tuple(failures))


def _at_the_address(known: ClusterSettings | None, name: str, cluster_id: str) -> ClusterSettings:
    """Return a cluster's settings with the typed connection in place of its own."""
    if known is None:
        return ClusterSettings(name, _TYPED, _TYPED, cluster_id or None, ClusterPolicy())
    return replace(
        known,
        name=name,
        listed_as=known.name,
        connection_id=_TYPED,
        operator_connection_id=_TYPED,
        pinned_cluster_id=known.pinned_cluster_id or cluster_id or None,
    )

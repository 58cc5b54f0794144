"""The present code on a frozen installation, and what these tests use of its names.

    present = Present.opened(day, tmp_path, monkeypatch)
    present.type("status", "--json").out
    present.look(run_id)                               # {"state": "running", "wait": 10.0}

`load` makes the present simulated cluster from the plain document of one,
`dump` describes it again.
"""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from counterpoise import controls, pipeline
from counterpoise.cli import repeating
from counterpoise.cli.main import main
from counterpoise.errors import ClusterError, HaltedError
from counterpoise.installation import Installation
from counterpoise.kafka_admin.connection import ConnectionSettings
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import ConfigResource, ConfigResourceType
from counterpoise.model.person import Person
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.run import RunState
from counterpoise.settings import FileConnections, Locations
from counterpoise.validation import find_violations
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.partition import SimulatedPartition
from tests.simulated_kafka.world import VERSION, SimulatedBroker
from tests.upgrades.frozen import Document, FrozenDay, read_cluster, write_cluster

__all__ = ["BalancePolicy", "Present", "Typed", "dump", "find_violations", "load"]


def load(document: Document) -> SimulatedCluster:
    """Make the simulated cluster that a document describes."""
    cluster = SimulatedCluster(cluster_id=document["cluster_id"], now=document["now_seconds"])
    for name, row in document["brokers"].items():
        cluster.brokers[int(name)] = SimulatedBroker(
            rack=row["rack"],
            is_up=row["is_up"],
            is_fenced=row["is_fenced"],
            fenced_at=row["fenced_at"],
            disk_total_bytes=row["disk_total_bytes"],
        )
        cluster.versions[int(name)] = VERSION
    cluster.topic_ids = dict(document["topic_ids"])
    for row in document["partitions"]:
        key = TopicPartition(row["topic"], row["partition"])
        cluster.partitions[key] = _partition(row)
    for kind, name, values in document["dynamic_configs"]:
        cluster.configs.dynamic[ConfigResource(ConfigResourceType(kind), name)] = dict(values)
    return cluster


def _partition(row: Document) -> SimulatedPartition:
    return SimulatedPartition(
        replicas=tuple(row["replicas"]),
        isr=set(row["isr"]),
        leader=row["leader"],
        size_bytes=row["size_bytes"],
        bytes_in_per_second=row["bytes_in_per_second"],
        leader_epoch=row["leader_epoch"],
        adding=tuple(row["adding"]),
        removing=tuple(row["removing"]),
        copied={int(broker_id): size for broker_id, size in row["copied"].items()},
    )


def dump(cluster: SimulatedCluster, before: Document) -> Document:
    """Describe a cluster that was loaded from `before`, in the same words."""
    brokers = {
        str(broker_id): {
            "rack": broker.rack,
            "is_up": broker.is_up,
            "is_fenced": broker.is_fenced,
            "fenced_at": broker.fenced_at,
            "disk_total_bytes": broker.disk_total_bytes,
        }
        for broker_id, broker in sorted(cluster.brokers.items())
    }
    partitions = [
        {"topic": key.topic, "partition": key.partition} | _row(partition)
        for key, partition in sorted(cluster.partitions.items())
    ]
    configs = [
        [str(resource.type), resource.name, dict(sorted(values.items()))]
        for resource, values in cluster.configs.dynamic.items()
        if values
    ]
    return before | {
        "now_seconds": cluster.now,
        "brokers": brokers,
        "topic_ids": dict(sorted(cluster.topic_ids.items())),
        "partitions": partitions,
        "dynamic_configs": sorted(configs),
        "submitted": before["submitted"] + _submitted(cluster),
    }


def _row(partition: SimulatedPartition) -> Document:
    return {
        "replicas": list(partition.replicas),
        "isr": sorted(partition.isr),
        "leader": partition.leader,
        "size_bytes": partition.size_bytes,
        "bytes_in_per_second": partition.bytes_in_per_second,
        "leader_epoch": partition.leader_epoch,
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "copied": {str(broker): size for broker, size in sorted(partition.copied.items())},
    }


def _submitted(cluster: SimulatedCluster) -> list[list[Any]]:
    """List what the cluster was asked to reassign, in order."""
    method = SimulatedCluster.alter_reassignments.__name__
    return [
        [key.topic, key.partition, None if target is None else list(target)]
        for call in cluster.calls
        if call.name == method
        for key, target in call.argument.items()  # type: ignore[attr-defined]
    ]


@dataclass(frozen=True)
class Typed:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Present:
    """The present code on the frozen installation; clusters are simulated, and time with them."""

    day: FrozenDay
    folder: Path  # a copy of that day's data
    loaded: dict[str, tuple[SimulatedCluster, Document]] = field(default_factory=dict)

    @classmethod
    def opened(cls, day: FrozenDay, folder: Path, monkeypatch: pytest.MonkeyPatch) -> "Present":
        """Lead every installation that a command opens to simulated clusters and their clock."""
        present = cls(day, day.copied_to(folder))
        for name, value in present.environment().items():
            monkeypatch.setenv(name, value)
        original = Installation.__init__

        def simulated(site: Installation, *args: Any, **kwargs: Any) -> None:
            original(site, *args, **kwargs)
            present.lead(site)

        monkeypatch.setattr(Installation, "__init__", simulated)
        monkeypatch.setattr(repeating, "sleep", present.advance)
        return present

    def environment(self) -> dict[str, str]:
        return {
            "COUNTERPOISE_CONFIG": str(self.folder / "clusters.yaml"),
            "COUNTERPOISE_CONNECTIONS": str(self.folder / "connections.yaml"),
            "COUNTERPOISE_STORE": str(self.folder / "store"),
            "COUNTERPOISE_LEDGER": f"sqlite:///{self.folder / 'ledger.db'}",
            "COUNTERPOISE_SPARK_JOBS": str(self.folder / "no-jobs"),  # all is analysed already
        }

    def lead(self, site: Installation) -> None:
        site.clock = self.clock
        site.connect_to = self.connect
        site.connectivity_checker = self.refuse_to_check

    # -- clusters and time

    def clock(self) -> datetime:
        times = [datetime.fromisoformat(self.day.expected["now"])]
        for cluster, document in self.loaded.values():
            zero = datetime.fromisoformat(document["clock_at_zero"])
            times.append(zero + timedelta(seconds=cluster.now))
        return max(times)

    def connect(self, settings: ConnectionSettings) -> SimulatedCluster:
        return self.cluster(settings.bootstrap_servers[0].partition(".")[0])

    def refuse_to_check(self, settings: ConnectionSettings) -> Any:
        raise ClusterError("simulated brokers have no endpoints")

    def cluster(self, name: str) -> SimulatedCluster:
        if name not in self.loaded:
            document = read_cluster(self.folder, name)
            self.loaded[name] = (load(document), document)
        return self.loaded[name][0]

    def advance(self, seconds: float) -> None:
        for cluster, _ in self.loaded.values():
            cluster.advance(seconds)

    def save(self) -> None:
        """Write the clusters that were used, so that another process goes on with them."""
        for name, (cluster, document) in self.loaded.items():
            write_cluster(self.folder, name, dump(cluster, document))
        self.loaded.clear()

    @contextmanager
    def on_cluster(self, name: str) -> Iterator[SimulatedCluster]:
        """Do something to a cluster, between two processes."""
        yield self.cluster(name)
        self.save()

    def pass_time(self, name: str, seconds: float) -> None:
        with self.on_cluster(name) as cluster:
            cluster.advance(seconds)

    # -- what people and workers do

    @contextmanager
    def installation(self) -> Iterator[Installation]:
        locations = Locations.from_environment(self.environment())
        with Installation(locations, FileConnections(locations.connections, {})) as site:
            yield site

    def type(self, *words: str | Path) -> Typed:
        """Type one command."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            try:
                code = main([str(word) for word in words])
            except SystemExit as usage:  # argparse's own way to end
                code = int(usage.code or 0)
        self.save()
        return Typed(code, out.getvalue(), err.getvalue())

    def look(self, run_id: str) -> Document:
        """Observe a run once and do what follows; `wait` is null when the run has ended."""
        with self.installation() as site:
            run = site.ledger.run(run_id)
            try:
                wait = self._one_look(site, run_id, run.fingerprint)
            finally:
                self.save()
            return {"state": str(site.ledger.run(run_id).state), "wait": wait}

    @staticmethod
    def _one_look(site: Installation, run_id: str, fingerprint: str) -> float | None:
        if site.ledger.run(run_id).state is RunState.RUNNING:
            try:
                wait = pipeline.execute_step(site, run_id, fingerprint, lambda _: None)
            except HaltedError:
                return 0.0
            if wait is not None:
                return wait
        return pipeline.settle_step(site, run_id, lambda _: None)

    def open_run(self, run_id: str) -> None:
        with self.installation() as site:
            pipeline.open_run(site, run_id, site.ledger.run(run_id).fingerprint)
        self.save()

    def change_rate(self, run_id: str, rate: str) -> None:
        with self.installation() as site:
            controls.change_rate(site, run_id, rate, by=Person("new"), why="from the newer version")

    def plan_path(self, run_id: str) -> Path:
        """Where the plan of a run lies in the store."""
        with self.installation() as site:
            return self.folder / "store" / site.ledger.run(run_id).plan_uri

    def progress_of(self, run_id: str) -> Document | None:
        """Return what the last observation of a run found, by the names of `status --json`."""
        with self.installation() as site:
            progress = site.ledger.journal(run_id).run_progress()
        if progress is None:
            return None
        return {
            "at": progress.observed_at.isoformat(),
            "moves_done": progress.progress.moves_done,
            "moves_total": progress.progress.moves_total,
            "moves_in_flight": progress.progress.moves_in_flight,
            "copied_bytes": progress.progress.copied_bytes,
            "rate_in_force_bytes_per_second": progress.rate_bytes_per_second,
        }

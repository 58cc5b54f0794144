"""One ZooKeeper server, for brokers of Kafka 3.9 and earlier whose metadata is kept there.

    zookeeper = LocalZooKeeper(folder)
    zookeeper.start([java, "-cp", jars])     # as Kafka's jars bring it
    zookeeper.address                        # for `zookeeper.connect`

Limits: a single server, so nothing survives its loss; plaintext, loopback.
"""

import socket
from pathlib import Path
from typing import Final

from dev.local_kafka.broker import HOST, jvm_environment
from dev.local_processes import Process, free_ports, start, wait_until

_START_SECONDS: Final = 60.0
_ORPHAN_GRACE_SECONDS: Final = 1.0
_MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


class LocalZooKeeper:
    """A server that keeps its port and its data until it is started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        (self._port,) = free_ports(1)
        self._process: Process | None = None

    @property
    def address(self) -> str:
        """Return host:port."""
        return f"{HOST}:{self._port}"

    def start(self, java: list[str]) -> None:
        """Start the server and wait until it listens. Raises ChildFailedError."""
        self._directory.mkdir(parents=True, exist_ok=True)
        config = self._directory / "zoo.cfg"
        config.write_text(
            f"dataDir={self._directory / 'data'}\n"
            f"clientPort={self._port}\n"
            f"clientPortAddress={HOST}\n"
            "admin.enableServer=false\n"
        )
        self._process = start(
            [*java, _MAIN_CLASS, config],
            log_path=self._directory / "zookeeper.log",
            name="ZooKeeper",
            env=jvm_environment(),
            cwd=self._directory,
            orphan_grace_seconds=_ORPHAN_GRACE_SECONDS,
        )
        wait_until(self._listens, "ZooKeeper to listen", _START_SECONDS, [self._process])

    def stop(self) -> None:
        """End the server at once."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _listens(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex((HOST, self._port)) == 0

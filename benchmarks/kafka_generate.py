"""Kafka's own planner, `kafka-reassign-partitions --generate`, called inside a JVM on the jars that
`local_kafka` has.

    for run in generate_reassignments(document, leaving=(), runs=3):
        run.cpu_seconds, run.reassignment

The tool itself asks a running cluster for everything; here its
`ReassignPartitionsCommand.calculateAssignment` (Kafka 4.3: the controller's StripedReplicaPlacer,
which is random, topic by topic, over all brokers, whatever they hold) gets the same maps and lists
without one. They are built before the clock starts. CPU seconds are those of the whole JVM during
the call, its compiler and garbage collector included; the JVM's start is not in them.

Limits: that method is private, so a later Kafka may have it no more. The JVM ends with this
process, whatever happens.
"""

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway  # type: ignore[import-untyped]

from counterpoise.java_runtime import java_executable
from dev.local_kafka.jars import kafka_jars

_COMMAND: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
# the public interface with the CPU time of the process
_BEAN: Final = "com.sun.management.OperatingSystemMXBean"
_HEAP: Final = "-Xmx4g"  # for 1,000,000 partitions; smaller clusters take no more than they need
_ROWS_AT_ONCE: Final = 20_000
_STOP_SECONDS: Final = 10


@dataclass(frozen=True, slots=True)
class Run:
    cpu_seconds: float
    reassignment: dict[str, Any]  # Kafka's own JSON, every partition


def generate_reassignments(
    document: Mapping[str, Any], leaving: Sequence[int], *, runs: int
) -> Iterator[Run]:
    """What `--generate` proposes for all topics of a cluster document and all brokers but those
    that leave.

    Raises NoJavaError and KafkaDownloadError where Java or Kafka is missing.
    """
    with _running_jvm() as gateway:
        kafka = _Command(gateway)
        current, brokers = (
            kafka.assignment(document["partitions"]),
            kafka.brokers(document["brokers"], leaving),
        )
        for _ in range(runs):
            start = kafka.cpu_seconds()
            proposed = kafka.call("calculateAssignment", current, brokers)
            seconds = kafka.cpu_seconds() - start
            text = kafka.call("formatAsReassignmentJson", proposed, gateway.jvm.java.util.HashMap())
            yield Run(seconds, json.loads(text))


@contextmanager
def _running_jvm() -> Iterator[JavaGateway]:
    port, token, process = launch_gateway(
        classpath=f"{kafka_jars()}/*",
        javaopts=[_HEAP],
        java_path=str(java_executable()),
        die_on_exit=True,  # also when this process is killed: the JVM watches a pipe from us
        enable_auth=True,
        return_proc=True,
    )
    try:
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            yield gateway
        finally:
            gateway.shutdown(raise_exception=False)
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Command:
    """Kafka's class, its methods by name; by reflection, since most of them are not public."""

    def __init__(self, gateway: JavaGateway) -> None:
        self._gateway, self._jvm = gateway, gateway.jvm
        methods = self._jvm.java.lang.Class.forName(_COMMAND).getDeclaredMethods()
        self._methods = {method.getName(): method for method in methods}
        self._bean = self._jvm.java.lang.management.ManagementFactory.getOperatingSystemMXBean()
        self._cpu_time = self._jvm.java.lang.Class.forName(_BEAN).getMethod(
            "getProcessCpuTime", gateway.new_array(self._jvm.java.lang.Class, 0)
        )

    def call(self, name: str, *arguments: object) -> Any:
        method = self._methods[name]
        method.setAccessible(True)
        return method.invoke(None, self._array(*arguments))

    def cpu_seconds(self) -> float:
        nanoseconds: int = self._cpu_time.invoke(self._bean, self._array())
        return nanoseconds / 1e9

    def assignment(self, rows: Sequence[Sequence[Any]]) -> Any:
        """A Map of TopicPartition to a List of broker ids, read by Kafka's own parser from a few
        texts.
        """
        assignment = self._jvm.java.util.HashMap()
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            entries = [{"topic": row[0], "partition": row[1], "replicas": row[2]} for row in some]
            text = json.dumps({"version": 1, "partitions": entries})
            assignment.putAll(self.call("parseExecuteAssignmentArgs", text).getKey())
        return assignment

    def brokers(self, brokers: Sequence[Mapping[str, Any]], leaving: Sequence[int]) -> Any:
        """A List of UsableBroker. Racks count only where all brokers have one, as in the tool."""
        staying = [broker for broker in brokers if broker["id"] not in leaving]
        has_racks = all(broker.get("rack") for broker in staying)
        usable = self._jvm.java.util.ArrayList()
        for broker in staying:
            rack = self._jvm.java.util.Optional.ofNullable(broker["rack"] if has_racks else None)
            usable.add(
                self._jvm.org.apache.kafka.metadata.placement.UsableBroker(
                    broker["id"], rack, False
                )
            )
        return usable

    def _array(self, *values: object) -> Any:
        array = self._gateway.new_array(self._jvm.java.lang.Object, len(values))
        for at, value in enumerate(values):
            array[at] = value
        return array

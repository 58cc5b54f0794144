"""A server that speaks enough of Kafka's protocol for `doctor`, and says whatever a test wants.

    with fake_broker(Answers(brokers=[(1, "kafka-1", 0)])) as address: ...
    with fake_broker(Answers(mangle=lambda frame, number: frame[:7])) as address: ...

Limits: requests that it does not know end the connection.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.admin import (
    DescribeClusterResponse,
    DescribeConfigsResponse,
    ListGroupsResponse,
)
from kafka.protocol.metadata import ApiVersionsResponse, MetadataResponse

HERE: Final = "<here>"  # the address of this server, in the place of a host
_VERSIONS: Final = {3: (0, 12), 16: (0, 2), 18: (0, 3), 32: (1, 4), 60: (0, 0)}
_FLEXIBLE: Final = {3: 9, 16: 3, 18: 100, 32: 4, 60: 0}  # versions whose header has tagged fields
_FEW: Final = 64  # connections that may wait


@dataclass(frozen=True)
class Answers:
    """What it says. `mangle` gets each frame and its number, and returns what is sent."""

    brokers: Sequence[tuple[int, str | None, int]] = ((1, HERE, 0),)
    cluster_id: str | None = "fake"
    # (topic, partition, leader, replicas)
    partitions: Sequence[tuple[str | None, int, int, Sequence[int]]] = ()
    error_code: int = 0
    versions: dict[int, tuple[int, int]] = field(default_factory=lambda: dict(_VERSIONS))
    mangle: Callable[[bytes, int], bytes] = lambda frame, _number: frame


@contextmanager
def fake_broker(answers: Answers) -> Iterator[str]:
    """Yield host:port; the server ends with the block."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_FEW)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=_accept, args=(listener, answers, port), daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)
        listener.close()


def _accept(listener: socket.socket, answers: Answers, port: int) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_serve, args=(connection, answers, port), daemon=True).start()


def _serve(connection: socket.socket, answers: Answers, port: int) -> None:
    number = 0
    with connection, suppress(OSError, struct.error):
        connection.settimeout(30)
        while True:
            (size,) = struct.unpack(">i", _read(connection, 4))
            request = _read(connection, size)
            api_key, version, correlation_id = struct.unpack_from(">hhi", request)
            response = _response(answers, api_key, version, port)
            if response is None:
                return
            frame = _framed(response, api_key, version, correlation_id)
            sent = answers.mangle(frame, number)
            connection.sendall(sent)
            if sent != frame:
                return
            number += 1


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        block = connection.recv(size - len(data))
        if not block:
            raise ConnectionResetError
        data += block
    return data


def _framed(response: Any, api_key: int, version: int, correlation_id: int) -> bytes:
    header = struct.pack(">i", correlation_id)
    if version >= _FLEXIBLE[api_key]:
        header += b"\0"  # no tagged fields
    payload = header + bytes(response.encode(version=version))
    return struct.pack(">i", len(payload)) + payload


def _response(answers: Answers, api_key: int, version: int, port: int) -> Any:
    if api_key == 18:
        return _api_versions(answers)
    if api_key == 3:
        return _metadata(answers, port)
    if api_key == 16:
        return ListGroupsResponse(throttle_time_ms=0, error_code=0, groups=[])
    if api_key == 32:
        result = DescribeConfigsResponse.DescribeConfigsResult(
            error_code=0, error_message=None, resource_type=4, resource_name="1", configs=[]
        )
        return DescribeConfigsResponse(throttle_time_ms=0, results=[result])
    if api_key == 60:
        return _cluster(answers, port)
    return None


def _api_versions(answers: Answers) -> Any:
    api = ApiVersionsResponse.ApiVersion
    return ApiVersionsResponse(
        error_code=answers.error_code,
        api_keys=[
            api(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in answers.versions.items()
        ],
        throttle_time_ms=0,
    )


def _brokers(answers: Answers, port: int, make: Any, name_of_id: str) -> list[Any]:
    return [
        make(**{name_of_id: broker_id}, host="127.0.0.1", port=port, rack=None)
        if host == HERE
        else make(**{name_of_id: broker_id}, host=host, port=claimed, rack=None)
        for broker_id, host, claimed in answers.brokers
    ]


def _metadata(answers: Answers, port: int) -> Any:
    topic_type = MetadataResponse.MetadataResponseTopic
    partition_type = topic_type.MetadataResponsePartition
    topics = [
        topic_type(
            error_code=0,
            name=topic,
            topic_id=None,
            is_internal=False,
            partitions=[
                partition_type(
                    error_code=0,
                    partition_index=partition,
                    leader_id=leader,
                    leader_epoch=0,
                    replica_nodes=list(replicas),
                    isr_nodes=list(replicas),
                    offline_replicas=[],
                )
            ],
        )
        for topic, partition, leader, replicas in answers.partitions
    ]
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=_brokers(answers, port, MetadataResponse.MetadataResponseBroker, "node_id"),
        cluster_id=answers.cluster_id,
        controller_id=1,
        topics=topics,
    )


def _cluster(answers: Answers, port: int) -> Any:
    return DescribeClusterResponse(
        throttle_time_ms=0,
        error_code=0,
        error_message=None,
        cluster_id=answers.cluster_id or "",
        controller_id=1,
        brokers=_brokers(answers, port, DescribeClusterResponse.DescribeClusterBroker, "broker_id"),
    )

"""Finds out whether a broker responds before the real request is sent to it.

    probe = LivenessProbe(UNRESPONSIVE_AFTER_SECONDS)
    broker_id = await probe.first_responding(manager)  # of several in parallel
    await probe.check(manager, 4)                      # raises kafka-python's KafkaTimeoutError

A dead broker refuses connections at once. A frozen one (stopped, swapping, a long garbage
collection) accepts them and responds to nothing until its session ends. The probe is a small
request, so a frozen broker costs little time and the real request is not lost. A broker that did
not respond gets only 0.3 s in the next 10 seconds.

Limits: a broker can freeze right after it responded.
"""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.future import Future
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.version import __version__ as kafka_python_version

# The classes of all versions of Kafka's responses are made when this module is imported:
# kafka-python makes the class of a version when it is first needed, and its registry knows the
# class that was made last by a weak reference (`ApiMessage.__init_subclass__`, 3.0.12). Where two
# clients of a new process make one at the same time, each in its own thread, the one in the
# registry may be the one that is not kept: every later response of that kind then raises
# ReferenceError. An import runs once, so what it has made is not made again (some 260 classes,
# 6 ms).
for _response_class in list(ResponseClassRegistry._response_class_registry.values()):
    for _version in range(_response_class.max_version + 1):
        _response_class[_version]

UNRESPONSIVE_AFTER_SECONDS: Final = 2.0  # without a response to a small request
_REMEMBERED_SECONDS: Final = 10.0
_SHORT_SECONDS: Final = 0.3
_MAX_PARALLEL: Final = 3
_MAX_PROBED: Final = 9
# `first_responding` takes this long at worst: three rounds of three brokers.
MAX_SELECTION_SECONDS: Final = UNRESPONSIVE_AFTER_SECONDS * _MAX_PROBED / _MAX_PARALLEL


class LivenessProbe:
    """The probes of one Kafka client; its coroutines run on the client's event loop.

    A broker has `timeout_seconds` to respond.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._unresponsive_until: dict[int, float] = {}

    def was_unresponsive(self, node_id: int) -> bool:
        """Return whether a broker did not respond some seconds ago, and not since."""
        return time.monotonic() < self._unresponsive_until.get(node_id, 0.0)

    def note_unresponsive(self, node_id: int) -> None:
        """Remember that a broker did not respond in time.

        A second failure while that is remembered does not prolong it: after a timeout of 0.3 s it
        would prove nothing.
        """
        if not self.was_unresponsive(node_id):
            self._unresponsive_until[node_id] = time.monotonic() + _REMEMBERED_SECONDS

    async def check(self, manager: Any, node_id: int) -> int:
        """Return the broker's id when it has responded.

        Opening a connection includes a request of its own, so then none is added. Raises
        kafka-python's exception.
        """
        seconds = self._timeout_seconds
        if self.was_unresponsive(node_id):
            seconds = min(_SHORT_SECONDS, seconds)
        connection = manager.get_connection(node_id)
        if connection.connected:
            response = connection.send_request(api_versions_request())
        else:
            response = connection.init_future
        try:
            await manager.wait_for(response, seconds * 1000)
        except (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError):
            self.note_unresponsive(node_id)
            raise
        self._unresponsive_until.pop(node_id, None)
        return node_id

    async def first_responding(self, manager: Any) -> int:
        """Return the first broker that responds, of up to nine, three in parallel.

        Brokers that responded before and have no request waiting come first. Raises kafka-python's
        exception if none responds.
        """
        node_ids = [broker.node_id for broker in manager.cluster.brokers()]
        random.shuffle(node_ids)
        node_ids.sort(key=lambda node_id: (self.was_unresponsive(node_id), _load(manager, node_id)))
        candidates = node_ids[:_MAX_PROBED]
        error: BaseException = kafka_errors.NodeNotReadyError("no broker is known")
        while candidates:
            group, candidates = candidates[:_MAX_PARALLEL], candidates[_MAX_PARALLEL:]
            first = await self._first_of(manager, group)
            if isinstance(first, int):
                return first
            error = first
        raise error

    async def _first_of(self, manager: Any, node_ids: Sequence[int]) -> int | BaseException:
        """Return the first broker that responds, or the last error when all fail."""
        first = Future()
        errors: list[BaseException] = []

        def on_error(error: BaseException) -> None:
            errors.append(error)
            if len(errors) == len(node_ids) and not first.is_done:
                first.success(error)

        def on_response(node_id: int) -> None:
            if not first.is_done:
                first.success(node_id)

        for node_id in node_ids:
            probe = manager.call_soon(self.check, manager, node_id)
            probe.add_callback(on_response).add_errback(on_error)
        found: int | BaseException = await first
        return found


def api_versions_request(version: int | None = None) -> Any:
    """Return an ApiVersionsRequest: the smallest request there is.

    `version` is needed where kafka-python does not choose it by what the broker supports.
    """
    return ApiVersionsRequest(
        version=version,
        client_software_name="kafka-python",
        client_software_version=kafka_python_version,
    )


def _load(manager: Any, node_id: int) -> tuple[bool, int]:
    """Return a sort key: low for a broker with an open connection and nothing waiting on it."""
    connection = manager._conns.get(node_id)
    is_open = connection is not None and connection.connected
    waiting_requests = len(connection.in_flight_requests) if is_open else 1
    return manager.connection_delay(node_id) > 0, waiting_requests

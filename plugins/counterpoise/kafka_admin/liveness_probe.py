"""Does a broker answer? Something small is asked first, so that silence costs little and the real
request is not lost.

    knocking = Knocking(SILENT_AFTER_SECONDS)
    broker_id = await knocking.answering(manager)  # of some side by side, the first that answered
    await knocking.knock(manager, 4)               # raises kafka-python's KafkaTimeoutError when it stays silent

A dead broker refuses at once; a frozen one (stopped, swapping, a long pause of its Java) takes
connections and says nothing until its session ends. Whoever kept silent is given but a moment for
the next seconds.

Limits: a broker can freeze right after it answered.
"""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka.future import Future
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.version import __version__ as kafka_python_version

SILENT_AFTER_SECONDS: Final = (
    2.0  # a broker that has not answered something small by then is left alone
)
_REMEMBERED_SECONDS: Final = 10.0
_A_MOMENT_SECONDS: Final = 0.3
_AT_ONCE: Final = 3
_AT_MOST: Final = 9
FINDING_SECONDS: Final = (
    SILENT_AFTER_SECONDS * _AT_MOST / _AT_ONCE
)  # what `answering` takes at worst


class LivenessProbe:
    """Of one client; its coroutines run on the client's loop.

    `patience_seconds` is what a broker has to answer.
    """

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._silent_until: dict[int, float] = {}

    def was_silent(self, node_id: int) -> bool:
        """Whether it gave no answer some seconds ago, and none since."""
        return time.monotonic() < self._silent_until.get(node_id, 0.0)

    def note_silence(self, node_id: int) -> None:
        """It gave no answer in time.

        Not prolonged by silence while that is known: a moment proves nothing.
        """
        if not self.was_silent(node_id):
            self._silent_until[node_id] = time.monotonic() + _REMEMBERED_SECONDS

    async def knock(self, manager: Any, node_id: int) -> int:
        """The id, when that broker has answered; a connection that is being opened asks by itself."""
        seconds = (
            min(_A_MOMENT_SECONDS, self._patience_seconds)
            if self.was_silent(node_id)
            else self._patience_seconds
        )
        connection = manager.get_connection(node_id)
        answer = (
            connection.send_request(versions_request())
            if connection.connected
            else connection.init_future
        )
        try:
            await manager.wait_for(answer, seconds * 1000)
        except (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError):
            self.note_silence(node_id)
            raise
        self._silent_until.pop(node_id, None)
        return node_id

    async def answering(self, manager: Any) -> int:
        """The first that answers of some knocked on side by side.

        Raises kafka-python's exception if none does.
        """
        nodes = [broker.node_id for broker in manager.cluster.brokers()]
        random.shuffle(nodes)
        nodes.sort(key=lambda node: (self.was_silent(node), _reluctance(manager, node)))
        nodes = nodes[:_AT_MOST]
        error: BaseException = kafka_errors.NodeNotReadyError("no broker is known")
        while nodes:
            now, nodes = nodes[:_AT_ONCE], nodes[_AT_ONCE:]
            first = await self._first_to_answer(manager, now)
            if isinstance(first, int):
                return first
            error = first
        raise error

    async def _first_to_answer(self, manager: Any, node_ids: Sequence[int]) -> int | BaseException:
        first = Future()
        silent: list[BaseException] = []

        def failed(error: BaseException) -> None:
            silent.append(error)
            if len(silent) == len(node_ids) and not first.is_done:
                first.success(error)

        def answered(node_id: int) -> None:
            if not first.is_done:
                first.success(node_id)

        for node_id in node_ids:
            manager.call_soon(self.knock, manager, node_id).add_callback(answered).add_errback(
                failed
            )
        found: int | BaseException = await first
        return found


def versions_request(version: int | None = None) -> Any:
    """What may a client ask? The smallest request there is; the broker wants to know the client's
    name.

    `version` where nobody chooses it by what the broker speaks.
    """
    return ApiVersionsRequest(
        version=version,
        client_software_name="kafka-python",
        client_software_version=kafka_python_version,
    )


def _reluctance(manager: Any, node_id: int) -> tuple[bool, int]:
    """Low for a broker that a connection leads to with nothing waiting on it."""
    connection = manager._conns.get(node_id)
    is_open = connection is not None and connection.connected
    return manager.connection_delay(node_id) > 0, len(
        connection.in_flight_requests
    ) if is_open else 1

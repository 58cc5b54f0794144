"""Sends requests to the brokers we name, over kafka-python 3, and knows whether each was sent.

    client = BrokerClient(settings, request_timeout_seconds=15.0)
    response = client.read(DescribeQuorumRequest(...), "the metadata quorum")
    request = BrokerRequest(4, IncrementalAlterConfigsRequest(...), seconds=3.0)
    result, = client.write_each([request], write_deadline())

Why not kafka-python's admin methods: they choose the broker themselves, hide flags and messages,
and do not distinguish a request that was never sent from one whose response was lost. That
difference is what `write_each` is about.

Reads are repeated when a connection breaks. Writes are repeated only while it is certain that
nothing was sent.

A frozen broker counts as live until its session has ended, and responds to nobody. So where any
broker will do, one that responds to a probe is chosen; and a broker that was unresponsive a moment
ago is probed before it gets the request.

Limits: uses the connection manager inside `KafkaAdminClient` (3.0.x), here alone. With ZooKeeper
(before 4.0) cluster-wide changes go to the controller, frozen or not.
"""

import math
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka import KafkaAdminClient
from kafka.future import Future
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import (
    BrokerUnresponsiveError,
    ClusterError,
    ClusterUnreachableError,
    NotPermittedError,
    RetriableClusterError,
    UnsupportedRequestError,
)
from counterpoise.kafka_admin.address_connection import (
    api_versions_request,
    keep_secrets_out_of_logs,
)
from counterpoise.kafka_admin.connection import ConnectionSettings, kafka_python_arguments
from counterpoise.kafka_admin.endpoint import EndpointChecker, try_address, with_failed_client
from counterpoise.kafka_admin.tokens import TokenError
from counterpoise.model.acl import Acl
from counterpoise.model.connectivity import EndpointCheck

MAX_ATTEMPTS: Final = 4
WRITE_SECONDS: Final = 24.0  # of a whole call that changes something; a run's step lock holds 30
_MAX_PARALLEL: Final = 20
_FIRST_PAUSE_SECONDS: Final = 0.1
_BOOTSTRAP_TIMEOUT_MS: Final = 10_000
_TLS_FAILED: Final = "Handshake failed"  # kafka-python's words


@dataclass(frozen=True, slots=True)
class BrokerRequest:
    """A request and the broker it goes to; None is any broker that responds.

    It waits `seconds` at most, by default the client's request timeout. With `probes_first` the
    broker has to respond to a probe before: an unresponsive broker then costs only
    UNRESPONSIVE_AFTER_SECONDS, while a slow one may take its time.
    """

    broker_id: int | None
    request: Any
    seconds: float | None = None
    probes_first: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without a response. `was_sent`: the broker may have acted on it."""

    reason: str
    was_sent: bool
    may_pass: bool  # trying again may help
    is_unsupported: bool = False  # the broker does not know this request
    is_refused: bool = False  # SASL authentication failed

    @property
    def is_unresponsive(self) -> bool:
        """Return whether nothing came back: the broker is dead, frozen or cut off."""
        return not self.is_unsupported and not self.is_refused


class BrokerClient:
    """Connections to all brokers, opened when first needed. Threads may share it."""

    def __init__(self, settings: ConnectionSettings, request_timeout_seconds: float) -> None:
        probe_seconds = min(UNRESPONSIVE_AFTER_SECONDS, request_timeout_seconds)
        self.settings = settings
        self.request_timeout_seconds = request_timeout_seconds
        self.attempts: tuple[EndpointCheck, ...] = ()
        self._client: KafkaAdminClient | None = None
        self._opening = threading.Lock()
        self._liveness_probe = LivenessProbe(probe_seconds)

    def close(self) -> None:
        """Close all connections; does nothing the second time."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # -- requests

    def read(
        self,
        request: Any,
        what: str,
        broker_id: int | None = None,
        seconds: float | None = None,
    ) -> Any:
        """Return the response of `broker_id`, or of any broker; it has `seconds` to respond.

        `what` is for messages, as "the log dirs". Raises BrokerUnresponsiveError when that broker
        does not respond, ClusterUnreachableError when none does, UnsupportedRequestError when it is
        too old.
        """
        response = self.read_each([BrokerRequest(broker_id, request, seconds)])[0]
        if not isinstance(response, Failure):
            return response
        if response.is_unsupported:
            raise UnsupportedRequestError(
                f"{what}: the broker is too old for this: {response.reason}"
            )
        if broker_id is None:
            attempts = self._known_brokers(f"{what}: {response.reason}")
            raise ClusterUnreachableError(attempts, are_advertised=True)
        raise BrokerUnresponsiveError(
            f"{what}: {self.name_of(broker_id)} does not respond: {response.reason}; check that "
            "broker, and the network to it"
        )

    def read_each(self, requests: Sequence[BrokerRequest]) -> list[Any]:
        """Send the requests in parallel and return a response or a Failure for each, in order."""
        return self._send_with_retries(requests, may_repeat_sent=True, deadline=math.inf)

    def write_each(self, requests: Sequence[BrokerRequest], deadline: float) -> list[Any]:
        """Do as `read_each`, but repeat a request only where it was not sent.

        Ends at `deadline` (see `write_deadline`); nothing is sent after it.
        """
        return self._send_with_retries(requests, may_repeat_sent=False, deadline=deadline)

    def _send_with_retries(
        self, requests: Sequence[BrokerRequest], *, may_repeat_sent: bool, deadline: float
    ) -> list[Any]:
        retry_until = min(deadline, time.monotonic() + self.request_timeout_seconds)
        results = self._send_all(requests, deadline)
        for attempt in range(1, MAX_ATTEMPTS):
            to_repeat = [
                index
                for index, result in enumerate(results)
                if isinstance(result, Failure)
                and result.may_pass
                and (may_repeat_sent or not result.was_sent)
            ]
            if not to_repeat or (attempt > 1 and time.monotonic() > retry_until):
                break
            self.pause(attempt)
            repeated = self._send_all([requests[index] for index in to_repeat], deadline)
            for index, result in zip(to_repeat, repeated, strict=True):
                # A failure without a reason only says that kafka-python waits before it connects
                # again; the earlier failure has the reason.
                if not isinstance(result, Failure) or result.reason:
                    results[index] = result
        return [
            self._explained(request, result) if isinstance(result, Failure) else result
            for request, result in zip(requests, results, strict=True)
        ]

    def _explained(self, request: BrokerRequest, failure: Failure) -> Failure:
        """Return the failure with a reason, for TLS and SASL in the words of `endpoint.py`."""
        is_of_handshake = failure.is_refused or _TLS_FAILED in failure.reason
        broker = self._manager().cluster.broker_metadata(request.broker_id)
        if is_of_handshake and broker is not None:
            check = EndpointChecker(self.settings).check(broker.host, broker.port)
            return replace(failure, reason=check.failure or failure.reason)
        return failure if failure.reason else replace(failure, reason="no connection")

    def pause(self, attempt: int) -> None:
        """Wait, each time longer, then request fresh metadata with the brokers' endpoints."""
        time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        self._manager().cluster.request_update()

    # -- the brokers

    def responding_broker_id(self) -> int:
        """Return a broker that has just responded to a probe.

        Raises BrokerUnresponsiveError when none of those probed does.
        """
        manager = self._manager()
        try:
            return int(manager.run(self._liveness_probe.first_responding, manager))
        except (kafka_errors.KafkaError, OSError) as error:
            message = (
                f"no broker responds: {self.error_text(error)}; check the brokers, and the "
                "network to them"
            )
            raise BrokerUnresponsiveError(message) from None

    def forwarding_broker_id(self) -> int:
        """Return the broker to which requests for the controller go.

        In KRaft any broker forwards them to the active controller (KIP-590), so it is one that
        responds. With ZooKeeper it is the controller itself.
        """
        broker_id = self.responding_broker_id()
        return broker_id if self._is_kraft(broker_id) else self._controller_id()

    def _is_kraft(self, broker_id: int) -> bool:
        """Return whether the broker knows the request about the metadata quorum (KIP-595)."""
        try:
            self.highest_version(DescribeQuorumRequest, broker_id)
        except UnsupportedRequestError:
            return False
        return True

    def _controller_id(self) -> int:
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        controller_id = int(self.read(request, "the controller").controller_id)
        if controller_id < 0:
            raise BrokerUnresponsiveError(
                "the cluster has no controller at the moment; try again when it has elected one"
            )
        return controller_id

    def highest_version(self, request_type: Any, broker_id: int) -> int:
        """Return the highest version of a request that both sides know.

        Raises UnsupportedRequestError when there is none.
        """
        manager = self._manager()

        async def negotiated_version() -> int:
            connection = manager.get_connection(broker_id)
            await manager.wait_for(connection.init_future, UNRESPONSIVE_AFTER_SECONDS * 1000)
            return int(connection.broker_version_data.api_version(request_type))

        try:
            return int(manager.run(negotiated_version))
        except kafka_errors.IncompatibleBrokerVersion as error:
            message = f"{self.name_of(broker_id)} is too old for this: {self.error_text(error)}"
            raise UnsupportedRequestError(message) from None
        except (kafka_errors.KafkaError, OSError) as error:
            message = (
                f"{self.name_of(broker_id)} does not respond: {self.error_text(error)}; check "
                "that broker, and the network to it"
            )
            raise BrokerUnresponsiveError(message) from None

    def name_of(self, broker_id: int) -> str:
        """Return `broker 4 (host:port)`, or `broker 4` where its endpoint is not known."""
        broker = self._manager().cluster.broker_metadata(broker_id)
        if broker is None:
            return f"broker {broker_id}"
        return f"broker {broker_id} ({broker.host}:{broker.port})"

    def error_text(self, error: BaseException) -> str:
        """Return the text of a client's exception without secrets."""
        return self.settings.without_secrets(str(error) or type(error).__name__)

    # -- connections

    def _manager(self) -> Any:
        with self._opening:
            if self._client is None:
                self._client = self._open()
            elif self.settings.tokens is not None:
                # Here, since kafka-python would fetch it while all its connections wait.
                with suppress(TokenError):  # a connection that needs one will say so
                    self.settings.tokens.token()
            return self._client._manager

    def _open(self) -> KafkaAdminClient:
        """Return a client for the first address that is reachable.

        kafka-python is given that address alone, since it would choose at random.
        """
        keep_secrets_out_of_logs()
        attempts: list[EndpointCheck] = []
        for address in self.settings.bootstrap_servers:
            attempt = try_address(address, self.settings)
            if attempt.is_reachable:
                started_at = time.monotonic()
                try:
                    client = self._bootstrap(address)
                except kafka_errors.KafkaError as error:
                    text = self.error_text(error)
                    reason = (
                        f"librdkafka connects there, but kafka-python does not: {text}; "
                        "`counterpoise doctor` shows each step of a connection"
                    )
                    attempt = with_failed_client(attempt, reason, started_at)
                else:
                    self.attempts = (*attempts, attempt)
                    return client
            attempts.append(attempt)
        self.attempts = tuple(attempts)
        raise ClusterUnreachableError(tuple((a.address, a.failure) for a in attempts))

    def _bootstrap(self, address: str) -> KafkaAdminClient:
        return KafkaAdminClient(
            **kafka_python_arguments(self.settings.at(address)),
            request_timeout_ms=int(self.request_timeout_seconds * 1000),
            bootstrap_timeout_ms=_BOOTSTRAP_TIMEOUT_MS,
            reconnect_backoff_max_ms=1000,
            # By default 5: kafka-python refuses the sixth instead of queueing it.
            max_in_flight_requests_per_connection=1000,
        )

    def _known_brokers(self, reason: str) -> tuple[tuple[str, str], ...]:
        brokers = sorted(self._manager().cluster.brokers(), key=lambda broker: broker.node_id)
        return tuple((f"{broker.host}:{broker.port}", reason) for broker in brokers)

    # -- one attempt

    def _send_all(self, requests: Sequence[BrokerRequest], deadline: float) -> list[Any]:
        """Send each request once and return the responses or Failures, in order.

        20 are sent in parallel, so that a slow broker delays no other.
        """
        manager = self._manager()
        results: list[Any] = [None] * len(requests)
        remaining = iter(enumerate(requests))

        async def work() -> None:
            for index, request in remaining:
                results[index] = await self._send(manager, request, deadline)

        async def run_workers() -> None:
            worker_count = min(_MAX_PARALLEL, len(requests))
            for worker in [manager.call_soon(work) for _ in range(worker_count)]:
                await worker

        manager.run(run_workers)
        return results

    async def _send(self, manager: Any, request: BrokerRequest, deadline: float) -> Any:
        """Return the response or a Failure; only here kafka-python's exceptions are handled."""
        was_sent = False
        seconds = UNRESPONSIVE_AFTER_SECONDS
        try:
            node_id = await self._probed_node(manager, request)
            seconds = self._seconds_of(request)
            ends_at = min(time.monotonic() + seconds, deadline)
            connection = manager.get_connection(node_id)
            await manager.wait_for(connection.init_future, _milliseconds_until(ends_at))
            if time.monotonic() >= ends_at:
                return Failure("no time was left to send it", was_sent, may_pass=False)
            response = connection.send_request(request.request)
            was_sent = not response.is_done  # what fails at once was refused by kafka-python
            return await manager.wait_for(response, _milliseconds_until(ends_at))
        except kafka_errors.NodeNotReadyError:
            return Failure("", was_sent, may_pass=True)
        except (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError):
            # The same broker would time out again; another one may respond.
            if request.broker_id is not None:
                self._liveness_probe.note_unresponsive(request.broker_id)
            seconds = min(seconds, self.request_timeout_seconds)
            reason = f"nothing within {seconds:g} s"
            return Failure(reason, was_sent, may_pass=request.broker_id is None)
        except kafka_errors.UnknownBrokerIdError:
            return Failure("it is not live (fenced, stopped or unknown)", was_sent, may_pass=True)
        except kafka_errors.IncompatibleBrokerVersion as error:
            text = self.error_text(error)
            return Failure(text, was_sent=False, may_pass=False, is_unsupported=True)
        except (kafka_errors.AuthorizationError, TokenError) as error:  # before the request
            text = self.error_text(error)
            return Failure(text, was_sent=False, may_pass=False, is_refused=True)
        except (kafka_errors.KafkaError, OSError) as error:
            return Failure(self.error_text(error), was_sent, may_pass=True)

    async def _probed_node(self, manager: Any, request: BrokerRequest) -> int:
        """Return the broker to send to, after it has responded to a probe where that is needed."""
        if request.broker_id is None:
            return await self._liveness_probe.first_responding(manager)
        if request.probes_first or self._liveness_probe.was_unresponsive(request.broker_id):
            await self._liveness_probe.check(manager, request.broker_id)
        return request.broker_id

    def _seconds_of(self, request: BrokerRequest) -> float:
        if request.seconds is None:
            return self.request_timeout_seconds
        return min(request.seconds, self.request_timeout_seconds)


def write_deadline(latest: float = math.inf) -> float:
    """Return when a change that begins now must end (`time.monotonic`): not after `latest`."""
    return min(time.monotonic() + WRITE_SECONDS, latest)


def _milliseconds_until(ends_at: float) -> float:
    return max(0.0, ends_at - time.monotonic()) * 1000


# -- Finds out whether a broker responds before the real request is sent to it
#
#     probe = LivenessProbe(UNRESPONSIVE_AFTER_SECONDS)
#     broker_id = await probe.first_responding(manager)  # of several in parallel
#     await probe.check(manager, 4)                      # raises kafka-python's KafkaTimeoutError
#
# A dead broker refuses connections at once. A frozen one (stopped, swapping, a long garbage
# collection) accepts them and responds to nothing until its session ends. The probe is a small
# request, so a frozen broker costs little time and the real request is not lost. A broker that did
# not respond gets only 0.3 s in the next 10 seconds.
#
# Limits: a broker can freeze right after it responded.


UNRESPONSIVE_AFTER_SECONDS: Final = 2.0  # without a response to a small request
_REMEMBERED_SECONDS: Final = 10.0
_SHORT_SECONDS: Final = 0.3
_MAX_PROBED_AT_ONCE: Final = 3
_MAX_PROBED: Final = 9
# `first_responding` takes this long at worst: three rounds of three brokers.
MAX_SELECTION_SECONDS: Final = UNRESPONSIVE_AFTER_SECONDS * _MAX_PROBED / _MAX_PROBED_AT_ONCE


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
            group, candidates = candidates[:_MAX_PROBED_AT_ONCE], candidates[_MAX_PROBED_AT_ONCE:]
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


def _load(manager: Any, node_id: int) -> tuple[bool, int]:
    """Return a sort key: low for a broker with an open connection and nothing waiting on it."""
    connection = manager._conns.get(node_id)
    is_open = connection is not None and connection.connected
    waiting_requests = len(connection.in_flight_requests) if is_open else 1
    return manager.connection_delay(node_id) > 0, waiting_requests


# -- Error codes in responses as text, with the permission that is missing and what grants it
#
# raise_for(response.error_code, None, "the brokers", DESCRIBE_CLUSTER, broker_client.settings)


def is_refusal(error_code: int) -> bool:
    """Return whether a permission is missing."""
    return issubclass(kafka_errors.for_code(error_code), kafka_errors.AuthorizationError)


def describe_error_code(
    error_code: int,
    message: str | None,
    acl: Acl | None = None,
    settings: ConnectionSettings | None = None,
) -> str:
    """Return `NAME: message` of an error code in a response; "" for no error.

    For a missing permission the message has what is needed (`acl`, or the one with it that this
    connection needs anyway) and the command that grants it to its principal.
    """
    if error_code == 0:
        return ""
    error = kafka_errors.for_code(error_code)
    name = getattr(error, "message", None) or f"error {error_code}"
    if is_refusal(error_code):
        # Kafka's own message is a dump of the whole request.
        lacking = f"{name}: the principal lacks a permission (ACL)"
        if acl is None or settings is None:
            return lacking
        who, needed = settings.principal, settings.acl_to_grant(acl)
        return f"{lacking}: {who} needs {needed.in_words}; grant it with `{needed.grant(who)}`"
    return f"{name}: {message}" if message and message != name else name


def raise_for(
    error_code: int,
    message: str | None,
    what: str,
    acl: Acl | None = None,
    settings: ConnectionSettings | None = None,
) -> None:
    """Raise ClusterError for an error code, NotPermittedError where a permission is missing, and
    RetriableClusterError where trying again may help, as the message says then.

    `acl` is the permission that the request of a connection with `settings` needs.
    """
    if error_code:
        reason = f"{what}: {describe_error_code(error_code, message, acl, settings)}"
        if is_refusal(error_code):
            raise NotPermittedError(reason)
        if kafka_errors.for_code(error_code).retriable:
            raise RetriableClusterError(f"{reason}; try again")
        raise ClusterError(reason)

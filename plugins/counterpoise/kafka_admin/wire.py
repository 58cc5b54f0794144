"""kafka-python 3 as a bare wire: a request goes to the broker we name, and we know whether it went out.

    wire = Wire(settings, request_timeout_seconds=15.0)
    answer = wire.read(DescribeQuorumRequest(...), "the metadata quorum")
    outcome, = wire.write_each([(4, IncrementalAlterConfigsRequest(...))])

Why not kafka-python's admin methods: they choose the broker themselves, hide flags and messages, and do not tell a
request that was never sent from one whose answer was lost. That difference is what `write_each` is about.

Reads are repeated when a connection breaks (kafka-python reports every reset). Writes are repeated only while it is
certain that nothing was sent.

Limits: uses the connection manager inside `KafkaAdminClient` (3.0.x), here and nowhere else.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import kafka.errors as kafka_errors
from kafka import KafkaAdminClient
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import BrokerSilentError, ClusterError, ClusterUnreachableError
from counterpoise.kafka_admin.connection import ConnectionSettings, kafka_python_arguments
from counterpoise.kafka_admin.probe import Attempt, probe

ATTEMPTS: Final = 4
_FIRST_PAUSE_SECONDS: Final = 0.1
_BOOTSTRAP_TIMEOUT_MS: Final = 10_000

# A request and the broker that it is for; None: whichever broker is least busy.
Addressed: TypeAlias = tuple[int | None, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer. `was_sent`: it may have been acted upon."""

    reason: str
    was_sent: bool
    may_pass: bool  # trying again may help
    is_unsupported: bool = False  # the broker does not know this request


class UnsupportedRequestError(ClusterError):
    """The broker is too old for a request."""


class Wire:
    """Connections to all brokers, opened when first needed. Threads may share it."""

    def __init__(self, settings: ConnectionSettings, request_timeout_seconds: float) -> None:
        self.settings = settings
        self.request_timeout_seconds = request_timeout_seconds
        self.attempts: tuple[Attempt, ...] = ()
        self._client: KafkaAdminClient | None = None
        self._opening = threading.Lock()

    def close(self) -> None:
        """Close all connections; does nothing the second time."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # -- reading

    def read(self, request: Any, what: str, broker_id: int | None = None) -> Any:
        """The answer of `broker_id`, or of any broker. `what` is for messages: "the log dirs".

        Raises ClusterError when that broker does not answer, ClusterUnreachableError when none does.
        """
        answer = self.read_each([(broker_id, request)])[0]
        if isinstance(answer, Failure):
            if answer.is_unsupported:
                raise UnsupportedRequestError(f"{what}: {answer.reason}")
            if broker_id is None:
                raise ClusterUnreachableError(self._known_brokers(f"{what}: {answer.reason}"))
            raise BrokerSilentError(f"{what}: {self.name_of(broker_id)} gives no answer: {answer.reason}")
        return answer

    def read_each(self, requests: Sequence[Addressed]) -> list[Any]:
        """The answers, side by side and in order; a Failure where there is none."""
        return self._repeated(requests, repeat_sent=True)

    # -- writing

    def write_each(self, requests: Sequence[Addressed]) -> list[Any]:
        """As `read_each`, but repeated only where nothing was sent; a Failure says whether it was."""
        return self._repeated(requests, repeat_sent=False)

    def _repeated(self, requests: Sequence[Addressed], *, repeat_sent: bool) -> list[Any]:
        patience_until = time.monotonic() + self.request_timeout_seconds
        answers = self._exchange(requests)
        for attempt in range(1, ATTEMPTS):
            again = [
                n
                for n, answer in enumerate(answers)
                if isinstance(answer, Failure) and answer.may_pass and (repeat_sent or not answer.was_sent)
            ]
            if not again or (attempt > 1 and time.monotonic() > patience_until):
                break
            self.pause(attempt)
            for n, answer in zip(again, self._exchange([requests[n] for n in again]), strict=True):
                # "Not ready" only says that kafka-python waits before it connects again: the reason came before.
                not_news = isinstance(answer, Failure) and not answer.reason
                answers[n] = answers[n] if not_news else answer
        return [_with_reason(answer) for answer in answers]

    def pause(self, attempt: int) -> None:
        """Wait a little longer each time, then ask for fresh metadata, which names the brokers anew."""
        time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        self._manager().cluster.request_update()

    # -- the brokers

    def controller_id(self) -> int:
        """The broker that takes a controller's requests: in KRaft any live one, which passes them on."""
        answer = self.read(MetadataRequest(topics=[], allow_auto_topic_creation=False), "the controller")
        if answer.controller_id < 0:
            raise BrokerSilentError("the cluster has no controller at the moment; try again when it has elected one")
        return int(answer.controller_id)

    def highest_version(self, request_type: Any, broker_id: int) -> int:
        """The highest version of a request that both sides know. Raises ClusterError when there is none."""

        async def ask() -> int:
            connection = await self._manager().get_connection(broker_id)
            return int(connection.broker_version_data.api_version(request_type))

        try:
            return int(self._manager().run(ask))
        except kafka_errors.KafkaError as error:
            raise ClusterError(f"{self.name_of(broker_id)}: {self.words(error)}") from None

    def name_of(self, broker_id: int) -> str:
        """`broker 4 (host:port)` as far as that is known."""
        broker = self._manager().cluster.broker_metadata(broker_id)
        return f"broker {broker_id}" if broker is None else f"broker {broker_id} ({broker.host}:{broker.port})"

    def words(self, error: BaseException) -> str:
        """What a client's exception says, without secrets."""
        return self.settings.without_secrets(str(error) or type(error).__name__)

    # -- inside

    def _manager(self) -> Any:
        with self._opening:
            if self._client is None:
                self._client = self._open()
            return self._client._manager

    def _open(self) -> KafkaAdminClient:
        """A client for the first address that answers; the others are not given to it, since it picks at random."""
        # At DEBUG kafka-python writes its configuration and SASL's tokens to the log, at INFO every connection.
        for name in ("kafka.admin.client", "kafka.net.connection", "kafka.net.sasl", "kafka.protocol"):
            logger = logging.getLogger(name)
            logger.setLevel(max(logger.level, logging.WARNING))
        attempts: list[Attempt] = []
        for address in self.settings.bootstrap_servers:
            attempt = probe(address, self.settings)
            if attempt.answered:
                try:
                    client = self._bootstrap(address)
                except kafka_errors.KafkaError as error:
                    reason = f"librdkafka was answered there, kafka-python was not: {self.words(error)}"
                    attempt = Attempt(address, reason, attempt.milliseconds)
                else:
                    self.attempts = (*attempts, attempt)
                    return client
            attempts.append(attempt)
        self.attempts = tuple(attempts)
        raise ClusterUnreachableError(tuple((a.address, a.reason) for a in attempts))

    def _bootstrap(self, address: str) -> KafkaAdminClient:
        return KafkaAdminClient(
            **kafka_python_arguments(ConnectionSettings((address,), self.settings.librdkafka)),
            request_timeout_ms=int(self.request_timeout_seconds * 1000),
            bootstrap_timeout_ms=_BOOTSTRAP_TIMEOUT_MS,
            reconnect_backoff_max_ms=1000,
            # With its 5, kafka-python refuses the sixth instead of queueing it.
            max_in_flight_requests_per_connection=1000,
        )

    def _known_brokers(self, reason: str) -> tuple[tuple[str, str], ...]:
        brokers = self._manager().cluster.brokers()
        return tuple((f"{b.host}:{b.port}", reason) for b in sorted(brokers, key=lambda b: b.node_id))

    def _exchange(self, requests: Sequence[Addressed]) -> list[Any]:
        manager = self._manager()

        async def all_of_them() -> list[Any]:
            under_way = [manager.call_soon(self._one, manager, broker_id, request) for broker_id, request in requests]
            return [await future for future in under_way]

        return list(manager.run(all_of_them))

    async def _one(self, manager: Any, broker_id: int | None, request: Any) -> Any:
        """The answer or a Failure; the only place that sees kafka-python's exceptions."""
        was_sent = False
        try:
            node_id = manager.least_loaded_node() if broker_id is None else broker_id
            connection = manager.get_connection(node_id)
            await manager.wait_for(connection.init_future, self.request_timeout_seconds * 1000)
            answer = connection.send_request(request)
            was_sent = not answer.is_done  # what fails at once was refused on our side
            return await answer
        except kafka_errors.NodeNotReadyError:
            return Failure("", was_sent, may_pass=True)
        except (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError):
            # A broker that lets a whole timeout pass does so again; another one may not.
            reason = f"nothing within {self.request_timeout_seconds:g} s"
            return Failure(reason, was_sent, may_pass=broker_id is None)
        except kafka_errors.UnknownBrokerIdError:
            return Failure("it is not live (fenced, stopped or unknown)", was_sent, may_pass=True)
        except kafka_errors.IncompatibleBrokerVersion as error:
            return Failure(self.words(error), was_sent=False, may_pass=False, is_unsupported=True)
        except kafka_errors.AuthorizationError as error:  # SASL refused us: nothing got that far
            return Failure(self.words(error), was_sent=False, may_pass=False)
        except (kafka_errors.KafkaError, OSError) as error:
            return Failure(self.words(error), was_sent, may_pass=True)


def _with_reason(answer: Any) -> Any:
    if isinstance(answer, Failure) and not answer.reason:
        return replace(answer, reason="no connection")
    return answer


def error_in_words(code: int, message: str | None) -> str:
    """`REASSIGNMENT...: message` of an error code in an answer; "" for none."""
    if code == 0:
        return ""
    error = kafka_errors.for_code(code)
    name = getattr(error, "message", None) or f"error {code}"
    if issubclass(error, kafka_errors.AuthorizationError):  # Kafka's own message here is a dump of the whole request
        return f"{name}: the principal lacks a permission (ACL)"
    return f"{name}: {message}" if message and message != name else name

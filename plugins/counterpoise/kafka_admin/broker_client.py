"""kafka-python 3 as a bare wire: a request goes to the broker we name, and we know whether it went
out.

    wire = Wire(settings, request_timeout_seconds=15.0)
    answer = wire.read(DescribeQuorumRequest(...), "the metadata quorum")
    outcome, = wire.write_each([Ask(4, IncrementalAlterConfigsRequest(...), seconds=3.0)])

Why not kafka-python's admin methods: they choose the broker themselves, hide flags and messages,
and do not tell a request that was never sent from one whose answer was lost. That difference is
what `write_each` is about.

Reads are repeated when a connection breaks (kafka-python reports every reset). Writes are repeated
only while it is certain that nothing was sent.

A frozen broker counts as live until its session has ended, and answers nobody. So where any broker
will do, one is found that answers something small, and one that kept silent a moment ago is sent
nothing before it has (`knocking.py`).

Limits: uses the connection manager inside `KafkaAdminClient` (3.0.x), here and nowhere else. With
ZooKeeper (before 4.0) changes of the whole cluster have to go to the controller, frozen or not.
"""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import kafka.errors as kafka_errors
from kafka import KafkaAdminClient
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from counterpoise.errors import BrokerSilentError, ClusterError, ClusterUnreachableError
from counterpoise.kafka_admin.bare import keep_secrets_out_of_logs
from counterpoise.kafka_admin.connection import ConnectionSettings, kafka_python_arguments
from counterpoise.kafka_admin.liveness_probe import SILENT_AFTER_SECONDS, LivenessProbe
from counterpoise.kafka_admin.probe import Attempt, probe

ATTEMPTS: Final = 4
WRITE_SECONDS: Final = 24.0  # all of a call that changes something; the step lock of a run holds 30
_ASKED_AT_ONCE: Final = 20
_FIRST_PAUSE_SECONDS: Final = 0.1
_BOOTSTRAP_TIMEOUT_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Ask:
    """A request and the broker that it is for; None: one that answers. At most `seconds`, the
    wire's timeout if None.

    `knocks`: something small is asked first, so that a silent broker costs SILENT_AFTER_SECONDS and
    a slow one may take its time.
    """

    broker_id: int | None
    request: Any
    seconds: float | None = None
    knocks: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer. `was_sent`: it may have been acted upon."""

    reason: str
    was_sent: bool
    may_pass: bool  # trying again may help
    is_unsupported: bool = False  # the broker does not know this request
    is_refused: bool = False  # it does not want to know us

    @property
    def is_silence(self) -> bool:
        """Nothing came back: dead, frozen or cut off."""
        return not self.is_unsupported and not self.is_refused


class UnsupportedRequestError(ClusterError):
    """The broker is too old for a request."""


class BrokerClient:
    """Connections to all brokers, opened when first needed. Threads may share it."""

    def __init__(self, settings: ConnectionSettings, request_timeout_seconds: float) -> None:
        self.settings = settings
        self.request_timeout_seconds = request_timeout_seconds
        self.attempts: tuple[Attempt, ...] = ()
        self._client: KafkaAdminClient | None = None
        self._opening = threading.Lock()
        self._liveness_probe = LivenessProbe(min(SILENT_AFTER_SECONDS, request_timeout_seconds))

    def close(self) -> None:
        """Close all connections; does nothing the second time."""
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # -- reading

    def read(self, request: Any, what: str, broker_id: int | None = None) -> Any:
        """The answer of `broker_id`, or of any broker. `what` is for messages: "the log dirs".

        Raises ClusterError when that broker does not answer, ClusterUnreachableError when none
        does.
        """
        answer = self.read_each([Ask(broker_id, request)])[0]
        if isinstance(answer, Failure):
            if answer.is_unsupported:
                raise UnsupportedRequestError(f"{what}: {answer.reason}")
            if broker_id is None:
                raise ClusterUnreachableError(self._known_brokers(f"{what}: {answer.reason}"))
            raise BrokerSilentError(
                f"{what}: {self.name_of(broker_id)} gives no answer: {answer.reason}"
            )
        return answer

    def read_each(self, asks: Sequence[Ask]) -> list[Any]:
        """The answers, side by side and in order; a Failure where there is none."""
        return self._repeated(asks, repeat_sent=True, until=math.inf)

    # -- writing

    def write_each(self, asks: Sequence[Ask], until: float) -> list[Any]:
        """As `read_each`, but repeated only where nothing was sent; a Failure says whether it was.

        Ends at `until` (of `write_deadline`) at the latest; nothing is sent after that.
        """
        return self._repeated(asks, repeat_sent=False, until=until)

    def _repeated(self, asks: Sequence[Ask], *, repeat_sent: bool, until: float) -> list[Any]:
        patience_until = min(until, time.monotonic() + self.request_timeout_seconds)
        answers = self._exchange(asks, until)
        for attempt in range(1, ATTEMPTS):
            again = [
                n
                for n, answer in enumerate(answers)
                if isinstance(answer, Failure)
                and answer.may_pass
                and (repeat_sent or not answer.was_sent)
            ]
            if not again or (attempt > 1 and time.monotonic() > patience_until):
                break
            self.pause(attempt)
            for n, answer in zip(
                again, self._exchange([asks[n] for n in again], until), strict=True
            ):
                # "Not ready" only says that kafka-python waits before it connects again: the reason
                # came before.
                not_news = isinstance(answer, Failure) and not answer.reason
                answers[n] = answers[n] if not_news else answer
        return [_with_reason(answer) for answer in answers]

    def pause(self, attempt: int) -> None:
        """Wait a little longer each time, then ask for fresh metadata, which names the brokers
        anew.
        """
        time.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
        self._manager().cluster.request_update()

    # -- the brokers

    def answering_broker(self) -> int:
        """A broker that answered just now.

        Raises BrokerSilentError when none of those knocked on does.
        """
        manager = self._manager()
        try:
            return int(manager.run(self._liveness_probe.answering, manager))
        except (kafka_errors.KafkaError, OSError) as error:
            raise BrokerSilentError(f"no broker answers: {self.words(error)}") from None

    def destination_id(self) -> int:
        """The broker to send to what the controller decides, and its list of reassignments.

        In KRaft (KIP-590) any broker passes such a request on to the active controller, so it is
        one that answers; with ZooKeeper it is the controller.
        """
        broker_id = self.answering_broker()
        return broker_id if self._is_kraft(broker_id) else self._controller_id()

    def _is_kraft(self, broker_id: int) -> bool:
        """Only there a broker knows the request about the metadata quorum (KIP-595)."""
        try:
            self.highest_version(DescribeQuorumRequest, broker_id)
        except UnsupportedRequestError:
            return False
        return True

    def _controller_id(self) -> int:
        answer = self.read(
            MetadataRequest(topics=[], allow_auto_topic_creation=False), "the controller"
        )
        if answer.controller_id < 0:
            raise BrokerSilentError(
                "the cluster has no controller at the moment; try again when it has elected one"
            )
        return int(answer.controller_id)

    def highest_version(self, request_type: Any, broker_id: int) -> int:
        """The highest version of a request that both sides know.

        Raises UnsupportedRequestError when there is none.
        """
        manager = self._manager()

        async def ask() -> int:
            connection = manager.get_connection(broker_id)
            await manager.wait_for(connection.init_future, SILENT_AFTER_SECONDS * 1000)
            return int(connection.broker_version_data.api_version(request_type))

        try:
            return int(manager.run(ask))
        except kafka_errors.IncompatibleBrokerVersion as error:
            raise UnsupportedRequestError(
                f"{self.name_of(broker_id)}: {self.words(error)}"
            ) from None
        except (kafka_errors.KafkaError, OSError) as error:
            raise BrokerSilentError(
                f"{self.name_of(broker_id)} gives no answer: {self.words(error)}"
            ) from None

    def name_of(self, broker_id: int) -> str:
        """`broker 4 (host:port)` as far as that is known."""
        broker = self._manager().cluster.broker_metadata(broker_id)
        return (
            f"broker {broker_id}"
            if broker is None
            else f"broker {broker_id} ({broker.host}:{broker.port})"
        )

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
        """A client for the first address that answers; the others are not given to it, since it
        picks at random.
        """
        keep_secrets_out_of_logs()
        attempts: list[Attempt] = []
        for address in self.settings.bootstrap_servers:
            attempt = probe(address, self.settings)
            if attempt.answered:
                try:
                    client = self._bootstrap(address)
                except kafka_errors.KafkaError as error:
                    reason = (
                        f"librdkafka was answered there, kafka-python was not: {self.words(error)}"
                    )
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
        return tuple(
            (f"{b.host}:{b.port}", reason) for b in sorted(brokers, key=lambda b: b.node_id)
        )

    def _exchange(self, asks: Sequence[Ask], until: float) -> list[Any]:
        """One try each, so many at once that no slow one holds up the others; nothing is sent after
        `until`.
        """
        manager = self._manager()
        answers: list[Any] = [None] * len(asks)
        waiting = iter(enumerate(asks))

        async def work() -> None:
            for n, ask in waiting:
                answers[n] = await self._one(manager, ask, until)

        async def all_of_them() -> None:
            workers = [manager.call_soon(work) for _ in range(min(_ASKED_AT_ONCE, len(asks)))]
            for worker in workers:
                await worker

        manager.run(all_of_them)
        return answers

    async def _one(self, manager: Any, ask: Ask, until: float) -> Any:
        """The answer or a Failure; the only place that sees kafka-python's exceptions."""
        was_sent = False
        seconds = SILENT_AFTER_SECONDS
        try:
            node_id = (
                await self._liveness_probe.answering(manager)
                if ask.broker_id is None
                else ask.broker_id
            )
            if ask.broker_id is not None and (
                ask.knocks or self._liveness_probe.was_silent(node_id)
            ):
                await self._liveness_probe.knock(manager, node_id)
            seconds = min(
                math.inf if ask.seconds is None else ask.seconds, self.request_timeout_seconds
            )
            ends = min(time.monotonic() + seconds, until)
            connection = manager.get_connection(node_id)
            await manager.wait_for(connection.init_future, _milliseconds_to(ends))
            if time.monotonic() >= ends:
                return Failure("no time was left to send it", was_sent, may_pass=False)
            answer = connection.send_request(ask.request)
            was_sent = not answer.is_done  # what fails at once was refused on our side
            return await manager.wait_for(answer, _milliseconds_to(ends))
        except kafka_errors.NodeNotReadyError:
            return Failure("", was_sent, may_pass=True)
        except (kafka_errors.KafkaTimeoutError, kafka_errors.RequestTimedOutError):
            # A broker that lets a whole timeout pass does so again; another one may not.
            if ask.broker_id is not None:
                self._liveness_probe.note_silence(ask.broker_id)
            seconds = min(seconds, self.request_timeout_seconds)
            return Failure(
                f"nothing within {seconds:g} s", was_sent, may_pass=ask.broker_id is None
            )
        except kafka_errors.UnknownBrokerIdError:
            return Failure("it is not live (fenced, stopped or unknown)", was_sent, may_pass=True)
        except kafka_errors.IncompatibleBrokerVersion as error:
            return Failure(self.words(error), was_sent=False, may_pass=False, is_unsupported=True)
        except kafka_errors.AuthorizationError as error:  # SASL refused us: nothing got that far
            return Failure(self.words(error), was_sent=False, may_pass=False, is_refused=True)
        except (kafka_errors.KafkaError, OSError) as error:
            return Failure(self.words(error), was_sent, may_pass=True)


def write_deadline() -> float:
    """When a call that changes something, and begins now, has to end (`time.monotonic`)."""
    return time.monotonic() + WRITE_SECONDS


def _milliseconds_to(moment: float) -> float:
    return max(0.0, moment - time.monotonic()) * 1000


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
    if issubclass(
        error, kafka_errors.AuthorizationError
    ):  # Kafka's own message here is a dump of the whole request
        return f"{name}: the principal lacks a permission (ACL)"
    return f"{name}: {message}" if message and message != name else name

"""Topics of a local cluster are created although librdkafka gives up a request on the way."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from dev.local_kafka import LocalKafkaError, load
from dev.local_kafka.load import TopicSpec


class Admin:
    """Answers each request for a topic with the next of these errors; None: it was created."""

    def __init__(self, *errors: int | None) -> None:
        self.errors = list(errors)

    def list_topics(self, timeout: float) -> None: ...

    def create_topics(
        self, topics: Sequence[Any], operation_timeout: float
    ) -> dict[str, Future[None]]:
        (topic,), future = topics, Future[None]()
        error = self.errors.pop(0)
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(KafkaException(KafkaError(error)))
        return {topic.topic: future}


@pytest.mark.parametrize("second", [None, KafkaError.TOPIC_ALREADY_EXISTS])
def test_a_request_without_an_answer_is_made_again(
    monkeypatch: pytest.MonkeyPatch, second: int | None
) -> None:
    create(monkeypatch, Admin(KafkaError._DESTROY_BROKER, second))


def test_each_bootstrap_address_may_leave_a_request_without_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = [KafkaError._DESTROY_BROKER] * 3
    create(monkeypatch, Admin(*lost, None), bootstrap="a:9092,b:9092,c:9092")


@pytest.mark.parametrize(
    "errors",
    [
        (KafkaError.TOPIC_ALREADY_EXISTS,),
        (KafkaError._DESTROY_BROKER, KafkaError._DESTROY_BROKER),
        (KafkaError._DESTROY_BROKER, KafkaError.POLICY_VIOLATION),
    ],
)
def test_any_other_answer_is_an_error(
    monkeypatch: pytest.MonkeyPatch, errors: tuple[int, ...]
) -> None:
    with pytest.raises(LocalKafkaError, match="topic orders was not created"):
        create(monkeypatch, Admin(*errors))


def create(monkeypatch: pytest.MonkeyPatch, admin: Admin, bootstrap: str = "a:9092") -> None:
    """Create one topic; all its requests are used up."""
    monkeypatch.setattr(load, "AdminClient", lambda _config: admin)
    monkeypatch.setattr(load, "_knows_leaders", lambda _address, _topics: True)
    try:
        load.create_topics(bootstrap, [TopicSpec("orders")])
    finally:
        assert not admin.errors

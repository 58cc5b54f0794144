"""Ids of topics as brokers send them: one with an inter-broker protocol before 2.8 has none."""

import uuid
from typing import Any

import pytest
from kafka.protocol.metadata import MetadataResponse

from counterpoise.kafka_admin.reading import describe_topics

VERSION = 10  # the first with ids
GIVEN = uuid.UUID("0f1b6c5e-3c51-4f0c-9f5e-0c1f2a3b4c5d")


class _Broker:
    """Responds with one topic, as bytes over the network are read."""

    settings: Any = None  # for the messages of refusals

    def __init__(self, topic_id: uuid.UUID) -> None:
        topic = MetadataResponse.MetadataResponseTopic(
            error_code=0, name="orders", topic_id=topic_id, is_internal=False, partitions=[]
        )
        response = MetadataResponse(
            throttle_time_ms=0, brokers=[], cluster_id="q1Sh", controller_id=1, topics=[topic]
        )
        self._sent = response.encode(version=VERSION)

    def read(self, request: Any, what: str) -> Any:
        return MetadataResponse.decode(self._sent, version=VERSION)

    def pause(self, attempt: int) -> None:
        pass


@pytest.mark.parametrize(("sent", "known"), [(GIVEN, str(GIVEN)), (uuid.UUID(int=0), "")])
def test_an_id_of_all_zeros_is_not_known(sent: uuid.UUID, known: str) -> None:
    (topic,) = describe_topics(_Broker(sent), None)
    assert (topic.topic, topic.topic_id) == ("orders", known)

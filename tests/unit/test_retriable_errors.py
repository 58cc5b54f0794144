"""A read that the cluster refuses for now may be tried again: a task, or a run, does not end."""

import pytest

from counterpoise.errors import ClusterError, NotPermittedError
from counterpoise.kafka_admin.broker_client import raise_for

NOT_CONTROLLER, REQUEST_TIMED_OUT = 41, 7
CLUSTER_AUTHORIZATION_FAILED, INVALID_REPLICA_ASSIGNMENT = 31, 39


@pytest.mark.parametrize("code", [NOT_CONTROLLER, REQUEST_TIMED_OUT])
def test_what_kafka_calls_retriable_is_retryable(code: int) -> None:
    with pytest.raises(ClusterError, match=r"the reassignments: .*; try again") as caught:
        raise_for(code, None, "the reassignments")
    assert caught.value.retryable


@pytest.mark.parametrize("code", [CLUSTER_AUTHORIZATION_FAILED, INVALID_REPLICA_ASSIGNMENT])
def test_another_refusal_is_not(code: int) -> None:
    with pytest.raises(ClusterError) as caught:
        raise_for(code, None, "the reassignments")
    assert not caught.value.retryable
    assert isinstance(caught.value, NotPermittedError) is (code == CLUSTER_AUTHORIZATION_FAILED)

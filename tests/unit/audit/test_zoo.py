"""Healthy clusters of many kinds: nothing above info is found on any of them."""

import pytest

from tests.support.audit_zoo import ZOO, above_info


@pytest.mark.parametrize("name", ZOO)
def test_nothing_above_info_on_a_healthy_cluster(name: str) -> None:
    assert above_info(ZOO[name]()) == []

"""How long the solver searches in these tests."""

from collections.abc import Iterator

import pytest

from counterpoise.planning import placement
from counterpoise.planning.placement import USUAL, SearchLimits
from tests.support.examples import SOAK

# What is asserted here holds for an answer that is not proven, too, and most of the time went into
# proving. `make soak` searches as long as the product.
SHORT = SearchLimits(USUAL.max_replicas, USUAL.work / 8)


@pytest.fixture(scope="module")
def short_search() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not SOAK:
            patch.setattr(placement, "USUAL", SHORT)
        yield

"""How long the solver searches in these tests."""

from collections.abc import Iterator

import pytest

from counterpoise.planning import placement
from counterpoise.planning.placement import SEARCH_LIMITS, SearchLimits
from tests.support.examples import SOAK

# What is asserted here holds for an answer that is not proven, too, and most of the time went into
# proving. `make soak` searches as long as the product.
SHORT = SearchLimits(SEARCH_LIMITS.max_replicas, SEARCH_LIMITS.work / 8)


@pytest.fixture(scope="module")
def short_search() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if not SOAK:
            patch.setattr(placement, "SEARCH_LIMITS", SHORT)
        yield

"""How many examples a property is tried with.

`make test` tries as many as are written beside the property, the same ones each time.
`COUNTERPOISE_SOAK=20` makes 20 times as many, drawn anew each time; `make soak` does. A failure
names its seed; `COUNTERPOISE_SEED=123` begins with that one.

    @examples(60)
    @given(trial=trials())
    def test_...

    for seed in seeds(12): ...
"""

import os
import time
from typing import Final

from hypothesis import settings

SOAK: Final = int(os.environ.get("COUNTERPOISE_SOAK", "0"))
_FIRST_SEED: Final = int(
    os.environ.get("COUNTERPOISE_SEED", time.time_ns() // 10**6 if SOAK else 0)
)


def examples(count: int) -> settings:
    """Return settings of Hypothesis."""
    return settings(max_examples=count * (SOAK or 1), deadline=None, derandomize=not SOAK)


def seeds(count: int) -> range:
    """Return seeds for examples that are not drawn by Hypothesis."""
    return range(_FIRST_SEED, _FIRST_SEED + count * (SOAK or 1))

"""How large a cluster may be to be solved, and how long the solver may search."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class SearchLimits:
    max_replicas: int  # to choose
    work: float  # of each step, in the solver's own unit, which takes about a second


USUAL: Final = SearchLimits(220, 0.8)
THOROUGH: Final = SearchLimits(600, 8.0)

"""What one row of the table says, whoever made the plan.

Figures.of(judged, cpu_seconds=3.1, peak_bytes=None)
median([first, second, third])      # of each figure on its own
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median_high
from typing import Any


@dataclass(frozen=True, slots=True)
class Figures:
    cpu_seconds: float
    peak_bytes: int | None  # None: not measured
    copied_replicas: int
    copied_percent: float  # of all bytes
    replicas_over_bound: float | None  # None: the bound is 0
    bytes_over_bound: float | None
    leaders_spread: int  # max - min
    leaders_best: int  # what no plan could do better, whatever the replica sets
    leaders_could_be_more_even: bool  # by another order of the same replicas
    replicas_min: int
    replicas_max: int
    out_of_band: int  # brokers
    several_new: int  # partitions that get more than one new replica
    none_kept: int  # partitions that keep no old replica
    rack_violations: int
    errors: int
    led_unevenly_before: int  # topics
    led_unevenly: int
    spread_unevenly_before: int  # topics whose replicas per broker differ by more than one
    spread_unevenly: int

    @classmethod
    def of(
        cls, judged: Mapping[str, Any], *, cpu_seconds: float, peak_bytes: int | None
    ) -> "Figures":
        """From what the child process `judge` returns for a plan."""
        verdict = judged["verdict"]
        before, after, moved, bound = (
            verdict[part] for part in ("before", "after", "moved", "lower_bound")
        )
        return cls(
            cpu_seconds=cpu_seconds,
            peak_bytes=peak_bytes,
            copied_replicas=moved["replicas"],
            copied_percent=moved["pct_of_all_bytes"],
            replicas_over_bound=moved["replicas"] / bound["replicas"]
            if bound["replicas"]
            else None,
            bytes_over_bound=moved["bytes"] / bound["bytes"] if bound["bytes"] else None,
            leaders_spread=after["leaders"]["max_minus_min"],
            leaders_best=verdict["best_leader_max_minus_min"],
            leaders_could_be_more_even=judged["could_lead_more_evenly"],
            replicas_min=after["replicas"]["min"],
            replicas_max=after["replicas"]["max"],
            out_of_band=verdict["brokers_out_of_bytes_band"],
            several_new=verdict["partitions_with_several_new_replicas"],
            none_kept=verdict["partitions_keeping_no_old_replica"],
            rack_violations=after["rack_violations"],
            errors=sum(verdict["errors"].values()),
            led_unevenly_before=before["topics_with_uneven_leaders"],
            led_unevenly=after["topics_with_uneven_leaders"],
            spread_unevenly_before=judged["topics_with_uneven_replicas_before"],
            spread_unevenly=judged["topics_with_uneven_replicas"],
        )


@dataclass(frozen=True, slots=True)
class Row:
    """One planner on one cluster."""

    cluster: str
    planner: str
    partitions: int
    brokers: int
    goal: str
    figures: Figures


def median(runs: Sequence[Figures]) -> Figures:
    """Figure by figure; of an even number the higher one.

    A figure that one run has not, the median has not.
    """
    columns = zip(*(asdict(figures).values() for figures in runs), strict=True)
    values = (None if None in column else median_high(column) for column in columns)
    fields: dict[str, Any] = dict(zip(asdict(runs[0]), values, strict=True))
    return Figures(**fields)

"""What the planner must reach, each target held against what was measured.

    for check in checks(rows, extras):
        print(check)                # pass  d-large: make_plan 2.91 CPU s (at most 6)

A target whose cluster was not run is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.figures import Figures, Row
from counterpoise.model.request import Goal

MAX_BYTES_OVER_BOUND: Final = {"b-small": 1.05, "c-medium": 1.01, "d-large": 1.01}
MAX_CPU_SECONDS: Final = {"c-medium": 1.0, "d-large": 6.0, "g-huge": 45.0}
AIMED_CPU_SECONDS: Final = {"g-huge": 30.0}
MAX_PEAK_BYTES: Final = {"d-large": 2**30, "g-huge": 2 * 2**30}
NO_SEVERAL_NEW: Final = ("c-medium", "d-large")
MAX_COMMAND_SECONDS: Final = 15.0
MAX_GROWTH: Final = 2.5
GROWS: Final = ("d-large", "g-huge")
EXACT_BYTES: Final = (Goal.REMOVE_BROKERS, Goal.LEADERS)


@dataclass(frozen=True, slots=True)
class Check:
    is_met: bool
    text: str
    is_aim: bool = False  # missing it is said, and no failure

    def __str__(self) -> str:
        word = "pass" if self.is_met else ("aim missed" if self.is_aim else "MISS")
        return f"{word}  {self.text}"


@dataclass(frozen=True, slots=True)
class Extras:
    """What is measured besides the table."""

    command_seconds: float | None = None  # of the whole `counterpoise plan` at d-large
    command_peak_bytes: int | None = None
    digests: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict
    )  # by cluster, by what was different


def checks(rows: Sequence[Row], extras: Extras) -> list[Check]:
    """Every target that the rows and extras tell something about; `rows` are those of our own
    planner.
    """
    found = [check for row in rows for check in (*_quality(row), *_cost(row))]
    return [*found, *_command(extras), *_growth({row.cluster: row for row in rows}), *_same(extras)]


def _quality(row: Row) -> Iterator[Check]:
    of, name = row.figures, row.cluster
    max_allowed = MAX_BYTES_OVER_BOUND.get(name)
    if max_allowed is not None and of.bytes_over_bound is not None:
        yield Check(
            of.bytes_over_bound <= max_allowed and of.out_of_band == 0,
            f"{name}: bytes {of.bytes_over_bound:.4f} of the bound (at most {max_allowed}), "
            f"{of.out_of_band} brokers outside the 10 % band (0)",
        )
    if row.goal in EXACT_BYTES:
        yield Check(
            _is_exact(of.bytes_over_bound, of.copied_percent),
            f"{name}: bytes {_of_bound(of, 'bytes')}",
        )
    is_exact = _is_exact(of.replicas_over_bound, of.copied_replicas)
    yield Check(is_exact, f"{name}: replicas {_of_bound(of, 'replicas')}")
    if name in NO_SEVERAL_NEW:
        yield Check(
            of.several_new == 0,
            f"{name}: {of.several_new} partitions with several new replicas (0)",
        )
    yield Check(
        of.none_kept == 0, f"{name}: {of.none_kept} partitions that keep no old replica (0)"
    )
    yield Check(
        of.leaders_spread <= 1 or not of.leaders_could_be_more_even,
        f"{name}: leaders max - min {of.leaders_spread} "
        "(as even as the replica sets allow, 1 where they allow it)",
    )
    yield Check(
        of.rack_violations == 0 and of.errors == 0,
        f"{name}: {of.rack_violations} rack violations, {of.errors} errors (0)",
    )


def _cost(row: Row) -> Iterator[Check]:
    of, name = row.figures, row.cluster
    for limits, is_aim in ((MAX_CPU_SECONDS, False), (AIMED_CPU_SECONDS, True)):
        if name in limits:
            limit = f"{'aim' if is_aim else 'at most'} {limits[name]:g}"
            text = f"{name}: make_plan {of.cpu_seconds:.2f} CPU s ({limit})"
            yield Check(of.cpu_seconds <= limits[name], text, is_aim)
    if name in MAX_PEAK_BYTES and of.peak_bytes is not None:
        max_allowed = MAX_PEAK_BYTES[name]
        peak = f"peak {of.peak_bytes / 2**20:,.0f} MiB, reading included"
        text = f"{name}: {peak} (at most {max_allowed / 2**20:,.0f})"
        yield Check(of.peak_bytes <= max_allowed, text)


def _command(extras: Extras) -> Iterator[Check]:
    if extras.command_seconds is not None:
        peak = (
            f", peak {extras.command_peak_bytes / 2**20:,.0f} MiB"
            if extras.command_peak_bytes
            else ""
        )
        yield Check(
            extras.command_seconds <= MAX_COMMAND_SECONDS,
            f"{GROWS[0]}: the whole command, documents read and written, "
            f"{extras.command_seconds:.2f} CPU s "
            f"(at most {MAX_COMMAND_SECONDS:g}){peak}",
        )


def _growth(rows: Mapping[str, Row]) -> Iterator[Check]:
    if all(name in rows for name in GROWS):
        small, huge = (rows[name].figures.cpu_seconds / rows[name].partitions for name in GROWS)
        yield Check(
            huge <= MAX_GROWTH * small,
            f"growth: a partition takes {huge / small:.2f} times the CPU at {GROWS[1]} "
            f"that it takes at {GROWS[0]} "
            f"(at most {MAX_GROWTH:g})",
        )


def _same(extras: Extras) -> Iterator[Check]:
    for name, digests in extras.digests.items():
        differ = len(set(digests.values()))
        yield Check(
            differ == 1,
            f"{name}: {differ} different plan(s) from the same input: {', '.join(digests)} (1)",
        )


def _is_exact(over_bound: float | None, copied: float) -> bool:
    return over_bound == 1 if over_bound is not None else copied == 0


def _of_bound(of: Figures, what: str) -> str:
    value = of.bytes_over_bound if what == "bytes" else of.replicas_over_bound
    return "none copied (none)" if value is None else f"{value:.4f} of the bound (1)"

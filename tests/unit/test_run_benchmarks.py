"""The benchmarks of runs count what they say: what clients feel, and calls on a wide cluster."""

import pytest

from benchmarks.client_latency import IDLE, KAFKAS, OURS, Felt, Phase, checks, feel


def felt(pair: int, what: str, seconds: float, failed: int = 0) -> Felt:
    return Felt(Phase(pair, what, 0, 1), 100, failed, 0.01, seconds, 0.02, 2 * seconds, 1)


def test_only_records_sent_in_a_phase_count() -> None:
    rows = [(kind, at / 100, at / 1000) for kind in ("produced", "consumed") for at in range(1000)]
    rows += [("led", 2.5, 3), ("led", 2.6, 5), ("led", 9.0, 7), ("failed", 2.0, 0.0)]
    seen = feel(Phase(1, OURS, 2.0, 4.0), rows)
    assert (seen.records, seen.failed, seen.leaders_at_once) == (200, 1, 5)
    assert seen.latencies == (0.299, 0.397, 0.299, 0.397)


def test_too_few_records_are_no_figure() -> None:
    with pytest.raises(ValueError, match="while nothing moves: 0 records were acknowledged"):
        feel(Phase(1, IDLE, 0.0, 1.0), [])


@pytest.mark.parametrize(("ours", "is_met"), [((1.1, 1.1, 9.0), True), ((1.2, 1.2, 0.1), False)])
def test_the_median_of_the_ratios_counts(ours: tuple[float, ...], is_met: bool) -> None:
    pairs = [
        one
        for pair, seconds in enumerate(ours)
        for one in (felt(pair, OURS, seconds), felt(pair, KAFKAS, 1.0), felt(pair, IDLE, 0.1))
    ]
    assert [check.is_met for check in checks(pairs)] == [True, is_met, True, is_met, True, True]


def test_a_machine_without_room_has_no_figures() -> None:
    found = checks([felt(1, IDLE, 50.0), felt(1, OURS, 1.0), felt(1, KAFKAS, 1.0)])
    missed = [str(check) for check in found if not check.is_met]
    assert missed == [
        "MISS  producer p99 while nothing moves 50.00 s (at most 1): the machine has room"
    ]


def test_a_failed_record_is_a_missed_target() -> None:
    (*_, last) = checks([felt(1, OURS, 1.0, failed=1), felt(1, KAFKAS, 1.0)])
    assert str(last) == "MISS  1 records failed while ours moved (0)"

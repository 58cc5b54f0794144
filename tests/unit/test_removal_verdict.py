"""Whether emptied brokers may be stopped: by what each observation shows, and by the quorum."""

from counterpoise.verification import judge_removal

EMPTY = [("orders-0", (1, 2)), ("orders-1", (2, 1))]
LATER = [("orders-0", (1, 2)), ("orders-1", (2, 1)), ("new-0", (2, 4))]


def test_brokers_that_hold_nothing_and_vote_nowhere_are_safe_to_stop() -> None:
    verdict = judge_removal((3, 4), (EMPTY, EMPTY), (1, 2))
    assert verdict.is_safe
    assert verdict.lines()[0].startswith("brokers 3, 4: safe to stop (0 replicas, 0 voters")


def test_a_partition_that_any_observation_shows_there_is_left() -> None:
    for observations in ((EMPTY, LATER), (LATER, EMPTY)):
        verdict = judge_removal((4,), observations, ())
        assert not verdict.is_safe
        assert verdict.partitions_left == ("new-0",)


def test_a_broker_that_votes_in_the_quorum_is_not_safe_to_stop() -> None:
    verdict = judge_removal((4,), (EMPTY, EMPTY), (3, 4))
    assert not verdict.is_safe
    assert "NOT safe to stop" in verdict.lines()[0]
    assert "broker 4 votes in the metadata quorum" in verdict.lines()[1]

"""What each copy of a plan is for, as the moves serve it together."""

from counterpoise.model.plan import MoveReason
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.pictures import cluster


def reasons(picture: str, racks: str) -> dict[str, MoveReason]:
    plan = make_plan(cluster(picture, racks=racks), PlanRequest(Goal.REBALANCE))
    return {f"{move.topic}-{move.partition}": move.why for move in plan.moves if move.adding}


def test_moves_in_a_chain_are_all_for_replicas() -> None:
    # Broker 3 can only get replicas of c, which broker 2 has; broker 1 passes one on to broker 2.
    picture = "\n".join(
        [
            *(f"a-{n}: 1 3 size=10" for n in range(6)),
            *(f"b-{n}: 2 size=10" for n in range(2)),
            *(f"c-{n}: 2 size=10" for n in range(4)),
            *(f"d-{n}: 1 size=10" for n in range(2)),
        ]
    )
    found = reasons(picture, "1 2 3 4")
    assert found and set(found.values()) == {MoveReason.REPLICAS}


def test_an_exchange_that_changes_no_count_is_for_bytes() -> None:
    picture = "a-0: 1 size=90\na-1: 1 size=90\nb-0: 2 size=10\nb-1: 2 size=10"
    assert set(reasons(picture, "1 2").values()) == {MoveReason.BYTES}


def test_what_spreads_a_partition_over_racks_is_for_racks() -> None:
    found = reasons("a-0: 1 2 size=10\na-1: 3 1 size=10\na-2: 4 2 size=10", "1=a 2=a 3=b 4=b")
    assert found["a-0"] is MoveReason.RACKS

"""The planner on clusters small enough to see."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.document import to_document
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.goal_judge import judge
from tests.support.pictures import cluster


def topic(name: str, count: int, replicas: str, size: int = 1000) -> str:
    return "\n".join(f"{name}-{number}: {replicas} size={size}" for number in range(count))


@pytest.mark.parametrize("new_rack", ["d", "a"])
def test_a_fourth_broker_reaches_its_share_with_one_new_replica_per_partition(
    new_rack: str,
) -> None:
    picture = "\n".join(
        f"t-{n}: {' '.join('123123'[n % 3 : n % 3 + 3])} size={1000 + 37 * n}" for n in range(60)
    )
    snapshot = cluster(picture, racks=f"1=a 2=b 3=c 4={new_rack}")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    verdict = judge(snapshot, plan)
    assert verdict.errors == ()
    assert verdict.copied_replicas == plan.lower_bound.replicas
    assert verdict.max_new_replicas == 1
    assert verdict.leaders_max_minus_min == 0
    if new_rack == "d":
        assert verdict.replicas_max_minus_min == 0
        mean = sum(verdict.bytes_held.values()) / 4
        assert all(abs(held - mean) <= 0.101 * mean for held in verdict.bytes_held.values())
    else:
        # Rack a shares its 60 replicas between brokers 1 and 4; b and c have one broker each.
        assert verdict.replicas == {1: 30, 2: 60, 3: 60, 4: 30}
        assert any("cannot be more even than 30 to 60" in warning for warning in plan.warnings)


def test_bytes_copied_are_near_the_lower_bound() -> None:
    picture = "\n".join(f"t-{n}: {1 + n % 3} size={(n * 7919) % 10_000}" for n in range(600))
    snapshot = cluster(picture, racks="1 2 3 4")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    assert plan.copied_replicas == plan.lower_bound.replicas == 150
    assert plan.lower_bound.bytes <= plan.copied_bytes <= plan.lower_bound.bytes * 1.01


def test_leaders_keep_their_place_where_they_can_and_the_order_of_the_others() -> None:
    snapshot = cluster("a-0: 1 2 3\na-1: 1 2 3 @2\na-2: 3 1 2", racks="1 2 3")
    plan = make_plan(snapshot, PlanRequest(Goal.LEADERS))
    # a-1 is led by 2 already: only its order has to follow. The others stay as they are.
    assert [(move.topic_partition.partition, move.replicas_after) for move in plan.moves] == [
        (1, (2, 1, 3))
    ]
    assert plan.leader_changes == 0


def test_a_partition_led_by_another_than_its_first_replica_is_elected() -> None:
    snapshot = cluster("a-0: 1 2 @2\na-1: 2 1 @2", racks="1 2")
    plan = make_plan(snapshot, PlanRequest(Goal.LEADERS))
    assert [(move.replicas_before, move.replicas_after) for move in plan.moves] == [
        ((1, 2), (1, 2))
    ]


def test_racks_that_adding_cannot_cure_are_a_warning() -> None:
    snapshot = cluster("a-0: 1 2\na-1: 1 2\na-2: 1 2\na-3: 1 2", racks="1=a 2=a 3=a 4=b")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (3,)))
    assert any("goal rebalance can repair that: a-0" in warning for warning in plan.warnings)


def test_what_others_are_doing_is_left_alone_and_named() -> None:
    snapshot = cluster("a-0: 4 1 2 +4 -1\na-1: 1 2\na-2: 1 2\na-3: 1 2 @none", racks="1 2 3 4")
    plan = make_plan(snapshot, PlanRequest(Goal.REBALANCE))
    assert {move.partition for move in plan.moves} <= {1, 2}
    assert any(
        "being reassigned already and left alone: a-0" in warning for warning in plan.warnings
    )
    assert any("has no leader" in warning and "a-3" in warning for warning in plan.warnings)


DEMO = cluster(topic("a", 4, "1 2"), racks="1 2 3 !4", name="demo")


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            PlanRequest(Goal.ADD_BROKERS, (9,)),
            "broker 9 is not registered in cluster demo; registered: 1, 2, 3, 4",
        ),
        (PlanRequest(Goal.ADD_BROKERS, (3, 3)), "broker 3 is listed twice"),
        (PlanRequest(Goal.ADD_BROKERS), "needs the brokers that were added"),
        (PlanRequest(Goal.LEADERS, (3,)), "takes no brokers"),
        (PlanRequest(Goal.ADD_BROKERS, (4,)), "broker 4 is fenced"),
        (PlanRequest(Goal.ADD_BROKERS, (1, 2, 3)), "names every live broker"),
        (
            PlanRequest(Goal.REMOVE_BROKERS, (2, 3)),
            "cluster demo would have 1 live broker without",
        ),
    ],
)
def test_a_request_that_does_not_fit_is_an_input_error(request_: PlanRequest, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make_plan(DEMO, request_)
    assert message in str(caught.value)


def test_what_must_stay_where_it_is_cannot_be_drained() -> None:
    request = PlanRequest(Goal.REMOVE_BROKERS, (2,), BalancePolicy(excluded_topics=("a",)))
    with pytest.raises(
        RefusedError, match="broker 2 cannot be emptied: 4 partitions have replicas"
    ) as caught:
        make_plan(DEMO, request)
    assert "take the topics out of excluded_topics" in str(caught.value)
    moving = cluster("a-0: 1 2 3 +3 -2", racks="1 2 3")
    with pytest.raises(RefusedError, match="wait until it is done, or cancel it"):
        make_plan(moving, PlanRequest(Goal.REMOVE_BROKERS, (2,)))


def test_the_same_input_gives_the_same_bytes_whatever_the_hash_seed(tmp_path: Path) -> None:
    picture = "\n".join(
        f"t{n % 7}-{n}: {1 + n % 3} {1 + (n + 1) % 3} size={n * 31 % 97}" for n in range(200)
    )
    document = tmp_path / "cluster.json"
    document.write_text(json.dumps(to_document(cluster(picture, racks="1=a 2=b 3=c 4=d"))))
    script = (
        "import sys; from counterpoise.model.document import from_document_text; "
        "from counterpoise.model.request import Goal, PlanRequest; "
        "from counterpoise.planning import make_plan; "
        "snapshot = from_document_text(open(sys.argv[1]).read()); "
        "print(make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,))).to_json())"
    )
    plugins = Path(__file__).parents[2] / "plugins"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, str(document)],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(plugins)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1 and "fingerprint" in outputs.pop()

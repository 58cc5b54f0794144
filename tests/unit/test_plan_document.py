"""The plan document and Kafka's reassignment JSON."""

import gc
import json
from dataclasses import replace

import pytest

from counterpoise.errors import InputError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_REPLICAS,
    ConfigResourceType,
)
from counterpoise.model.movement import busiest_link_bytes
from counterpoise.model.plan import (
    BrokerFigure,
    Deferred,
    LowerBound,
    Move,
    MoveReason,
    RebalancePlan,
    SettingBefore,
    fingerprint_of,
)
from counterpoise.model.reassignment import from_reassignment_json, to_reassignment_json
from counterpoise.model.request import Budget, Goal, Scope

MOVE = Move("orders", 0, "id", (1, 2, 3), (4, 2, 3), 1, 1000)
PLAN = RebalancePlan(
    cluster="demo",
    cluster_id="abc",
    snapshot_id="s",
    goal=Goal.ADD_BROKERS,
    broker_ids=(4,),
    policy_digest="d",
    moves=(MOVE, replace(MOVE, partition=1, replicas_after=(2, 1, 3), leader_before=2)),
    figures=(BrokerFigure(1, "a", 1, 0, 0, 2, 1, 1, 2000, 1000, 1000, 2000),),
    lower_bound=LowerBound(1, 1000, 1),
    warnings=("räcks",),
    notes=("tiers",),
    scope=Scope(topics=("orders*",), excluded_broker_ids=(9,)),
    budget=Budget(max_bytes=5000),
    replication_factor=3,
    deferred=Deferred(1, 1, 1000),
    settings_before=(
        SettingBefore(ConfigResourceType.BROKER, "4", FOLLOWER_RATE, "5"),
        SettingBefore(ConfigResourceType.TOPIC, "orders", LEADER_REPLICAS, ""),
    ),
)


def test_a_plan_reads_back_equal_and_writes_the_same_bytes() -> None:
    again = RebalancePlan.from_json(PLAN.to_json())
    assert again == PLAN
    assert again.to_json() == PLAN.to_json()
    document = json.loads(PLAN.to_json())
    assert document["fingerprint"] == PLAN.fingerprint
    assert document["settings_before"] == [
        ["broker", "4", FOLLOWER_RATE, "5"],
        ["topic", "orders", LEADER_REPLICAS, ""],
    ]


def test_moves_are_read_as_they_were_written() -> None:
    read = RebalancePlan.from_json(PLAN.to_json())
    assert fingerprint_of(read._content()) == read.fingerprint == PLAN.fingerprint
    assert all(type(move) is Move and type(move.why) is MoveReason for move in read.moves)


def test_of_a_plan_no_byte_can_be_changed() -> None:
    """Only such as mean nothing to a reader of JSON."""
    document, changed = PLAN.to_json(), 0
    for place, byte in enumerate(document):
        for other in ' 1"}':
            edited = document[:place] + other + document[place + 1 :]
            try:
                assert RebalancePlan.from_json(edited) == PLAN
                assert byte in " \n" or byte == other
            except InputError:
                changed += 1
    assert changed > len(document)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('  "goal"', '  "gaol": 1,\n  "goal"'),  # sorted: in order all the same
        ('"partition":0,', '"partition":0,"petition":1,'),
        ('"why":"replicas"', '"why":"because"'),
        ('"traffic_gain"', '"traffic_again"'),
        ('"traffic_gain":7', '"traffic_gain":"7"'),
        ('"traffic_gain":7', '"traffic_gain":null'),
        ('"leader_before":1', '"leader_before":-2'),
        ('"partition":0', '"partition":2147483648'),
        ("[1,2,3]", "[1,2,null]"),
        ("counterpoise-plan/2", "counterpoise-plan/3"),
    ],
)
def test_a_plan_of_another_version_is_not_read(old: str, new: str) -> None:
    """Although its digest is right."""
    moves = (replace(MOVE, traffic_gain=7), *PLAN.moves[1:])
    text = replace(PLAN, moves=moves).to_json()
    assert old in text
    document = json.loads(text.replace(old, new, 1))
    fingerprint = fingerprint_of({k: v for k, v in document.items() if k != "fingerprint"})
    text = text.replace(old, new, 1).replace(document["fingerprint"], fingerprint)
    with pytest.raises(InputError, match="made by another version"):
        RebalancePlan.from_json(text)


def test_an_edited_plan_is_refused() -> None:
    text = PLAN.to_json()
    for edited in (
        text.replace("[4,2,3]", "[2,4,3]"),
        text.replace("{", '{"x": 1,', 1),
        text.replace("ä", "\\ud800"),
    ):
        with pytest.raises(InputError, match="edited after it was made"):
            RebalancePlan.from_json(edited)


def test_everything_in_a_plan_counts_for_its_fingerprint() -> None:
    changed = [
        replace(PLAN, moves=PLAN.moves[:1]),
        replace(PLAN, snapshot_id="t"),
        replace(PLAN, warnings=()),
        replace(PLAN, notes=()),
        replace(PLAN, lower_bound=LowerBound(1, 1000, 0)),
        replace(PLAN, scope=Scope()),
        replace(PLAN, budget=Budget()),
        replace(PLAN, deferred=Deferred()),
        replace(PLAN, replication_factor=2),
        replace(PLAN, settings_before=()),
        replace(PLAN, moves=(replace(MOVE, why=MoveReason.BYTES), *PLAN.moves[1:])),
    ]
    assert len({PLAN.fingerprint, *(plan.fingerprint for plan in changed)}) == len(changed) + 1


def test_what_a_move_copies_and_which_link_is_busiest() -> None:
    assert (MOVE.adding, MOVE.removing, MOVE.copied_bytes, MOVE.changes_leader) == (
        (4,),
        (1,),
        1000,
        True,
    )
    assert PLAN.copied_bytes == 1000
    assert busiest_link_bytes(PLAN) == 1000
    assert PLAN.leader_changes == 1


def test_reassignment_json_and_the_way_back() -> None:
    forth = from_reassignment_json(to_reassignment_json(PLAN))
    back = from_reassignment_json(to_reassignment_json(PLAN, undo=True))
    assert forth[TopicPartition("orders", 0)] == (4, 2, 3)
    assert back[TopicPartition("orders", 0)] == (1, 2, 3)
    assert json.loads(to_reassignment_json(replace(PLAN, moves=()))) == {
        "version": 1,
        "partitions": [],
    }


def test_garbage_is_collected_again_once_a_plan_was_read_or_refused() -> None:
    RebalancePlan.from_json(PLAN.to_json())
    assert gc.isenabled()
    with pytest.raises(InputError):
        RebalancePlan.from_json("{}")
    assert gc.isenabled()

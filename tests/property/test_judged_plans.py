"""How even plans for random clusters are, before a judge that knows nothing of the planner.

What no plan may do: test_planning_properties.py.
"""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ortools.graph.python import min_cost_flow

from counterpoise.errors import InputError, RefusedError
from counterpoise.model.request import Goal
from tests.support.examples import examples
from tests.support.trials import Key, Trial, large_trial, trials

EVENING = (Goal.ADD_BROKERS, Goal.REBALANCE, Goal.LEADERS)
pytestmark = pytest.mark.usefixtures("short_search")
PLENTY = examples(80)
SOME = examples(8)


# -- what holds for every plan


@PLENTY
@given(trial=trials(dead=True, scopes=True))
def test_leaders_are_as_even_as_the_final_replica_sets_allow(trial: Trial) -> None:
    """Exact: no broker could pass a leadership on, over any others, to one that leads two fewer."""
    try:
        leaders = leaders_after(trial)
    except (InputError, RefusedError):  # what was drawn does not fit
        return
    # Goals about evenness even out the topics of the request among themselves.
    shares_scope = trial.request.goal in (Goal.ADD_BROKERS, Goal.REBALANCE)
    left_out = trial.excluded_topics if shares_scope else frozenset()
    led = Counter(leader for key, leader in leaders.items() if key[0] not in left_out)
    passes_on: dict[int, set[int]] = {b: set() for b in trial.leading}
    for key in trial.free:
        if leaders[key] in passes_on:
            passes_on[leaders[key]].update(b for b in trial.after[key] if b in passes_on)
    for start in trial.leading:
        seen, queue = {start}, [start]
        while queue:
            found = passes_on[queue.pop()] - seen
            assert all(led[b] >= led[start] - 1 for b in found), (
                f"{start} could pass a leadership on: {dict(led)}"
            )
            seen |= found
            queue += found


def leaders_now(trial: Trial) -> dict[Key, int]:
    return {(row[0], row[1]): row[3] for row in trial.document["partitions"]}


def leaders_after(trial: Trial) -> dict[Key, int]:
    """Who leads once the plan is executed; after a drain, which elects nobody, once preferred
    leaders are elected.
    """
    now = leaders_now(trial)
    if trial.request.goal is Goal.REMOVE_BROKERS:
        able, leaving = set(trial.leading), set(trial.request.broker_ids)
        now |= {
            key: trial.after[key][0]
            for key in trial.free
            if now[key] in able | leaving and trial.after[key][0] in able
        }
    return now | {(move.topic, move.partition): move.replicas_after[0] for move in trial.plan.moves}


@PLENTY
@given(trial=trials(goals=EVENING))
def test_nothing_gets_worse_but_for_something_that_comes_first(trial: Trial) -> None:
    nothing_gets_worse(trial)


@PLENTY
@given(trial=trials(goals=(Goal.ADD_BROKERS, Goal.REBALANCE), many=True))
def test_nothing_gets_worse_either_where_partitions_have_more_replicas_than_there_are_racks(
    trial: Trial,
) -> None:
    nothing_gets_worse(trial)


def nothing_gets_worse(trial: Trial) -> None:
    """Racks come before replicas per broker, these before bytes; leaders are chosen last and are as
    even as can be.
    """
    was, now = trial.verdict_before, trial.verdict
    racks = now["after"]["rack_violations"] - was["after"]["rack_violations"]
    replicas = now["after"]["replicas"]["max_minus_min"] - was["after"]["replicas"]["max_minus_min"]
    held_before = {figure.broker_id: figure.bytes_before for figure in trial.plan.figures}
    held_after = {figure.broker_id: figure.bytes_after for figure in trial.plan.figures}
    out_of_band = bytes_out_of_band(trial, held_after) - bytes_out_of_band(trial, held_before)
    assert racks <= 0
    assert replicas <= 0 or racks < 0
    # Two brokers may come nearer while a third one keeps the most.
    figures = trial.plan.figures
    squares = sum(one.replicas_after**2 - one.replicas_before**2 for one in figures)
    assert out_of_band <= 0 or squares < 0 or racks < 0
    assert (
        now["after"]["leaders"]["max_minus_min"] <= max(1, was["leaders_now"]["max_minus_min"])
        or racks < 0
    )


def bytes_out_of_band(trial: Trial, held: dict[int, int]) -> int:
    """Bytes that would have to move for every broker to be within 10 % of its fair share."""
    fair = {figure.broker_id: figure.bytes_best for figure in trial.plan.figures}
    return sum(max(0, abs(held[b] - fair[b]) - fair[b] * 10 // 100) for b in trial.staying)


@PLENTY
@given(trial=trials(goals=(Goal.REMOVE_BROKERS,)))
def test_a_drain_leaves_replicas_as_even_as_any_drain_could(trial: Trial) -> None:
    """It serves no evenness: that may get worse, but by no more than one beyond the best that a
    drain can do.
    """
    if trial.request.goal is not Goal.REMOVE_BROKERS:
        return  # the drawn cluster has no broker to spare
    was, now = trial.verdict_before["after"]["replicas"], trial.verdict["after"]["replicas"]
    assert trial.verdict["errors"] == {}
    assert trial.verdict["moved"]["replicas"] == trial.verdict["lower_bound"]["replicas"]
    assert trial.verdict["moved"]["bytes"] == trial.verdict["lower_bound"]["bytes"]
    best = best_spread_of_a_drain(trial)
    assert now["max_minus_min"] <= max(was["max_minus_min"], best + 1), f"{best} is possible"


def best_spread_of_a_drain(trial: Trial) -> int:
    """The least max - min of replicas per broker after any drain that stacks no partition in fewer
    racks than needed.

    A flow from partitions over their racks to brokers; that of least squares has the least max -
    min, too.
    """
    staying, gone = set(trial.staying), set(trial.request.broker_ids)
    kept = {key: [b for b in replicas if b in staying] for key, replicas in trial.before.items()}
    counts = Counter(b for replicas in kept.values() for b in replicas)
    flow, nodes, sink = min_cost_flow.SimpleMinCostFlow(), Counter({"next": 1}), 0
    supplies: Counter[int] = Counter()
    arcs: list[tuple[int, int]] = []  # arc, broker

    def node() -> int:
        nodes["next"] += 1
        return nodes["next"]

    brokers = {b: node() for b in sorted(staying)}
    for key, replicas in trial.before.items():
        wanted = len(set(replicas) & gone)
        if not wanted:
            continue
        partition = node()
        supplies[partition], supplies[sink] = wanted, supplies[sink] - wanted
        for rack in {trial.racks[b] for b in staying}:
            members = [b for b in brokers if trial.racks[b] == rack and b not in kept[key]]
            place = node()
            is_new = rack not in {trial.racks[b] for b in kept[key]}
            if members and is_new:
                flow.add_arc_with_capacity_and_unit_cost(partition, place, 1, -(10**6))
            flow.add_arc_with_capacity_and_unit_cost(partition, place, len(members), 0)
            for broker in members:
                arcs.append(
                    (flow.add_arc_with_capacity_and_unit_cost(place, brokers[broker], 1, 0), broker)
                )
    for broker, at in brokers.items():
        for more in range(-supplies[sink]):
            flow.add_arc_with_capacity_and_unit_cost(at, sink, 1, 2 * (counts[broker] + more) + 1)
    for at, supply in supplies.items():
        flow.set_node_supply(at, supply)
    assert flow.solve() == flow.OPTIMAL
    counts.update(broker for arc, broker in arcs if flow.flow(arc))
    return max(counts[b] for b in staying) - min(counts[b] for b in staying)


@PLENTY
@given(trial=trials(goals=(Goal.ADD_BROKERS,)))
def test_each_new_broker_gets_its_share(trial: Trial) -> None:
    """The mean rounded down, or no old broker with more than that has a replica that could go
    there.
    """
    new, counts = (
        set(trial.request.broker_ids),
        Counter(b for replicas in trial.after.values() for b in replicas),
    )
    mean = sum(counts.values()) / len(trial.staying)
    short = [b for b in new if counts[b] < int(mean)]
    for key, replicas in trial.after.items():
        for broker in short:
            for old in set(replicas) - new if broker not in replicas else ():
                swapped = [trial.racks[broker], *(trial.racks[b] for b in replicas if b != old)]
                is_worse = len(set(swapped)) < len({trial.racks[b] for b in replicas})
                assert counts[old] <= mean or is_worse, (
                    f"{old} could give {key} to {broker}: {dict(counts)}"
                )


# -- the bounds, where the judge's hold


@SOME
@given(
    seed=st.integers(0, 2**64), racks=st.sampled_from([0, 3, 5]), new=st.sampled_from([1, 5, 10])
)
def test_add_brokers_copies_no_more_than_the_bounds_say(seed: int, racks: int, new: int) -> None:
    new += -new % max(1, racks)  # as many in each rack
    trial = large_trial(random.Random(seed), Goal.ADD_BROKERS, racks=racks, new=new)
    everything_is_even(trial)
    assert trial.verdict["over_lower_bound"]["replicas"] == 1.0
    assert trial.verdict["over_lower_bound"]["bytes"] <= 1.01
    assert trial.verdict["partitions_with_several_new_replicas"] == 0


@SOME
@given(seed=st.integers(0, 2**64), racks=st.sampled_from([0, 3, 5]))
def test_rebalance_makes_everything_even(seed: int, racks: int) -> None:
    trial = large_trial(random.Random(seed), Goal.REBALANCE, racks=racks, new=0)
    everything_is_even(trial)
    assert trial.verdict["partitions_with_several_new_replicas"] == 0


@SOME
@given(seed=st.integers(0, 2**64), racks=st.sampled_from([0, 3, 5]))
def test_a_drain_and_leaders_copy_exactly_what_they_must(seed: int, racks: int) -> None:
    drain = large_trial(random.Random(seed), Goal.REMOVE_BROKERS, racks=racks, new=0)
    leaders_are_even(drain)
    assert drain.verdict["over_lower_bound"] == {"replicas": 1.0, "bytes": 1.0}
    reorder = large_trial(random.Random(seed), Goal.LEADERS, racks=racks, new=0)
    leaders_are_even(reorder)
    assert reorder.verdict["moved"]["replicas"] == 0


def everything_is_even(trial: Trial) -> None:
    leaders_are_even(trial)
    assert trial.verdict["after"]["replicas"]["max_minus_min"] <= 1
    assert trial.verdict["brokers_out_of_bytes_band"] == 0


def leaders_are_even(trial: Trial) -> None:
    """Over all topics and, where that allows it, in each."""
    was, now = trial.verdict_before["after"], trial.verdict["after"]
    assert trial.verdict["errors"] == {}
    assert now["leaders"]["max_minus_min"] == trial.verdict["best_leader_max_minus_min"]
    assert now["topics_with_uneven_leaders"] <= was["topics_with_uneven_leaders"]
    assert trial.executed().plan.moves == (), "planned again"

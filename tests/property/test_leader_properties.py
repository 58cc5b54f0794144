"""What holds for every choice of leaders, held against plain searches over small clusters of all
shapes.
"""

import json
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.document import from_document_text
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.tables import PARTITIONS
from counterpoise.planning.arrays import read_cluster
from counterpoise.planning.leader_candidates import Candidates
from counterpoise.planning.leader_choice import choose_leaders, even_leaders
from counterpoise.planning.placement import Placement
from tests.support.examples import examples

PLENTY = examples(150)
POLICY = BalancePolicy()


@dataclass(frozen=True)
class Choice:
    """Lists by partition; `candidates` are empty where the leader could not be chosen."""

    topics: list[int]
    rates: list[int]
    candidates: list[list[int]]
    leaders: list[int]
    brokers: list[int]  # that may lead

    def loads(self, weights: Iterable[int] | None = None) -> Counter[int]:
        """Sum of the weights (or number) of what each broker leads."""
        loads = Counter(dict.fromkeys(self.brokers, 0))
        for leader, weight in zip(self.leaders, weights or [1] * len(self.leaders), strict=True):
            loads[leader] += weight
        return loads

    def topic_counts(self) -> Counter[tuple[int, int]]:
        return Counter(zip(self.topics, self.leaders, strict=True))


@st.composite
def clusters(draw: st.DrawFn, *, max_partitions: int = 12) -> ClusterSnapshot:
    """Up to six brokers and four topics, with replicas that lag, a dead broker and rates that are
    not known.
    """
    broker_count = draw(st.integers(2, 6))
    chance = random.Random(draw(st.integers(0, 2**32)))
    fenced = draw(st.sampled_from([None, None, 1]))
    able = [broker for broker in range(1, broker_count + 1) if broker != fenced]
    partitions, isr = [], []
    for topic in range(draw(st.integers(1, 4))):
        for number in range(chance.randint(1, max_partitions)):
            replicas = chance.sample(
                range(1, broker_count + 1), chance.randint(1, min(3, broker_count))
            )
            leader = chance.choice([broker for broker in replicas if broker in able] or [-1])
            rate = chance.choice([None, 0, 100, int(chance.lognormvariate(6, 2))])
            partitions.append([f"t{topic}", number, replicas, leader, 10, rate])
            isr.append([broker for broker in replicas if broker == leader or chance.random() < 0.9])
    brokers = [{"id": broker, "fenced": broker == fenced} for broker in range(1, broker_count + 1)]
    snapshot = from_document_text(
        json.dumps({"cluster": "chance", "brokers": brokers, "partitions": partitions})
    )
    field = PARTITIONS.field("isr")
    rows = {(row[0], row[1]): members for row, members in zip(partitions, isr, strict=True)}
    column = pa.array(
        [rows[r["topic"], r["partition"]] for r in snapshot.partitions.to_pylist()], field.type
    )
    table = snapshot.partitions.set_column(PARTITIONS.get_field_index("isr"), field, column)
    return replace(snapshot, tables={**snapshot.tables, "partitions": table})


def chosen(snapshot: ClusterSnapshot, policy: BalancePolicy, *, elects: bool = True) -> Choice:
    arrays = read_cluster(snapshot, policy)
    placement = Placement.of(arrays)
    may_lead = Candidates.of(placement, arrays.is_live, arrays.may_change, elects=elects)
    first, is_free = choose_leaders(may_lead, policy), may_lead.is_free
    live = set(arrays.is_live.nonzero()[0].tolist())
    candidates = []
    for at, row in enumerate(arrays.replicas.tolist()):
        kept = [
            b
            for place, b in enumerate(row)
            if arrays.is_in_sync[at, place] or b == arrays.leaders[at]
        ]
        candidates.append([b for b in kept if b in live] if is_free[at] else [])
    fixed = arrays.leaders_now.tolist()
    leaders = [new if is_free[at] else fixed[at] for at, new in enumerate(first.tolist())]
    return Choice(
        arrays.topic_numbers.tolist(), arrays.bytes_in.tolist(), candidates, leaders, sorted(live)
    )


def led_as(snapshot: ClusterSnapshot, policy: BalancePolicy, choice: Choice) -> ClusterSnapshot:
    """The cluster once the chosen leaders lead, and come first."""
    arrays = read_cluster(snapshot, policy)
    ids = arrays.broker_ids.tolist()
    wanted = {
        (arrays.topics[at].as_py(), int(arrays.numbers[at])): b
        for at, b in enumerate(choice.leaders)
    }
    rows = snapshot.partitions.to_pylist()
    for row in rows:
        leader = wanted[row["topic"], row["partition"]]
        if leader >= 0:
            row["replicas"] = [ids[leader], *(b for b in row["replicas"] if b != ids[leader])]
            row["leader"] = ids[leader]
    table = pa.Table.from_pylist(rows, schema=PARTITIONS)
    return replace(snapshot, tables={**snapshot.tables, "partitions": table})


def reachable(
    start: set[int], steps: list[tuple[int, int, bool]], *, free_only: bool = False
) -> set[int]:
    seen = set(start)
    while (
        new := {
            head for tail, head, is_free in steps if tail in seen and (is_free or not free_only)
        }
        - seen
    ):
        seen |= new
    return seen


def reassignment_targets(choice: Choice, topics: Iterable[int]) -> list[tuple[int, int, bool]]:
    """From which broker leadership could go to which, by partitions of the topics; and does the
    topic stay as even?
    """
    wanted, counts = set(topics), choice.topic_counts()
    return [
        (leader, head, counts[topic, leader] > counts[topic, head])
        for topic, leader, candidates in zip(
            choice.topics, choice.leaders, choice.candidates, strict=True
        )
        for head in candidates
        if head != leader and topic in wanted
    ]


@PLENTY
@given(snapshot=clusters())
def test_only_candidates_lead_and_counts_are_as_even_as_any_choice(
    snapshot: ClusterSnapshot,
) -> None:
    choice = chosen(snapshot, POLICY)
    for at, candidates in enumerate(choice.candidates):
        assert not candidates or choice.leaders[at] in candidates
    counts, steps = choice.loads(), reassignment_targets(choice, choice.topics)
    for broker in choice.brokers:
        assert all(counts[other] >= counts[broker] - 1 for other in reachable({broker}, steps))


@PLENTY
@given(snapshot=clusters(max_partitions=3), elects=st.booleans())
def test_the_flow_is_exact_in_evenness_then_changes_then_reorders(
    snapshot: ClusterSnapshot, elects: bool
) -> None:
    arrays = read_cluster(snapshot, POLICY)
    placement = Placement.of(arrays)
    candidates = Candidates.of(placement, arrays.is_live, arrays.may_change, elects=elects)
    is_free = candidates.is_free
    if not is_free.any():
        return
    present, first = candidates.leaders_now.tolist(), candidates.preferred.tolist()
    rows = [
        [b for b in row if b >= 0] or [present[at]]
        for at, row in enumerate(candidates.replicas.tolist())
    ]

    def cost(leads: Iterable[int]) -> tuple[int, int, int]:
        leads = list(leads)
        squares = sum(
            count**2
            for broker, count in Counter(leads).items()
            if broker in candidates.eligible_brokers
        )
        chosen_ones = [(lead, at) for at, lead in enumerate(leads) if is_free[at]]
        changes = sum(lead != present[at] for lead, at in chosen_ones)
        return squares, changes, sum(lead != first[at] for lead, at in chosen_ones)

    assert cost(even_leaders(candidates).tolist()) == min(map(cost, product(*rows)))


@PLENTY
@given(snapshot=clusters())
def test_no_circle_is_left_that_makes_a_topic_more_even(snapshot: ClusterSnapshot) -> None:
    choice = chosen(snapshot, POLICY)
    counts, topics = choice.topic_counts(), set(choice.topics)
    for topic, start in product(sorted(topics), choice.brokers):
        inside = reachable({start}, reassignment_targets(choice, [topic]))
        light = {broker for broker in inside if counts[topic, broker] <= counts[topic, start] - 2}
        back = reachable(light, reassignment_targets(choice, topics - {topic}), free_only=True)
        assert start not in back, f"topic {topic} could be led more evenly from {start}"


@PLENTY
@given(snapshot=clusters(), elects=st.booleans())
def test_choosing_again_changes_nothing(snapshot: ClusterSnapshot, elects: bool) -> None:
    choice = chosen(snapshot, POLICY, elects=elects)
    again = chosen(led_as(snapshot, POLICY, choice), POLICY, elects=elects)
    assert again.leaders == choice.leaders

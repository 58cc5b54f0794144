"""After a run: is the cluster as planned, and may the brokers that were emptied be stopped?

    compared = compare(plan, snapshot, keys, left)
    compared.problems      # an empty tuple means: verified
    verdict = judge_removal(plan.broker_ids, replicas, voter_ids)
    verdict.is_safe

Judged from fresh snapshots and the run's record; nothing here reads the cluster.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from counterpoise.model.cluster import ClusterSnapshot, TopicPartition
from counterpoise.model.grouping import grouped
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.run import OwnedKey
from counterpoise.model.words import pluralize


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the cluster differs from a plan, a sentence for each difference.

    `problems` are partitions that are elsewhere, led by another broker or moving, and config keys
    that are not as before the run; `gone` are topics that were deleted or created again since.
    """

    as_planned: int  # partitions
    problems: tuple[str, ...]
    gone: tuple[str, ...]


def compare(
    plan: RebalancePlan,
    snapshot: ClusterSnapshot,
    keys: Iterable[OwnedKey] = (),
    left: Mapping[str, str] = MappingProxyType({}),
) -> Comparison:
    """Compare a snapshot with a plan.

    `keys` adds the config keys of a run that has ended: each must be as it was before; `left` are
    the values of somebody else that stay there.
    """
    problems: list[str] = []
    found = 0
    for placement in _placements(plan, snapshot):
        found += 1
        if problem := _find_problem(placement):
            problems.append(problem)
    as_planned = found - len(problems)
    for key in keys:
        before = "not set" if key.before is None else repr(key.before)
        if key.name in left:
            now = f"is {left[key.name]} (changed by somebody else; left as it is)"
        elif key.done_at is None:
            now = "is not restored"
        else:
            continue
        problems.append(f"{key.name} {now}, before the run it was {before}")
    return Comparison(as_planned, tuple(problems), tuple(_topics_gone(plan, snapshot)))


def _topics_gone(plan: RebalancePlan, snapshot: ClusterSnapshot) -> Iterator[str]:
    topic_ids = snapshot.topic_ids
    for topic, moves in grouped((move.topic, move) for move in plan.moves).items():
        partitions = pluralize(len(moves), "partition")
        if topic not in topic_ids:
            yield f"topic {topic} was deleted: {partitions} of the plan cannot be compared"
        elif moves[0].is_of_another_topic(topic_ids[topic]):
            yield (
                f"topic {topic} was deleted and created again: {partitions} of the plan cannot be "
                "compared"
            )


@dataclass(frozen=True, slots=True)
class _Placement:
    """Where a planned partition is in a snapshot."""

    move: Move
    replicas: tuple[int, ...]
    leader: int | None
    is_moving: bool


def _placements(plan: RebalancePlan, snapshot: ClusterSnapshot) -> Iterator[_Placement]:
    """Yield the partitions of the plan, without those whose topic was deleted or created again."""
    moves = {move.topic_partition: move for move in plan.moves}
    names = ("topic", "partition", "replicas", "leader", "adding_replicas", "removing_replicas")
    columns = [snapshot.partitions[name].to_pylist() for name in names]
    for topic, partition, replicas, leader, adding, removing in zip(*columns, strict=True):
        move = moves.get(TopicPartition(topic, partition))
        if move is None:
            continue
        if move.is_of_another_topic(snapshot.topic_ids[topic]):
            continue
        yield _Placement(move, tuple(replicas), leader, is_moving=bool(adding or removing))


def _find_problem(placement: _Placement) -> str | None:
    move, replicas, leader = placement.move, placement.replicas, placement.leader
    name = move.topic_partition
    if placement.is_moving:
        return f"{name} is still moving"
    if replicas != move.replicas_after:
        planned = list(move.replicas_after)
        return f"{name} has the replicas {list(replicas)}, planned are {planned}"
    if leader != move.replicas_after[0]:
        return f"{name} is led by {leader}, planned is {move.replicas_after[0]}"
    return None


@dataclass(frozen=True, slots=True)
class RemovalVerdict:
    """Whether brokers that were emptied may be stopped, with the evidence."""

    broker_ids: tuple[int, ...]
    partitions_left: tuple[str, ...]  # that have a replica there
    voters: tuple[int, ...]  # of these brokers, those that vote in the metadata quorum

    @property
    def is_safe(self) -> bool:
        return not self.partitions_left and not self.voters

    def lines(self) -> tuple[str, ...]:
        """Return the verdict in words, with its evidence and what to do next."""
        ids = ", ".join(map(str, self.broker_ids))
        brokers = f"broker {ids}" if len(self.broker_ids) == 1 else f"brokers {ids}"
        evidence = (
            f"{pluralize(len(self.partitions_left), 'replica')}, "
            f"{pluralize(len(self.voters), 'voter')}, in two observations"
        )
        if self.is_safe:
            unregister = "kafka-cluster.sh unregister --bootstrap-server $BOOTSTRAP --id"
            commands = tuple(
                f"  once it is stopped: {unregister} {broker_id}" for broker_id in self.broker_ids
            )
            return (f"{brokers}: safe to stop ({evidence})", *commands)
        lines = [f"{brokers}: NOT safe to stop ({evidence})"]
        if self.partitions_left:
            shown = ", ".join(self.partitions_left[:5])
            still_have = pluralize(
                len(self.partitions_left), "partition still has", "partitions still have"
            )
            lines.append(f"  {still_have} replicas there ({shown}): make the same plan again")
        if self.voters:
            voters = ", ".join(map(str, self.voters))
            is_one = len(self.voters) == 1
            vote = f"broker {voters} votes" if is_one else f"brokers {voters} vote"
            lines.append(
                f"  {vote} in the metadata quorum: remove {'it' if is_one else 'them'} there first "
                "(kafka-metadata-quorum.sh remove-controller)"
            )
        return tuple(lines)


def judge_removal(
    broker_ids: Sequence[int],
    observations: Iterable[Iterable[tuple[str, Collection[int]]]],
    voter_ids: Iterable[int],
) -> RemovalVerdict:
    """Return whether these brokers may be stopped.

    Each of the `observations` is every partition of the cluster with its replicas, like
    ("orders-3", (1, 2, 4)): a partition that any of them has on one of the brokers is left there.
    """
    removed = set(broker_ids)
    remaining = {
        name
        for partitions in observations
        for name, replicas in partitions
        if not removed.isdisjoint(replicas)
    }
    return RemovalVerdict(
        broker_ids=tuple(broker_ids),
        partitions_left=tuple(sorted(remaining)),
        voters=tuple(sorted(removed.intersection(voter_ids))),
    )

"""The promises of a run, watched from outside: every call of ours, and every instant of the
simulated cluster.

    watch = Watch(cluster)
    driver = Driver(watch.ours(), ledger, ...)      # each call of its own is checked as it is made
    watch.alter_as_somebody_else(change)            # foreign changes go through `watch`, too
    watch.check()                                   # promises that hold between calls

What it knows of the product is the plan, and what Kafka's throttles need (KIP-73); not how
decisions are made.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from counterpoise.errors import UnknownOutcomeError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    CallResults,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_targets
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.simulated_kafka.partition import SimulatedPartition

Key = tuple[ConfigResource, str]
# For so long at least, throttles stay for moves that may still be applied.
_SECONDS_TO_WAIT_FOR_AN_ANSWER = 30.0
_OBSERVATIONS_TO_CLOSE_A_GAP = 2  # one may halt the run instead; then the settling closes it


class Watch:
    """A simulated cluster, and who did what there."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.plans: list[RebalancePlan] = []
        self.before: dict[Key, str] = _settings(cluster)
        self.foreign_moves: dict[TopicPartition, tuple[int, ...]] = {}
        self.foreign_keys: set[Key] = set()  # that somebody else changed since `before`
        self.foreign_entries: defaultdict[Key, set[str]] = defaultdict(set)
        # Keys that somebody else changed: observations since, each could have restored them.
        self.gaps: dict[Key, int] = {}
        self.late: set[TopicPartition] = set()  # moved by a call that came after it was given up
        self.late_keys: set[Key] = set()  # changed by such a call
        self.unanswered: set[Key] = set()  # by a call of the present step
        # Such keys of a process that died before it could record that.
        self.excused: set[Key] = set()
        self._frozen_at: dict[int, float] = {}
        # Targets that partitions had reached: with the number of plans there were.
        self.arrived: set[tuple[int, TopicPartition, tuple[int, ...]]] = set()
        # Partitions that somebody else moved, or created again.
        self.drifted: set[TopicPartition] = set()
        self.highest_rate = 0
        self.refusals = 0  # so many of our next reassignments are refused
        self.written: defaultdict[Key, set[str]] = defaultdict(set)

    def ours(self, meanwhile: Callable[[], None] | None = None) -> "OurAdmin":
        return OurAdmin(self, meanwhile)

    # -- somebody else

    def alter_as_somebody_else(self, change: ConfigChange) -> None:
        key = (change.resource, change.key)
        exists = (
            change.resource.type is ConfigResourceType.BROKER
            or change.resource.name in self.cluster.topic_ids
        )
        if not exists or self.cluster.configs.alter(change.resource, [change]):
            return
        self.foreign_keys.add(key)
        self.gaps[key] = 0
        # An earlier rate of theirs may be what a run found before it, and brings back.
        if (
            change.operation in (ConfigOperation.SET, ConfigOperation.DELETE)
            and change.key in LIST_KEYS
        ):
            self.foreign_entries[key].clear()
        self.foreign_entries[key].update(_entries(change.value))

    def move_as_somebody_else(self, tp: TopicPartition, target: tuple[int, ...]) -> None:
        partition = self.cluster.partitions[tp]
        if partition.reassign(target, self.cluster.brokers.keys()):
            return
        partition.complete_if_ready(self.cluster.live_broker_ids)
        if any(target in reassignment_targets(move) for move in self.moves_of(tp)):
            # What equals a reassignment of a plan is taken for ours, whoever asked for it.
            self.late.add(tp)
            return
        if self.moves_of(tp):
            self.drifted.add(tp)
        self.foreign_moves[tp] = target

    def freeze(self, broker_id: int) -> None:
        self.cluster.freeze_broker(broker_id)
        self._frozen_at[broker_id] = self.cluster.now

    def thaw(self, broker_id: int) -> None:
        """What it held happens now.

        Moves that were waited for in vain are late; so are settings, at any time.
        """
        moving, settings = self.targets(), _settings(self.cluster)
        self.cluster.thaw_broker(broker_id)
        now = _settings(self.cluster)
        changed = {key for key in settings.keys() | now.keys() if settings.get(key) != now.get(key)}
        self.late_keys |= changed
        self.gaps |= dict.fromkeys(changed, 0)
        self.note_late_changes(changed)
        if self.cluster.now - self._frozen_at[broker_id] >= _SECONDS_TO_WAIT_FOR_AN_ANSWER:
            self.note_late_moves(moving)

    def note_late_changes(self, keys: Iterable[Key]) -> None:
        """Kafka has no compare-and-set: what a late change of a whole list took away is lost,
        whoever wrote it. A rate of theirs that was seen before may come back.
        """
        now = _settings(self.cluster)
        for resource, name in keys:
            if name in LIST_KEYS:
                self.foreign_entries[resource, name] &= set(_entries(now.get((resource, name))))

    def note_late_moves(self, moving_before: Mapping[TopicPartition, tuple[int, ...]]) -> None:
        self.late |= {
            tp for tp, target in self.targets().items() if moving_before.get(tp) != target
        }

    def topic_is_gone(self, name: str) -> None:
        """Forget its settings; one that is created again under its name is not of the plan."""
        gone = {
            key for key in (*self.before, *self.foreign_keys, *self.gaps) if key[0].name == name
        }
        gone = {key for key in gone if key[0].type is ConfigResourceType.TOPIC}
        for key in gone:
            self.before.pop(key, None)
            self.gaps.pop(key, None)
            self.foreign_entries.pop(key, None)
        self.foreign_keys -= gone
        self.drifted |= {
            m.topic_partition for plan in self.plans for m in plan.moves if m.topic == name
        }

    # -- a call of ours

    def check_reassignments(self, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> None:
        for tp, target in targets.items():
            targets = {
                target_of_plan
                for move in self.moves_of(tp)
                for target_of_plan in (move.replicas_before, *reassignment_targets(move))
            }
            assert target is None or target in targets, (
                f"promise 2: {tp} to {target}, which is no target of a plan"
            )
            partition = self.cluster.partitions.get(tp)
            if partition is not None:
                self._check_reassignment(tp, target, partition)
            self.late.discard(tp)
            self.foreign_moves.pop(tp, None)

    def _check_reassignment(
        self, tp: TopicPartition, target: tuple[int, ...] | None, partition: SimulatedPartition
    ) -> None:
        if partition.is_moving and not _is_stuck(partition):
            assert not self._is_foreign(tp, partition), (
                f"promise 7: {tp} is being moved by somebody else"
            )
            assert target is None, (
                f"promise 5: {tp} is sent to {target}, and goes to {partition.target} already"
            )
        if target is not None and tp not in self.drifted:
            assert partition.is_moving or target != partition.replicas, (
                f"promise 5: {tp} is sent to {target}, where it is"
            )
            was_there = (len(self.plans), tp, target) in self.arrived
            assert not was_there or set(target) <= set(partition.replicas), (
                f"promise 5: {tp} is sent to {target} twice"
            )
        if (
            target is not None
            and not partition.is_moving
            and set(target) != set(partition.replicas)
        ):
            behind = set(target) & set(partition.replicas) - partition.isr
            assert not behind, (
                f"promise 6: {tp} {partition.replicas} to {target} while {behind} are not in sync"
            )
            stays = len(partition.isr & set(target)) + len(set(target) - set(partition.replicas))
            assert stays >= min(len(partition.replicas), len(target)), (
                f"promise 6: {tp} to {target}"
            )

    def check_change(self, change: ConfigChange) -> None:
        key, now = (change.resource, change.key), self._value(change)
        assert change.key in (*RATE_KEYS, *LIST_KEYS), f"promise 4: {change}"
        if change.key in RATE_KEYS and now is not None and now not in self.written[key]:
            assert change.operation is ConfigOperation.SET, f"promise 7: {change} deletes {now}"
            assert int(change.value) <= int(now), f"promise 7: {change} raises {now}"
        if change.key in LIST_KEYS and change.operation is not ConfigOperation.APPEND:
            present, given = set(_entries(now)), set(_entries(change.value))
            lost = (
                present & given if change.operation is ConfigOperation.SUBTRACT else present - given
            )
            assert not lost & self.foreign_entries[key], f"promise 7: {change} takes away {lost}"

    def note_change(self, change: ConfigChange) -> None:
        self.written[change.resource, change.key].update(_entries(change.value))

    def note_observation(self) -> None:
        """Count a faultless observation: it could close every gap that responding brokers
        have.
        """
        for resource, key in self.gaps:
            if resource.type is ConfigResourceType.TOPIC or self.cluster.is_responding(
                int(resource.name)
            ):
                self.gaps[resource, key] += 1

    # -- between calls

    def check(self) -> None:
        for tp, partition in self.cluster.partitions.items():
            moves = self.moves_of(tp)
            if not moves or tp in self.drifted:
                continue
            targets = [
                set(target_of_plan)
                for move in moves
                for target_of_plan in (move.replicas_before, *reassignment_targets(move))
            ]
            if not partition.is_moving:
                self.arrived.add((len(self.plans), tp, partition.replicas))
                assert set(partition.replicas) in targets, (
                    f"promise 2: {tp} is at {partition.replicas}"
                )
            elif tp not in self.late:
                assert set(partition.target) in targets, (
                    f"promise 2: {tp} moves to {partition.target}"
                )
        assert not (bare := self._unthrottled()), f"promise 3: {bare}"

    def ours_in_flight(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {
            tp: p.target
            for tp, p in self.cluster.partitions.items()
            if p.is_moving and self.moves_of(tp) and tp not in self.drifted
        }

    def check_settings_as_before(
        self, *, is_final: bool = True, except_brokers: frozenset[int] = frozenset()
    ) -> None:
        """Each key as it was, except what others changed: there, nothing of ours is left, and
        all of theirs is.
        """
        now = _settings(self.cluster)
        for key in sorted(now.keys() | self.before.keys() | self.foreign_keys):
            resource, name = key
            is_broker = resource.type is ConfigResourceType.BROKER
            if is_broker and int(resource.name) in except_brokers:
                continue
            if key in self.late_keys and (key in self.excused or not is_final):
                continue
            if not is_broker and resource.name not in self.cluster.topic_ids:
                continue
            if key not in self.foreign_keys:
                assert now.get(key) == self.before.get(key), (
                    f"promise 4: {key}: {self.before.get(key)} {now.get(key)}"
                )
            elif name in LIST_KEYS:
                theirs = self.foreign_entries[key] | set(_entries(self.before.get(key)))
                left = set(_entries(now.get(key)))
                assert left <= theirs, f"promise 4: {key}: {left - theirs} is left"
                assert self.foreign_entries[key] <= left, (
                    f"promise 7: {key}: {self.foreign_entries[key] - left}"
                )
            elif now.get(key) not in (self.before.get(key), None):
                assert now.get(key) in self.foreign_entries[key], (
                    f"promise 4: {key}: {now.get(key)} is left"
                )

    def moves_of(self, tp: TopicPartition) -> list[Move]:
        return [move for plan in self.plans for move in plan.moves if move.topic_partition == tp]

    def targets(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {tp: p.target for tp, p in self.cluster.partitions.items() if p.is_moving}

    def _is_foreign(self, tp: TopicPartition, partition: SimulatedPartition) -> bool:
        return self.foreign_moves.get(tp) == partition.target and not _is_stuck(partition)

    def _value(self, change: ConfigChange) -> str | None:
        return self.cluster.configs.dynamic.get(change.resource, {}).get(change.key)

    def _unthrottled(self) -> list[str]:
        found = []
        for tp in self.ours_in_flight().keys() - self.late:
            partition = self.cluster.partitions[tp]
            if _is_stuck(partition) or not partition.adding:
                continue
            found += [
                what
                for b in partition.adding
                for what in self._bare(tp, b, FOLLOWER_REPLICAS, FOLLOWER_RATE)
            ]
            if partition.leader is not None:
                found += self._bare(tp, partition.leader, LEADER_REPLICAS, LEADER_RATE)
        return found

    def _bare(
        self, tp: TopicPartition, broker_id: int, list_key: str, rate_key: str
    ) -> Sequence[str]:
        configs = self.cluster.configs
        at_broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id)), rate_key
        of_topic = ConfigResource(ConfigResourceType.TOPIC, tp.topic), list_key
        if not self.cluster.is_responding(broker_id):
            return ()
        bare = []
        rate = configs.rate(broker_id, rate_key)
        if (rate is None or rate > self.highest_rate) and not self._may_gape(at_broker):
            bare.append(f"{tp} at {broker_id}: {rate_key} is {rate}")
        if not configs.throttles(
            tp.topic, tp.partition, broker_id, list_key
        ) and not self._may_gape(of_topic):
            bare.append(f"{tp} at {broker_id}: not in {list_key}")
        return bare

    def _may_gape(self, key: Key) -> bool:
        return self.gaps.get(key, _OBSERVATIONS_TO_CLOSE_A_GAP) < _OBSERVATIONS_TO_CLOSE_A_GAP


class OurAdmin:
    """The cluster as a run sees it, with every change checked before it is made.

    `meanwhile` happens between the check of the step lock and the call, as if the process had been
    frozen there: what is called then comes late, and no promise can forbid it; what becomes of it
    is looked at later.
    """

    def __init__(self, watch: Watch, meanwhile: Callable[[], None] | None = None) -> None:
        self._watch, self._meanwhile = watch, meanwhile

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watch.cluster, name)

    def alter_reassignments(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None], **options: Any
    ) -> Any:
        if self._is_late():
            moving = self._watch.targets()
            try:
                return self._watch.cluster.alter_reassignments(targets, **options)
            finally:
                self._watch.note_late_moves(moving)
        self._watch.check_reassignments(targets)
        if self._watch.refusals:
            self._watch.refusals -= 1
            return CallResults((), dict.fromkeys(targets, "POLICY_VIOLATION: not today"))
        return self._watch.cluster.alter_reassignments(targets, **options)

    def alter_configs(self, changes: Sequence[ConfigChange], **options: Any) -> Any:
        is_late = self._is_late()
        for change in changes:
            if not is_late:
                self._watch.check_change(change)
            self._watch.note_change(change)
        try:
            results = self._watch.cluster.alter_configs(changes, **options)
        except UnknownOutcomeError:
            self._watch.unanswered |= {(change.resource, change.key) for change in changes}
            raise
        self._watch.unanswered |= {
            (c.resource, c.key) for c in changes if c.resource in results.errors
        }
        if is_late:
            self._watch.note_late_changes([(c.resource, c.key) for c in changes])
        return results

    def elect_preferred_leaders(self, partitions: Sequence[TopicPartition], **options: Any) -> Any:
        for tp in partitions:
            assert self._watch.moves_of(tp), f"promise 2: {tp} is in no plan"
        return self._watch.cluster.elect_preferred_leaders(partitions, **options)

    def _is_late(self) -> bool:
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile:
            meanwhile()
        return meanwhile is not None


def lost_on_the_way() -> UnknownOutcomeError:
    """The answer to a call that never arrived, either."""
    return UnknownOutcomeError("no answer, and nothing was done", broker_id=None)


def _is_stuck(partition: SimulatedPartition) -> bool:
    return bool(set(partition.adding) & set(partition.removing))


def _settings(cluster: SimulatedCluster) -> dict[Key, str]:
    return {(r, k): v for r, values in cluster.configs.dynamic.items() for k, v in values.items()}


def _entries(value: str | None) -> list[str]:
    return [entry for entry in (value or "").split(",") if entry]

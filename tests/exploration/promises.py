"""The promises, checked after every action of anybody.

    history = History.of(stage, plans)
    history.before_call(stage, actor, name, args)     # may it make this call?
    history.check(stage)                              # does everything hold now?

Knows the plans, the cluster, Kafka's throttles (KIP-73) and what the ledger holds; nothing of how a
run decides. What is broken is collected in `complaints`.

A call that arrives late (its process was frozen before it, or the network held it back) cannot be
forbidden to anybody: what it changes is excused until somebody could see it, and has to be in order
at the end. Kafka cannot be asked to change something only if it is as it was: what somebody else
does between a step's observation and its call is excused, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from counterpoise.model.cluster import TopicPartition
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LIST_KEYS,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigResourceType,
)
from counterpoise.model.plan import Move, RebalancePlan
from counterpoise.model.reassignment import reassignment_targets
from counterpoise.model.run import STEP_LOCK_SECONDS
from tests.exploration.config_keys import Key, entries_of, kind_of, named, settings_of
from tests.exploration.independence import by_others
from tests.simulated_kafka.cluster import SimulatedCluster

if TYPE_CHECKING:
    from tests.exploration.actors import Actor
    from tests.exploration.stage import Stage

# Steps that could close a gap which somebody else made: the first may have observed before it.
_STEPS_TO_CLOSE_A_GAP: Final = 2
_ENDED: Final = ("done", "halted", "cancelled")
_PLANS: Final[dict[str, RebalancePlan]] = {}  # all that were met, by fingerprint


@dataclass
class History:
    """What the promises remember; kept with the world."""

    fingerprints: dict[str, str]  # of the plan of each run
    before: dict[Key, str]
    highest_rate: int
    foreign_keys: dict[Key, set[str]] = field(default_factory=dict)  # with the entries of others
    foreign_moves: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    taken_back: set[TopicPartition] = field(default_factory=set)  # what had arrived for us
    foreign_changes: int = 0
    # Of each partition or key, the number of the last change by others.
    last_foreign: dict[TopicPartition | Key, int] = field(default_factory=dict)
    gaps: dict[Key, int] = field(default_factory=dict)  # steps since somebody else made them
    late_moves: set[TopicPartition] = field(default_factory=set)
    late_keys: set[Key] = field(default_factory=set)
    unanswered: set[TopicPartition] = field(default_factory=set)
    arrived: set[tuple[TopicPartition, tuple[int, ...]]] = field(default_factory=set)
    states: dict[str, str] = field(default_factory=dict)  # of each run, at the last check
    # Who was at work when a run ended: none of these may revive it.
    at_work: dict[str, set[str]] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def of(
        cls, cluster: SimulatedCluster, plans: Mapping[str, RebalancePlan], highest_rate: int
    ) -> "History":
        made = cls({}, settings_of(cluster), highest_rate)
        for run_id, plan in plans.items():
            made.add_run(run_id, plan)
        return made

    def add_run(self, run_id: str, plan: RebalancePlan) -> None:
        _PLANS[plan.fingerprint] = plan
        self.fingerprints[run_id] = plan.fingerprint

    @property
    def plans(self) -> dict[str, RebalancePlan]:
        """The plan of each run."""
        return {run_id: _PLANS[fingerprint] for run_id, fingerprint in self.fingerprints.items()}

    def key(self) -> tuple[object, ...]:
        keys = [(str(k[0]), k[1], sorted(v)) for k, v in sorted(self.foreign_keys.items())]
        gaps = [(str(k[0]), k[1], n) for k, n in sorted(self.gaps.items())]
        return (
            *(keys, gaps, sorted(self.foreign_moves.items()), sorted(self.late_moves)),
            *(sorted(self.late_keys), sorted(self.unanswered), sorted(self.arrived)),
            *(sorted(self.states.items()), [(r, sorted(w)) for r, w in self.at_work.items()]),
            (sorted(self.fingerprints), sorted(self.taken_back)),
            (self.foreign_changes, sorted(self.last_foreign.items(), key=repr)),
        )

    # -- somebody else

    def alter_as_somebody_else(self, stage: "Stage", change: ConfigChange) -> None:
        key = (change.resource, change.key)
        self._note_foreign(stage, key)
        stage.cluster.configs.alter(change.resource, [change])
        stage.cluster_changed()
        self.gaps[key] = 0
        entries = self.foreign_keys.setdefault(key, set())
        if change.operation is not ConfigOperation.SUBTRACT:
            entries.update(entries_of(change.value))

    def move_as_somebody_else(
        self, stage: "Stage", tp: TopicPartition, target: tuple[int, ...]
    ) -> None:
        partition = stage.cluster.partitions[tp]
        if not partition.reassign(target, stage.cluster.brokers.keys()):
            self._note_foreign(stage, tp)
            # Where a call has no answer, the run cannot know that this is not its own doing.
            answered = {
                (submitted.partition, submitted.target)
                for submitted in stage.ledger_view.submitted()
                if not submitted.is_unanswered
            }
            if answered & self.arrived & {(tp, m.replicas_after) for m in self._moves_of(tp)}:
                self.taken_back.add(tp)
            self.foreign_moves[tp] = target
        stage.cluster_changed()

    def _note_foreign(self, stage: "Stage", what: TopicPartition | Key) -> None:
        stage.touched.writes.add(by_others(kind_of(what)))
        self.foreign_changes += 1
        self.last_foreign[what] = self.foreign_changes

    def _is_unseen(self, actor: "Actor | None", what: TopicPartition | Key) -> bool:
        """Whether somebody else changed this since the actor read it."""
        if actor is None:
            return False
        return self.last_foreign.get(what, 0) > actor.has_seen[kind_of(what)]

    # -- calls of ours

    def before_call(self, stage: "Stage", actor: "Actor | None", name: str, args: Any) -> None:
        is_late = actor is not None and (
            actor.role.first == "arrives"
            or stage.cluster.now - actor.paused_at >= STEP_LOCK_SECONDS
        )
        if name == "alter_reassignments":
            for tp, target in args[0].items():
                if is_late:
                    self.late_moves.add(tp)
                else:
                    is_unseen = self._is_unseen(actor, tp)
                    self.complaints += self._wrong_reassignment(stage, tp, target, is_unseen)
        if name == "alter_configs":
            for change in args[0]:
                if is_late or _is_kept_for_later(stage, change.resource):
                    self.late_keys.add((change.resource, change.key))
                elif not self._is_unseen(actor, (change.resource, change.key)):
                    self.complaints += self._wrong_change(stage, change)

    def after_call(self, stage: "Stage") -> None:
        """A target that was reached at once, as with a new order, has arrived."""
        self._note_arrivals(stage)

    def note_unanswered(self, name: str, argument: Any) -> None:
        if name == "alter_reassignments":
            self.unanswered.update(argument)

    def _wrong_reassignment(
        self, stage: "Stage", tp: TopicPartition, target: tuple[int, ...] | None, is_unseen: bool
    ) -> Iterator[str]:
        partition = stage.cluster.partitions[tp]
        is_foreign = partition.target == self.foreign_moves.get(tp) and not is_unseen
        if partition.is_moving and is_foreign and target != partition.target:
            yield f"promise 7: {tp} is moved by somebody else, and reassigned to {target}"
        if target is None:
            return
        if tp in self.taken_back and not is_unseen:
            yield f"promise 7: {tp} was done and is taken back by somebody else; it is moved again"
        states = {
            self._state(stage, run_id)
            for run_id, plan in self.plans.items()
            for move in plan.moves
            if move.topic_partition == tp
            and target in (move.replicas_before, *reassignment_targets(move))
        }
        if not states:
            yield f"promise 2: {tp} to {target}, which is no target of a plan"
        adds = bool(set(target) - set(partition.replicas))
        allowed = {"running"} if adds else {"running", "settling"}
        if not states & allowed:
            yield f"promise 9: {tp} is submitted to {target} while its run is {states}"
        if tp in self.unanswered or tp in self.late_moves:
            return
        if partition.target == target and (partition.is_moving or not adds):
            yield f"promise 5: {tp} to {target} is sent twice"

    def _wrong_change(self, stage: "Stage", change: ConfigChange) -> Iterator[str]:
        key = (change.resource, change.key)
        now = stage.cluster.configs.dynamic.get(change.resource, {}).get(change.key)
        sets = change.operation is ConfigOperation.APPEND or (
            change.operation is ConfigOperation.SET and change.value != self.before.get(key)
        )
        if change.key not in (*RATE_KEYS, *LIST_KEYS):
            yield f"promise 4: {change} is no throttle"
        if sets and not {self._state(stage, r) for r in self.plans} & {"running", "settling"}:
            yield f"promise 9: {named(key)} is set while no run is under way"
        foreign = self.foreign_keys.get(key, set())
        if change.key in RATE_KEYS and now in foreign and now is not None:
            lowers = change.operation is ConfigOperation.SET and int(change.value) <= int(now)
            if not lowers and now not in self._written(stage, key):
                yield f"promise 7: {named(key)} is {now} by somebody else, and changed"
        if change.key in LIST_KEYS and change.operation is not ConfigOperation.APPEND:
            given = set(entries_of(change.value))
            present = set(entries_of(now))
            lost = (
                present & given if change.operation is ConfigOperation.SUBTRACT else present - given
            )
            if lost & foreign:
                yield f"promise 7: {named(key)} loses {lost & foreign} of somebody else"

    # -- what happened

    def part_ended(self, actor: str) -> None:
        for at_work in self.at_work.values():
            at_work.discard(actor)

    def step_ended(self) -> None:
        """A step without an error: it could have closed every gap."""
        for key in self.gaps:
            self.gaps[key] = min(self.gaps[key] + 1, _STEPS_TO_CLOSE_A_GAP)

    # -- after every action

    def check(self, stage: "Stage", actor: "Actor | None", working: set[str]) -> None:
        if not stage.is_changed:
            return
        stage.is_changed = False
        self._note_arrivals(stage)
        self.complaints += self._states(stage, actor, working)
        self.complaints += self._unthrottled(stage.cluster)
        self.complaints += self._without_a_run(stage)
        self.complaints += self._ledger(stage)

    def check_end(self, stage: "Stage") -> None:
        """Nobody is at work any more: nothing of ours is left."""
        self.complaints += [
            f"promise 3: {tp} is in flight at the end" for tp in self._in_flight(stage.cluster)
        ]
        now = settings_of(stage.cluster)
        for key in sorted(now.keys() | self.before.keys()):
            if key in self.foreign_keys and key[1] in LIST_KEYS:
                known = self.foreign_keys[key] | set(entries_of(self.before.get(key)))
                if left := set(entries_of(now.get(key))) - known:
                    self.complaints.append(f"promise 4: {named(key)}: {left} is left")
            elif key in self.foreign_keys:
                if now.get(key) not in (None, self.before.get(key), *self.foreign_keys[key]):
                    self.complaints.append(f"promise 4: {named(key)}: {now.get(key)} is left")
            elif now.get(key) != self.before.get(key):
                self.complaints.append(
                    f"promise 4: {named(key)} was {self.before.get(key)} and is {now.get(key)}"
                )
        self.complaints += [
            f"promise 4: {named(pending.resource_key)} is not restored at the end"
            for pending in stage.ledger_view.pending_keys()
        ]

    def _note_arrivals(self, stage: "Stage") -> None:
        for tp, p in stage.cluster.partitions.items():
            if not p.is_moving:
                self.arrived.add((tp, p.replicas))
                self.late_moves.discard(tp)

    def _states(self, stage: "Stage", actor: "Actor | None", working: set[str]) -> Iterator[str]:
        for run_id, state in sorted(stage.ledger_view.states().items()):
            was = self.states.get(run_id)
            self.states[run_id] = state
            if state == was:
                continue
            if state in _ENDED:
                self.at_work[run_id] = set(working) - {actor.name if actor else ""}
            revives = was in _ENDED and state == "running"
            if revives and actor and actor.name in self.at_work.get(run_id, ()):
                yield f"promise 10: a run that had {was} is revived by who began before its end"
            if state == "done":
                undone = [
                    str(move.topic_partition)
                    for move in self.plans[run_id].moves
                    if (move.topic_partition, move.replicas_after) not in self.arrived
                ]
                if undone:
                    yield f"promise 5: the run is done, but {undone} did not arrive"

    def _unthrottled(self, cluster: SimulatedCluster) -> Iterator[str]:
        for tp in self._in_flight(cluster):
            partition = cluster.partitions[tp]
            if tp in self.late_moves or set(partition.adding) & set(partition.removing):
                continue
            adding = [b for b in partition.adding if b not in partition.isr]
            for broker_id in adding:
                yield from self._bare(cluster, tp, broker_id, FOLLOWER_REPLICAS, FOLLOWER_RATE)
            if adding and partition.leader is not None:
                yield from self._bare(cluster, tp, partition.leader, LEADER_REPLICAS, LEADER_RATE)

    def _bare(
        self,
        cluster: SimulatedCluster,
        tp: TopicPartition,
        broker_id: int,
        list_key: str,
        rate_key: str,
    ) -> Iterator[str]:
        rate = cluster.configs.rate(broker_id, rate_key)
        at_broker = ConfigResource(ConfigResourceType.BROKER, str(broker_id)), rate_key
        of_topic = ConfigResource(ConfigResourceType.TOPIC, tp.topic), list_key
        if (rate is None or rate > self.highest_rate) and not self._may_gape(at_broker):
            yield f"promise 3: {tp} copies while {named(at_broker)} is {rate}"
        is_listed = cluster.configs.throttles(tp.topic, tp.partition, broker_id, list_key)
        if not is_listed and not self._may_gape(of_topic):
            yield f"promise 3: {tp} copies while {named(of_topic)} does not name {broker_id}"

    def _may_gape(self, key: Key) -> bool:
        is_new = self.gaps.get(key, _STEPS_TO_CLOSE_A_GAP) < _STEPS_TO_CLOSE_A_GAP
        return is_new or key in self.late_keys

    def _without_a_run(self, stage: "Stage") -> Iterator[str]:
        """Yield what is in flight, or set, although every run that it belongs to has ended."""
        for tp in self._in_flight(stage.cluster):
            target = stage.cluster.partitions[tp].target
            states = {
                self.states.get(run_id)
                for run_id, plan in self.plans.items()
                for move in plan.moves
                if move.topic_partition == tp and target in reassignment_targets(move)
            }
            if states and states <= {*_ENDED, None} and tp not in self.late_moves:
                yield f"promise 3: {tp} is in flight although its run is {states}"
        on_record = {
            owned.resource_key
            for owned in stage.ledger_view.owned_keys()
            if owned.is_unanswered or not owned.is_restored
        }
        for key, value in settings_of(stage.cluster).items():
            is_excused = key in self.late_keys or key in self.foreign_keys
            if value != self.before.get(key) and key not in on_record and not is_excused:
                yield f"promise 4: {named(key)} is {value}, and the ledger has nothing to restore"

    def _ledger(self, stage: "Stage") -> Iterator[str]:
        for owned in stage.ledger_view.owned_keys():
            key = owned.resource_key
            known = {self.before.get(key), *self.foreign_keys.get(key, ())}
            if key in self.foreign_keys:
                known |= {None, ""}
            is_list_of_others = owned.key in LIST_KEYS and key in self.foreign_keys
            if owned.before not in known and not is_list_of_others:
                yield f"promise 4: {named(key)} was never {owned.before!r} before"
        submitted = stage.ledger_view.submitted()
        on_record = {(s.partition, s.target) for s in submitted if not s.is_over}
        over = {(s.partition, s.target) for s in submitted if s.is_over} - on_record
        for tp in self._in_flight(stage.cluster):
            target = stage.cluster.partitions[tp].target
            if (tp, target) in over:
                yield f"promise 3: {tp} is on record as over, and in flight to {target}"

    def _moves_of(self, tp: TopicPartition) -> list[Move]:
        moves = (move for plan in self.plans.values() for move in plan.moves)
        return [move for move in moves if move.topic_partition == tp]

    def _in_flight(self, cluster: SimulatedCluster) -> list[TopicPartition]:
        """Return what moves to a target of one of our plans, and not by somebody else."""
        return [
            tp
            for tp, p in sorted(cluster.partitions.items())
            if p.is_moving
            and self.foreign_moves.get(tp) != p.target
            and any(m.topic_partition == tp for plan in self.plans.values() for m in plan.moves)
        ]

    def _written(self, stage: "Stage", key: Key) -> set[str]:
        written = [o.written for o in stage.ledger_view.owned_keys() if o.resource_key == key]
        return {entry for entries in written for entry in entries}

    @staticmethod
    def _state(stage: "Stage", run_id: str) -> str:
        return stage.ledger_view.state(run_id)


def _is_kept_for_later(stage: "Stage", resource: ConfigResource) -> bool:
    """Whether a broker that is frozen takes this change when it goes on."""
    broker = stage.cluster.brokers.get(int(resource.name)) if resource.is_broker else None
    return broker is not None and broker.is_frozen

"""Which moves to submit next: within every cap, with every throttled link kept busy. Pure.

    next_batch(pending, inputs)

    1. leave out moves that wait for a broker, or for a replica outside the ISR: what is ready goes
       on without them
    2. of the rest ordinary topics first; offsets, transactions and share groups after all others,
       few at a time, since each of them moves the coordinator of clients; what copies nothing comes
       last
    3. interleave sources and destinations, large partitions first
    4. take each move for which the caps have room, and the lists of its topic

Example: moves A and B copy from broker 1 to 4, C from 2 to 5, of 9, 5 and 7 MB. Interleaved they
are A, C, B: the first of both links before the second of one. With a cap of one move per broker
the batch is (A, C), and B waits.

Kafka limits the characters of a config, and so how many moves of one topic its lists of throttled
replicas can name. Of `1999:101` and a comma, 9 characters, a list holds 3,640; the leader list
names three for each move of three replicas: some 1,213 moves of such a topic are in flight at once.
Entries of others stay, and count. Ours that nothing needs any more do not: they are taken back
before others are added.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Final

from counterpoise.execution.decision_inputs import DecisionInputs
from counterpoise.execution.observation import Observation
from counterpoise.execution.throttling.targets import (
    EVERY_REPLICA,
    dynamic_value,
    list_entries,
    throttled_replicas,
    topic_resource,
)
from counterpoise.model.kafka import LIST_KEYS, MAX_VALUE_CHARACTERS, ResourceKey
from counterpoise.model.movement import COORDINATOR_TOPICS
from counterpoise.model.plan import Move

# Of the topics of offsets, transactions and share groups, which come last: consumers wait for them.
MAX_COORDINATOR_MOVES_IN_FLIGHT: Final = 5


def next_batch(pending: Sequence[Move], inputs: DecisionInputs) -> tuple[Move, ...]:
    """Return those of the pending moves to submit now, () when none may be."""
    observation, limits = inputs.observation, inputs.limits
    in_flight = [move for move in inputs.moving if observation.adding_replicas(move)]
    # What was submitted just now copies, too, although it does not show yet.
    in_flight += [move for move in inputs.not_shown_yet if move.adding]
    free_slots = limits.max_moves_in_flight - len(in_flight)
    if in_flight and free_slots <= 0:
        return ()
    ready = ready_moves(pending, observation)
    copies = [move for move in ready if observation.adding_replicas(move)]
    if not copies and not in_flight:
        return tuple(ready[: inputs.max_partitions_per_call])
    if any(move.topic not in COORDINATOR_TOPICS for move in (*copies, *in_flight)):
        copies = [move for move in copies if move.topic not in COORDINATOR_TOPICS]
    else:
        free_slots = min(free_slots, MAX_COORDINATOR_MOVES_IN_FLIGHT - len(in_flight))
    free_slots = max(0, min(free_slots, inputs.max_partitions_per_call))
    moves_of_broker = Counter(b for move in in_flight for b in observation.copying_brokers(move))
    lists = ListRoom(observation, inputs.listed_moves)
    batch: list[Move] = []
    for move in _interleaved(copies, observation):
        if len(batch) == free_slots:
            break
        broker_ids = observation.copying_brokers(move)
        max_moves = limits.max_moves_in_flight_per_broker
        has_room = all(moves_of_broker[broker_id] < max_moves for broker_id in broker_ids)
        if has_room and lists.has_room(move):
            moves_of_broker.update(broker_ids)
            lists.add(move)
            batch.append(move)
    return tuple(batch)


def ready_moves(pending: Sequence[Move], observation: Observation) -> list[Move]:
    """Return the moves that wait neither for a broker nor for a replica outside the ISR."""
    return [
        move
        for move in pending
        if not observation.out_of_sync_replicas(move) and not brokers_to_wait_for(move, observation)
    ]


def brokers_to_wait_for(move: Move, observation: Observation) -> frozenset[int]:
    """Return the brokers of a copy that do not respond: no throttle can be read back there."""
    unresponsive = observation.unresponsive_broker_ids
    if not unresponsive or not observation.adding_replicas(move):
        return frozenset()
    return unresponsive & {*move.replicas_before, *move.adding}


def _interleaved(moves: Sequence[Move], observation: Observation) -> list[Move]:
    """Order moves so that the n-th of every link comes before the next one of any.

    A link is a source with its destinations. Large moves come first, ties are broken by name.
    """
    moves_of_link: Counter[tuple[int, ...]] = Counter()
    rounds: list[list[Move]] = []  # the first of each link, then the second of each, ...
    by_name = sorted(moves, key=attrgetter("topic", "partition"))
    for move in sorted(by_name, key=attrgetter("size_bytes"), reverse=True):
        link = observation.copying_brokers(move)
        if moves_of_link[link] == len(rounds):
            rounds.append([])
        rounds[moves_of_link[link]].append(move)
        moves_of_link[link] += 1
    return list(chain.from_iterable(rounds))


@dataclass(slots=True)
class _List:
    """What a list has to name."""

    entries: set[str]
    characters: int  # of all entries, each with a comma
    names_everything: bool  # `*`: nothing is added to it
    has_ours: bool = False

    def has_room(self, entries: Sequence[str]) -> bool:
        added = sum(len(entry) + 1 for entry in entries if entry not in self.entries)
        if not added or not self.has_ours or self.names_everything:
            return True
        return self.characters + added - 1 <= MAX_VALUE_CHARACTERS

    def add(self, entries: Sequence[str]) -> None:
        self.characters += sum(len(entry) + 1 for entry in entries if entry not in self.entries)
        self.entries.update(entries)
        self.has_ours = True


class ListRoom:
    """What the lists of all topics have to name, against the longest value of a config.

    One move of a topic always fits: where the entries of others leave no room for it, the cluster
    refuses it, and says why.
    """

    def __init__(self, observation: Observation, listed_moves: Iterable[Move]) -> None:
        self._configs = observation.configs
        self._written = {
            owned.resource_key: set(owned.written)
            for owned in observation.owned_keys
            if owned.key in LIST_KEYS
        }
        self._lists: dict[tuple[str, str], _List] = {}
        for move in listed_moves:
            self.add(move)

    def has_room(self, move: Move) -> bool:
        return all(of_topic.has_room(entries) for of_topic, entries in self._lists_of(move))

    def add(self, move: Move) -> None:
        for of_topic, entries in self._lists_of(move):
            of_topic.add(entries)

    def _lists_of(self, move: Move) -> list[tuple[_List, list[str]]]:
        """Return the lists that name a move, each with its entries."""
        found = []
        for list_key, _, broker_ids in throttled_replicas(move):
            name = (move.topic, list_key)
            if name not in self._lists:
                self._lists[name] = self._of_others((topic_resource(move.topic), list_key))
            entries = [f"{move.partition}:{broker_id}" for broker_id in broker_ids]
            found.append((self._lists[name], entries))
        return found

    def _of_others(self, resource_key: ResourceKey) -> _List:
        written = self._written.get(resource_key, set())
        present = list_entries(dynamic_value(self._configs, *resource_key))
        others = [entry for entry in present if entry not in written]
        characters = sum(len(entry) + 1 for entry in others)
        return _List(set(others), characters, EVERY_REPLICA in others)

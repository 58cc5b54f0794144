"""How many moves of one topic its lists of throttled replicas can name: Kafka limits a value. Pure.

    room = ListRoom(observation, listed_moves)    # of the moves that the lists have to name already
    if room.has_room(move):
        room.add(move)

Example: orders has 2,000 partitions on the brokers 101 to 103, and all of them move to 104. Of
`1999:101` and a comma, 9 characters, a list holds 3,640; the leader list names three for each move:
some 1,213 moves are in flight at once, and as these end, others follow.

Entries of others stay, and count. Ours that nothing needs any more do not: they are taken back
before others are added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from counterpoise.execution.observation import Observation
from counterpoise.execution.throttling.targets import (
    EVERY_REPLICA,
    dynamic_value,
    list_entries,
    throttled_replicas,
    topic_resource,
)
from counterpoise.model.kafka import LIST_KEYS, MAX_VALUE_CHARACTERS, ResourceKey
from counterpoise.model.plan import Move


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
            touched.resource_key: set(list_entries(touched.written_value))
            for touched in observation.touched_keys
            if touched.key in LIST_KEYS and touched.restored_at is None
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

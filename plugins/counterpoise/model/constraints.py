"""Constraints: what every plan keeps to, whatever its goal. A part of the balance policy.

    Constraints(broker_sets=(BrokerSet("payments", topics=("pay-*",), broker_ids=(1, 2, 3)),))

A topic belongs to the first broker set with a pattern that matches, and stands on the brokers of
that set only. Topics that no set names stand on the brokers that no set names. A broker is in one
set. Compare Cruise Control's BrokerSetAwareGoal and ReplicaCapacityGoal.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from typing import Annotated, Final

from counterpoise.model.setting import BrokerId, Section, Text, TopicPattern, whole

# -- Topic patterns: names in which `*` stands for any text and `?` for one character


def matching(patterns: Iterable[str], topics: Iterable[str]) -> frozenset[str]:
    """Return the topics that any of the patterns matches."""
    any_pattern = re.compile("|".join(map(translate, patterns)) or r"(?!)")
    return frozenset(topic for topic in topics if any_pattern.match(topic))


def first_matching(patterns: Sequence[Iterable[str]], topics: Collection[str]) -> dict[str, int]:
    """Return, per topic, the number of the first patterns of which one matches; the number after
    all, where none does.
    """
    numbers = dict.fromkeys(topics, len(patterns))
    for number in reversed(range(len(patterns))):
        numbers |= dict.fromkeys(matching(patterns[number], topics), number)
    return numbers


REST: Final = "(all others)"  # the set of the topics and brokers that no set names


@dataclass(frozen=True, slots=True)
class BrokerSet(Section):
    """Brokers on which the replicas of some topics stand; broker ids, or all brokers of racks."""

    name: Text
    """Name of the set, for messages."""
    topics: tuple[TopicPattern, ...]
    """Topics whose replicas stand on these brokers alone."""
    broker_ids: tuple[BrokerId, ...] = ()
    """Brokers of the set, where racks do not say it."""
    racks: tuple[Text, ...] = ()
    """Racks all of whose brokers are in the set."""

    def has(self, broker_id: int, rack: str | None) -> bool:
        """Return whether a broker with that id, or in that rack, is in the set."""
        return broker_id in self.broker_ids or rack in self.racks


@dataclass(frozen=True, slots=True)
class Constraints(Section):
    broker_sets: tuple[BrokerSet, ...] = ()
    """Topics that stay on brokers of their own. Set them where tenants do not share brokers."""
    max_replicas_per_broker: Annotated[int, whole(1, 10**7)] | None = None
    """Replicas that no broker gets more of. Set it where brokers reach the limit of their
    provider."""
    no_new_replicas_on: tuple[BrokerId, ...] = ()
    """Brokers that get no replica they do not have. Name those that you drain by hand."""

    def sets_of_brokers(self, racks: Mapping[int, str | None]) -> dict[int, int]:
        """Return the number of the set that each broker is in; the number after all, where in none.

        `racks` has the rack of each broker.
        """
        numbers = dict.fromkeys(racks, len(self.broker_sets))
        for number, broker_set in reversed(list(enumerate(self.broker_sets))):
            numbers |= {b: number for b, rack in racks.items() if broker_set.has(b, rack)}
        return numbers

    def sets_of_topics(self, topics: Collection[str]) -> dict[str, int]:
        """Return the number of the set that each topic belongs to, as for brokers."""
        return first_matching([broker_set.topics for broker_set in self.broker_sets], topics)

    def and_also(self, other: "Constraints") -> "Constraints":
        """Return both: what the other asks for can only be more. Its broker sets come first."""
        return Constraints(
            broker_sets=(*other.broker_sets, *self.broker_sets),
            max_replicas_per_broker=_smaller(
                self.max_replicas_per_broker, other.max_replicas_per_broker
            ),
            no_new_replicas_on=(*self.no_new_replicas_on, *other.no_new_replicas_on),
        )


def _smaller(limit: int | None, other: int | None) -> int | None:
    return min((value for value in (limit, other) if value is not None), default=None)


def names_of_sets(sets: Iterable[BrokerSet]) -> tuple[str, ...]:
    """Return the names of the sets, and REST for what no set names."""
    return (*(broker_set.name for broker_set in sets), REST)

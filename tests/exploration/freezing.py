"""While a process is frozen, what the others do does not depend on what it knows: followed once.

    frozen at p1: others do a, b, c; it goes on before a, before b, before c, or after all of them
    frozen at p2: the same a, b, c are not followed again; it goes on at each of the same places

A `Meanwhile` is a state without the frozen process, met once for all that are frozen there. It
knows which states follow, where the process may go on, and who is frozen. Whoever comes later
follows these ways to all places; a way that is found later is followed by all who came before.

And if it only reads between p1 and p2 what nobody wrote until it goes on, the same follows from
both: it goes on from p2 alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from counterpoise.model.run import STEP_LOCK_SECONDS
from tests.exploration.actors import Actor
from tests.exploration.independence import Probe, Reading, Visit
from tests.exploration.paths import BEFORE_ALL, Branch, Budget, Schedule


@dataclass(eq=False, slots=True)
class Frozen:
    """A frozen process, with what it knows."""

    actor: Actor


@dataclass(frozen=True, slots=True)
class Way:
    """From one state to another, or from where a process was frozen: what it would have read."""

    deviations: Schedule
    writes: frozenset[str] = frozenset()
    reading: Reading | None = None

    def __add__(self, more: "Way") -> "Way":
        writes = self.writes if more.writes <= self.writes else self.writes | more.writes
        return Way(self.deviations + more.deviations, writes, self.reading)


@dataclass(slots=True)
class Thaw:
    """A place where the frozen process goes on: in the branch of one of those that are frozen."""

    branch: Branch
    way: Way  # from the state where this place is known
    now: float
    visit: Visit | None = None  # of the state where it comes before somebody else
    preempted: str = ""

    def branches(self, here: "Meanwhile", frozen: Frozen) -> Iterator[Branch]:
        """The branch of one that came here, if the same does not follow from another one's."""
        way = here.frozen[frozen] + self.way
        later = self._follows_from(here, frozen, way)
        if later is not None:
            branches = self.visit.branches if self.visit else {}
            probe = branches.get((self.branch.choice, later))
            if probe is not None:
                branches[self.branch.choice, frozen] = probe
            return
        actor = frozen.actor
        if self.visit is None:
            actor = actor.copy()
            actor.is_frozen, actor.wakes_at = False, BEFORE_ALL
        made = replace(
            self.branch,
            actors=[actor if a.name == actor.name else a for a in self.branch.actors],
            schedule=way.deviations,
            frozen=frozen,
        )
        if self.visit is not None:
            made.own_probe = Probe(self.now)
            made.probes = {self.preempted: (made.own_probe,)}
            self.visit.branches[made.choice, frozen] = made.own_probe
        yield made

    def _follows_from(self, here: "Meanwhile", frozen: Frozen, way: Way) -> Frozen | None:
        """Who was frozen after it had read more, and had read the same."""
        reading = way.reading
        later = reading.following.frozen if reading and reading.following else None
        if reading is None or later is None or reading.reads & way.writes:
            return None
        if later not in here.frozen:
            return None
        if later.actor.began_at != frozen.actor.began_at:
            return None  # the same, at another time
        if self.visit is not None and self.branch.budget != Budget():
            return None
        at = later.actor.at
        is_late = self.now - later.actor.paused_at >= STEP_LOCK_SECONDS
        return None if at and at[0] == "change" and is_late else later


@dataclass(eq=False, slots=True)
class Meanwhile:
    """A state of the others. `frozen`: who is frozen, and how each came here since then."""

    frozen: dict[Frozen, Way] = field(default_factory=dict)
    following: list[tuple["Meanwhile", Way]] = field(default_factory=list)
    thaws: list[Thaw] = field(default_factory=list)

    def enter(self, frozen: Frozen, way: Way) -> Iterator[Branch]:
        """Let a process be frozen here; yield all places where it goes on, the last one last."""
        entered = [(self, way)]
        while entered:
            here, way = entered.pop()
            if frozen in here.frozen:
                continue
            here.frozen[frozen] = way
            for thaw in here.thaws:
                yield from thaw.branches(here, frozen)
            entered += [(following, way + more) for following, more in here.following]

    def leads_to(self, following: "Meanwhile", more: Way) -> Iterator[Branch]:
        """Note what follows; yield the places where those go on who are frozen here."""
        self.following.append((following, more))
        for frozen, way in list(self.frozen.items()):
            yield from following.enter(frozen, way + more)

    def thaws_at(self, thaw: Thaw) -> Iterator[Branch]:
        """Note such a place; yield it for each that is frozen here."""
        self.thaws.append(thaw)
        for frozen in self.frozen:
            yield from thaw.branches(self, frozen)


@dataclass
class Freezer:
    """All that were frozen in an exploration, each kept once."""

    known: dict[tuple[object, ...], Frozen] = field(default_factory=dict)

    def frozen(self, actor: Actor) -> Frozen:
        knows = (actor.name, actor.memory, actor.part, actor.at, actor.began_at, actor.paused_at)
        key = (*knows, actor.wakes_at, actor.number, actor.tokens_before, *actor.has_seen.items())
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = Frozen(actor.copy())
        return found

"""One way through a scenario: whose turn it is, and what happens instead of it.

    replay(scenario, At("executor", "change_state", 1, "freeze"))    # raises PromiseBrokenError

Without a deviation an actor acts until it waits; then the one goes on whose wait ends first. A
deviation is a preemption (another actor comes first) or a fault (a process dies, or is frozen; an
answer is lost; a call arrives late). Each schedule is the list of its deviations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.exploration.actors import NEVER, Actor
from tests.exploration.ending import end_everything
from tests.exploration.independence import Footprint, Probe, Probes, Reading, Visit
from tests.exploration.points import CHANGING_CALLS
from tests.exploration.roles import Arrival
from tests.exploration.stage import Kept, Stage, digest

if TYPE_CHECKING:
    from tests.exploration.freezing import Frozen, Meanwhile

RETRY_SECONDS: Final = 0.5  # after which a process that died is started again
LOCK_SECONDS: Final = 31.0  # after which a step lock has run out
_LONGEST_PAUSE_SECONDS: Final = 25.0  # of a process that is not called frozen
# Who has its turn: a wait that is shorter than all that are measured by the clock.
_AT_A_POINT: Final = -1.0
BEFORE_ALL: Final = -2.0
MAX_SECONDS: Final = 3_000.0  # of the simulated clock: then a run never ends


@dataclass(frozen=True)
class Budget:
    preemptions: int = 0
    faults: int = 0

    def covers(self, other: "Budget") -> bool:
        return self.preemptions >= other.preemptions and self.faults >= other.faults

    def without(self, choice: str) -> "Budget":
        """What is left after a deviation."""
        if is_preemption(choice):
            return Budget(self.preemptions - 1, self.faults)
        return Budget(self.preemptions, self.faults - 1)

    def __str__(self) -> str:
        return f"{self.preemptions} preemptions, {self.faults} faults"


def is_preemption(choice: str) -> bool:
    return choice.startswith("then ")


@dataclass(frozen=True)
class At:
    """At the n-th point of this name that the actor reaches: what happens instead of its turn.

    `choice` is "crash", "freeze", "lost", "late", or "then NAME" for another actor.
    """

    actor: str
    point: str
    number: int
    choice: str

    def __str__(self) -> str:
        return f'At("{self.actor}", "{self.point}", {self.number}, "{self.choice}")'


Schedule = tuple[At, ...]


@dataclass(frozen=True)
class Scenario:
    """`prepare` brings the stage to the beginning, and returns the actors."""

    name: str
    make_stage: Callable[[], Any]  # a context manager
    prepare: Callable[[Stage], list[Actor]]
    has_fault: bool = False  # of its own: a broker that dies, or freezes


class PromiseBrokenError(AssertionError):
    """A schedule breaks a promise."""


@dataclass
class Branch:
    """A state to go on from, and the deviation that comes first."""

    kept: Kept
    actors: list[Actor]
    current: int
    budget: Budget
    choice: str = ""
    schedule: Schedule = ()
    probes: Probes = field(default_factory=dict)
    own_probe: Probe | None = None  # of the actor that this branch preempts
    reading: Reading | None = None  # what who stands there does next otherwise
    meanwhile: "Meanwhile | None" = None  # the state from which it comes, while one is frozen
    frozen: "Frozen | None" = None  # who goes on here

    def is_covered(self) -> bool:
        """Return whether another branch leads where this one leads."""
        if self.reading is None or not is_preemption(self.choice):
            return False
        return self.reading.is_covered((self.choice, self.frozen))


class Path:
    """One way through a scenario, from a branch to its end."""

    def __init__(self, stage: Stage, branch: Branch) -> None:
        stage.bring_back(branch.kept)
        self.stage = stage
        self.actors = [actor.copy() for actor in branch.actors]
        self.current = branch.current
        self.budget, self.schedule = branch.budget, branch.schedule
        self.trace: list[str] = []
        self.probes = dict(branch.probes)
        self.reading: Reading | None = None  # by which the actor came to where it stands
        self._next_reading: Reading | None = None
        self.meanwhile = branch.meanwhile
        # Since that state, or since the process was frozen.
        self.deviations = branch.schedule[-1:] if branch.meanwhile is not None else ()
        self.writes: set[str] = set()
        self.frozen_by = branch.reading if branch.choice == "freeze" else None

    @property
    def actor(self) -> Actor:
        return self.actors[self.current]

    def leave(self) -> None:
        for actor in self.actors:
            actor.leave()

    def key(self) -> bytes:
        """All that the future depends on."""
        return self._key_of(self.actors)

    def only_frozen(self) -> Actor | None:
        """The process that is frozen, if there is one, and can be no other."""
        frozen = [actor for actor in self.actors if actor.is_frozen]
        return frozen[0] if len(frozen) == 1 and not self.budget.faults else None

    def key_without(self, frozen: Actor) -> bytes:
        """All that the future depends on until this process goes on, whatever it knows."""
        others = [actor for actor in self.actors if actor is not frozen]
        wakes_at = frozen.wakes_at if frozen.is_asleep else None
        sleeper = (frozen.name, frozen.number, frozen.tokens_before, frozen.has_begun, wakes_at)
        return self._key_of(others, self.stage.cluster.now, sleeper)

    def _key_of(self, actors: Sequence[Actor], *more: object) -> bytes:
        """The world as it is now, these actors, and who has its turn."""
        tokens = {t: name for actor in self.actors for t, name in actor.own_tokens.items()}
        keys = [actor.key(self.stage) for actor in actors if not actor.is_over]
        return digest(self.stage.key(tokens), repr((keys, self.actor.name, more)).encode())

    # -- whose turn it is

    def find_next(self) -> bool:
        """Choose who goes on: who stands at a point, else whose wait ends first."""
        actor = self.actor
        if actor.at and not actor.is_over and not actor.is_frozen and not actor.is_asleep:
            return True
        self.reading = None
        waits = [self._wakes_at(actor) for actor in self.actors]
        soonest = min(waits, default=NEVER)
        if soonest == NEVER:
            return self._thaw()
        if soonest > MAX_SECONDS:
            self.stage.history.complaints.append("promise 5: a run that never ends")
            return True
        self.current = waits.index(soonest)
        self.stage.advance(soonest - self.stage.cluster.now)
        self.stage.history.check(self.stage, None, self.working())
        return True

    def _wakes_at(self, actor: Actor) -> float:
        if actor.is_over or actor.is_frozen:
            return NEVER
        return actor.wakes_at if actor.is_asleep else _AT_A_POINT

    def _thaw(self) -> bool:
        """Everybody else is over: who was frozen goes on."""
        for number, actor in enumerate(self.actors):
            if actor.is_frozen:
                self.trace.append(f"{actor.name} thaws")
                actor.is_frozen, self.current = False, number
                return True
        return False

    def working(self) -> set[str]:
        """Who is at work: whoever was told nothing yet has, for all others, not begun."""
        return {
            actor.name
            for actor in self.actors
            if actor.at and not actor.is_over and actor.has_begun
        }

    # -- deviations

    def choices(self) -> list[str]:
        """What else may happen here, within the budget."""
        actor, choices = self.actor, []
        assert actor.at is not None
        if self.budget.faults:
            if actor.at[1] in CHANGING_CALLS and actor.role.first != "arrives":
                choices += ["lost", "late"]
            if actor.role.is_process:
                choices += ["crash", "freeze"]
        if self.budget.preemptions:
            choices += [f"then {other.name}" for other in self.actors if self._may_preempt(other)]
        return choices

    def _may_preempt(self, other: Actor) -> bool:
        if other is self.actor or other.is_over:
            return False
        wait = other.wakes_at - self.stage.cluster.now if other.is_asleep else 0.0
        if other.role.is_free and other.at is None:
            wait = 0.0
        return wait <= _LONGEST_PAUSE_SECONDS

    def thaws_by(self, choice: str) -> bool:
        """Whether this choice lets the frozen process go on."""
        name = choice.removeprefix("then ")
        return any(actor.is_frozen and actor.name == name for actor in self.actors)

    def deviation(self, choice: str) -> At:
        """This choice at the point where the actor stands."""
        actor = self.actor
        assert actor.at is not None
        return At(actor.name, actor.at[1], actor.points[actor.at[1]], choice)

    def spend(self, choice: str) -> None:
        """Note a deviation, which the budget has one less of."""
        self.budget = self.budget.without(choice)
        self.schedule = (*self.schedule, self.deviation(choice))

    def deviate(self, choice: str) -> bool:
        """Let something else happen; return whether the actor still acts, with `choice` as how."""
        actor = self.actor
        self.reading = None
        if choice == "crash":
            self.probes.pop(actor.name, None)
            actor.die()
            self._add_successor(actor, RETRY_SECONDS)
        elif choice == "freeze":
            actor.is_frozen = True
            self._add_successor(actor, LOCK_SECONDS)
        elif is_preemption(choice):
            self._switch_to(choice.removeprefix("then "))
        else:
            return True
        return False

    def _switch_to(self, name: str) -> None:
        self.current = next(i for i, other in enumerate(self.actors) if other.name == name)
        other = self.actor
        other.is_frozen = False
        is_free = other.role.is_free and other.at is None
        if other.is_asleep and not is_free:
            self.stage.advance(other.wakes_at - self.stage.cluster.now)
        other.wakes_at = BEFORE_ALL

    def _add_successor(self, actor: Actor, after_seconds: float) -> None:
        role = actor.role.successor()
        if role is None:
            return
        name = f"{actor.name}'s successor"
        wakes_at = self.stage.cluster.now + after_seconds
        self.actors.append(Actor(name, role, wakes_at=wakes_at, number=len(self.actors)))

    # -- acting

    def act(self, how: str, visit: Visit | None = None) -> list[str]:
        """Let the actor act; return the promises that are broken then."""
        actor, history = self.actor, self.stage.history
        assert actor.at is not None
        self.note_writes()
        self.probes.pop(actor.name, None)
        reading = self.reading_from(visit) if visit is not None and actor.has_begun else None
        self.trace.append(f"{self.stage.cluster.now:7.2f} {actor.name}: {actor.at[1]} {how}")
        for call in actor.act(how):
            arrival = Arrival(call)
            wakes_at = self.stage.cluster.now + arrival.wait_seconds
            name = f"late {call[0]} {len(self.actors)}"
            self.actors.append(Actor(name, arrival, wakes_at=wakes_at, number=len(self.actors)))
        history.check(self.stage, actor, self.working())
        if actor.at is None:
            history.part_ended(actor.name)
        touched = self.note_writes()
        self.reading = None
        if reading is not None and actor.at and not touched.writes:
            reading.reads = touched.reads
            self.reading = reading
        return history.complaints

    # -- what others do meanwhile

    def note_writes(self) -> Footprint:
        """Tell the open probes what was written since the last time."""
        touched = self.stage.take_touched()
        if touched.writes:
            self.writes |= touched.writes
            for probe in self._open_probes():
                probe.note(touched.writes, self.stage.cluster.now)
        return touched

    def reading_from(self, visit: Visit) -> Reading:
        """What the actor does from here, as long as it only reads."""
        if self._next_reading is None or self._next_reading.visit is not visit:
            self._next_reading = Reading(visit)
        return self._next_reading

    def go_on_as(self, visit: Visit) -> None:
        """The path ends in a state that was met before: what follows was followed then."""
        self.note_writes()
        for name, probes in self.probes.items():
            theirs = visit.probes.get(name, ())
            for probe in probes:
                if probe not in theirs:
                    probe.join(theirs[-1] if theirs else None, self.stage.cluster.now)

    def forget_probes(self) -> None:
        """Others come this way, too: what they do is not told to the probes that are open now.

        The probe of who acts next is told all, unless somebody may come first once more.
        """
        self.note_writes()
        for name, probes in self.probes.items():
            if name != self.actor.name or self.budget.preemptions:
                for probe in probes:
                    probe.is_unknown = True
        self.probes = {}

    def _open_probes(self) -> list[Probe]:
        return [probe for probes in self.probes.values() for probe in probes]


class ScheduleError(Exception):
    """The product no longer comes to a point of a schedule: explore anew."""


def replay(scenario: Scenario, *schedule: At) -> list[str]:
    """Follow one schedule; return what happened. Raises PromiseBrokenError with it."""
    with scenario.make_stage() as stage:
        actors = scenario.prepare(stage)
        path = Path(stage, Branch(stage.keep(), actors, 0, Budget()))
        left = list(schedule)
        broken = _follow_schedule(path, left)
        path.leave()
        if broken:
            happened = "\n".join(path.trace[-60:])
            raise PromiseBrokenError(f"{happened}\n{chr(10).join(broken)}")
        if left:
            raise ScheduleError(f"nobody came to {left[0]}")
        return path.trace


def _follow_schedule(path: Path, left: list[At]) -> Sequence[str]:
    while path.find_next():
        if path.stage.history.complaints:
            return path.stage.history.complaints
        actor, how = path.actor, "go"
        actor.reach_point(path.stage)
        if actor.at is None:
            continue
        if left and (actor.name, *actor.at[1:], actor.points[actor.at[1]]) == (
            left[0].actor,
            left[0].point,
            left[0].number,
        ):
            at = left.pop(0)
            path.trace.append(str(at))
            if not path.deviate(at.choice):
                continue
            how = at.choice
        if complaints := path.act(how):
            return complaints
    return end_everything(path.stage)

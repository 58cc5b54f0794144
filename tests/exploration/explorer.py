"""Explores what may happen in a scenario: every order of actions, and every fault, within a bound.

    found = explore(scenario, Budget(preemptions=1))
    found.figures            # schedules, states
    found.broken             # the promises that were broken, each with the schedule that did it

`paths.py` says what a schedule is.

    put the first state on the stack
    while there is a state on the stack, and the same follows from no other one (independence.py):
        bring it back, and go on from it until everybody is over:
            stop where the world and all actors are as they were before, with as much budget
            (while one is frozen: the world and all others; freezing.py)
            push the same state once for each deviation that the budget allows here
            let the actor act; check the promises
        over: the faults end, and a run has to end within so many observations
"""

import gc
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.exploration.actors import NEVER, Actor
from tests.exploration.ending import end_everything
from tests.exploration.freezing import Freezer, Meanwhile, Thaw, Way
from tests.exploration.independence import Probe, Visit
from tests.exploration.paths import Branch, Budget, Path, Scenario, Schedule, is_preemption


@dataclass
class Found:
    """What an exploration found."""

    scenario: str
    budget: Budget
    figures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    # By kind: an example, and the shortest schedule that leads there.
    broken: dict[str, tuple[str, Schedule]] = field(default_factory=dict)
    extent: str = "complete"
    ends: set[bytes] = field(default_factory=set)

    def __str__(self) -> str:
        figures = ", ".join(f"{n} {what}" for what, n in sorted(self.figures.items()))
        result = f"{len(self.broken)} broken, {self.extent}"
        return f"{self.scenario}, {self.budget}: {figures}, {self.seconds:.0f} s; {result}"

    def tests(self) -> str:
        """Each schedule that breaks a promise, as a test to paste."""
        return "\n\n".join(
            f"# {complaint}\ndef test_...() -> None:\n"
            f"    replay({self.scenario.upper()}, {', '.join(map(str, schedule))})"
            for complaint, schedule in self.broken.values()
        )

    def note(self, complaints: Sequence[str], schedule: Schedule) -> None:
        """Keep the first complaint of a path, with the shortest schedule of its kind."""
        for complaint in complaints[:1]:
            kind = _kind_of(complaint)
            known = self.broken.setdefault(kind, (complaint, schedule))
            if len(schedule) < len(known[1]):
                self.broken[kind] = (complaint, schedule)


def explore(
    scenario: Scenario,
    budget: Budget,
    *,
    max_seconds: float = NEVER,
    max_broken: int = 20,
    leaves_out: bool = True,
    is_earliest_first: bool = False,
) -> Found:
    """Explore a scenario exhaustively within the budget, or until `max_seconds` of this process's
    time have passed. With `leaves_out=False` also what leads where something else leads.

    Deviations are explored from the end of a schedule, since less is left out otherwise; those of
    the first one from its beginning with `is_earliest_first`.
    """
    exploration = _Exploration(Found(scenario.name, budget), leaves_out)
    found = exploration.found
    began_at = time.process_time()
    with scenario.make_stage() as stage:
        actors = scenario.prepare(stage)
        gc.freeze()
        exploration.stack.append(Branch(stage.keep(), actors, 0, budget))
        while exploration.stack and len(found.broken) < max_broken:
            found.seconds = time.process_time() - began_at
            if found.seconds > max_seconds:
                found.extent = "broken off"
                break
            branch = exploration.next_branch()
            if leaves_out and branch.is_covered():
                found.figures["left out"] += 1
                continue
            path = Path(stage, branch)
            found.note(exploration.follow(path, branch.choice), path.schedule)
            path.leave()
            if is_earliest_first and found.figures["schedules"] == 1:
                exploration.stack.reverse()
    if len(found.broken) >= max_broken:
        found.extent = "stopped there"
    found.seconds = time.process_time() - began_at
    found.figures["states"] = sum(map(len, exploration.visited.values()))
    found.figures["different ends"] = len(found.ends)
    return found


def _kind_of(complaint: str) -> str:
    """The promise that is broken, and how; whichever partition, broker or key it is."""
    return re.sub(r"(topic|broker) \S+ \S+|\S*\d\S*(?<!:)|'\w+'|leader|follower", "_", complaint)


@dataclass
class _Exploration:
    found: Found
    leaves_out: bool
    stack: list[Branch] = field(default_factory=list)
    visited: dict[bytes, list[Visit]] = field(default_factory=dict)
    freezer: Freezer = field(default_factory=Freezer)
    # The branches that are being explored: where each lay on the stack.
    _opened: list[tuple[int, Probe]] = field(default_factory=list)

    def next_branch(self) -> Branch:
        while self._opened and self._opened[-1][0] >= len(self.stack):
            self._opened.pop()[1].is_complete = True
        branch = self.stack.pop()
        self.found.figures["schedules"] += 1
        if branch.own_probe is not None:
            self._opened.append((len(self.stack), branch.own_probe))
        return branch

    def follow(self, path: Path, choice: str) -> Sequence[str]:
        """Go on until everybody is over, or everything is as it was before; return what is
        broken.
        """
        figures = self.found.figures
        how = choice if choice and path.deviate(choice) else "go"
        is_new = how == "go"
        while path.find_next():
            if path.stage.history.complaints:
                return path.stage.history.complaints
            if path.meanwhile is not None and path.only_frozen() is None:
                self._thaw(path)
                return ()
            actor = path.actor
            if actor.at is None:
                actor.reach_point(path.stage)
                if actor.at is None:
                    continue
            visit = None
            if is_new:
                visit, is_met = self._meet(path)
                if is_met:
                    figures["merged"] += 1
                    return ()
                self._deviate(path, visit)
            actor.reach_point(path.stage)
            if complaints := path.act(how, visit):
                return complaints
            figures["actions"] += 1
            how, is_new = "go", True
        figures["ends"] += 1
        key = path.stage.key({})
        if key in self.found.ends:
            return ()
        self.found.ends.add(key)
        return end_everything(path.stage)

    def _meet(self, path: Path) -> tuple[Visit, bool]:
        """The visit of this state, and whether it was met before with as much budget."""
        frozen = path.only_frozen() if self.leaves_out else None
        if frozen is not None and path.meanwhile is None:
            path.forget_probes()
        visits = self.visited.setdefault(path.key_without(frozen) if frozen else path.key(), [])
        known = next((visit for visit in visits if _covers(visit, path)), None)
        visit = known or Visit(path.budget, dict(path.probes))
        if path.reading is not None:
            path.reading.following = visit
        if known is None:
            visits.append(visit)
        else:
            path.go_on_as(visit)
        if frozen is not None:
            self._meet_while(frozen, path, visit)
        return visit, known is not None

    def _meet_while(self, frozen: Actor, path: Path, visit: Visit) -> None:
        """Note for whom this is a state while it is frozen."""
        here = visit.meanwhile = visit.meanwhile or Meanwhile()
        path.note_writes()
        writes = frozenset(path.writes)
        if path.meanwhile is None:
            self.found.figures["followed once while frozen"] += bool(here.frozen)
            sleeper, reading = self.freezer.frozen(frozen), path.frozen_by
            if reading is not None:
                reading.visit.frozen = sleeper
            self.stack += here.enter(sleeper, Way(path.schedule, writes, reading))
        else:
            self.stack += path.meanwhile.leads_to(here, Way(path.deviations, writes))
        path.meanwhile, path.deviations, path.frozen_by = here, (), None
        path.writes.clear()

    def _thaw(self, path: Path) -> None:
        """The others are over: each that is frozen goes on in a branch of its own."""
        assert path.meanwhile is not None
        path.note_writes()
        way = Way(path.deviations, frozenset(path.writes))
        thaw = Thaw(_branch(path, path.budget, ""), way, path.stage.cluster.now)
        self.stack += path.meanwhile.thaws_at(thaw)

    def _deviate(self, path: Path, visit: Visit) -> None:
        """Put on the stack what the budget allows instead of the turn of who stands here."""
        reading = path.reading_from(visit)
        name, now = path.actor.name, path.stage.cluster.now
        for choice in path.choices():
            branch = _branch(path, path.budget.without(choice), choice)
            deviation = path.deviation(choice)
            branch.schedule = (*path.schedule, deviation)
            branch.reading = reading
            if is_preemption(choice):
                if path.meanwhile is not None and path.thaws_by(choice):
                    path.forget_probes()
                    thaw = Thaw(branch, Way((deviation,)), now, visit, name)
                    self.stack += path.meanwhile.thaws_at(thaw)
                    continue
                branch.own_probe = visit.branches[choice, None] = Probe(now)
                branch.probes[name] = (*path.probes.get(name, ()), branch.own_probe)
            branch.meanwhile = path.meanwhile
            self.stack.append(branch)


def _covers(visit: Visit, path: Path) -> bool:
    """Whether what follows was followed with as much budget.

    Those that are frozen meanwhile share all that follows, so their budget is the same.
    """
    if visit.meanwhile is not None:
        return visit.budget == path.budget
    return visit.budget.covers(path.budget)


def _branch(path: Path, budget: Budget, choice: str) -> Branch:
    return Branch(
        path.stage.keep(),
        [actor.copy() for actor in path.actors],
        path.current,
        budget,
        choice,
        path.schedule,
        dict(path.probes),
    )

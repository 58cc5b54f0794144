"""Explores what may happen in a scenario: every order of actions, and every fault, within a bound.

    found = explore(scenario, Budget(preemptions=1))
    found.figures            # schedules, states
    found.broken             # the promises that were broken, each with the schedule that did it

`paths.py` says what a schedule is.

    put the first state on the stack
    while there is a state on the stack:
        bring it back, and go on from it until everybody is over:
            stop where the world and all actors are as they were before, with as much budget
            push the same state once for each deviation that the budget allows here
            let the actor act; check the promises
        over: the faults end, and a run has to end within so many observations
"""

import gc
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tests.exploration.actors import NEVER, Actor
from tests.exploration.ending import end_everything
from tests.exploration.paths import At, Branch, Budget, Path, Scenario, Schedule
from tests.exploration.stage import Kept


@dataclass
class Found:
    """What an exploration found."""

    scenario: str
    budget: Budget
    figures: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    # By kind: an example, and the shortest schedule that leads there.
    broken: dict[str, tuple[str, Schedule]] = field(default_factory=dict)
    is_complete: bool = True

    def __str__(self) -> str:
        figures = ", ".join(f"{n} {what}" for what, n in sorted(self.figures.items()))
        whole = "" if self.is_complete else "; broken off"
        return f"{self.scenario}, {self.budget}: {figures}, {self.seconds:.0f} s{whole}"

    def tests(self) -> str:
        """Each schedule that breaks a promise, as a test to paste."""
        return "\n\n".join(
            f"# {complaint}\ndef test_...() -> None:\n"
            f"    replay({self.scenario.upper()}, {', '.join(map(str, schedule))})"
            for complaint, schedule in self.broken.values()
        )


def explore(
    scenario: Scenario,
    budget: Budget,
    *,
    max_seconds: float = NEVER,
    max_broken: int = 20,
) -> Found:
    """Explore a scenario exhaustively within the budget, or until `max_seconds` have passed."""
    found = Found(scenario.name, budget)
    began_at = time.process_time()
    visited: dict[object, list[Budget]] = {}
    thaws: dict[object, tuple[Kept, list[Actor]]] = {}
    with scenario.make_stage() as stage:
        actors = scenario.prepare(stage)
        gc.freeze()
        stack = [Branch(stage.keep(), actors, 0, budget)]
        while stack and len(found.broken) < max_broken:
            found.seconds = time.process_time() - began_at
            if found.seconds > max_seconds:
                found.is_complete = False
                break
            branch = stack.pop()
            found.figures["schedules"] += 1
            path = Path(stage, branch, thaws)
            broken = _follow(path, branch.choice, visited, stack, found.figures)
            path.leave()
            for complaint in broken[:1]:
                known = found.broken.setdefault(_kind_of(complaint), (complaint, path.schedule))
                if len(path.schedule) < len(known[1]):
                    found.broken[_kind_of(complaint)] = (complaint, path.schedule)
    found.seconds = time.process_time() - began_at
    found.figures["states"] = len(visited)
    return found


def _kind_of(complaint: str) -> str:
    """The promise that is broken, and how; whichever partition, broker or key it is."""
    return re.sub(r"(topic|broker) \S+ \S+|\S*\d\S*(?<!:)|'\w+'|leader|follower", "_", complaint)


def _follow(
    path: Path,
    choice: str,
    visited: dict[object, list[Budget]],
    stack: list[Branch],
    figures: Counter[str],
) -> Sequence[str]:
    """Go on until everybody is over, or everything is as it was before; return what is broken."""
    how = choice if choice and path.deviate(choice) else "go"
    is_new = how == "go"
    while path.find_next():
        if path.stage.history.complaints:
            return path.stage.history.complaints
        actor = path.actor
        if actor.at is None:
            actor.reach_point(path.stage)
            if actor.at is None:
                continue
        if is_new:
            if path.skip_to_thaw():
                figures["skipped to a thaw"] += 1
                continue
            if not _is_new(path, visited):
                figures["merged"] += 1
                return ()
            _push_deviations(path, stack)
        actor.reach_point(path.stage)
        if complaints := path.act(how):
            return complaints
        figures["actions"] += 1
        how, is_new = "go", True
    figures["ends"] += 1
    key = ("end", path.stage.key({}))
    if key in visited:
        return ()
    visited[key] = [path.budget]
    figures["different ends"] += 1
    return end_everything(path.stage)


def _is_new(path: Path, visited: dict[object, list[Budget]]) -> bool:
    earlier = visited.setdefault(path.key(), [])
    if any(budget.covers(path.budget) for budget in earlier):
        return False
    earlier.append(path.budget)
    return True


def _push_deviations(path: Path, stack: list[Branch]) -> None:
    actor = path.actor
    assert actor.at is not None
    for choice in path.choices():
        is_preemption = choice.startswith("then ")
        budget = replace(
            path.budget,
            preemptions=path.budget.preemptions - is_preemption,
            faults=path.budget.faults - (not is_preemption),
        )
        at = At(actor.name, actor.at[1], actor.points[actor.at[1]], choice)
        actors = [other.copy() for other in path.actors]
        schedule = (*path.schedule, at)
        stack.append(Branch(path.stage.keep(), actors, path.current, budget, choice, schedule))

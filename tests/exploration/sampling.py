"""Random schedules, deeper than can be explored exhaustively; the seed tells them again.

found = sample(scenario, Budget(preemptions=4, faults=2), seed=7, walks=100)

Each walk begins at the beginning. It chooses how many deviations it wants and, evenly, at which of
its points; what happens there is chosen among all that is possible. A walk that breaks a promise
is kept as a schedule, like one of the exhaustive exploration.
"""

import random
import time
from collections.abc import Sequence

from tests.exploration.actors import NEVER
from tests.exploration.ending import end_everything
from tests.exploration.explorer import Found
from tests.exploration.paths import Branch, Budget, Path, Scenario, replay


def sample(
    scenario: Scenario,
    budget: Budget,
    *,
    seed: int,
    walks: float = NEVER,
    max_seconds: float = NEVER,
) -> Found:
    """Take so many random walks, or until so many seconds of this process's time have passed."""
    found = Found(scenario.name, budget, extent=f"sampled with seed {seed}")
    began_at = time.process_time()
    chance = random.Random(seed)
    # Who is preempted or replaced makes a walk longer than the one without a deviation.
    points = 2 * len(replay(scenario))
    with scenario.make_stage() as stage:
        actors = scenario.prepare(stage)
        beginning = stage.keep()
        while found.figures["schedules"] < walks and time.process_time() - began_at < max_seconds:
            path = Path(stage, Branch(beginning, actors, 0, budget))
            where = _deviating_points(budget, points, chance)
            found.note(_walk(path, where, chance), path.schedule)
            found.figures["actions"] += len(path.trace)
            path.leave()
            found.figures["schedules"] += 1
            found.ends.add(stage.key({}))
    found.seconds = time.process_time() - began_at
    found.figures["different ends"] = len(found.ends)
    return found


def _deviating_points(budget: Budget, points: int, chance: random.Random) -> set[int]:
    wanted = chance.randint(2, budget.preemptions + budget.faults)
    # Half of the walks deviate within a short time: faults that come together.
    length = points if chance.random() < 0.5 else max(points // 8, wanted)
    first = chance.randrange(points - length + 1)
    return {first + n for n in chance.sample(range(length), wanted)}


def _walk(path: Path, where: set[int], chance: random.Random) -> Sequence[str]:
    number = 0
    while path.find_next():
        if path.stage.history.complaints:
            return path.stage.history.complaints
        actor, how = path.actor, "go"
        actor.reach_point(path.stage)
        if actor.at is None:
            continue
        number += 1
        choices = path.choices() if number in where else []
        if choices:
            choice = chance.choice(choices)
            path.spend(choice)
            if not path.deviate(choice):
                continue
            how = choice
        if complaints := path.act(how):
            return complaints
    return end_everything(path.stage)

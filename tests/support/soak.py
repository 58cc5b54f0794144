"""kill -9 of the process that carries a run out: at every named point, then at random instants,
also while a run is undone, and while a cancelled one is settled (`make soak`).

    python -m tests.support.soak --kills 100

One topic travels to broker 4 and back, run after run. Each run is killed several times and resumed
each time by a new process. After each, Kafka's own client and tools must tell the placement of the
plan and the configs of before; in the end, the metadata log must hold exactly one change record for
each broker that a plan added to a partition.

Named points lie right before and right after each write to the ledger and each call that changes
the cluster, told apart by what the process announced last ("after submitting while moving"). Reads
change nothing: a kill between two of them equals one at the
nearest point. The step lock of a killed process lasts 30 s; that wait is spared by taking it back,
and nothing else of the ledger is touched.
"""

import argparse
import itertools
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console

from counterpoise.errors import CounterpoiseError
from counterpoise.model.run import ENDED_STATES, RunState
from counterpoise.services.plans import PlannedRun
from dev import local_kafka
from dev.local_kafka import brokers_in_racks
from dev.local_processes import wait_until
from tests.support.fault_points import Trap
from tests.support.faults import BROKER_PROPERTIES, FAST, KB, SLOW, Ground
from tests.support.kafka_facts import additions, configs, placement

TOPIC: Final = "travels"
Assignment = tuple[tuple[int, ...], ...]
HOME: Final = ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (2, 1, 3), (3, 2, 1), (1, 2, 3))
AWAY: Final = (
    (4, 2, 3),
    (2, 3, 4),
    (4, 1, 2),
    (1, 3, 4),
    (4, 1, 3),
    (3, 2, 4),
    (2, 1, 3),
)  # the last: a new order
RATE: Final = "200kB/s"
TWO_AT_A_TIME: Final = "{max_moves_in_flight: 2}"
KILLS_PER_RUN: Final = 8
LONGEST_LIFE_SECONDS: Final = 6.0
MAX_PROCESSES: Final = 60

Kill = Callable[
    [PlannedRun], int
]  # kills a run's process again and again, until one ends by itself; how often


@dataclass(frozen=True)
class Row:
    """What became of one run."""

    kills: int
    seconds: float
    losses: tuple[str, ...]


@dataclass
class Travel:
    """One topic on its way to and fro, and what the metadata log has to hold because of that."""

    ground: Ground
    is_away: bool = False
    before: list[str] = field(default_factory=list)
    added: Counter[tuple[int, int]] = field(default_factory=Counter)  # (broker, partition)
    last: PlannedRun | None = None

    def prepare(self) -> None:
        self.ground.create_topic(TOPIC, HOME, size=100 * KB)
        self.before = configs(self.ground.kafka)

    def once(self, kill: Kill) -> Row:
        """One run, there or back."""
        start = time.monotonic()
        run = self._approved(RATE)
        kills = kill(run)
        self._arrived(placed=())
        self.last = run
        return Row(kills, time.monotonic() - start, tuple(self._losses(run)))

    def undone(self, kill: Kill) -> Row:
        """Undo the last run."""
        start = time.monotonic()
        assert self.last is not None
        run = self.ground.undone(self.last, RATE)
        kills = kill(run)
        self._arrived(placed=())
        self.last = run
        return Row(kills, time.monotonic() - start, tuple(self._losses(run)))

    def cancelled(self, kill: Kill) -> Row:
        """A run is cancelled while it moves, killed while it settles; a new plan moves the rest."""
        ground, start = self.ground, time.monotonic()
        run = self._approved(SLOW)
        ground.advance(run, lambda: bool(ground.reassignments()), "a move under way")
        ground.cancel(run)
        kills = kill(run)
        losses = self._left_behind(run)
        seen = self._added()
        losses += [f"{key} was added twice" for key, n in (seen - self.added).items() if n > 1]
        self.added = seen
        placed = self._placed()
        run = self._approved(FAST)  # who cancelled it, wants it after all
        ground.finish(run)
        self._arrived(placed)
        self.last = None  # an undo of it takes back a part alone
        return Row(kills, time.monotonic() - start, (*losses, *self._losses(run)))

    @property
    def _targets(self) -> Assignment:
        return HOME if self.is_away else AWAY

    def _approved(self, rate: str) -> PlannedRun:
        self.ground.release_brokers()  # the way home empties broker 4
        names = {f"{TOPIC}-{n}": replicas for n, replicas in enumerate(self._targets)}
        return self.ground.approved(names, rate)

    def _placed(self) -> Collection[int]:
        """The partitions that are where they are to go."""
        now = placement(self.ground.kafka)
        return [n for n, to in enumerate(self._targets) if set(now[f"{TOPIC}-{n}"][0]) == set(to)]

    def _arrived(self, placed: Collection[int]) -> None:
        here, there = (AWAY, HOME) if self.is_away else (HOME, AWAY)
        self.is_away = not self.is_away
        moved = [n for n in range(len(HOME)) if n not in placed]
        self.added.update((b, n) for n in moved for b in set(there[n]) - set(here[n]))

    def _losses(self, run: PlannedRun) -> list[str]:
        ended = self.ground.state(run)
        facts = {
            f"it is {ended.state} ({ended.reason})": ended.state is RunState.DONE
            and not ended.reason,
            "the placement is not the plan's": self.ground.is_as_planned(run),
        }
        return [what for what, is_well in facts.items() if not is_well] + self._left_behind(run)

    def _left_behind(self, run: PlannedRun) -> list[str]:
        facts = {
            "it has not ended": self.ground.state(run).state in ENDED_STATES,
            "configs are not as before": configs(self.ground.kafka) == self.before,
            "something is still under way": not self.ground.reassignments(),
        }
        return [what for what, is_well in facts.items() if not is_well]

    def _added(self) -> Counter[tuple[int, int]]:
        """How often the metadata log shows each broker added to each partition of the topic."""
        with self.ground.installation() as installation, installation.reader("demo") as reader:
            quorum = reader.describe_quorum()
            topic_id = reader.describe_topics([TOPIC])[0].topic_id
        assert quorum is not None
        added = additions(self.ground.kafka, [quorum.leader_id])
        return Counter(
            {
                (broker_id, partition): times
                for (broker_id, added_topic_id, partition), times in added.items()
                if added_topic_id == topic_id
            }
        )

    def moved_twice(self) -> list[str]:
        """Brokers that the metadata log shows added more, or less, often than plans wanted them."""
        seen = self._added()
        return [
            f"broker {broker_id} was added to {TOPIC}-{n} {seen[broker_id, n]} times, "
            f"{self.added[broker_id, n]} plans wanted it"
            for broker_id, n in sorted(seen.keys() | self.added.keys())
            if seen[broker_id, n] != self.added[broker_id, n]
        ]


def killed_at(ground: Ground, trap: Trap, most: int = MAX_PROCESSES) -> Kill:
    """A kill at each point of the trap; the process after `most` kills is let live."""

    def kill(run: PlannedRun) -> int:
        for kills in range(MAX_PROCESSES):
            with ground.victim(run, trap if kills < most else None) as victim:
                code = victim.wait()
            if code != -signal.SIGKILL:
                return kills
            ground.forget_lock()
        return MAX_PROCESSES

    return kill


def killed_at_random(
    ground: Ground, chance: random.Random, most: int, *, is_cancelled: bool = False
) -> Kill:
    """At most `most` kills, each at some instant of a process's life. A run that is cancelled is
    over when it has ended: one more process would be refused.
    """

    def kill(run: PlannedRun) -> int:
        for kills in range(MAX_PROCESSES):
            if is_cancelled and ground.state(run).state in ENDED_STATES:
                return kills
            with ground.victim(run) as victim:
                if kills >= most:
                    victim.wait()
                else:
                    ends_at = time.monotonic() + chance.uniform(0.1, LONGEST_LIFE_SECONDS)
                    wait_until(
                        lambda v=victim, t=ends_at: not v.is_alive or time.monotonic() > t,
                        "a moment",
                        60,
                    )  # type: ignore[misc]
                    victim.kill()
            if victim.exit_code != -signal.SIGKILL:
                return kills
            ground.forget_lock()
        return MAX_PROCESSES

    return kill


def soak(travel: Travel, asked: argparse.Namespace, console: Console) -> list[str]:
    """Every loss, in words."""
    ground, chance = travel.ground, random.Random(asked.seed)
    losses: list[str] = []

    def reported(name: str, row: Row) -> Row:
        console.print(
            f"{name:<24}{row.kills:>6}{row.seconds:>10.1f}   "
            f"{'; '.join(row.losses) or 'nothing lost'}"
        )
        losses.extend(f"{name}: {loss}" for loss in row.losses)
        return row

    console.print(f"{'run':<24}{'kills':>6}{'seconds':>10}   outcome")
    reported("nobody is killed", travel.once(killed_at_random(ground, random.Random(0), 0)))
    record = ground.folder / "points.txt"
    record.touch()
    if not asked.no_points:
        trap = Trap(record=record, is_everywhere=True)
        number, barren = 0, 0
        while barren < 2:  # a way there and a way back that meet no new point
            number += 1
            row = reported(
                f"named points {number}", travel.once(killed_at(ground, trap, KILLS_PER_RUN))
            )
            barren = barren + 1 if not row.kills else 0
    done: Counter[str] = Counter()
    for kind in itertools.cycle(("executing", "undoing", "settling")):
        left = asked.kills - done.total()
        if left <= 0:
            break
        row = reported(f"{kind}, at random", _killed_while(kind, travel, chance, left))
        done[kind] += row.kills
    points = record.read_text().splitlines()
    for point in sorted(points):
        console.print(f"killed {point}", style="dim")
    losses += travel.moved_twice()
    instants = ", ".join(f"{kills} while {kind}" for kind, kills in done.items())
    console.print(
        f"{len(points)} named points, {done.total()} random instants ({instants}; seed "
        f"{asked.seed}), {travel.added.total()} replicas added by plans"
    )
    return losses


def _killed_while(kind: str, travel: Travel, chance: random.Random, kills: int) -> Row:
    is_cancelled = kind == "settling"
    most = min(KILLS_PER_RUN, kills)
    kill = killed_at_random(travel.ground, chance, most, is_cancelled=is_cancelled)
    if is_cancelled:
        return travel.cancelled(kill)
    may_undo = kind == "undoing" and travel.last is not None
    return travel.undone(kill) if may_undo else travel.once(kill)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="kill -9 at every named point and at random instants of a run"
    )
    parser.add_argument(
        "--kills", type=int, default=100, help="how many random instants (default: 100)"
    )
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10_000), help="of the random instants"
    )
    parser.add_argument(
        "--no-points", action="store_true", help="leave out the kills at named points"
    )
    asked = parser.parse_args()
    console = Console(highlight=False, soft_wrap=True)
    with tempfile.TemporaryDirectory() as name:
        folder, brokers = Path(name), brokers_in_racks("a", "b", "c", "d")
        with local_kafka.running(folder / "kafka", brokers, BROKER_PROPERTIES) as kafka:
            ground = Ground(kafka, folder / "installation", TWO_AT_A_TIME)
            ground.folder.mkdir()
            travel = Travel(ground)
            try:
                travel.prepare()
                losses = soak(travel, asked, console)
            except CounterpoiseError as error:
                losses = [f"{type(error).__name__}: {error}"]
            finally:
                ground.close()
    for loss in losses:
        console.print(loss, style="red")
    console.print(
        "LOST"
        if losses
        else "nothing lost: every run ended at its plan, configs as before, nothing twice"
    )
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())

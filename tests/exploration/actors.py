"""Actors: processes of the product, people and others, each with its own part in a scenario.

    actor = Actor("executor", Executor(run_id, fingerprint))
    actor.reach_point(stage)      # acts until it wants something of the world
    actor.act("go")               # it may; until it wants something again

An actor acts in parts (one step of a run, one request), each in a greenlet of its own; between two
parts it keeps nothing but the name of the next one. A copy of an actor that stands at a point has
the recorded answers of its part, and runs it again on them when it is needed.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.exploration.points import WHAT_OTHERS_CHANGE, Monotonic, Process, text_of

if TYPE_CHECKING:
    from counterpoise.installation import Installation
    from tests.exploration.stage import Stage

OVER: Final = "over"
NEVER: Final = float("inf")


class Part(Protocol):
    """What an actor does."""

    @property
    def first(self) -> str: ...

    @property
    def is_process(self) -> bool:
        """Whether it may be killed and frozen."""
        ...

    @property
    def is_free(self) -> bool:
        """Whether it acts whenever it wants, and not only after its wait has ended."""
        ...

    def act(self, part: str, installation: "Installation", stage: "Stage") -> tuple[str, float]:
        """Do one part; return the name of the next, and the seconds until then."""
        ...

    def successor(self) -> "Part | None":
        """Who goes on with the work of a process that died, or does not answer."""
        ...


@dataclass
class Actor:
    name: str
    role: Part
    part: str = ""
    wakes_at: float = 0.0  # while it is between two parts, or sleeps
    number: int = 0  # of its tokens: no two actors have the same
    is_frozen: bool = False
    at: tuple[str, str] | None = None  # the kind and the label of the point where it stands
    log: list[tuple[str, Any]] = field(default_factory=list)
    began_at: float = 0.0
    tokens_before: int = 0
    tokens: int = 0  # used so far
    points: Counter[str] = field(default_factory=Counter)  # reached so far, by label
    memory: bytes = b""  # a hash of all that it was answered in this part
    paused_at: float = 0.0  # the time of its last answer
    # How many changes of others there were when it last read what they change.
    has_seen: dict[str, int] = field(default_factory=dict)
    how: str = ""

    def __post_init__(self) -> None:
        self.part = self.part or self.role.first
        self._process: Process | None = None
        self._position = 0
        self._stage: Any = None
        self._sent_late: list[Any] = []
        self.is_in_transaction = False
        self.is_answering = False  # the world acts for it
        self._is_replayed = False

    def copy(self) -> "Actor":
        """The same actor at the same point, without its greenlet."""
        return Actor(
            self.name,
            self.role,
            part=self.part,
            wakes_at=self.wakes_at,
            number=self.number,
            is_frozen=self.is_frozen,
            at=self.at,
            log=list(self.log),
            began_at=self.began_at,
            tokens_before=self.tokens_before,
            tokens=self.tokens,
            points=self.points.copy(),
            memory=self.memory,
            paused_at=self.paused_at,
            has_seen=dict(self.has_seen),
        )

    @property
    def has_begun(self) -> bool:
        """Whether it knows anything of the world yet."""
        return bool(self.log) or self.part != self.role.first

    @property
    def is_over(self) -> bool:
        return self.part == OVER

    @property
    def is_asleep(self) -> bool:
        return self.at is None or self.at[0] == "sleep"

    def key(self, stage: "Stage") -> tuple[object, ...]:
        """All that its future depends on."""
        now = stage.cluster.now
        wait = round(self.wakes_at - now, 3) if self.is_asleep else 0.0
        age = round(now - self.began_at, 3) if self.at else 0.0
        pause = min(round(now - self.paused_at, 3), 60.0) if self.at else 0.0
        wait, age = max(wait, 0.0), age if self.at else 0.0
        place = (self.name, self.part, self.is_frozen, self.at)
        seen = tuple(self.has_seen.items()) if self.at else ()
        return (*place, self.memory, wait, age, pause, seen)

    # -- for the explorer

    def reach_point(self, stage: "Stage") -> None:
        """Begin the part, or run it again on its answers, until it wants something of the world."""
        if self._process is not None or self.is_over:
            return
        self._stage, self._position = stage, 0
        self._is_replayed = self.at is not None
        if not self._is_replayed:
            self.began_at, self.memory, self.log = stage.cluster.now, b"", []
            self.has_seen = dict.fromkeys(WHAT_OTHERS_CHANGE, stage.history.foreign_changes)
        self.tokens = self.tokens_before
        self._process = Process(self, self._act)
        self._take(self._process.switch())

    def act(self, how: str = "go") -> list[Any]:
        """Let it do what it stands at; return the calls that were sent and will arrive later."""
        assert self._process is not None
        self.how, self._sent_late = how, []
        self._take(self._process.switch())
        return self._sent_late

    def die(self) -> None:
        self.leave()
        self.part, self.at, self.log = OVER, None, []

    def leave(self) -> None:
        """Drop the greenlet; the actor can be brought back from its answers."""
        if self._process is not None:
            self._process.abandon()
            self._process = None

    def _act(self) -> tuple[str, str, float]:
        part, wait = self.role.act(self.part, self._stage.installation(), self._stage)
        return "ended", part, wait

    def _take(self, message: tuple[str, str, float]) -> None:
        kind, label, seconds = message
        now = self._stage.cluster.now
        if kind == "ended":
            self._process, self.at, self.log, self.memory = None, None, [], b""
            self.part, self.wakes_at = label, now + seconds
            self.tokens_before = self.tokens
            return
        if self._is_replayed:
            self._is_replayed = False
            return
        self.at = kind, label
        self.points[label] += 1
        self.paused_at = now
        if kind == "sleep":
            self.wakes_at = now + seconds

    # -- for points, in its greenlet

    def at_point(self, kind: str, label: str, act: Callable[[], Any], seconds: float) -> Any:
        if self._position == len(self.log):
            self._wait_for_turn(kind, label, seconds)
        return self.recorded((lambda: None) if kind == "sleep" else act)

    def begin_transaction(self, kind: str, label: str) -> bool:
        """Wait for the turn; return whether it is for the first time."""
        self.is_in_transaction = False
        is_live = self._position == len(self.log)
        if is_live:
            self._wait_for_turn(kind, label, 0.0)
        self.recorded(lambda: None)
        self.is_in_transaction = True
        return is_live

    def end_transaction(self) -> None:
        self.is_in_transaction = False

    def _wait_for_turn(self, kind: str, label: str, seconds: float) -> None:
        assert self._process is not None
        self._process.parent.switch((kind, label, seconds))

    def recorded(self, act: Callable[[], Any]) -> Any:
        """The answer of the last time, or that of now; an error is an answer, too."""
        if self._position < len(self.log):
            kind, value = self.log[self._position]
        else:
            self.is_answering = True
            try:
                kind, value = "answer", act()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
                kind, value = "error", error
            self.is_answering = False
            self.log.append((kind, value))
            self._remember(kind, value)
        self._position += 1
        if kind == "error":
            raise value.with_traceback(None)
        return value

    def _remember(self, kind: str, value: Any) -> None:
        if isinstance(value, datetime | Monotonic):
            text = f"{self._stage.cluster.now - self.began_at:.3f}"
        else:
            text = text_of(value)
            if not text.startswith("{") or len(text) < 10_000:
                began = self._stage.seconds - self._stage.cluster.now + self.began_at
                text = self._stage.without_time_of_day(text, began)
        self.memory = hashlib.blake2b(
            self.memory + f"{kind} {text}".encode(), digest_size=16
        ).digest()

    def next_token(self) -> str:
        self.tokens += 1
        return token(self.number, self.tokens)

    @property
    def own_tokens(self) -> dict[str, str]:
        """The tokens of its present part, by name."""
        if self.at is None:
            return {}
        numbers = range(self.tokens_before + 1, self.tokens + 1)
        return {token(self.number, n): f"{self.name} {n - self.tokens_before}" for n in numbers}

    def sends_late(self, call: Any) -> None:
        self._sent_late.append(call)


def token(actor: int, number: int) -> str:
    """A uuid; ids of runs begin with six of its digits, so these differ for each actor."""
    return f"eeee{actor:02x}{number:026x}"

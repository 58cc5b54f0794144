"""Points: where a process of the product meets the world, and so where another one can come first.

    point("call", "alter_configs", lambda: cluster.alter_configs(changes))

A point is a call of the cluster, a transaction of the ledger, a reading of the clock, a sleep. In
the greenlet of an actor it waits there for the explorer's permission, and the answer is recorded:
Python cannot copy a greenlet, so an actor is brought back by running it again on its recorded
answers. Outside of actors a point is done at once.

A process that was killed is abandoned at its point: what its `finally` blocks want to do then is
no longer done.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import greenlet
import sqlalchemy as sa

from counterpoise.errors import UnknownOutcomeError
from counterpoise.kafka_admin.config_requests import NO_RESPONSE
from counterpoise.ledger.transactions import Transactions
from counterpoise.model.kafka import CallResults, ConfigResourceType
from tests.exploration.independence import by_others

if TYPE_CHECKING:
    from tests.exploration.actors import Actor
    from tests.exploration.stage import Stage

CHANGING_CALLS: Final = ("alter_configs", "alter_reassignments", "elect_preferred_leaders")
REASSIGNMENTS: Final = "reassignments"
WHAT_OTHERS_CHANGE: Final = (REASSIGNMENTS, *map(str, ConfigResourceType))
_OWN_MODULES: Final = ("counterpoise.ledger", "contextlib", "tests.exploration")


class Process(greenlet.greenlet):  # type: ignore[misc]
    """The greenlet in which an actor acts."""

    def __init__(self, actor: "Actor", run: Callable[[], Any]) -> None:
        super().__init__(run)
        self.actor = actor
        self.is_abandoned = False

    def abandon(self) -> None:
        """End it as kill -9 does: nothing that it still wants to do happens."""
        self.is_abandoned = True
        if not self.dead:
            self.throw(greenlet.GreenletExit)


def current_actor() -> "Actor | None":
    """The actor in whose greenlet this runs. Raises GreenletExit in an abandoned one."""
    running = greenlet.getcurrent()
    if not isinstance(running, Process):
        return None
    if running.is_abandoned:
        raise greenlet.GreenletExit
    return running.actor


class Monotonic(float):
    """Seconds of the simulated cluster, as `time.monotonic()` returned them."""


def point(kind: str, label: str, act: Callable[[], Any], *, seconds: float = 0.0) -> Any:
    """Do `act` when it is this process's turn; return its answer."""
    actor = current_actor()
    if kind == "monotonic":  # no turn: but the same again when the part is run on its answers
        return actor.recorded(act) if actor and not actor.is_answering else act()
    if kind == "token":
        return actor.next_token() if actor else act()
    if actor is None or actor.is_in_transaction:
        return actor.recorded(act) if actor else act()
    if kind == "clock":
        label = f"clock in {sys._getframe(2).f_code.co_name}"
    return actor.at_point(kind, label, act, seconds)


class ExploredAdmin:
    """The cluster behind its port; each call is a point."""

    def __init__(self, stage: "Stage") -> None:
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            stage, actor = self._stage, current_actor()
            if name in CHANGING_CALLS:
                return point("change", name, lambda: change(stage, actor, name, args, kwargs))
            return point("call", name, lambda: read(stage, actor, name, args, kwargs))

        return call

    def close(self) -> None:
        """Do nothing: no process sees whether another one is connected."""


_answers: dict[tuple[bytes, str, str], Any] = {}
_texts: dict[int, str] = {}  # of answers that are kept for good, by their identity


def read(stage: "Stage", actor: "Actor | None", name: str, args: Any, kwargs: Any) -> Any:
    """The answer depends on the cluster alone, so it is found once for each of its states."""
    stage.touched.note_call(name)
    seen = _read_by(name, args)
    stage.touched.reads |= {by_others(kind) for kind in seen}
    if actor is not None:
        actor.has_seen |= dict.fromkeys(seen, stage.history.foreign_changes)
    question = (stage.cluster_key(), name, repr((args, kwargs)))
    if question not in _answers:
        answer = getattr(stage.cluster, name)(*args, **kwargs)
        stage.cluster.calls.clear()
        _answers[question] = answer
        _texts[id(answer)] = repr(answer)
    return _answers[question]


def _read_by(name: str, args: Any) -> list[str]:
    """Which changes of others this call would show."""
    if name == "list_reassignments":
        return [REASSIGNMENTS]
    return [str(resource.type) for resource in args[0]] if name == "describe_configs" else []


def text_of(answer: Any) -> str:
    return _texts.get(id(answer)) or repr(answer)


def change(stage: "Stage", actor: "Actor | None", name: str, args: Any, kwargs: Any) -> Any:
    """Make a call that changes the cluster, watched; without an answer where that is a fault."""
    how = actor.how if actor else ""
    if how not in ("late", "lost"):
        return _done(stage, actor, name, args, kwargs)
    assert actor is not None
    now, unanswered = _split(name, args[0])
    if now:
        _done(stage, actor, name, (now,), kwargs)
    if how == "lost":
        _done(stage, actor, name, (unanswered,), kwargs)
    else:
        actor.sends_late((name, (unanswered,), kwargs))
    stage.history.note_unanswered(name, unanswered)
    if name == "alter_configs" and not any(c.resource.is_topic for c in unanswered):
        return CallResults((), {c.resource: f"{NO_RESPONSE}: it may be done" for c in unanswered})
    raise UnknownOutcomeError(f"{name}: no answer; it may be done", broker_id=None)


def _split(name: str, argument: Any) -> tuple[Any, Any]:
    """Split a call into what is answered, and what is not: of configs it is that of the topics, or
    that of the brokers where there is none (as the port says).
    """
    if name != "alter_configs":
        return None, argument
    of_topics = [change for change in argument if change.resource.is_topic]
    of_brokers = [change for change in argument if change.resource.is_broker]
    return (of_brokers, of_topics) if of_topics else (None, of_brokers)


def _done(stage: "Stage", actor: "Actor | None", name: str, args: Any, kwargs: Any) -> Any:
    stage.history.before_call(stage, actor, name, args)
    try:
        return getattr(stage.cluster, name)(*args, **kwargs)
    finally:
        stage.cluster.calls.clear()
        stage.cluster_changed()
        stage.history.after_call(stage)


class Answer:
    """What a statement brought back, to be read as often as wanted."""

    def __init__(self, rows: list[Any], rowcount: int) -> None:
        self.rows, self.rowcount = rows, rowcount

    def __repr__(self) -> str:
        return f"{[tuple(row) for row in self.rows]} {self.rowcount}"

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def first(self) -> Any:
        return self.rows[0] if self.rows else None

    def one(self) -> Any:
        (row,) = self.rows
        return row

    def scalar(self) -> Any:
        return self.rows[0][0] if self.rows else None

    scalar_one = scalar
    scalar_one_or_none = scalar
    one_or_none = first

    def fetchall(self) -> list[Any]:
        return self.rows

    def __getattr__(self, name: str) -> Any:
        if name == "all":  # SQLAlchemy's name for it
            return self.fetchall
        raise AttributeError(name)

    def scalars(self) -> "Answer":
        return Answer([row[0] for row in self.rows], self.rowcount)


class RecordedConnection:
    """A connection inside a transaction of an actor: what it answers is recorded."""

    def __init__(self, connection: sa.Connection, actor: "Actor | None") -> None:
        self._connection, self._actor = connection, actor
        self.dialect = connection.dialect
        self.info: dict[str, Any] = {}  # notes for the audit log, which is not explored

    def execute(self, *statement: Any) -> Answer:
        def ask() -> Answer:
            result = self._connection.execute(*statement)
            return Answer(list(result) if result.returns_rows else [], result.rowcount)

        return self._actor.recorded(ask) if self._actor else ask()

    def scalar(self, *statement: Any) -> Any:
        return self.execute(*statement).scalar()

    def scalars(self, *statement: Any) -> Answer:
        return self.execute(*statement).scalars()


class ExploredTransactions(Transactions):
    """The ledger's transactions: each is a point, and happens as a whole."""

    def __init__(self, stage: "Stage", engine: sa.Engine, clock: Callable[[], Any]) -> None:
        super().__init__(engine, clock)
        self._stage = stage

    @contextmanager
    def reading(self) -> Iterator[Any]:
        with self._translated(), self._point("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Any]:
        with self._translated(), self._point("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextmanager
    def _point(self, begin: str) -> Iterator[RecordedConnection]:
        stage, actor = self._stage, current_actor()
        is_live = True
        if actor is not None:
            kind = "read" if begin == "BEGIN" else "write"
            is_live = actor.begin_transaction(kind, _label())
        if is_live:
            stage.database.execute(begin)
        try:
            yield RecordedConnection(stage.connection, actor)
        except BaseException:
            if is_live:
                stage.database.execute("ROLLBACK")
            raise
        else:
            if is_live:
                stage.database.execute("COMMIT")
                if begin != "BEGIN":
                    stage.ledger_changed()
        finally:
            if actor is not None:
                actor.end_transaction()


def _label() -> str:
    """The method of the ledger that began the transaction, as its caller names it."""
    label, frame = "", sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if not module.startswith(_OWN_MODULES):
            break
        if module.startswith("counterpoise.ledger") and not module.endswith("transactions"):
            label = frame.f_code.co_name
        frame = frame.f_back  # type: ignore[assignment]
    return label

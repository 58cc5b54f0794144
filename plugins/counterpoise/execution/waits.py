"""Why a run waits: each reason knows its words, its patience, and what is said when that is over.

    reason = UnresponsiveBrokers((4,), waiting=12)
    reason.in_words            # "12 partitions wait for brokers that do not respond: 4"
    reason.patience(limits)    # the policy's `dead_broker_patience`, 15 min
    reason.when_over(limits)   # what happened, where, and what to do

No wait is without an end. A reason either ends at a time that is known (`ends_at`), or has a
patience: when it has lasted that long, a run halts, and settling cancels what cannot finish or ends
with its pending restores listed (`decide.py`). `names` are kept in the ledger with the time since
when each lasts: their words stay as they are.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar, Final

from counterpoise.model.control import ControlRequest
from counterpoise.model.kafka import BrokerVersion
from counterpoise.model.policy import MovementPolicy
from counterpoise.model.words import name_brokers, pluralize, verb
from counterpoise.units import format_moment, format_seconds

EXECUTE_AGAIN: Final = "execute the plan again (`counterpoise execute PLAN`)"
DECIDED: Final = "waits: "  # so begin the names of reasons that decisions have
NO_PROGRESS: Final = "nothing moves"
NO_RUN_PROGRESS: Final = "the run makes no progress"
NO_EFFECT: Final = "changes have no effect"
NO_CANCEL_EFFECT: Final = "cancels have no effect"  # whatever else goes on meanwhile
CANCELS_SENT: Final = f"{DECIDED}{NO_CANCEL_EFFECT}"  # as the ledger keeps it
UNTHROTTLED: Final = "copies lack their throttle"
CANCELLED_BY_OTHERS: Final = "somebody else cancelled "  # a partition
_PAUSED_AT: Final = "paused at "
_FROZEN_AT: Final = "frozen at "
_DIFFERENT_VERSIONS: Final = "brokers speak different versions"
# Kafka's broker session ends after 9 s by default: a controller is replaced by then.
UNLISTED_PATIENCE: Final = timedelta(seconds=30)
UNLISTED: Final = "has replicas as if it moved, and no list of reassignments names it"
_RESTARTS_IN_A_ROW: Final = 10  # that a run waits out, each as long as its patience allows


@dataclass(frozen=True, slots=True)
class WaitReason(ABC):
    """What a run waits for. A new reason needs a case in tests/simulation/test_every_wait.py."""

    policy_key: ClassVar[str] = "dead_broker_patience"  # the field that has the patience
    # Whether people, the calendar or a rolling upgrade are why nothing moves.
    is_wanted: ClassVar[bool] = False
    # Whether it lasts from one decision to the next; otherwise observations show since when.
    is_decided: ClassVar[bool] = True

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Return what the ledger keeps since when: one of them that lasts too long is enough."""

    @property
    @abstractmethod
    def in_words(self) -> str: ...

    @abstractmethod
    def when_over(self, limits: MovementPolicy) -> str:
        """Return, for people, what lasted too long, where, and what to do."""

    @property
    def kept_names(self) -> tuple[str, ...]:
        """Return the names as the ledger keeps them."""
        prefix = DECIDED if self.is_decided else ""
        return tuple(f"{prefix}{name}" for name in self.names)

    def patience(self, limits: MovementPolicy) -> timedelta | None:
        """Return how long it may last; None where `ends_at` says when it ends."""
        patience: timedelta = getattr(limits, self.policy_key)
        return patience

    def for_how_long(self, limits: MovementPolicy) -> str:
        patience: timedelta = getattr(limits, self.policy_key)
        return f"for {format_seconds(patience.total_seconds())} ({self.policy_key})"

    @property
    def ends_at(self) -> datetime | None:
        """Return when it ends by itself, where that is known."""
        return None


# -- people, the calendar, a rolling upgrade


@dataclass(frozen=True, slots=True)
class Paused(WaitReason):
    policy_key = "pause_patience"
    is_wanted = True
    request: ControlRequest

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{_PAUSED_AT}{self.request.at.isoformat()}",)

    @property
    def in_words(self) -> str:
        return f"paused by {self.request.person.shown}: {self.request.why}"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{self.in_words}, {self.for_how_long(limits)}: {EXECUTE_AGAIN}, "
            "and request `counterpoise resume`"
        )


@dataclass(frozen=True, slots=True)
class Frozen(WaitReason):
    policy_key = "pause_patience"
    is_wanted = True
    request: ControlRequest

    @property
    def names(self) -> tuple[str, ...]:
        return (f"{_FROZEN_AT}{self.request.at.isoformat()}",)

    @property
    def in_words(self) -> str:
        return f"the cluster is {self.request.frozen_in_words}"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{self.in_words}, {self.for_how_long(limits)}: `counterpoise unfreeze`, then "
            f"{EXECUTE_AGAIN}"
        )

    def patience(self, limits: MovementPolicy) -> timedelta | None:
        return limits.pause_patience if self.request.until is None else None

    @property
    def ends_at(self) -> datetime | None:
        return self.request.until


@dataclass(frozen=True, slots=True)
class OutsideWindows(WaitReason):
    is_wanted = True
    opens_at: datetime

    @property
    def names(self) -> tuple[str, ...]:
        return ()

    @property
    def in_words(self) -> str:
        opens = format_moment(self.opens_at)
        return f"outside the maintenance windows; the next one opens at {opens}"

    def when_over(self, limits: MovementPolicy) -> str:
        return self.in_words

    def patience(self, limits: MovementPolicy) -> None:
        return None

    @property
    def ends_at(self) -> datetime:
        return self.opens_at


@dataclass(frozen=True, slots=True)
class DifferentVersions(WaitReason):
    policy_key = "hold_patience"
    is_wanted = True
    brokers_by_version: tuple[tuple[BrokerVersion, tuple[int, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (_DIFFERENT_VERSIONS,)

    @property
    def in_words(self) -> str:
        groups = " and ".join(name_brokers(ids) for _, ids in self.brokers_by_version)
        return (
            f"a rolling upgrade seems to be under way: {groups} speak different versions; "
            "nothing new is submitted until it is over"
        )

    def when_over(self, limits: MovementPolicy) -> str:
        groups = " and ".join(name_brokers(ids) for _, ids in self.brokers_by_version)
        return (
            f"{groups} speak different versions, {self.for_how_long(limits)}: end the rolling "
            f"upgrade, then {EXECUTE_AGAIN}"
        )


# -- moves and calls


@dataclass(frozen=True, slots=True)
class NoRunProgress(WaitReason):
    """The end of all waits together: of a run that waits for one thing after another, or whose
    copies get ahead and fall behind again.
    """

    is_decided = False

    @property
    def names(self) -> tuple[str, ...]:
        return (NO_RUN_PROGRESS,)

    @property
    def in_words(self) -> str:
        return f"{NO_RUN_PROGRESS}: no move has come nearer to its end than before"

    def when_over(self, limits: MovementPolicy) -> str:
        lasted = format_seconds(self.patience(limits).total_seconds())
        return (
            f"{self.in_words}, for {lasted}, whatever it waited for meanwhile "
            f"(`counterpoise status RUN`): check the brokers of its partitions, then "
            f"{EXECUTE_AGAIN}"
        )

    def patience(self, limits: MovementPolicy) -> timedelta:
        """Return the longest of all; a rolling restart of several brokers takes a while as well."""
        several_restarts = _RESTARTS_IN_A_ROW * limits.dead_broker_patience
        return max(several_restarts, limits.hold_patience, limits.pause_patience)


@dataclass(frozen=True, slots=True)
class Moving(WaitReason):
    """Copies under way: `halting.py` ends those that stall, this patience what copies nothing."""

    is_decided = False
    moving: int
    settles: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (NO_PROGRESS,)

    @property
    def in_words(self) -> str:
        if self.settles:
            finish = verb(self.moving, "finishes", "finish")
            return f"{_are_moving(self.moving)} and {finish} under the throttle"
        return _are_moving(self.moving)

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{_are_moving(self.moving)}, but nothing has changed {self.for_how_long(limits)}: a "
            "replica that is kept may be out of sync; check the brokers of these partitions, then "
            f"{EXECUTE_AGAIN}"
        )


@dataclass(frozen=True, slots=True)
class UnknownOutcomes(WaitReason):
    """Calls about partitions that got no answer, and may still be applied."""

    partitions: int
    quiet_seconds: float

    @property
    def names(self) -> tuple[str, ...]:
        return ("calls without an answer may still be applied",)

    @property
    def in_words(self) -> str:
        were_sent = pluralize(self.partitions, "move was sent", "moves were sent")
        they = verb(self.partitions, "it", "they")
        return (
            f"{were_sent}, no answer came, and {they} may still be applied: waiting until "
            f"{self.quiet_seconds:.0f} s have passed and the brokers respond"
        )

    def when_over(self, limits: MovementPolicy) -> str:
        were_sent = pluralize(self.partitions, "move was sent", "moves were sent")
        return (
            f"{were_sent} and no answer came, {self.for_how_long(limits)}: restart the "
            f"broker that does not respond, then {EXECUTE_AGAIN}; what is still applied is found "
            "by `counterpoise watch`"
        )


@dataclass(frozen=True, slots=True)
class WithoutEffect(WaitReason):
    """The same change is sent again and again, and the next observation shows no effect."""

    what: str  # "setting throttle keys"
    cancels: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (NO_CANCEL_EFFECT if self.cancels else NO_EFFECT,)

    @property
    def in_words(self) -> str:
        return f"{self.what} has had no effect yet"

    def when_over(self, limits: MovementPolicy) -> str:
        return (
            f"{self.what} has had no effect {self.for_how_long(limits)}: `counterpoise "
            f"status RUN` shows what the cluster refused; correct the cause, then {EXECUTE_AGAIN}"
        )


def partitions_wait(count: int) -> str:
    return pluralize(count, "partition waits", "partitions wait")


def _are_moving(count: int) -> str:
    return pluralize(count, "partition is moving", "partitions are moving")


_OTHER_PATIENCES: Final[Mapping[str, str]] = {  # by a part of the name that the ledger keeps
    _PAUSED_AT: "pause_patience",
    _FROZEN_AT: "pause_patience",
    "is slower than its producers": "pause_patience",
    "does not report its log dirs": "hold_patience",
    _DIFFERENT_VERSIONS: "hold_patience",
}
_OF_WANTED_WAITS: Final = (_PAUSED_AT, _FROZEN_AT, _DIFFERENT_VERSIONS)
_OF_PEOPLE: Final = (*_OF_WANTED_WAITS, CANCELLED_BY_OTHERS)


_OTHER_WORDS: Final[Mapping[str, str]] = {  # by the beginning of such a name
    _PAUSED_AT: "the end of the pause",
    _FROZEN_AT: "the end of the freeze",
    NO_EFFECT: "the effect of changes that were sent",
    NO_CANCEL_EFFECT: "the effect of cancels that were sent",
}


def words_of(name: str) -> str:
    """Return what a run waits for, of the name that the ledger keeps, for people to read."""
    name = name.removeprefix(DECIDED)
    words = (words for begin, words in _OTHER_WORDS.items() if name.startswith(begin))
    return next(words, name)


def is_wanted(name: str) -> bool:
    """Return whether people, the calendar or a rolling upgrade are what the ledger keeps so."""
    return any(part in name for part in _OF_PEOPLE)


def is_freeze(name: str) -> bool:
    """Return whether the ledger keeps a freeze of the cluster under this name."""
    return name.removeprefix(DECIDED).startswith(_FROZEN_AT)


def patience_of(name: str, limits: MovementPolicy) -> timedelta:
    """Return how long what the ledger keeps under this name may last before the run halts.

    Example: "broker 4 is dead" may last for the policy's `dead_broker_patience`.
    """
    if UNLISTED in name:
        return UNLISTED_PATIENCE
    keys = (key for part, key in _OTHER_PATIENCES.items() if part in name)
    patience: timedelta = getattr(limits, next(keys, WaitReason.policy_key))
    return patience

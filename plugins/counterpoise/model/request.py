"""What a plan is requested to do: the goal, for which topics and brokers, at what cost.

    scope, budget = Scope(excluded_topics=("audit-*",)), Budget(max_bytes=10**12)
    PlanRequest(Goal.ADD_BROKERS, (7, 8), scope=scope, budget=budget)

Topic patterns are names in which `*` stands for any text and `?` for one character.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.constraints import BrokerSet, Constraints, matching
from counterpoise.model.policy import PERCENT, BalancePolicy
from counterpoise.model.setting import read_pattern
from counterpoise.model.words import join_ids, name_brokers, pluralize
from counterpoise.units import parse_bytes


class Goal(StrEnum):
    ADD_BROKERS = "add-brokers"
    REMOVE_BROKERS = "remove-brokers"
    DEMOTE_BROKERS = "demote-brokers"
    LEADERS = "leaders"
    REBALANCE = "rebalance"
    REPLICATION_FACTOR = "replication-factor"
    REPAIR = "repair"
    REPLACE_BROKERS = "replace-brokers"
    RELIEF = "relief"
    IMPORTED = "imported"


@dataclass(frozen=True, slots=True)
class GoalKind:
    """What every room knows of a goal; how it is planned is its class in `planning/goals/`."""

    text: str  # what a plan for it does: in the form, the help and the page of a plan
    brokers: str = ""  # which brokers a request has to name; "" where it need not name any
    copies: bool = False
    elects: bool = False
    empties: bool = False  # the named brokers, which may be stopped when the plan is done
    restores: bool = False  # its plans may bring partitions back that take no writes


KINDS: Final[Mapping[Goal, GoalKind]] = {
    Goal.ADD_BROKERS: GoalKind(
        "the named brokers get their share; the others receive nothing",
        brokers="that were added",
        copies=True,
        elects=True,
    ),
    Goal.REMOVE_BROKERS: GoalKind(
        "the named brokers are emptied; only what they hold moves",
        brokers="that are to be emptied",
        copies=True,
        elects=True,
        empties=True,
        restores=True,
    ),
    Goal.DEMOTE_BROKERS: GoalKind(
        "the named brokers lead nothing, and keep their replicas",
        brokers="that are to lead nothing",
        elects=True,
    ),
    Goal.LEADERS: GoalKind(
        "leaders are spread evenly; replicas are reordered, no data moves", elects=True
    ),
    Goal.REBALANCE: GoalKind(
        "racks, leaders, replicas and bytes are evened out over all brokers",
        copies=True,
        elects=True,
    ),
    Goal.REPLICATION_FACTOR: GoalKind(
        "each partition gets the wanted number of replicas; none moves", copies=True
    ),
    Goal.REPAIR: GoalKind(
        "replicas on dead brokers are copied to other brokers", copies=True, restores=True
    ),
    Goal.REPLACE_BROKERS: GoalKind(
        "the named brokers, dead or alive, give their place in each replica list to new ones",
        brokers="that are replaced, each with its new one",
        copies=True,
        elects=True,
        empties=True,
        restores=True,
    ),
    Goal.RELIEF: GoalKind(
        "disks that are fuller than a mark get below it; nothing else moves",
        copies=True,
        elects=True,
    ),
    Goal.IMPORTED: GoalKind("the targets of a reassignment JSON are reached", copies=True),
}
PLANNED_GOALS: Final = tuple(goal for goal in Goal if goal is not Goal.IMPORTED)


def goals_that(has: Callable[[GoalKind], object]) -> tuple[Goal, ...]:
    """Return the planned goals of some kind: `goals_that(lambda kind: kind.copies)`."""
    return tuple(goal for goal in PLANNED_GOALS if has(KINDS[goal]))


GOALS_WITH_BROKERS: Final = frozenset(goals_that(lambda kind: kind.brokers))
# Fields of a request that one goal needs and no other takes.
FIELDS_OF_GOALS: Final[Mapping[str, Goal]] = {
    "replication_factor": Goal.REPLICATION_FACTOR,
    "new_broker_ids": Goal.REPLACE_BROKERS,
    "below_percent": Goal.RELIEF,
}


def fields_of(goal: Goal) -> tuple[str, ...]:
    """Return the fields of a request that a form shows for one goal and not for all of them."""
    needed = [field for field, owner in FIELDS_OF_GOALS.items() if owner is goal]
    kind = KINDS[goal]
    shown = {"broker_ids": kind.brokers, "max_bytes": kind.copies}
    return (*needed, *(field for field, is_shown in shown.items() if is_shown))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a plan may touch.

    Empty includes mean everything; what is excluded is excluded from those.
    """

    topics: tuple[str, ...] = ()  # patterns
    excluded_topics: tuple[str, ...] = ()  # patterns
    broker_ids: tuple[int, ...] = ()  # only these send, receive and change what they lead
    excluded_broker_ids: tuple[int, ...] = ()

    @property
    def names_topics(self) -> bool:
        return bool(self.topics or self.excluded_topics)

    @property
    def names_brokers(self) -> bool:
        return bool(self.broker_ids or self.excluded_broker_ids)

    def may_touch_broker(self, broker_id: int) -> bool:
        is_included = not self.broker_ids or broker_id in self.broker_ids
        return is_included and broker_id not in self.excluded_broker_ids

    def topics_in(
        self, topics: Iterable[str], policy: BalancePolicy | None = None
    ) -> frozenset[str]:
        """Return those of the topics that the scope includes and no policy excludes."""
        topics = frozenset(topics)
        excluded_by_policy = policy.excluded_topics if policy else ()
        included = matching(self.topics or ("*",), topics)
        return included - matching((*excluded_by_policy, *self.excluded_topics), topics)


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a plan may copy; None is no limit."""

    max_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    goal: Goal
    broker_ids: tuple[int, ...] = ()  # of the goals that name brokers
    policy: BalancePolicy = field(default_factory=BalancePolicy)
    scope: Scope = field(default_factory=Scope)
    budget: Budget = field(default_factory=Budget)
    replication_factor: int | None = None  # of the goal of that name
    new_broker_ids: tuple[int, ...] = ()  # of replace-brokers: one for each of `broker_ids`
    below_percent: int | None = None  # of relief: how full disks may be, in percent of their size
    own_topics: frozenset[str] = frozenset()  # the provider places these, and takes them away
    is_quick: bool = False  # the first answer will do, also where more work would copy less


# -- What somebody requests, from the command line, a Dag's form or an asset event
#
#     request = read_rebalance_request({"goal": "add-brokers", "broker_ids": "7,8"})
#     request.request(policy)        # PlanRequest(Goal.ADD_BROKERS, (7, 8), policy)
#
# Limits: only the form is checked here, all of it at once. Whether goal, brokers and topics fit
# each other and the cluster is for the planner to say.


# -- What people call the fields of a rebalance request: options of the command line, or titles in
# the form of the Dag `kafka_rebalance` and on our page; what has no title there has its name.
#
#     in_form_words("name them, like --brokers 7")    # 'name them in the field "Brokers", like 7'
#
# Messages of the planner name options; who filled in a form reads them in the form's words.


COMMAND_LINE_OPTIONS: Final[Mapping[str, str]] = {
    "goal": "--goal",
    "broker_ids": "--brokers",
    "topics": "--topics",
    "excluded_topics": "--exclude-topics",
    "only_broker_ids": "--only-brokers",
    "excluded_broker_ids": "--exclude-brokers",
    "replication_factor": "--replication-factor",
    "below_percent": "--below",
    "max_bytes": "--max-bytes",
    "bytes_tolerance_percent": "--bytes-tolerance",
    "broker_sets": "--broker-sets",
    "max_replicas_per_broker": "--max-replicas-per-broker",
    "no_new_replicas_on": "--no-new-replicas-on",
    "is_quick": "--quick",
}
CLUSTER_FIELD: Final = "cluster"  # of the form alone: on the command line it is no part of this
CLUSTER_TITLE: Final = "Cluster"
REASON_FIELD: Final = "reason"  # of the form alone: whoever approves the plan reads it
REASON_TITLE: Final = "Reason"
MAX_WHY: Final = 1_000  # characters of it
UNDO_FIELD: Final = "undo_of"  # of the form alone, too: `counterpoise undo` is its own command
UNDO_TITLE: Final = "Undo this run"
FORM_TITLES: Final[Mapping[str, str]] = {
    "goal": "Goal",
    "broker_ids": "Brokers",
    "topics": "Only these topics",
    "excluded_topics": "Not these topics",
    "replication_factor": "Replication factor",
    "below_percent": "Disks below",
    "max_bytes": "At most so many bytes",
}
_TITLES: Final = {
    option: FORM_TITLES.get(name, name) for name, option in COMMAND_LINE_OPTIONS.items()
}
_OPTION: Final = "|".join(sorted(map(re.escape, _TITLES), key=len, reverse=True))
_EXAMPLE: Final = re.compile(rf", like ({_OPTION})(?![\w-]) ")
_NAMED: Final = re.compile(rf"(?:{_OPTION})(?![\w-])")
_COMMAND: Final = re.compile(r"(`counterpoise [^`]*`)")


def form_title(name: str) -> str:
    """Return what the form calls a field; the name itself where the form has no such field."""
    return FORM_TITLES.get(name, name)


def check_brokers_given(goal: Goal, broker_ids: Collection[int]) -> None:
    """Raise InputError, in words of the form, where a goal needs brokers and none are named:
    nothing has to be read first.
    """
    if goal in GOALS_WITH_BROKERS and not broker_ids:
        like = "3=9, 4=10" if goal is Goal.REPLACE_BROKERS else "7, 8"
        raise InputError(
            f"the goal {goal} needs brokers: write their ids in the field "
            f'"{FORM_TITLES["broker_ids"]}", like {like}'
        )


def in_form_words(message: str) -> str:
    """Return the message with the form's titles in the place of options of the command line; a
    whole command stays as people have to type it.
    """
    parts = _COMMAND.split(message)
    parts[::2] = map(_with_titles, parts[::2])
    return "".join(parts)


def _with_titles(message: str) -> str:
    message = _EXAMPLE.sub(lambda found: f' in the field "{_TITLES[found[1]]}", like ', message)
    return _NAMED.sub(lambda found: f'"{_TITLES[found[0]]}"', message)


MAX_REPLICATION_FACTOR: Final = 32_767
MAX_REPLICAS_PER_BROKER: Final = 10**7

_BROKER_ID: Final = re.compile(r"\d{1,10}", re.ASCII)
_WHOLE: Final = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class RebalanceRequest:
    """A request before the cluster's policy is known. None leaves the choice to the policy."""

    goal: Goal
    broker_ids: tuple[int, ...] = ()
    scope: Scope = field(default_factory=Scope)
    budget: Budget = field(default_factory=Budget)
    replication_factor: int | None = None
    bytes_tolerance_percent: int | None = None
    constraints: Constraints = field(default_factory=Constraints)  # beside those of the policy
    new_broker_ids: tuple[int, ...] = ()
    below_percent: int | None = None
    is_quick: bool = False

    def request(self, policy: BalancePolicy) -> PlanRequest:
        """Return the request under a policy; what is requested replaces what the policy says."""
        chosen: dict[str, Any] = {
            "bytes_tolerance_percent": self.bytes_tolerance_percent,
            "constraints": policy.constraints.and_also(self.constraints),
        }
        return PlanRequest(
            goal=self.goal,
            broker_ids=self.broker_ids,
            new_broker_ids=self.new_broker_ids,
            below_percent=self.below_percent,
            policy=replace(
                policy, **{name: value for name, value in chosen.items() if value is not None}
            ),
            scope=self.scope,
            budget=self.budget,
            replication_factor=self.replication_factor,
            is_quick=self.is_quick,
        )

    def deviations(self, policy: BalancePolicy) -> tuple[str, ...]:
        """Return a sentence, for the one who approves, for each difference from the policy."""
        wanted = self.request(policy).policy
        found = []
        if wanted.bytes_tolerance_percent != policy.bytes_tolerance_percent:
            found.append(
                f"made for a bytes tolerance of {wanted.bytes_tolerance_percent} %, as requested; "
                f"the policy says {policy.bytes_tolerance_percent} %"
            )
        found += [f"made with {words}, as requested" for words in _in_words(self.constraints)]
        return tuple(found)


def _in_words(constraints: Constraints) -> Iterator[str]:
    """Yield what each constraint that is set asks for."""
    for broker_set in constraints.broker_sets:
        places = join_ids([*broker_set.broker_ids, *broker_set.racks])
        yield f"topics {', '.join(broker_set.topics)} on {places} only"
    if constraints.max_replicas_per_broker is not None:
        yield f"at most {pluralize(constraints.max_replicas_per_broker, 'replica')} per broker"
    if constraints.no_new_replicas_on:
        yield f"no new replicas on {name_brokers(constraints.no_new_replicas_on)}"


def read_rebalance_request(
    given: Mapping[str, Any], *, word: Callable[[str], str] = str
) -> RebalanceRequest:
    """Return the request in values as they were given; None is the same as absent.

    `word` turns a field's name into what the person typed. Raises InputError with every complaint.
    """
    complaints: list[str] = []
    read: dict[str, Any] = {}
    for name, value in given.items():
        try:
            if name not in _READERS:
                raise InputError(f"{name!r} is unknown; there are: {', '.join(_READERS)}")
            read[name] = None if value is None else _READERS[name](value, word(name))
        except InputError as error:
            complaints.append(str(error))
    if given.get("goal") is None:
        complaints.append(f"{word('goal')} is missing; there are: {', '.join(PLANNED_GOALS)}")
    if complaints:
        lines = [f"{len(complaints)} problems", *(f"  {complaint}" for complaint in complaints)]
        raise InputError(complaints[0] if len(complaints) == 1 else "\n".join(lines))
    broker_ids, new_broker_ids = read.get("broker_ids") or ((), ())
    return RebalanceRequest(
        goal=read["goal"],
        broker_ids=broker_ids,
        new_broker_ids=new_broker_ids,
        below_percent=read.get("below_percent"),
        scope=Scope(
            topics=read.get("topics") or (),
            excluded_topics=read.get("excluded_topics") or (),
            broker_ids=read.get("only_broker_ids") or (),
            excluded_broker_ids=read.get("excluded_broker_ids") or (),
        ),
        budget=Budget(read.get("max_bytes")),
        replication_factor=read.get("replication_factor"),
        bytes_tolerance_percent=read.get("bytes_tolerance_percent"),
        constraints=Constraints(
            broker_sets=read.get("broker_sets") or (),
            max_replicas_per_broker=read.get("max_replicas_per_broker"),
            no_new_replicas_on=read.get("no_new_replicas_on") or (),
        ),
        is_quick=bool(read.get("is_quick")),
    )


def _goal(value: object, where: str) -> Goal:
    if value not in PLANNED_GOALS:
        raise InputError(f"{where} {value!r} is unknown; there are: {', '.join(PLANNED_GOALS)}")
    return Goal(str(value))


def read_broker_ids(value: object, where: str) -> tuple[int, ...]:
    parts = [str(part).strip() for part in _parts(value) if not isinstance(part, bool)]
    if len(parts) != len(_parts(value)) or not all(_BROKER_ID.fullmatch(part) for part in parts):
        raise InputError(f"{where} {value!r}: write broker ids like 7,8")
    return tuple(int(part) for part in parts)


def _replaced_brokers(value: object, where: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the brokers of `7,8`, or of `3=9,4=10` with the new ones, in order of their ids."""
    pairs = [str(part).partition("=") for part in _parts(value)]
    if not any(equals for _, equals, _ in pairs):
        return read_broker_ids(value, where), ()
    if not all(equals for _, equals, _ in pairs):
        raise InputError(f"{where} {value!r}: write each broker with its new one, like 3=9,4=10")
    old = read_broker_ids([old for old, _, _ in pairs], where)
    new = read_broker_ids([new for _, _, new in pairs], where)
    ordered = sorted(zip(old, new, strict=True))
    return tuple(one for one, _ in ordered), tuple(other for _, other in ordered)


def _patterns(value: object, where: str) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
        raise InputError(f"{where} {value!r}: write names or patterns of topics, like orders,pay-*")
    return tuple(read_pattern(part.strip(), where) for part in parts)


def _parts(value: object) -> list[object]:
    """Return the parts of `7,8` as well as of [7, 8]; only a list may be empty."""
    return list(value) if isinstance(value, list | tuple) else list(str(value).split(","))


def _whole(lowest: int, highest: int) -> Callable[[object, str], int]:
    def read(value: object, where: str) -> int:
        text = str(value).strip()
        if (
            isinstance(value, bool)
            or not _WHOLE.fullmatch(text)
            or not lowest <= int(text) <= highest
        ):
            raise InputError(
                f"{where}: {value!r} must be a whole number from {lowest} to {highest}"
            )
        return int(text)

    return read


def _percent(value: object, where: str) -> int:
    text = value.strip().removesuffix("%") if isinstance(value, str) else value
    return _whole(PERCENT.lowest, PERCENT.highest)(text, where)


def _flag(value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{where}: {value!r} must be true or false")
    return value


def _bytes(value: object, where: str) -> int:
    return parse_bytes(str(value), where=where)


def _broker_sets(value: object, where: str) -> tuple[BrokerSet, ...]:
    """Return the sets of `pay-*=1,2,3` or `pay-*=rack-a;*=4,5,6`."""
    found = []
    for topic, places in _assignments(value, where, "topics=brokers, like 'pay-*=1,2,3'"):
        broker_ids = tuple(int(place) for place in places if _BROKER_ID.fullmatch(place))
        racks = tuple(place for place in places if not _BROKER_ID.fullmatch(place))
        found.append(BrokerSet(topic, (topic,), broker_ids, racks))
    return tuple(found)


def _assignments(value: object, where: str, form: str) -> list[tuple[str, list[str]]]:
    """Return each pattern with the words behind its `=`."""
    parts = value if isinstance(value, list | tuple) else str(value).split(";")
    found = []
    for part in map(str, parts):
        pattern, equals, words = part.partition("=")
        names = [word.strip() for word in words.split(",")]
        if not equals or not all(names):
            raise InputError(f"{where} {part!r}: write {form}")
        found.append((read_pattern(pattern.strip(), where), names))
    return found


_READERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "goal": _goal,
    "broker_ids": _replaced_brokers,
    "topics": _patterns,
    "excluded_topics": _patterns,
    "only_broker_ids": read_broker_ids,
    "excluded_broker_ids": read_broker_ids,
    "replication_factor": _whole(1, MAX_REPLICATION_FACTOR),
    "below_percent": _percent,
    "max_bytes": _bytes,
    "bytes_tolerance_percent": _percent,
    "broker_sets": _broker_sets,
    "max_replicas_per_broker": _whole(1, MAX_REPLICAS_PER_BROKER),
    "no_new_replicas_on": read_broker_ids,
    "is_quick": _flag,
}

"""What people call the fields of a rebalance request: options of the command line, or titles in
the form of the Dag `kafka_rebalance`.

    in_form_words("name them, like --brokers 7")    # 'name them in the field "Brokers", like 7'

Messages of the planner name options; who filled in a form reads them in the form's words.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

from counterpoise.errors import InputError
from counterpoise.model.request import GOALS_WITH_BROKERS, Goal

COMMAND_LINE_OPTIONS: Final[Mapping[str, str]] = {
    "goal": "--goal",
    "broker_ids": "--brokers",
    "topics": "--topics",
    "excluded_topics": "--exclude-topics",
    "only_broker_ids": "--only-brokers",
    "excluded_broker_ids": "--exclude-brokers",
    "replication_factor": "--replication-factor",
    "max_bytes": "--max-bytes",
    "bytes_tolerance_percent": "--bytes-tolerance",
    "broker_sets": "--broker-sets",
    "max_replicas_per_broker": "--max-replicas-per-broker",
    "no_new_replicas_on": "--no-new-replicas-on",
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
    "only_broker_ids": "Only these brokers",
    "excluded_broker_ids": "Not these brokers",
    "replication_factor": "Replication factor",
    "max_bytes": "At most so many bytes",
    "bytes_tolerance_percent": "Bytes tolerance in percent",
    "broker_sets": "Broker sets",
    "max_replicas_per_broker": "Replicas per broker",
    "no_new_replicas_on": "No new replicas on",
}
_TITLES: Final = {option: FORM_TITLES[name] for name, option in COMMAND_LINE_OPTIONS.items()}
_OPTION: Final = "|".join(sorted(map(re.escape, _TITLES), key=len, reverse=True))
_EXAMPLE: Final = re.compile(rf", like ({_OPTION})(?![\w-]) ")
_NAMED: Final = re.compile(rf"(?:{_OPTION})(?![\w-])")


def form_title(name: str) -> str:
    """Return what the form calls a field; the name itself where the form has no such field."""
    return FORM_TITLES.get(name, name)


def check_brokers_given(goal: Goal, broker_ids: Collection[int]) -> None:
    """Raise InputError, in words of the form, where a goal needs brokers and none are named:
    nothing has to be read first.
    """
    if goal in GOALS_WITH_BROKERS and not broker_ids:
        raise InputError(
            f"the goal {goal} needs brokers: write their ids in the field "
            f'"{FORM_TITLES["broker_ids"]}", like 7, 8'
        )


def in_form_words(message: str) -> str:
    """Return the message with the form's titles in the place of options of the command line."""
    message = _EXAMPLE.sub(lambda found: f' in the field "{_TITLES[found[1]]}", like ', message)
    return _NAMED.sub(lambda found: f'"{_TITLES[found[0]]}"', message)

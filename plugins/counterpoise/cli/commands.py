"""The commands, grouped by what they are for: the screen of `counterpoise` alone.

Nothing else of ours is imported here: the screen, a version and a mistyped command are answered
before anything loads that a command needs.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple


class Command(NamedTuple):
    module: str  # of `counterpoise.cli`, with `add_commands`
    summary: str


GROUPS: Final[Mapping[str, Mapping[str, Command]]] = {
    "look": {
        "status": Command(
            "status", "runs, how far, how fast, time left; freezes, brokers kept empty"
        ),
        "audit": Command(
            "audit", "what is wrong with a cluster, with evidence and the fix; reads only"
        ),
        "doctor": Command("doctor", "connect as a client does, and say what is wrong; reads only"),
        "snapshot": Command("planning", "record a cluster's metadata; reads only"),
    },
    "plan": {
        "plan": Command("planning", "make a plan; changes nothing"),
        "show": Command("planning", "show a plan"),
        "import": Command("planning", "a plan from Kafka's reassignment JSON"),
        "export": Command("planning", "a plan as Kafka's reassignment JSON"),
        "preflight": Command(
            "approving", "check that the operator connection has the permissions for a plan"
        ),
    },
    "decide": {
        "propose": Command("approving", "propose a plan for another person to approve"),
        "approve": Command("approving", "approve a plan: who, why, rate"),
        "reject": Command("approving", "reject a plan"),
    },
    "run": {
        "execute": Command("running", "run an approved plan, throttled, to its end"),
        "verify": Command("running", "compare the cluster with a plan"),
        "pause": Command("controlling", "a run submits nothing new; what is in flight finishes"),
        "resume": Command("controlling", "a paused run goes on"),
        "rate": Command("controlling", "a run copies faster or slower"),
        "cancel": Command("controlling", "a run stops: what is in flight is cancelled"),
        "undo": Command("stopping", "make a plan that moves back what a run moved"),
        "settle": Command("stopping", "end a run: nothing new, every config as before"),
        "watch": Command("stopping", "look for throttles and moves that runs left behind"),
        "freeze": Command("controlling", "nothing new moves on a cluster until a time"),
        "unfreeze": Command("controlling", "ends a freeze before its time"),
        "release": Command("controlling", "plans may fill brokers again that a run emptied"),
        "stop": Command(
            "stopping", "emergency stop: cancel a plan's moves with neither ledger nor Airflow"
        ),
    },
    "history": {
        "report": Command(
            "report", "how evenly a cluster was used, over weeks; or all clusters, worst first"
        ),
        "ledger": Command("ledger", "migrate the ledger, or delete its old rows"),
    },
    "set up": {
        "init": Command("init", "make a working folder with a commented clusters.yaml"),
        "self-check": Command(
            "self_check",
            "whether settings, ledger, store, Spark, Airflow, Java and Kafka can be used",
        ),
        "notify": Command("notifying", "send a test message to everybody whom the settings notify"),
        "completion": Command(
            "completion", "print what a shell needs to complete commands and options"
        ),
    },
}
COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
_TITLE: Final = (
    "Counterpoise keeps Apache Kafka clusters in balance: snapshot, plan, approve, move, verify."
)
_FOOT: Final = """\
`counterpoise COMMAND --help` has the options of a command, and examples.
exit codes: 0 done; 1 the answer is "no"; 2 usage or input; 3 trouble with cluster, store, ledger
or output; 70 a mistake in Counterpoise; 129, 130, 141, 143 ended by a signal
environment: COUNTERPOISE_HOME for the defaults of all; COUNTERPOISE_CONFIG, _CONNECTIONS, _STORE,
_LEDGER, the last two also by a command (_STORE_CMD) or from a file (_STORE_FILE)"""
_GROUP_WIDTH: Final = max(map(len, GROUPS)) + 2
_NAME_WIDTH: Final = max(map(len, COMMANDS)) + 2


def overview() -> str:
    """Return every command in one screen, by group."""
    lines = [_TITLE]
    for group, commands in GROUPS.items():
        lines.append("")
        head = group
        for name, command in commands.items():
            lines.append(f"{head:<{_GROUP_WIDTH}}{name:<{_NAME_WIDTH}}{command.summary}")
            head = ""
    return "\n".join([*lines, "", _FOOT])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean plan?)` for a word that is like a known one, else ""."""
    alike = difflib.get_close_matches(word, list(known), n=2)
    return f" (did you mean {' or '.join(alike)}?)" if alike else ""

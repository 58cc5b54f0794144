"""How a value is written in `config/clusters.yaml`, where the type of its field does not say so."""

from dataclasses import dataclass
from enum import Enum, auto


class Written(Enum):
    """How a value is written in the file, where its type does not say so."""

    RATE = auto()  # 50MB/s
    BYTES = auto()  # 500GB
    TOPIC_PATTERNS = auto()  # a list of names and patterns
    BROKER_IDS = auto()  # a list of whole numbers: [1, 2, 3]
    CRON = auto()  # five fields: minute, hour, day of month, month, day of week
    TIME_ZONE = auto()  # Europe/Berlin
    APPROVERS = auto()  # a list of names and groups: [alice, "group:sre"]; empty: everybody
    PEOPLE = auto()  # the same, and never empty
    CONNECTION_IDS = auto()  # a list of ids of Airflow's connections, never addresses
    EVENTS = auto()  # a list of events: [halted, done]
    GOALS = auto()  # a list of goals that a plan can be made for: [leaders, rebalance]
    RULE_NAME = auto()  # letters, digits, dots, dashes and underscores: small-moves
    PEOPLE_OR_ROLES = auto()  # the same, with roles of Airflow: ["airflow-role:Viewer"]


@dataclass(frozen=True, slots=True)
class Key:
    """The key in the file, where it is not the name of the field."""

    name: str


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The shortest duration that may be written, as it is written: `AtLeast("30s")`."""

    duration: str

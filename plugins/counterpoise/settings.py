"""Which clusters there are and what each team wants: `config/clusters.yaml`, read strictly.

    settings = parse_settings(text, where="config/clusters.yaml")
    settings.cluster("orders-eu").policy.movement.rate_bytes_per_second

Unknown keys, wrong types and missing values are all reported at once, each with its line. No secrets live here:
a cluster names connections, and these come from Airflow or from the environment.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

import yaml

from counterpoise.errors import ConfigurationError, InputError
from counterpoise.model.policy import ApprovalPolicy, BalancePolicy, ClusterPolicy, LeaderWeight, MovementPolicy
from counterpoise.model.wish import read_pattern
from counterpoise.units import parse_duration, parse_rate

CLUSTER_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    name: str
    connection_id: str  # read-only work
    operator_connection_id: str  # work that changes the cluster
    pinned_cluster_id: str | None
    policy: ClusterPolicy


@dataclass(frozen=True, slots=True)
class Settings:
    where: str
    clusters: Mapping[str, ClusterSettings]

    def cluster(self, name: str) -> ClusterSettings:
        """Raises InputError for a name that is not there."""
        if name not in self.clusters:
            known = ", ".join(sorted(self.clusters)) or "none"
            raise InputError(f"cluster {name!r} is not in {self.where}; there are: {known}")
        return self.clusters[name]


@dataclass(frozen=True, slots=True)
class Locations:
    """Where things lie. All come from environment variables, the same natively and in containers."""

    config: Path
    connections: Path
    store: str
    ledger: str
    spark_master: str
    spark_jobs: Path

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Locations":
        project = Path(__file__).resolve().parents[2]
        config = Path(environment.get("COUNTERPOISE_CONFIG") or "config/clusters.yaml")
        return cls(
            config=config,
            connections=Path(environment.get("COUNTERPOISE_CONNECTIONS") or config.with_name("connections.yaml")),
            store=environment.get("COUNTERPOISE_STORE") or "var/store",
            ledger=environment.get("COUNTERPOISE_LEDGER") or "sqlite:///var/ledger.db",
            spark_master=environment.get("COUNTERPOISE_SPARK_MASTER") or "local[2]",
            spark_jobs=Path(environment.get("COUNTERPOISE_SPARK_JOBS") or project / "spark_jobs"),
        )


def read_settings(path: Path) -> Settings:
    """Raises InputError when the file cannot be read, ConfigurationError when it is malformed."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path}: cannot be read ({reason}); COUNTERPOISE_CONFIG names another file") from None
    return parse_settings(text, where=str(path))


def parse_settings(text: str, *, where: str) -> Settings:
    """Raises ConfigurationError with every complaint, each with its line."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise ConfigurationError(where, (f"{line}not YAML: {getattr(error, 'problem', None) or error}",)) from None
    complaints: list[str] = []
    clusters: dict[str, ClusterSettings] = {}
    top = _Section(root, "the file", complaints) if root else None
    if top is None:
        complaints.append('line 1: the file is empty; it needs "clusters:"')
    else:
        listed = top.section("clusters", required=True)
        if listed:
            clusters = {name: _cluster(name, listed.section(name, required=True), listed) for name in listed.names()}
        top.finish()
    if complaints:
        raise ConfigurationError(where, tuple(sorted(complaints, key=_line_of)))
    return Settings(where, clusters)


def _cluster(name: str, section: "_Section | None", parent: "_Section") -> ClusterSettings:
    if not CLUSTER_NAME.fullmatch(name):
        parent.complain(name, "a cluster's name has lower-case letters, digits, dots, dashes and underscores only")
    if section is None:
        return ClusterSettings(name, "", "", None, ClusterPolicy())
    connection = section.value("connection", _text, "")
    if not connection:
        section.complain(None, f'cluster {name} needs "connection", the id of a Kafka connection')
    operator = section.value("operator_connection", _text, connection)
    pinned = section.value("cluster_id", _text, "")
    policy = _policy(section.section("policy"))
    section.finish()
    return ClusterSettings(name, connection, operator, pinned or None, policy)


def _policy(section: "_Section | None") -> ClusterPolicy:
    if section is None:
        return ClusterPolicy()
    balance, movement, approval = BalancePolicy(), MovementPolicy(), ApprovalPolicy()
    if part := section.section("balance"):
        balance = BalancePolicy(
            bytes_tolerance_percent=part.value(
                "bytes_tolerance_percent", _whole(1, 100), balance.bytes_tolerance_percent
            ),
            leaders_max_minus_min=part.value("leaders_max_minus_min", _whole(0, 10**6), balance.leaders_max_minus_min),
            excluded_topics=part.value("excluded_topics", _patterns, balance.excluded_topics),
            topics_max_above_share=part.value(
                "topics_max_above_share", _whole(0, 10**6), balance.topics_max_above_share
            ),
            leader_weight=part.value("leader_weight", _leader_weight, balance.leader_weight),
            disk_limit_percent=part.value("disk_limit_percent", _whole(1, 100), balance.disk_limit_percent),
            ignorable_permille=part.value("ignorable_permille", _whole(0, 100), balance.ignorable_permille),
        )
        part.finish()
    if part := section.section("movement"):
        movement = MovementPolicy(
            rate_bytes_per_second=part.value("rate", _rate, movement.rate_bytes_per_second),
            max_moves_in_flight=part.value("max_moves_in_flight", _whole(1, 10**5), movement.max_moves_in_flight),
            max_moves_in_flight_per_broker=part.value(
                "max_moves_in_flight_per_broker", _whole(1, 10**4), movement.max_moves_in_flight_per_broker
            ),
        )
        part.finish()
    if part := section.section("approval"):
        approval = ApprovalPolicy(
            approvers=part.value("approvers", _texts, approval.approvers),
            wait_for=part.value("wait_for", _duration, approval.wait_for),
            expires_after=part.value("expires_after", _duration, approval.expires_after),
        )
        part.finish()
    section.finish()
    return ClusterPolicy(balance, movement, approval)


class _Section:
    """A YAML mapping that knows its lines; `finish` complains about every key that nobody asked for."""

    def __init__(self, node: yaml.Node, where: str, complaints: list[str]) -> None:
        self._where, self._complaints, self._line = where, complaints, node.start_mark.line + 1
        self._nodes: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self._asked: set[str] = set()
        if not isinstance(node, yaml.MappingNode):
            complaints.append(f"line {self._line}: {where} must be a mapping (key: value)")
            return
        for key, value in node.value:
            name = str(key.value)
            if name in self._nodes:
                complaints.append(f"line {key.start_mark.line + 1}: {name} is given twice")
            self._nodes[name] = (key, value)

    def names(self) -> list[str]:
        return list(self._nodes)

    def section(self, name: str, *, required: bool = False) -> "_Section | None":
        self._asked.add(name)
        if name not in self._nodes:
            if required:
                self._complaints.append(f'line {self._line}: {self._where} needs "{name}:"')
            return None
        return _Section(self._nodes[name][1], name, self._complaints)

    def value(self, name: str, parse: Callable[[yaml.Node, str], Value], default: Value) -> Value:
        self._asked.add(name)
        if name not in self._nodes:
            return default
        try:
            return parse(self._nodes[name][1], name)
        except InputError as error:
            self.complain(name, str(error))
            return default

    def complain(self, name: str | None, message: str) -> None:
        line = self._nodes[name][0].start_mark.line + 1 if name else self._line
        self._complaints.append(f"line {line}: {message}")

    def finish(self) -> None:
        for name in self._nodes.keys() - self._asked:
            known = ", ".join(sorted(self._asked))
            self.complain(name, f"unknown key {name!r} in {self._where}; known: {known}")


def _text(node: yaml.Node, name: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
        raise InputError(f"{name} must be text")
    return str(node.value)


def _texts(node: yaml.Node, name: str) -> tuple[str, ...]:
    if not isinstance(node, yaml.SequenceNode):
        raise InputError(f"{name} must be a list of texts")
    return tuple(_text(item, name) for item in node.value)


def _patterns(node: yaml.Node, name: str) -> tuple[str, ...]:
    return tuple(read_pattern(text, name) for text in _texts(node, name))


def _leader_weight(node: yaml.Node, name: str) -> LeaderWeight:
    text = _text(node, name)
    if text not in tuple(LeaderWeight):
        raise InputError(f"{name}: {text!r} is unknown; there are: {', '.join(LeaderWeight)}")
    return LeaderWeight(text)


def _rate(node: yaml.Node, name: str) -> int:
    return parse_rate(_text(node, name), where=name)


def _duration(node: yaml.Node, name: str) -> timedelta:
    return parse_duration(_text(node, name), where=name)


def _whole(lowest: int, highest: int) -> Callable[[yaml.Node, str], int]:
    def parse(node: yaml.Node, name: str) -> int:
        text = _text(node, name)
        if node.tag != "tag:yaml.org,2002:int" or not text.isdecimal() or not lowest <= int(text) <= highest:
            raise InputError(f"{name}: {text!r} must be a whole number from {lowest} to {highest}")
        return int(text)

    return parse


def _line_of(complaint: str) -> int:
    return int(complaint.removeprefix("line ").split(":")[0])

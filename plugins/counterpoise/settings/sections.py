"""YAML read strictly: sections that know their lines, and what a scalar has to look like.

    node = compose(content, where="x.yaml")    # one clear message for what is no YAML
    section.value("rate", rate, default)   # what cannot be read is a complaint with its line
    section.finish()                       # so is every key that was not read

Scalars are read as they are written, before YAML makes numbers of them: 20:30 is a time here, and
not 1230.
"""

import re
from collections.abc import Callable
from datetime import time, timedelta
from enum import StrEnum
from typing import Final, TypeVar

import yaml

from counterpoise.errors import ConfigurationError, InputError
from counterpoise.model.rebalance_request import read_pattern
from counterpoise.units import format_bytes, parse_bytes, parse_duration, parse_rate

Value = TypeVar("Value")
Choice = TypeVar("Choice", bound=StrEnum)

_LEADING_ZEROS: Final = 10  # so many may be written; longer numbers are not even read
_TRUTHS: Final = {"yes": True, "true": True, "no": False, "false": False}
_TIME_OF_DAY: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_QUOTED: Final = re.compile(r"""(['"])(.*?)\1""")
_SIGN: Final = re.compile(r"<[a-z ]+>|.")  # what PyYAML quotes and is no text of the file


class _StrictLoader(yaml.SafeLoader):
    """Refuses tags (`!!bool yes`): nothing here needs one, and they say more than they seem to."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call] # PyYAML has no types
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="a tag (what begins with !) is not used here; take it out, and put text "
                "that begins with ! in quotes",
                problem_mark=event.start_mark,
            )
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def compose(content: str, *, where: str) -> yaml.Node | None:
    """Return the YAML as nodes, which know their lines; None of an empty file.

    Raises ConfigurationError with the line and without a value, which may be secret.
    """
    try:
        node: yaml.Node | None = yaml.compose(content, Loader=_StrictLoader)
    except RecursionError:
        raise ConfigurationError(where, ("line 1: nested too deeply to be read",)) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or str(error).split("\n")[0]
        complaint = f"{line}not YAML: {_without_values(problem)}"
        raise ConfigurationError(where, (complaint,)) from None
    return node


def _without_values(problem: str) -> str:
    """Return PyYAML's words up to the first text of the file, as in `found undefined alias ...`."""
    for quoted in _QUOTED.finditer(problem):
        if not _SIGN.fullmatch(quoted[2]):
            return f"{problem[: quoted.start()]}..."
    return problem


class Section:
    """A YAML mapping that knows its lines; `finish` complains about every key that was not read."""

    def __init__(self, node: yaml.Node, where: str, complaints: list[str]) -> None:
        self._where, self._complaints, self._line = where, complaints, node.start_mark.line + 1
        self._nodes: dict[str, tuple[yaml.Node, yaml.Node]] = {}
        self._known: set[str] = set()
        self.is_mapping = isinstance(node, yaml.MappingNode)
        if not self.is_mapping:
            complaints.append(f"line {self._line}: {where} must be a mapping (key: value)")
            return
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                complaints.append(f"line {key.start_mark.line + 1}: a key must be text")
                continue
            name = str(key.value)
            if name in self._nodes:
                complaints.append(f"line {key.start_mark.line + 1}: {name} is given twice")
            self._nodes[name] = (key, value)

    def names(self) -> list[str]:
        return list(self._nodes)

    def section(self, name: str, *, required: bool = False) -> "Section | None":
        self._known.add(name)
        if name not in self._nodes:
            if required:
                self._complaints.append(f'line {self._line}: {self._where} needs "{name}:"')
            return None
        return Section(self._nodes[name][1], name, self._complaints)

    def sections(self, name: str) -> list["Section"]:
        """Return the mappings of a list; none where the key is absent."""
        self._known.add(name)
        if name not in self._nodes:
            return []
        node = self._nodes[name][1]
        if not isinstance(node, yaml.SequenceNode):
            self.complain(name, f"{name} must be a list, each entry a mapping (key: value)")
            return []
        entries = [Section(item, f"an entry of {name}", self._complaints) for item in node.value]
        return [entry for entry in entries if entry.is_mapping]

    def value(self, name: str, parse: Callable[[yaml.Node, str], Value], default: Value) -> Value:
        self._known.add(name)
        if name not in self._nodes:
            return default
        try:
            return parse(self._nodes[name][1], name)
        except InputError as error:
            self.complain(name, str(error))
            return default

    def needed(self, name: str, parse: Callable[[yaml.Node, str], Value]) -> Value | None:
        """Return the value as `value` does; None after a complaint, of which absence is one too."""
        if name not in self._nodes:
            self._known.add(name)
            self.complain(None, f'{self._where} needs "{name}"')
            return None
        return self.value(name, parse, None)

    def complain(self, name: str | None, message: str) -> None:
        line = self._nodes[name][0].start_mark.line + 1 if name is not None else self._line
        self._complaints.append(f"line {line}: {message}")

    def finish(self) -> None:
        for name in self._nodes.keys() - self._known:
            known = ", ".join(sorted(self._known))
            self.complain(name, f"unknown key {name!r} in {self._where}; known: {known}")


def text(node: yaml.Node, name: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag == "tag:yaml.org,2002:null":
        raise InputError(f"{name} must be text")
    return str(node.value)


def texts(node: yaml.Node, name: str) -> tuple[str, ...]:
    if not isinstance(node, yaml.SequenceNode):
        raise InputError(f"{name} must be a list of texts")
    return tuple(text(item, name) for item in node.value)


def patterns(node: yaml.Node, name: str) -> tuple[str, ...]:
    return tuple(read_pattern(word, name) for word in texts(node, name))


def choice(known: type[Choice]) -> Callable[[yaml.Node, str], Choice]:
    def parse(node: yaml.Node, name: str) -> Choice:
        word = text(node, name)
        if word not in tuple(known):
            raise InputError(f"{name}: {word!r} is unknown; there are: {', '.join(known)}")
        return known(word)

    return parse


def rate(node: yaml.Node, name: str) -> int:
    return parse_rate(text(node, name), where=name)


def amount(node: yaml.Node, name: str) -> int:
    return parse_bytes(text(node, name), where=name)


def amount_from(lowest: int) -> Callable[[yaml.Node, str], int]:
    """Return a reader of amounts of at least `lowest` bytes."""

    def parse(node: yaml.Node, name: str) -> int:
        found = amount(node, name)
        if found < lowest:
            raise InputError(
                f"{name}: {text(node, name)!r} is too little; it must be at least "
                f"{format_bytes(lowest)}"
            )
        return found

    return parse


def duration(node: yaml.Node, name: str) -> timedelta:
    return parse_duration(text(node, name), where=name)


def duration_from(lowest: str) -> Callable[[yaml.Node, str], timedelta]:
    """Return a reader of durations that are not shorter than `lowest`, such as "30s"."""

    def parse(node: yaml.Node, name: str) -> timedelta:
        found = duration(node, name)
        if found < parse_duration(lowest):
            raise InputError(
                f"{name}: {text(node, name)!r} is too short; it must be at least {lowest}"
            )
        return found

    return parse


def time_of_day(node: yaml.Node, name: str) -> time:
    word = text(node, name)
    match = _TIME_OF_DAY.fullmatch(word)
    if match is None:
        raise InputError(
            f'{name}: {word!r} is no time of day; write it like "08:00", '
            'from "00:00" to "23:59", in quotes'
        )
    return time(int(match[1]), int(match[2]))


def whole(lowest: int, highest: int) -> Callable[[yaml.Node, str], int]:
    def parse(node: yaml.Node, name: str) -> int:
        word = text(node, name)
        is_number = node.tag == "tag:yaml.org,2002:int" and word.isascii() and word.isdecimal()
        if (
            not is_number
            or len(word) > len(str(highest)) + _LEADING_ZEROS
            or not lowest <= int(word) <= highest
        ):
            raise InputError(f"{name}: {word!r} must be a whole number from {lowest} to {highest}")
        return int(word)

    return parse


_BROKER_ID: Final = whole(0, 2**31 - 1)


def broker_ids(node: yaml.Node, name: str) -> tuple[int, ...]:
    if not isinstance(node, yaml.SequenceNode):
        raise InputError(f"{name} must be a list of broker ids, like [1, 2, 3]")
    return tuple(_BROKER_ID(item, name) for item in node.value)


def truth(node: yaml.Node, name: str) -> bool:
    word = text(node, name)
    if word not in _TRUTHS:
        raise InputError(f"{name}: {word!r} must be yes or no")
    return _TRUTHS[word]


def line_of(complaint: str) -> int:
    return int(complaint.removeprefix("line ").split(":")[0])

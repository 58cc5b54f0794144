"""A YAML document that knows its lines, read as a dataclass, with every complaint at once.

    document = YamlDocument(content, where="clusters.yaml")
    file = document.read(ClustersFile)          # None where nothing of it can be used
    document.complain(("clusters", "demo", "policy"), "names nobody")
    document.finish()                           # raises ConfigurationError if there are complaints

Scalars are read as they are written, before YAML makes numbers of them: 20:30 is a time here, and
not 1230. No complaint about YAML itself holds a value, which may be secret.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, get_args

import yaml

from counterpoise.errors import ConfigurationError
from counterpoise.model.setting import settings_of, type_and_marks

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

File = TypeVar("File")
Path = Sequence[str | int]

_QUOTED: Final = re.compile(r"""(['"])(.*?)\1""")
_SIGN: Final = re.compile(r"<[a-z ]+>|\\?.")  # what PyYAML quotes and is no text of the file
_TOO_DEEP: Final = "line 1: nested too deeply to be read"
_OF_KEY: Final = "[key]"  # pydantic's last step to a key that is wrong, not its value
_NULL: Final = object()  # a key without a value: neither text, nor a list, nor a mapping
_MUST_BE: Final[Mapping[str, str]] = {  # by pydantic's name of the error
    "string_type": "text",
    "dataclass_type": "a mapping (key: value)",
    "dict_type": "a mapping (key: value)",
    "mapping_type": "a mapping (key: value)",
    "list_type": "a list",
    "tuple_type": "a list",
}


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
        raise ConfigurationError(where, (_TOO_DEEP,)) from None
    except yaml.YAMLError as error:
        line = f"line {_line_of(error, content)}: "
        problem = getattr(error, "problem", None) or str(error).split("\n")[0]
        complaint = f"{line}not YAML: {_without_values(problem)}"
        raise ConfigurationError(where, (complaint,)) from None
    return node


def _line_of(error: yaml.YAMLError, content: str) -> int:
    """Return the line that cannot be read; of a character that no YAML may have, that of it."""
    if isinstance(error, yaml.reader.ReaderError):
        return content.count("\n", 0, error.position) + 1
    mark = getattr(error, "problem_mark", None)
    return mark.line + 1 if mark else 1


def _without_values(problem: str) -> str:
    """Return PyYAML's words up to the first text of the file, as in `found undefined alias ...`."""
    for quoted in _QUOTED.finditer(problem):
        if not _SIGN.fullmatch(quoted[2]):
            return f"{problem[: quoted.start()]}..."
    return problem


@cache
def _adapter(type_: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(type_)


class YamlDocument:
    def __init__(self, content: str, *, where: str) -> None:
        """Raises ConfigurationError for what is no YAML."""
        self._where = where
        self._root = compose(content, where=where)
        self._complaints: set[tuple[int, str]] = set()
        self._values: dict[int, Any] = {}  # by node: an alias is the node that it names
        try:
            self.content = self._value(self._root) if self._root else {}
        except RecursionError:
            raise ConfigurationError(where, (_TOO_DEEP,)) from None
        self._dropped: set[tuple[str | int, ...]] = set()

    @property
    def is_empty(self) -> bool:
        return self._root is None

    def read(self, type_: type[File]) -> File | None:
        """Return the dataclass that the document describes, without what was complained of.

        A value that cannot be used counts as absent, so that the rest can still be checked.
        """
        from pydantic import ValidationError

        adapter = _adapter(cast(Any, type_))
        while True:
            try:
                file: File = adapter.validate_python(self.content)
                return file
            except ValidationError as error:
                found = error.errors(include_url=False)
            if any(not one["loc"] for one in found):
                self.complain((), "the file must be a mapping (key: value)")
                return None
            for one in found:
                self.complain(one["loc"], _sentence(one, type_))
            for one in found:
                if not self._drop(one["loc"], is_missing=one["type"] == "missing"):
                    return None

    def complain(self, path: Path, message: str) -> None:
        """Complain of what is at a path: its keys, and positions in lists.

        What only seems wrong because a value in it could not be used is not complained of again.
        """
        if not any(dropped[: len(path)] == tuple(path) for dropped in self._dropped):
            self._complaints.add((self._line(path), message))

    def finish(self) -> None:
        """Raise ConfigurationError where anything was complained of, line by line."""
        if self._complaints:
            lines = (f"line {line}: {message}" for line, message in sorted(self._complaints))
            raise ConfigurationError(self._where, tuple(lines))

    def _value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return _NULL if node.tag == "tag:yaml.org,2002:null" else str(node.value)
        if id(node) in self._values:
            return self._values[id(node)]
        if isinstance(node, yaml.SequenceNode):
            items: list[Any] = []
            self._values[id(node)] = items
            items += [self._value(item) for item in node.value]
            return items
        mapping: dict[str, Any] = {}
        self._values[id(node)] = mapping
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                self._complaints.add((line, "a key must be text"))
                continue
            if key.value in mapping:
                self._complaints.add((line, f"{key.value} is given twice"))
            mapping[str(key.value)] = self._value(value)
        return mapping

    def _line(self, path: Path) -> int:
        """Return the line of the last key on the path that is in the file."""
        node = self._root
        line = node.start_mark.line + 1 if node else 1
        for step in path:
            if isinstance(node, yaml.MappingNode):
                pairs = [pair for pair in node.value if pair[0].value == step]
                if not pairs:
                    return line
                key, node = pairs[-1]
                line = key.start_mark.line + 1
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                node = node.value[step]
                line = node.start_mark.line + 1
        return line

    def _drop(self, path: Path, *, is_missing: bool) -> bool:
        """Take out what was complained of. Return False where nothing is left that can be read.

        A list with an entry that cannot be used goes as a whole, and so does a mapping without a
        key that it needs.
        """
        keys = [step for step in path if step != _OF_KEY]
        position = next((n for n, step in enumerate(keys) if isinstance(step, int)), None)
        if position is not None:
            keys = keys[:position]
        elif is_missing:
            keys = keys[:-1]
        if not keys:
            return False
        container = self.content
        for step in keys[:-1]:
            container = container.get(step, {})
        container.pop(keys[-1], None)
        self._dropped.add(tuple(keys))
        return True


def _sentence(error: "ErrorDetails", type_: type) -> str:
    """Return what is wrong, in our words."""
    path, kind, given = error["loc"], error["type"], error["input"]
    *parents, last = path
    if kind == "missing":
        return f'{_section(parents)} needs "{last}"'
    if kind == "unexpected_keyword_argument":
        return _unknown_key(str(last), parents, type_)
    if kind in _MUST_BE:
        name = _section(path) if kind == "dataclass_type" else _name(path)
        return f"{name} must be {_MUST_BE[kind]}"
    name = _name(path)
    if kind in ("bool_parsing", "bool_type"):
        return f"{name}: {given!r} must be yes or no"
    words = str(error.get("ctx", {}).get("error", error["msg"]))
    return f"{name} {words}" if words.startswith("is ") else f"{name}: {words}"


def _unknown_key(key: str, parents: Path, type_: type) -> str:
    known = [setting.key for setting in settings_of(_section_type(type_, parents))]
    close = get_close_matches(key, known, 1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    words = ", ".join(sorted(known))
    return f"unknown key {key!r} in {_section(parents)}; {suggestion}known: {words}"


def _section(path: Path) -> str:
    """Return `movement`, `an entry of windows`, `the file`."""
    is_entry = bool(path) and isinstance(path[-1], int)
    return f"an entry of {_name(path)}" if is_entry else _name(path)


def _name(path: Path) -> str:
    """Return the last key on a path; of a key that is wrong itself, the mapping that it is in."""
    keys = [step for step in path if isinstance(step, str)]
    if keys and keys[-1] == _OF_KEY:
        keys = keys[:-2]
    return keys[-1] if keys else "the file"


def _section_type(type_: Any, path: Path) -> Any:
    """Return the type of the section at a path."""
    for step in path:
        if not (arguments := get_args(type_)):
            type_ = next(one.type_ for one in settings_of(type_) if one.key == step)
        else:  # Mapping[str, X] or tuple[X, ...]
            of_items = [one for one in arguments if one is not Ellipsis][-1]
            type_ = type_and_marks(of_items)[0]
    return type_

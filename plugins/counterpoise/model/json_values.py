"""Frozen dataclasses as JSON and back, with the place of every value that is wrong.

    text = json.dumps(to_content(link, {"min_bytes_left": "least_left"}), default=iso_time)
    read_json(Link, '{"broker_id": "4", ...}')
    # ValueError: broker_id must be a whole number, not '4'

Types are strict: neither "4" nor true is a whole number. Unknown keys are ignored.

Limits: pydantic reads the values. Importing it takes 0.2 s, so that happens with the first value
that is read, and nothing here names it at the top.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Value = TypeVar("Value")

_SHOWN: Final = 60  # characters of a value that is wrong
_MUST: Final[Mapping[str, str]] = {  # by pydantic's name of the error
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "string_type": "must be text",
    "string_unicode": "holds half a character (a lone surrogate)",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "greater_than_equal": "must be {ge} or more",
    "less_than_equal": "must be {le} or less",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "dataclass_type": "must be an object",
    "enum": "must be {expected}",
    "datetime_type": "must be a time like 2026-01-31T12:00:00+00:00",
    "datetime_parsing": "must be a time like 2026-01-31T12:00:00+00:00",
    "datetime_from_date_parsing": "must be a time like 2026-01-31T12:00:00+00:00",
    "timezone_aware": "must be a time with its zone, like 2026-01-31T12:00:00+00:00",
    "json_invalid": "not JSON ({error})",
    "value_error": "{error}",
}


class JsonValueError(ValueError):
    """JSON that does not describe the value that it should; `complaints` has all that is wrong."""

    def __init__(self, complaints: Sequence[str]) -> None:
        self.complaints = tuple(complaints)
        super().__init__("; ".join(complaints))


@dataclass(frozen=True, slots=True)
class Range:
    """The whole numbers that a field may have, both ends included.

    Written as `Annotated[int, Range(1, 100)]`.
    """

    lowest: int
    highest: int

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[Any], Any]) -> object:
        return {**handler(source), "ge": self.lowest, "le": self.highest}


@dataclass(frozen=True, slots=True)
class ReadBy:
    """The function that reads a text, and raises ValueError: JSON has no keys but texts.

    Written as `Mapping[Annotated[TopicPartition, ReadBy(TopicPartition.parse)], ...]`.
    """

    read: Callable[[str], Any]

    def __get_pydantic_core_schema__(self, source: object, handler: Callable[[Any], Any]) -> object:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(self.read, handler(str))


MAX_ID: Final = 2**31 - 1
Id = Annotated[int, Range(0, MAX_ID)]  # of a broker or a partition


def json_keys(keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the `__pydantic_config__` of a dataclass some of whose fields have another key."""
    return {"alias_generator": lambda name: keys.get(name, name)}


def to_content(value: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a dataclass and of those in it, by key where `keys` has one."""
    return {
        keys.get(field.name, field.name): _content_of(getattr(value, field.name), keys)
        for field in fields(value)
    }


def _content_of(value: Any, keys: Mapping[str, str]) -> Any:
    """Copy what can be changed, and nothing else: `asdict` copies every number, which took a
    twentieth of the time of a run's step.
    """
    if is_dataclass(value):
        return to_content(value, keys)
    if isinstance(value, Mapping):
        return {_key_of(name): _content_of(one, keys) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_content_of(one, keys) for one in value]
    return value


def _key_of(name: Any) -> str | int:
    """Return a key that JSON may have: `orders-0` of a partition."""
    return name if isinstance(name, str | int) else str(name)


def iso_time(value: object) -> str:
    """Return a time as `2026-01-31T12:00:00+00:00`, for `json.dumps(default=iso_time)`."""
    if not isinstance(value, datetime):
        raise TypeError(f"{type(value).__name__} is no JSON")
    return value.astimezone(UTC).isoformat()


def read_json(type_: type[Value], text: str) -> Value:
    """Return the value of a dataclass, or of another type, that JSON text describes.

    Raises JsonValueError with everything that is wrong, each with its place.
    """
    from pydantic import ValidationError

    try:
        value: Value = _adapter(cast(Any, type_)).validate_json(text, strict=True)
    except ValidationError as error:
        raise JsonValueError(_complaints(error)) from None
    return value


def _complaints(error: "ValidationError") -> list[str]:
    """Return what is wrong in our words: `brokers[3].id must be a whole number, not '4'`."""
    complaints = []
    for found in error.errors(include_url=False):
        context = found.get("ctx", {})
        requirement = _MUST.get(found["type"], "is not right").format(**context)
        is_shown = found["type"] not in (
            "missing",
            "extra_forbidden",
            "value_error",
            "json_invalid",
        )
        shown = f", not {found['input']!r:.{_SHOWN}}" if is_shown else ""
        complaints.append(f"{_place(found['loc'])} {requirement}{shown}".strip())
    return complaints


def _place(keys: Iterable[int | str]) -> str:
    """Return `brokers[3].id` of ("brokers", 3, "id")."""
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return "".join(steps).removeprefix(".")


@cache
def _adapter(type_: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(type_)

"""What people see: one value for a plan, a run, a cluster, the fleet, an audit.

    as_document(PlanView.of(plan))               # what `--json` prints and the JSON API answers
    view_of(ProgressView, found, found.progress)

A field is a number with its unit, a text or a time; None is not known. Pages and the terminal are
templates over these values; a property has words that both of them show. Nothing here does I/O.
"""

from datetime import datetime
from numbers import Integral, Real
from typing import Any, TypeVar

import msgspec

View = TypeVar("View", bound=msgspec.Struct)


def as_document(view: object) -> Any:
    """Return a view, or several, as JSON has it but for times, which `for_json` writes."""
    return msgspec.to_builtins(view, builtin_types=(datetime,), enc_hook=_plain)


def _plain(value: object) -> str | int | float:
    """Return what a value is a kind of, as `json.dumps` writes it: a number of numpy, a Markup."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def view_of(kind: type[View], *values: object, **given: object) -> View:
    """Return a view; a field that is not given is that of the first value that has one of its
    name, and so are the fields of views inside.
    """
    found = {
        field.encode_name: given[field.name]
        if field.name in given
        else next(getattr(value, field.name) for value in values if hasattr(value, field.name))
        for field in msgspec.structs.fields(kind)
    }
    return msgspec.convert(found, kind, from_attributes=True)

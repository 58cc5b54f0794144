"""What people see: one value for a plan, a run, a cluster, the fleet, an audit.

    as_document(PlanView.of(plan))      # what `--json` prints and the JSON API answers

A field is a number with its unit, a text or a time; None is not known. Pages and the terminal are
templates over these values; a property has words that both of them show. Nothing here does I/O.
"""

from datetime import datetime
from typing import Any

import msgspec


def as_document(view: object) -> Any:
    """Return a view, or several, as JSON has it but for times, which `for_json` writes."""
    return msgspec.to_builtins(view, builtin_types=(datetime,))

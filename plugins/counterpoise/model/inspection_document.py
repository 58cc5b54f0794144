"""What an audit reads beside the snapshot, as a key of the cluster document: `"inspection"`.

    document = to_document(snapshot) | {"inspection": to_content(inspection)}
    from_content(document["inspection"], where="cluster.json") == inspection

Limits: reads what `to_content` wrote, of this release. What no audit of a saved cluster looks at
(the permissions of an operator) is left out.
"""

import json
from dataclasses import fields, replace
from typing import Any

from counterpoise.errors import InputError, list_complaints
from counterpoise.model import json_values
from counterpoise.model.inspection import Inspection
from counterpoise.model.json_values import JsonValueError, read_json


def to_content(inspection: Inspection) -> dict[str, Any]:
    """Return the inspection, ready for `json.dump`."""
    return json_values.to_content(replace(inspection, refused=None), {})


def from_content(content: object, *, where: str) -> Inspection:
    """Return the inspection. Raises InputError with every complaint."""
    names = [one.name for one in fields(Inspection)]
    complaints: tuple[str, ...] = ()
    if isinstance(content, dict):  # what is not there is not known, and no rule may pass by it
        complaints = tuple(f"{name} is missing" for name in names if name not in content)
    try:
        inspection = read_json(Inspection, json.dumps(content))
    except JsonValueError as error:
        complaints = (*complaints, *error.complaints)
    if complaints:
        raise InputError(list_complaints(f"{where}: inspection", complaints))
    return inspection

"""What people see, as values: from which values a view is made, and what it is as JSON."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pytest
from msgspec import Struct, ValidationError, field

from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.safe_text import for_json
from counterpoise.views import as_document, view_of
from counterpoise.views.run import RecordedRequest, RequestView, RunDocument, RunStatusView, RunView

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Part:
    size_bytes: int


@dataclass(frozen=True)
class Whole:
    name: str
    parts: tuple[Part, ...]
    at: datetime | None = None


class PartView(Struct, frozen=True):
    size_bytes: int = field(name="bytes")


class WholeView(Struct, frozen=True):
    name: str
    parts: tuple[PartView, ...]
    at: datetime | None
    count: int


def test_a_field_is_given_or_of_the_first_value_that_has_it() -> None:
    whole = Whole("orders", (Part(1), Part(2)), NOON)
    view = view_of(WholeView, Whole("first", ()), whole, at=whole.at, count=2)
    assert view == WholeView("first", (), NOON, 2)
    assert view_of(WholeView, whole, count=2).parts == (PartView(1), PartView(2))
    with pytest.raises(ValidationError, match="Expected `int`"):
        view_of(WholeView, whole, count="two")


def test_a_document_has_utc_times_plain_numbers_and_null() -> None:
    view = view_of(WholeView, Whole("orders", (Part(1),), NOON), count=1)
    counts = {"leaders": np.int64(3), "ratio": np.float32(0.25)}
    document = as_document({"view": view, "share": np.float64(0.5), "none": None} | counts)
    assert json.loads(for_json(document)) == {
        "view": {
            "name": "orders",
            "parts": [{"bytes": 1}],
            "at": "2026-11-30T12:00:00+00:00",
            "count": 1,
        },
        "share": 0.5,
        "none": None,
        "leaders": 3,
        "ratio": 0.25,
    }


def test_a_request_is_by_the_person_as_people_are_named() -> None:
    request = ControlRequest("demo", None, Control.FREEZE, "airflow:alice", "month end", NOON)
    document = as_document(RecordedRequest.of(request))
    assert (document["by"], document["cluster"], document["run_id"]) == ("alice", "demo", None)
    of_api = as_document(view_of(RequestView, request))
    assert document.keys() - of_api.keys() == {"cluster", "run_id"}


def test_the_command_and_the_api_name_the_figures_of_a_run_alike() -> None:
    assert issubclass(RunDocument, RunView) and issubclass(RunStatusView, RunView)
    kinds = [kind.__annotations__["progress"] for kind in (RunDocument, RunStatusView)]
    assert kinds[0] == kinds[1]

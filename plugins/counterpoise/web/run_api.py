"""A run as JSON: what its page shows, for programs; docs/api.md describes it.

    GET /api/runs/{run_id}

The plan itself is a file of the page: /runs/{run_id}/plan.json.
"""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Response

from counterpoise.model.approval import Approval
from counterpoise.model.json_values import iso_time
from counterpoise.model.run import TouchedKey
from counterpoise.model.run_progress import RunProgress
from counterpoise.services import runs
from counterpoise.web.api import answer, request_document, run_document
from counterpoise.web.runs import EVENTS_SHOWN
from counterpoise.web.viewers import CurrentViewer, OpenInstallation


def run_api_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the route of the JSON API that is about one run."""
    router = APIRouter(prefix="/api/runs/{run_id}")

    @router.get("")
    def run_json(run_id: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            run = runs.run_to_view(installation, run_id, viewer)
            found = runs.run_details(installation, run, viewer)
        return answer(
            **run_document(run),
            progress=_progress(found.run_progress) if found.run_progress else None,
            waits=[
                {
                    "what": one.what,
                    "since": iso_time(one.since),
                    "halts_at": iso_time(one.halts_at) if one.halts_at else None,
                    "goes_on_at": iso_time(one.goes_on_at) if one.goes_on_at else None,
                }
                for one in found.waits
            ],
            approvals=list(map(_approval, found.approvals)),
            people_needed=found.people_needed,
            requests=list(map(request_document, found.requests)),
            keys=list(map(_key, found.touched)),
            events=[
                {"at": iso_time(event.at), "kind": event.kind, "text": event.text}
                for event in found.events[-EVENTS_SHOWN:]
            ],
            reports=list(found.reports),
        )

    return router


def _progress(found: RunProgress) -> dict[str, Any]:
    return asdict(found.progress) | {
        "observed_at": iso_time(found.observed_at),
        "share": found.progress.share,
        "bytes_per_second": found.bytes_per_second,
        "rate_bytes_per_second": found.rate_bytes_per_second,
        "seconds_left": found.seconds_left,
        "links": [
            {
                "broker_id": link.broker_id,
                "sends": link.sends,
                "moves": link.moves,
                "bytes_left": link.bytes_left,
                "bytes_per_second": link.bytes_per_second,
                "last_progress_at": iso_time(link.last_progress_at),
            }
            for link in found.links
        ],
    }


def _approval(found: Approval) -> dict[str, Any]:
    return {
        "at": iso_time(found.at),
        "decision": str(found.decision),
        "by": found.person.shown,
        "reason": found.reason,
        "rate_bytes_per_second": found.rate_bytes_per_second,
        "expires_at": _time(found.expires_at),
    }


def _key(found: TouchedKey) -> dict[str, Any]:
    return {
        "resource": f"{found.resource.type} {found.resource.name}",
        "key": found.key,
        "before": found.before_value,
        "during": found.during_value,
        "after": found.after_value,
        "restored_at": _time(found.restored_at),
    }


def _time(at: datetime | None) -> str | None:
    return iso_time(at) if at else None

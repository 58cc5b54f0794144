"""What people may request of a cluster, whatever runs there: a freeze, its end, and the release of
brokers that are kept empty.

    GET, POST /clusters/{name}/requests/{control}
    POST /api/clusters/{name}/requests/{control}

The forms and rows are those of `requests_of_people.py`; these need no run.
"""

from typing import Final
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from counterpoise.errors import InputError, RefusedError, UnknownNameError
from counterpoise.model.control import Control
from counterpoise.model.policy import Action
from counterpoise.services.fleet import failing_clusters
from counterpoise.services.viewers import Viewing
from counterpoise.web.forms import SentValues, act
from counterpoise.web.requests_of_people import (
    TypedRequest,
    record_of_cluster,
    recorded_response,
    request_form,
)
from counterpoise.web.responses import status_of
from counterpoise.web.viewers import CurrentViewer, OpenInstallation

_CONTROLS: Final = (Control.FREEZE, Control.UNFREEZE, Control.RELEASE)


def cluster_request_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the requests about clusters."""
    router = APIRouter()

    @router.get("/clusters/{name}/requests/{control}")
    def ask(
        request: Request, name: str, control: str, viewer: CurrentViewer, brokers: str = ""
    ) -> Response:
        wanted, typed = _control(control), TypedRequest(brokers=brokers)
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            viewing.check(name)
            failed = failing_clusters(installation).get(name)
        why_not = viewing.refusal(name, Action.OPERATE)
        return request_form(
            request, viewer, wanted, typed, cluster=name, failed=failed, why_not=why_not
        )

    @act(router, "/clusters/{name}/requests/{control}")
    def record(
        request: Request, name: str, control: str, viewer: CurrentViewer, sent: SentValues
    ) -> Response:
        wanted = _control(control)
        typed = TypedRequest.of(sent, wanted)
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            viewing.check(name)
            if why_not := viewing.refusal(name, Action.OPERATE):
                raise RefusedError(why_not)
            try:
                recorded = record_of_cluster(installation, name, wanted, typed, by=viewing.person)
            except (InputError, RefusedError) as error:
                return request_form(
                    request,
                    viewer,
                    wanted,
                    typed,
                    cluster=name,
                    failed=failing_clusters(installation).get(name),
                    status=status_of(error),
                    problem=str(error),
                )
        return recorded_response(request, recorded, f"/clusters/{quote(name)}")

    return router


def _control(name: str) -> Control:
    if name not in _CONTROLS:
        raise UnknownNameError(f"there is no request {name!r} of a cluster")
    return Control(name)

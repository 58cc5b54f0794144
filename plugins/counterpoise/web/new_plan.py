"""A form that makes a plan, shown before anybody is asked.

    GET, POST /clusters/{name}/plan      # do=show|start
    POST /api/clusters/{name}/plan       # starts it, with any field of the Dag's form

Shown is a plan of the newest snapshot. `start` starts `kafka_rebalance` with the same values, as
the person who asks: its plan is made of a snapshot of its own, and then people are asked about it.
"""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from counterpoise.errors import CounterpoiseError, InputError, RefusedError
from counterpoise.model.policy import Action
from counterpoise.model.provider import ProviderProfile, profile_of
from counterpoise.model.request import (
    CLUSTER_FIELD,
    FORM_TITLES,
    KINDS,
    PLANNED_GOALS,
    REASON_FIELD,
    RebalanceRequest,
    form_title,
    in_form_words,
    read_rebalance_request,
)
from counterpoise.model.safe_text import limited, required, safe_logger
from counterpoise.services.plans import Preview, check_may_start, preview
from counterpoise.services.viewers import Viewer, Viewing
from counterpoise.settings import ClusterSettings
from counterpoise.web.airflow_runs import StartInAirflow
from counterpoise.web.forms import Sent, SentValues, act, form_page
from counterpoise.web.responses import status_of
from counterpoise.web.started import to_started
from counterpoise.web.viewers import DAG_ID, CurrentViewer, OpenInstallation

_LOGGER = safe_logger(__name__)
# In the order of the form. The command line has more, and so has a Dag run's configuration.
_FIELDS: Final = (
    "goal",
    "broker_ids",
    "topics",
    "excluded_topics",
    "replication_factor",
    "below_percent",
    "max_bytes",
)
_LISTS: Final = ("topics", "excluded_topics")  # one a line, or with commas


def new_plan_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the form."""
    router = APIRouter()

    @router.get("/clusters/{name}/plan")
    def ask(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            profile = profile_of(viewing.check(name).policy.provider)
        why_not = viewing.refusal(name, Action.PROPOSE)
        typed = {field: request.query_params.get(field, "") for field in (*_FIELDS, "reason")}
        status = 403 if why_not else 200
        return _form(request, viewer, name, typed, profile, status=status, why_not=why_not)

    @act(router, "/clusters/{name}/plan")
    def make(
        request: Request,
        name: str,
        viewer: CurrentViewer,
        start_dag_run: StartInAirflow,
        sent: SentValues,
    ) -> Response:
        typed = {} if sent.is_json else sent.texts(*_FIELDS, REASON_FIELD, "do")
        shown: Preview | None = None
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            settings = viewing.check(name)
            if why_not := viewing.refusal(name, Action.PROPOSE):
                raise RefusedError(why_not)
            profile = profile_of(settings.policy.provider)
            try:
                wanted = _given_as_json(sent) if sent.is_json else _given(typed)
                word = str if sent.is_json else form_title
                rebalance_request = read_rebalance_request(wanted, word=word)
                if sent.is_json or typed["do"] == "start":
                    why = required(sent.text(REASON_FIELD), "reason")
                    check_may_start(viewing, name, rebalance_request)
                    started = start_dag_run(DAG_ID, {CLUSTER_FIELD: name, **wanted}, why)
                    return to_started(request, name, DAG_ID, started)
                shown = _preview(installation, settings, rebalance_request)
            except (InputError, RefusedError) as error:
                status, problem = status_of(error), in_form_words(str(error))
                return _form(request, viewer, name, typed, profile, status=status, problem=problem)
        return _form(request, viewer, name, typed, profile, shown=shown)

    return router


def _preview(
    installation: Any, settings: ClusterSettings, rebalance_request: RebalanceRequest
) -> Preview:
    """Return the plan to show. Raises InputError, RefusedError in place of any other error of
    ours: nothing is recorded here, whatever fails.
    """
    try:
        return preview(installation, settings, rebalance_request)
    except (InputError, RefusedError):
        raise
    except CounterpoiseError as error:
        _LOGGER.error("a plan cannot be shown: %s", error)
        raise RefusedError(
            "no plan can be made now, since the store or the history cannot be read; the "
            "api-server's log says why"
        ) from None


def _given(typed: dict[str, str]) -> dict[str, Any]:
    """Return what was filled in, by the names of the Dag's form. Raises InputError."""
    given: dict[str, Any] = {}
    for field in _FIELDS:
        text = limited(typed[field], FORM_TITLES[field]).strip()
        if not text:
            continue
        given[field] = _parts(text) if field in _LISTS else text
    for field in ("replication_factor", "below_percent"):  # as the Dag's form has them
        number = given.get(field, "").removesuffix("%")
        if number.isascii() and number.isdigit():
            given[field] = int(number)
    return given


def _given_as_json(sent: Sent) -> dict[str, Any]:
    """Return what a program sent, by the names of the Dag's form. Raises InputError."""
    given = {name: value for name, value in sent.values.items() if value is not None}
    for name, value in given.items():
        limited(str(value), name)
    return {name: value for name, value in given.items() if name != REASON_FIELD}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.replace(",", "\n").splitlines() if part.strip()]


def _form(
    request: Request,
    viewer: Viewer,
    name: str,
    typed: dict[str, str],
    profile: ProviderProfile,
    *,
    status: int = 200,
    problem: str = "",
    why_not: str = "",
    shown: Preview | None = None,
) -> Response:
    return form_page(
        request,
        viewer,
        "new_plan.html",
        status=status,
        name=name,
        typed=typed,
        titles=FORM_TITLES,
        goals={str(goal): KINDS[goal].text for goal in PLANNED_GOALS},
        problem=problem,
        why_not=why_not,
        profile=profile,
        shown=shown,
        view=shown.view if shown else None,
    )

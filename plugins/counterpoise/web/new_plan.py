"""A form that makes a plan, shown before anybody is asked: the goals of the goal table, and of each
goal its fields alone.

    GET, POST /clusters/{name}/plan      # do=show|start
    POST /api/clusters/{name}/plan       # starts it, with any field of the Dag's form

A field that the chosen goal does not have counts as empty. Shown is a plan of the newest snapshot.
`start` starts `kafka_rebalance` with the same values, as the person who asks: its plan is made of a
snapshot of its own, and then people are asked about it.
"""

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from counterpoise.errors import CounterpoiseError, InputError, RefusedError
from counterpoise.model.policy import Action
from counterpoise.model.provider import profile_of
from counterpoise.model.request import (
    CLUSTER_FIELD,
    FORM_TITLES,
    KINDS,
    PLANNED_GOALS,
    REASON_FIELD,
    Goal,
    RebalanceRequest,
    fields_of,
    form_title,
    in_form_words,
    read_rebalance_request,
)
from counterpoise.model.safe_text import limited, required, safe_logger
from counterpoise.model.words import capitalized
from counterpoise.reporting.plots import BarChart, bar_chart
from counterpoise.services.fleet import cluster_head
from counterpoise.services.plans import Preview, check_may_start, preview
from counterpoise.services.viewers import Viewing, who_may
from counterpoise.settings import ClusterSettings
from counterpoise.views.cluster import ClusterHead
from counterpoise.views.plan import PlanView
from counterpoise.web.airflow_runs import StartInAirflow
from counterpoise.web.forms import Sent, SentValues, act, form_page
from counterpoise.web.responses import error_page, status_of
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
_OF_GOALS: Final = ("broker_ids", "replication_factor", "below_percent", "max_bytes")
_LISTS: Final = ("topics", "excluded_topics")  # one a line, or with commas


def new_plan_routes(open_installation: OpenInstallation) -> APIRouter:
    """Return the routes of the form."""
    router = APIRouter()

    @router.get("/clusters/{name}/plan")
    def ask(request: Request, name: str, viewer: CurrentViewer) -> Response:
        with open_installation() as installation:
            viewing = Viewing.of(installation, viewer)
            head = cluster_head(installation, viewing, name)
        if why_not := viewing.refusal(name, Action.PROPOSE):
            return error_page(request, 403, f"You may not propose a plan: {why_not}.")
        typed = {field: request.query_params.get(field, "") for field in (*_FIELDS, "reason")}
        return _form(request, viewing, head, typed)

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
            head = cluster_head(installation, viewing, name)
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
                problem = in_form_words(str(error))
                status = status_of(error)
                return _form(request, viewing, head, typed, status=status, problem=problem)
        return _form(request, viewing, head, typed, shown=shown)

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
    goal = typed["goal"]
    shown = fields_of(Goal(goal)) if goal in PLANNED_GOALS else _OF_GOALS
    for field in _FIELDS:
        if field in _OF_GOALS and field not in shown:
            continue
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
    viewing: Viewing,
    head: ClusterHead,
    typed: dict[str, str],
    *,
    status: int = 200,
    problem: str = "",
    shown: Preview | None = None,
) -> Response:
    goal = typed.get("goal") or str(Goal.REBALANCE)
    policy = viewing.settings.clusters[head.name].policy
    idle = (
        [broker.broker_id for broker in head.balance.brokers if broker.is_idle]
        if head.balance
        else []
    )
    return form_page(
        request,
        viewing.viewer,
        "new_plan.html",
        status=status,
        problem=problem,
        head=head,
        name=head.name,
        typed={**dict.fromkeys((*_FIELDS, REASON_FIELD), ""), **typed, "goal": goal},
        titles=FORM_TITLES,
        goals=[(str(one), KINDS[one].text, fields_of(one)) for one in PLANNED_GOALS],
        problems=_by_field(problem),
        profile=profile_of(policy.provider),
        approvers=who_may(policy, Action.APPROVE),
        idle=idle,
        shown=shown,
        view=shown.view if shown else None,
        charts=_charts(shown.view) if shown else (),
    )


def _by_field(problem: str) -> dict[str, str]:
    """Return each complaint at the field that it names; "" has those that name none."""
    lines = [line.strip() for line in problem.splitlines()]
    found: dict[str, str] = {}
    for line in lines[1:] or lines:
        field = next((name for name in (*FORM_TITLES, REASON_FIELD) if _names(line, name)), "")
        found[field] = f"{found[field]} {line}" if field in found else line
    return {field: f"{capitalized(words)}." for field, words in found.items() if words}


def _names(complaint: str, field: str) -> bool:
    """Return whether a complaint is about what was typed into a field."""
    title = FORM_TITLES.get(field, field)
    if complaint.startswith(title) or f'"{title}"' in complaint:
        return True
    return field == "broker_ids" and complaint.startswith("broker")


def _charts(view: PlanView) -> tuple[BarChart, ...]:
    """Return what is known of each broker, before, after and at best."""
    figures = view.brokers_before_and_after
    charts = []
    for measure in view.measures:
        before, after, best = zip(*map(measure.values, figures), strict=True)
        charts.append(
            bar_chart(
                measure.title,
                measure.unit,
                [figure.broker_id for figure in figures],
                was=before,
                promise=after,
                best=best,
                racks={figure.broker_id: figure.rack for figure in figures},
            )
        )
    return tuple(charts[:4])

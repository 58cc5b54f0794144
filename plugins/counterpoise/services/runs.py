"""Runs as they are now: what the ledger knows of them, and what a viewer may do with one.

status_of(installation, run_id).run_progress
details = run_details(installation, run_id, viewer)
details.refusals.get(Action.OPERATE)      # None: may; else a sentence why not, and who may

Plans never change, so the last few are kept, by where they lie and their fingerprint.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from counterpoise import access
from counterpoise.archive import (
    Archive,
    plan_docs_folder,
    run_outcome_name,
    run_report_name,
)
from counterpoise.errors import CounterpoiseError
from counterpoise.execution.conditions import TABLE, in_words, of, patience_of
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval
from counterpoise.model.control import ActiveRequests, ControlRequest, find_active_requests
from counterpoise.model.json_values import JsonValueError
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action, ClusterPolicy, MovementPolicy
from counterpoise.model.report import RunOutcome
from counterpoise.model.run import (
    ENDED_BY_PEOPLE,
    ENDED_STATES,
    LOOKED_AFTER_STATES,
    UNDER_WAY_STATES,
    UNDO_PLAN_ASKED,
    WAITING_STATES,
    Event,
    OwnedKey,
    Run,
    RunState,
    is_refused_by_validation,
    left_unchecked,
    left_values,
    validated_at,
    why_refused_by_validation,
    why_requested,
)
from counterpoise.model.run_progress import Condition, RunProgress
from counterpoise.services import requests
from counterpoise.services.approvals import WhoseYes, answer_until, asks_people, whose_yes
from counterpoise.services.viewers import (
    Viewer,
    Viewing,
    airflow_refusal,
    settings_of_pages,
    who_may,
    why_not,
)
from counterpoise.storage import Store
from counterpoise.undoing import check_undoable
from counterpoise.units import format_rate
from counterpoise.views.fleet import Condition as FleetCondition
from counterpoise.views.fleet import failing
from counterpoise.views.now import RunNow
from counterpoise.views.plan import PlanView, goal_in_words
from counterpoise.views.workspace import RunWorkspace, Undone

_PLANS_KEPT: Final = 4
_VIEWS_KEPT: Final = 8  # of those plans, at different rates
# What a run does, and whether it comes nearer to its end, is told by other figures.
_SILENT: Final = frozenset({Condition.COPYING, Condition.NO_PROGRESS})
# Until then a change that was sent is work, and no wait: the next observations show its effect.
_JUST_SENT: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run waits for, since when, and what comes then: the run halts because of it, or goes
    on by itself; with its next step, where neither has a time.
    """

    what: str
    since: datetime
    halts_at: datetime | None
    goes_on_at: datetime | None = None
    is_wanted: bool = False  # a person has asked for it


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run as the ledger knows it; the requests are those about the run and its cluster."""

    run: Run
    run_progress: RunProgress | None  # as the last step observed it
    approvals: tuple[Approval, ...]  # oldest first
    requests: tuple[ControlRequest, ...]  # oldest first
    active: ActiveRequests
    keys: Sequence[OwnedKey]  # config keys that it has set, by resource and key
    events: tuple[Event, ...]
    moves_submitted: int
    moves_done: int
    has_moved: bool  # the ledger has on record what it submitted
    now: datetime

    @property
    def is_under_way(self) -> bool:
        return self.run.state in UNDER_WAY_STATES

    @property
    def pause_not_seen(self) -> ControlRequest | None:
        """Return the pause that the run has not come to yet; what it waits for tells of others."""
        paused = self.active.paused
        if paused is None or not self.is_under_way:
            return None
        found, requested_at = self.run_progress, paused.at.isoformat()
        is_seen = found is not None and found.since(Condition.PAUSED, requested_at) is not None
        return None if is_seen else paused

    @property
    def doing(self) -> RunNow:
        """Return what it does now."""
        return RunNow(self.run, self.run_progress, self.now)

    @property
    def was_started(self) -> bool:
        """Return whether the run was under way, so that the cluster may have changed."""
        return self.is_under_way or self.run_progress is not None or bool(self.keys)

    @property
    def validated_at(self) -> datetime | None:
        """Return when rules and data were last checked, and nothing spoke against the plan."""
        return validated_at(self.run, self.events)

    @property
    def why_requested(self) -> str:
        return why_requested(self.events)

    @property
    def left_unchecked(self) -> str:
        """Return what that check has left out, in words; "" for nothing."""
        return left_unchecked(self.run, self.events)

    @property
    def must_not_run(self) -> bool:
        """Return whether the plan of a run that has not started was refused by validation."""
        has_not_started = self.run.state in (RunState.PROPOSED, RunState.REJECTED)
        is_refused = is_refused_by_validation(self.run, self.events)
        return has_not_started and not self.was_started and is_refused

    @property
    def why_refused_by_validation(self) -> str:
        """Return what that check found; "" where it did not refuse the plan."""
        return why_refused_by_validation(self.events)

    @property
    def approved_rate(self) -> int | None:
        """Return the bytes per second of the last yes."""
        return self.in_force[-1].rate_bytes_per_second if self.in_force else None

    @property
    def in_force(self) -> tuple[Approval, ...]:
        """Return the approvals that no later rejection has undone."""
        return access.approvals_since_a_no(self.approvals)

    @property
    def approval(self) -> Approval | None:
        """Return the last decision."""
        return self.approvals[-1] if self.approvals else None

    @property
    def left_values(self) -> Mapping[str, str]:
        """Return the values of somebody else that stay in its keys, by `OwnedKey.name`."""
        return left_values(self.events)

    @property
    def pending_restores(self) -> tuple[OwnedKey, ...]:
        """Return the config keys that an ended run could not restore: their brokers are dead."""
        if self.run.state not in LOOKED_AFTER_STATES:
            return ()
        return tuple(key for key in self.keys if key.done_at is None)


@dataclass(frozen=True, slots=True)
class RunDetails(RunStatus):
    """A run as its pages show it: with its plan, and what their viewer may do."""

    viewer: Viewer
    plan: RebalancePlan | None  # None: the store does not have it any more
    waits_for_answer: bool  # of people, where they were asked
    waits: tuple[Waiting, ...]
    reports: tuple[str, ...]  # names of the stored pages: of the run, and of the checks of its data
    answer_until: datetime | None
    superseded_by: str | None  # the id of the run of the newer plan
    undo_run: Run | None  # the newest one that takes back what this one moved
    failing: FleetCondition | None  # what does not work now with the cluster
    yes: WhoseYes
    why_two_people: str  # what of the plan needs two; "" where one is enough
    refusals: Mapping[Action, str]  # why the viewer may not; without those that they may
    who_may: Mapping[Action, str]  # who may, in words
    why_not_approve: str  # why the viewer's yes would not count; "" where it would
    may_reject: bool
    is_requester_excluded: bool  # from those who may approve

    def refusal(self, action: Action, what: str = "") -> str:
        """Return why the viewer may not do this (`what`), and who may; "" where they may."""
        if not self.viewer.may_change:
            return airflow_refusal(self.who_may[action], what or action)
        return self.refusals.get(action, "")

    @property
    def is_requester(self) -> bool:
        """Return whether the viewer requested the plan."""
        return self.viewer.person.is_same(self.run.requester)

    @property
    def yes_missing(self) -> int:
        """Return how many more people have to say yes before the run may start."""
        # One that was given may hold no more.
        return max(self.yes.missing, int(self.waits_for_answer))

    @property
    def may_be_rejected(self) -> bool:
        """Return whether a no ends the run: it waits for an answer, or has not started."""
        return self.waits_for_answer or self.run.state in WAITING_STATES


def status_of(installation: Installation, run_id: str) -> RunStatus:
    """Return the status of a run. Raises InputError for an unknown id."""
    return _status(installation, installation.ledger.run(run_id))


def _status(installation: Installation, run: Run) -> RunStatus:
    ledger, journal = installation.ledger, installation.ledger.journal(run.run_id)
    run_progress, events, now = journal.run_progress(), journal.events(), ledger.now()
    requests = ledger.requests(run.cluster, run.run_id)
    submitted = journal.count_submitted()
    done = run_progress.progress.moves_done if run_progress else 0
    return RunStatus(
        run=run,
        run_progress=run_progress,
        approvals=ledger.approvals_of(run.run_id),
        requests=requests,
        active=find_active_requests(requests, now),
        keys=journal.owned_keys(),
        events=events,
        moves_submitted=max(submitted, done),
        moves_done=done,
        has_moved=submitted > 0,
        now=now,
    )


def run_to_view(installation: Installation, run_id: str, viewer: Viewer) -> Run:
    """Return a run. Raises InputError for an unknown id, MayNotViewError where the policy of its
    cluster does not let the viewer view it.
    """
    run = installation.ledger.run(run_id)
    Viewing.of(installation, viewer).check_sees(run.cluster)
    return run


def run_details(installation: Installation, run_id: str, viewer: Viewer) -> RunDetails:
    """Return all about a run that its pages show. Raises what `run_to_view` raises."""
    run = run_to_view(installation, run_id, viewer)
    status, plan = _status(installation, run), kept_plan(installation, run)
    cluster = settings_of_pages(installation).clusters.get(run.cluster)
    policy = cluster.policy if cluster else None
    return RunDetails(
        **{field.name: getattr(status, field.name) for field in fields(status)},
        **_rights(policy, status, plan, viewer.person),
        viewer=viewer,
        plan=plan,
        waits_for_answer=asks_people(installation, run),
        waits=_waits(status, policy.movement if policy else MovementPolicy()),
        reports=_reports(installation, run),
        answer_until=answer_until(installation, run) if cluster else None,
        superseded_by=_superseded_by(installation, run),
        undo_run=_undo_run(installation, status),
        failing=_failing(installation, run.cluster),
    )


def _rights(
    policy: ClusterPolicy | None, status: RunStatus, plan: RebalancePlan | None, person: Person
) -> dict[str, Any]:
    """Return what of the details is about who may do what; `policy` is None where the settings do
    not name the cluster any more.
    """
    run, approvals = status.run, status.approvals
    if policy is None:
        gone = f"the settings do not name cluster {run.cluster} any more"
        needed = access.people_needed(plan, None) if plan else 1
        return {
            "yes": WhoseYes(needed=needed),
            "why_two_people": access.why_two_people(plan, None) if plan else "",
            "refusals": dict.fromkeys(Action, gone),
            "who_may": dict.fromkeys(Action, "nobody"),
            "why_not_approve": gone,
            "may_reject": False,
            "is_requester_excluded": False,
        }
    needed = access.people_needed(plan, policy.approval) if plan else 1
    refusals = {action: why_not(access.check_may, policy, person, action) for action in Action}
    return {
        "yes": whose_yes(policy, run, approvals, status.now, needed=needed),
        "why_two_people": access.why_two_people(plan, policy.approval) if plan else "",
        "refusals": {action: refusal for action, refusal in refusals.items() if refusal},
        "who_may": {action: who_may(policy, action) for action in Action},
        "why_not_approve": why_not(
            access.check_would_count, policy, run, approvals, status.now, needed=needed, by=person
        ),
        "may_reject": not why_not(access.check_may_reject, policy, run, person),
        "is_requester_excluded": not policy.requester_may_approve,
    }


def plan_to_approve(installation: Installation, run: Run, rate: int | None = None) -> PlanView:
    """Return the plan of a run as it is shown with a rate, or with the one that is offered.

    Raises CounterpoiseError where the store does not have it.
    """
    cluster = settings_of_pages(installation).clusters.get(run.cluster)
    movement = cluster.policy.movement if cluster else MovementPolicy()
    return _kept_view(installation.locations.store, run.plan_uri, run.fingerprint, movement, rate)


@lru_cache(maxsize=_VIEWS_KEPT)
def _kept_view(
    store: str, path: str, fingerprint: str, movement: MovementPolicy, rate: int | None
) -> PlanView:
    """Return a view whose figures are counted once, however often the page is shown."""
    return PlanView.offered(_read_plan(store, path, fingerprint), movement, rate)


def kept_plan(installation: Installation, run: Run) -> RebalancePlan | None:
    """Return the plan of a run; None where the store does not have it, or has another one."""
    try:
        return plan_of(installation, run)
    except CounterpoiseError:
        return None


def plan_of(installation: Installation, run: Run) -> RebalancePlan:
    """Return the plan of a run. Raises CounterpoiseError where the store does not have it."""
    return _read_plan(installation.locations.store, run.plan_uri, run.fingerprint)


@lru_cache(maxsize=_PLANS_KEPT)
def _read_plan(store: str, path: str, fingerprint: str) -> RebalancePlan:
    return Archive(Store(store)).read_plan(path, fingerprint)


def _superseded_by(installation: Installation, run: Run) -> str | None:
    if run.state is not RunState.SUPERSEDED:
        return None
    fingerprint = run.reason.removeprefix("superseded by ")
    newer = installation.ledger.runs(cluster=run.cluster, fingerprint=fingerprint)
    return newer[0].run_id if newer else None


def _waits(status: RunStatus, limits: MovementPolicy) -> tuple[Waiting, ...]:
    run_progress = status.run_progress
    if run_progress is None or not status.is_under_way:
        return ()
    waits = (
        _waiting(condition, subjects, limits, status, run_progress)
        for condition, subjects in run_progress.conditions.items()
        if TABLE[condition].patience is not None and condition not in _SILENT
    )
    return tuple(wait for wait in waits if wait is not None)


def _waiting(
    condition: Condition,
    subjects: Mapping[str, datetime],
    limits: MovementPolicy,
    status: RunStatus,
    run_progress: RunProgress,
) -> Waiting | None:
    """Return what a run waits for; None where it did, and does something else now."""
    if condition in (Condition.PAUSED, Condition.FROZEN):
        return _requested(condition, subjects, limits, status)
    since, patience = min(subjects.values()), patience_of(condition, limits)
    if TABLE[condition].is_doing and status.now - since < _JUST_SENT:
        return None
    activity = run_progress.activity
    if not TABLE[condition].is_one:
        rate = format_rate(run_progress.rate_bytes_per_second)
        activity = of(condition, sorted(subjects), detail=rate)
    if activity is None or activity.condition is not condition:
        return None
    return Waiting(in_words(activity), since, since + patience if patience else None)


def _requested(
    condition: Condition,
    subjects: Mapping[str, datetime],
    limits: MovementPolicy,
    status: RunStatus,
) -> Waiting:
    """Return the wait for the end of a pause or a freeze; it is over with the next step where
    another one, or none, holds now.
    """
    is_pause = condition is Condition.PAUSED
    request = status.active.paused if is_pause else status.active.frozen
    what = f"the end of the {'pause' if is_pause else 'freeze'}"
    since = subjects.get(request.at.isoformat()) if request else None
    if request is None or since is None:
        return Waiting(what, min(subjects.values()), None, is_wanted=True)
    patience = None if request.until else patience_of(condition, limits)
    halts_at = since + patience if patience else None
    return Waiting(what, since, halts_at, request.until, is_wanted=True)


def workspace(
    installation: Installation,
    status: RunStatus,
    plan: RebalancePlan,
    *,
    rate: int | None = None,
) -> RunWorkspace:
    """Return what the page of a run shows; at the rate that is asked for, else that in force, else
    the approved one, else the one that is offered.
    """
    in_force = status.active.rate_bytes_per_second if status.is_under_way else None
    view = plan_to_approve(installation, status.run, rate or in_force or status.approved_rate)
    details = status if isinstance(status, RunDetails) else None  # none of a copy in the store
    return RunWorkspace(
        status=status,
        plan=plan,
        view=view,
        outcome=_outcome(installation, status.run),
        undone=_undone(installation, plan),
        waits=details.waits if details else (),
        is_failing=details is not None and details.failing is not None,
    )


def _outcome(installation: Installation, run: Run) -> RunOutcome | None:
    """Return what a snapshot showed after a run; None where it has not ended, or nobody looked."""
    if run.state not in ENDED_STATES:
        return None
    try:
        text = installation.archive.read_report(run_outcome_name(run.cluster, run.run_id))
        outcome = RunOutcome.from_json(text)
    except (CounterpoiseError, JsonValueError):
        return None
    # One of before, where a run that had halted was executed again.
    is_of_this_end = run.closed_at is None or outcome.observed_at >= run.closed_at
    return outcome if is_of_this_end else None


def _undone(installation: Installation, plan: RebalancePlan) -> Undone | None:
    """Return the run that a plan takes back; None where it takes none back, or it is gone."""
    runs = installation.ledger.runs(fingerprint=plan.undoes) if plan.undoes else ()
    if not runs:
        return None
    undone = runs[0]
    taken_back = kept_plan(installation, undone)
    asked = [
        event.text
        for event in installation.ledger.journal(undone.run_id).events()
        if event.kind == UNDO_PLAN_ASKED and event.text.endswith(plan.fingerprint)
    ]
    why = asked[-1].partition(": ")[2].rpartition("; ")[0] if asked else ""
    return Undone(undone.run_id, goal_in_words(taken_back) if taken_back else "", why)


def _failing(installation: Installation, cluster: str) -> FleetCondition | None:
    failure = installation.ledger.failures().get(cluster)
    return failing(failure) if failure else None


def _undo_run(installation: Installation, status: RunStatus) -> Run | None:
    """Return the newest run whose plan somebody asked for as an undo; None where there is none."""
    asked = [event.text for event in status.events if event.kind == UNDO_PLAN_ASKED]
    runs_of_cluster = installation.ledger.runs(cluster=status.run.cluster) if asked else ()
    for run in runs_of_cluster:
        plan = (f"; {requests.undo_by_dag_run(str(run.dag_run_id))}", run.fingerprint)
        if any(text.endswith(plan) for text in asked):
            return run
    return None


def _reports(installation: Installation, run: Run) -> tuple[str, ...]:
    """Return the names of the stored pages of a run: the copy of its page, the checks of the data
    of its plan.
    """
    docs = f"{plan_docs_folder(run.cluster, run.run_id)}/index.html".removeprefix("reports/")
    names = [docs]
    if run.state in ENDED_STATES | ENDED_BY_PEOPLE:
        names.insert(0, run_report_name(run.cluster, run.run_id))
    store = installation.archive.store
    return tuple(name for name in names if store.info(f"reports/{name}") is not None)


def why_not_undo(installation: Installation, details: RunDetails) -> str:
    """Return why no plan can take back what a run moved, or why nobody could approve one that the
    viewer asks for; "" where one can.
    """
    run, plan = details.run, details.plan
    if plan is None:
        return f"the store does not have the plan of run {run.run_id} any more"
    refusal = why_not(check_undoable, run, plan, details.events, has_moved=details.has_moved)
    cluster = settings_of_pages(installation).clusters.get(run.cluster)
    if refusal or cluster is None:
        return refusal
    # It may need more people than is known before it is made; the task that makes it checks that.
    needed = 2 if cluster.policy.approval.critical else 1
    person = details.viewer.person
    return why_not(access.check_somebody_may_approve, cluster.policy, person, needed=needed)


def run_now(installation: Installation, run_id: str) -> RunNow:
    """Return the run and what its last step observed, whichever process did it."""
    ledger = installation.ledger
    return RunNow(ledger.run(run_id), ledger.journal(run_id).run_progress(), ledger.now())


def newest(
    installation: Installation, *, cluster: str | None = None, limit: int = 20
) -> tuple[RunStatus, ...]:
    """Return the newest runs, the newest first."""
    newest = installation.ledger.runs(cluster=cluster)[:limit]
    return tuple(status_of(installation, run.run_id) for run in newest)


def latest_of_plan(installation: Installation, fingerprint: str) -> Run | None:
    """Return the newest run of a plan."""
    runs_of_plan = installation.ledger.runs(fingerprint=fingerprint)
    return runs_of_plan[0] if runs_of_plan else None


def ended_by_people(installation: Installation, run_id: str) -> str:
    """Return how a run ended that goes on no more, as `rejected: too large`; "" for any other."""
    run = installation.ledger.run(run_id)
    return run.in_words if run.state in ENDED_BY_PEOPLE else ""

"""What the pages of a run and of its plan show, and what their reader may do there.

details = run_details(installation, run_id, viewer)
details.refusals.get(Action.OPERATE)      # None: may; else a sentence why not, and who may

Plans never change, so the last few are kept, by where they lie and their fingerprint.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from counterpoise import access
from counterpoise.archive import Archive, plan_report_name, run_report_name
from counterpoise.errors import CounterpoiseError, RefusedError
from counterpoise.execution.waits import (
    CANCELLED_BY_OTHERS,
    NO_PROGRESS,
    NO_RUN_PROGRESS,
    UNTHROTTLED,
    Frozen,
    Paused,
    is_freeze,
    patience_of,
    words_of,
)
from counterpoise.execution.waits_for_cluster import IN_SYNC_AGAIN, is_catching_up
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.control import ActiveRequests, ControlRequest, find_active_requests
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import Action, MovementPolicy
from counterpoise.model.run import (
    ENDED_BY_PEOPLE,
    ENDED_STATES,
    LOOKED_AFTER_STATES,
    UNDER_WAY_STATES,
    WAITING_STATES,
    Event,
    Run,
    RunState,
    TouchedKey,
    has_all_events,
    is_refused_by_validation,
    left_unchecked,
    validated_at,
    why_refused_by_validation,
    why_requested,
)
from counterpoise.model.run_progress import RunProgress
from counterpoise.services.approvals import asks_people
from counterpoise.services.viewers import (
    Viewer,
    Viewing,
    policy_refusal,
    settings_of_pages,
    who_may,
)
from counterpoise.settings import Settings
from counterpoise.storage import Store
from counterpoise.undoing import check_undoable
from counterpoise.views.plan import PlanView

_PLANS_KEPT: Final = 4
_VIEWS_KEPT: Final = 8  # of those plans, at different rates


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a run waits for, since when, and what comes then: the run halts because of it, or goes
    on by itself; with its next step, where neither has a time.
    """

    what: str
    since: datetime
    halts_at: datetime | None
    goes_on_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunDetails:
    """A run as its page shows it; the requests are those about the run and its cluster."""

    run: Run
    plan: RebalancePlan | None  # None: the store does not have it any more
    run_progress: RunProgress | None
    waits_for_answer: bool  # of people, where they were asked
    waits: tuple[Waiting, ...]
    approvals: tuple[Approval, ...]  # oldest first
    approved_by: tuple[Person, ...]  # whose yes counts now
    requests: tuple[ControlRequest, ...]
    active: ActiveRequests
    touched: tuple[TouchedKey, ...]
    events: tuple[Event, ...]
    reports: tuple[str, ...]  # names of the stored pages: of the run, and of its plan
    people_needed: int
    why_two_people: str  # what of the plan needs two; "" where one is enough
    refusals: Mapping[Action, str]  # why the viewer may not; without those that they may
    who_may: Mapping[Action, str]  # who may, in words
    why_not_approve: str  # why the viewer's yes would not count; "" where it would
    may_reject: bool
    is_requester: bool  # the viewer, of the plan
    why_nobody: str  # may approve, of those whom the policy names; "" where somebody may
    may_approve: tuple[str, ...]  # names of those whose yes is missing; () where everybody may
    is_requester_excluded: bool  # from those who may approve
    has_moved: bool  # it has submitted something
    superseded_by: str | None  # the id of the run of the newer plan
    person: Person  # the viewer
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
        lasting = self.run_progress.conditions_since if self.run_progress else {}
        return None if any(name in lasting for name in Paused(paused).kept_names) else paused

    @property
    def yes_missing(self) -> int:
        """Return how many more people have to say yes before the run may start."""
        missing = max(0, self.people_needed - len(self.approved_by))
        return max(missing, int(self.waits_for_answer))  # one that was given may hold no more

    @property
    def may_be_rejected(self) -> bool:
        """Return whether a no ends the run: it waits for an answer, or has not started."""
        return self.waits_for_answer or self.run.state in WAITING_STATES

    @property
    def was_started(self) -> bool:
        """Return whether the run was under way, so that the cluster may have changed."""
        return self.is_under_way or self.run_progress is not None or bool(self.touched)

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


def run_to_view(installation: Installation, run_id: str, viewer: Viewer) -> Run:
    """Return a run. Raises InputError for an unknown id, MayNotViewError where the policy of its
    cluster does not let the viewer view it.
    """
    run = installation.ledger.run(run_id)
    Viewing.of(installation, viewer).check_sees(run.cluster)
    return run


def run_details(installation: Installation, run: Run, viewer: Viewer) -> RunDetails:
    """Return all about a run that its page shows."""
    journal = installation.ledger.journal(run.run_id)
    run_progress, events = journal.run_progress(), journal.events()
    requests = installation.ledger.requests(run.cluster, run.run_id)
    approvals = installation.ledger.approvals_of(run.run_id)
    now = installation.ledger.now()
    plan = kept_plan(installation, run)
    active = find_active_requests(requests, now)
    settings = settings_of_pages(installation)
    cluster = settings.clusters.get(run.cluster)
    limits = cluster.policy.movement if cluster else MovementPolicy()
    rules = cluster.policy.approval if cluster else None
    people_needed = access.people_needed(plan, rules) if plan else 1
    standing = standing_approvals(settings, run, approvals, now, people_needed)
    asked = people_asked(settings, run, standing, people_needed)
    return RunDetails(
        run=run,
        plan=plan,
        run_progress=run_progress,
        # Without a plan, nobody can say whether the yes that it has holds.
        waits_for_answer=(
            run.state is RunState.PROPOSED if plan is None else asks_people(installation, run)
        ),
        waits=_waits(run, run_progress, limits, active.frozen),
        approvals=approvals,
        approved_by=tuple(one.person for one in standing),
        requests=requests,
        active=active,
        touched=journal.touched(),
        events=events,
        reports=_reports(installation, run),
        people_needed=people_needed,
        why_two_people=access.why_two_people(plan, rules) if plan else "",
        refusals=MappingProxyType(_refusals(settings, run.cluster, viewer.person)),
        who_may=MappingProxyType(_who_may(settings, run.cluster)),
        why_not_approve=why_not_approve(
            settings, run, viewer.person, approvals, now, people_needed
        ),
        may_reject=_may_reject(settings, run, viewer.person),
        is_requester=viewer.person.is_same(run.requester),
        why_nobody=asked.why_nobody,
        may_approve=asked.names,
        has_moved=journal.has_submissions(),
        is_requester_excluded=cluster is not None and not cluster.policy.requester_may_approve,
        superseded_by=_superseded_by(installation, run),
        person=viewer.person,
        now=now,
    )


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
    return Archive(Store(store)).read_recorded_plan(path, fingerprint)


def _refusals(settings: Settings, cluster: str, person: Person) -> dict[Action, str]:
    if cluster not in settings.clusters:
        gone = f"the settings do not name cluster {cluster} any more"
        return dict.fromkeys(Action, gone)
    found = {action: policy_refusal(settings, cluster, person, action) for action in Action}
    return {action: refusal for action, refusal in found.items() if refusal}


def _who_may(settings: Settings, cluster: str) -> dict[Action, str]:
    if cluster not in settings.clusters:
        return dict.fromkeys(Action, "nobody")
    return {action: who_may(settings, cluster, action) for action in Action}


def why_not_approve(
    settings: Settings,
    run: Run,
    person: Person,
    approvals: Sequence[Approval],
    now: datetime,
    needed: int,
) -> str:
    """Return why somebody's yes to a run would not count; "" where it would."""
    if run.cluster not in settings.clusters:
        return f"the settings do not name cluster {run.cluster} any more"
    policy = settings.clusters[run.cluster].policy
    try:
        access.check_would_count(policy, run, approvals, now, needed=needed, by=person)
    except RefusedError as error:
        return str(error)
    return ""


def standing_approvals(
    settings: Settings, run: Run, approvals: Sequence[Approval], now: datetime, needed: int
) -> tuple[Approval, ...]:
    """Return the approvals that count now; none where the settings do not name the cluster."""
    if run.cluster not in settings.clusters:
        return ()
    policy = settings.clusters[run.cluster].policy
    return access.standing_approvals(policy, run, approvals, now, needed=needed)


@dataclass(frozen=True, slots=True)
class PeopleAsked:
    """Who may still approve a plan: () is everybody, unless `why_nobody` says why nobody may."""

    names: tuple[str, ...] = ()
    why_nobody: str = ""


def people_asked(
    settings: Settings, run: Run, standing: Sequence[Approval], needed: int
) -> PeopleAsked:
    """Return whom the policy names for the yes that is missing, of as many as are needed."""
    if run.cluster not in settings.clusters:
        return PeopleAsked()
    policy = settings.clusters[run.cluster].policy
    approved_by = [one.person for one in standing]
    try:
        names = access.people_to_ask(policy, run.requester, approved_by, needed=needed)
    except RefusedError as error:
        return PeopleAsked(why_nobody=str(error))
    return PeopleAsked(names)


def _may_reject(settings: Settings, run: Run, person: Person) -> bool:
    if run.cluster not in settings.clusters:
        return False
    try:
        access.check_may_reject(settings.clusters[run.cluster].policy, run, person)
    except RefusedError:
        return False
    return True


def _superseded_by(installation: Installation, run: Run) -> str | None:
    if run.state is not RunState.SUPERSEDED:
        return None
    fingerprint = run.reason.removeprefix("superseded by ")
    newer = installation.ledger.runs(cluster=run.cluster, fingerprint=fingerprint)
    return newer[0].run_id if newer else None


def _waits(
    run: Run,
    run_progress: RunProgress | None,
    limits: MovementPolicy,
    freeze: ControlRequest | None,
) -> tuple[Waiting, ...]:
    if run_progress is None or run.state not in UNDER_WAY_STATES:
        return ()
    return tuple(
        _frozen_since(name, since, limits, freeze)
        if is_freeze(name)
        else Waiting(words_of(name), since, since + patience_of(name, limits))
        for name, since in sorted(run_progress.conditions_since.items())
        if name not in (NO_PROGRESS, NO_RUN_PROGRESS, UNTHROTTLED, IN_SYNC_AGAIN)
        and CANCELLED_BY_OTHERS not in name
        and not is_catching_up(name)
    )


def _frozen_since(
    name: str, since: datetime, limits: MovementPolicy, freeze: ControlRequest | None
) -> Waiting:
    """Return the wait for the end of a freeze; it has ended where another one, or none, holds."""
    frozen = Frozen(freeze) if freeze else None
    if frozen is None or name not in frozen.kept_names:
        return Waiting(words_of(name), since, None)
    patience = frozen.patience(limits)
    halts_at = since + patience if patience else None
    return Waiting(words_of(name), since, halts_at, frozen.ends_at)


def _reports(installation: Installation, run: Run) -> tuple[str, ...]:
    names = [plan_report_name(run.cluster, run.run_id)]
    if run.state in ENDED_STATES | ENDED_BY_PEOPLE:
        names.insert(0, run_report_name(run.cluster, run.run_id))
    store = installation.archive.store
    return tuple(name for name in names if store.info(f"reports/{name}") is not None)


# -- Whether an ended run can be undone on its page, before anything is started
#
# why_not_undo(installation, run_details(installation, run, viewer))      # "": it can


def why_not_undo(installation: Installation, details: RunDetails) -> str:
    """Return why no plan can take back what a run moved, or why nobody could approve one that the
    viewer asks for; "" where one can.
    """
    run, ledger = details.run, installation.ledger
    if details.plan is None:
        return f"the store does not have the plan of run {run.run_id} any more"
    moved, later = ledger.journal(run.run_id).submissions(), ledger.moved_after(run)
    try:
        check_undoable(run, details.plan, moved, later, details.events, rebase=False)
        _check_undo_can_be_approved(settings_of_pages(installation), details, moved)
    except RefusedError as error:
        return str(error)
    return ""


def _check_undo_can_be_approved(
    settings: Settings, details: RunDetails, moved: Collection[TopicPartition]
) -> None:
    """Raise RefusedError where nobody could approve an undo plan that the viewer asks for. It may
    need more people than is known before it is made; the task that makes it checks that.
    """
    cluster = settings.clusters.get(details.run.cluster)
    if cluster is None or details.plan is None:
        return
    gives_up_replicas = any(
        len(move.replicas_before) < len(move.replicas_after)
        for move in details.plan.moves
        if move.topic_partition in moved
    )
    policy = cluster.policy
    needed = 2 if gives_up_replicas or policy.approval.critical else 1
    access.check_somebody_may_approve(policy, details.person, needed=needed)


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A run with what people want to know of it.

    `run_progress` is what the last step observed, `requests` are those about the run and its
    cluster, oldest first.
    """

    run: Run
    approval: Approval | None
    moves_done: int
    moves_submitted: int
    touched: tuple[TouchedKey, ...]
    run_progress: RunProgress | None = None
    requests: tuple[ControlRequest, ...] = ()

    @property
    def pending_restores(self) -> tuple[TouchedKey, ...]:
        """Return the config keys that an ended run could not restore: their brokers are dead."""
        if self.run.state not in LOOKED_AFTER_STATES:
            return ()
        return tuple(key for key in self.touched if key.restored_at is None)


def status_of(installation: Installation, run_id: str) -> RunStatus:
    """Return the status of a run. Raises InputError for an unknown id."""
    run = installation.ledger.run(run_id)
    journal = installation.ledger.journal(run_id)
    submissions = journal.submissions().values()
    run_progress = journal.run_progress()
    moves_done = sum(submission.done_at is not None for submission in submissions)
    moves_submitted = len(submissions)
    may_be_deleted = not submissions and not has_all_events(journal.events())
    if may_be_deleted and run_progress is not None:
        moves_done = moves_submitted = run_progress.progress.moves_done
    approvals = installation.ledger.approvals_of(run_id)
    return RunStatus(
        run=run,
        approval=approvals[-1] if approvals else None,
        moves_done=moves_done,
        moves_submitted=moves_submitted,
        touched=journal.touched(),
        run_progress=run_progress,
        requests=installation.ledger.requests(run.cluster, run_id),
    )


def progress_of(installation: Installation, run_id: str) -> tuple[Run, RunProgress | None]:
    """Return the run and what its last step observed, whichever process did it."""
    return installation.ledger.run(run_id), installation.ledger.journal(run_id).run_progress()


def under_way(installation: Installation, cluster: str | None = None) -> tuple[Run, ...]:
    """Return the runs under way, newest first."""
    runs_of_cluster = installation.ledger.runs(cluster=cluster)
    return tuple(run for run in runs_of_cluster if run.state in UNDER_WAY_STATES)


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

"""Answers about plans: who says yes or no, on which page or by which rule, and whether a yes holds.

    answer(
        installation, run_id, fingerprint,
        decision=Decision.GRANTED, by=alice, reason="broker 4", rate="50MB/s",
    )
    answer_plan(installation, plan, decision=Decision.REJECTED, by=alice, reason="not now")
    approve_by_rule(installation, run_id, fingerprint)      # RefusedError: ask people
    check_approved(installation, run, plan)                 # when the run starts, say

The one entrance for what people answer, on the page of a plan, by the API and by command. The
ledger holds the answers, and what Airflow shows decides nothing. An approval by a rule
(`approval: automatic`) is checked when it is recorded, and when the run starts. Who may do what,
and whose yes counts, is in `access.py`. When something is refused, nothing has been granted.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from counterpoise import access
from counterpoise.errors import (
    CounterpoiseError,
    InputError,
    MayNotError,
    NotApprovedError,
    RefusedError,
    RunConflictError,
    StalePlanError,
    StoreError,
    UnknownNameError,
)
from counterpoise.installation import Installation
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.calendar import opens_at
from counterpoise.model.movement import default_rate, max_moves_at_once, rate_warning
from counterpoise.model.person import Person
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import (
    AUTOMATIC_APPROVALS_COUNT_FOR,
    Action,
    AutomaticApproval,
    ClusterPolicy,
)
from counterpoise.model.run import (
    ASKED,
    Run,
    RunState,
    asked_since,
    events_since_halt,
    is_refused_by_validation,
    validated_at,
    why_refused_by_validation,
    why_requested,
)
from counterpoise.model.safe_text import for_markdown, limited, one_line, required
from counterpoise.services.kept_empty import check_kept_empty
from counterpoise.units import format_bytes, format_moment, parse_rate
from counterpoise.views.plan import PlanView

_MAY_BE_ANSWERED: Final = frozenset({RunState.PROPOSED, RunState.APPROVED, RunState.HALTED})


@dataclass(frozen=True, slots=True)
class PlanInShort:
    """A plan in a sentence, and in lines of Markdown, for whoever may approve it."""

    sentence: str  # Moves 134 MB to broker 4 in about 34 s
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """What people are asked about a plan, and until when they may answer."""

    plan: PlanInShort
    is_first: bool  # they have not been asked before
    until: datetime  # UTC, by the ledger's clock
    time_left: timedelta  # none where the time is over
    seen: str  # as `Ledger.answer_seen`


# -- what people answer


def answer(
    installation: Installation,
    run_id: str,
    fingerprint: str,
    *,
    decision: Decision,
    by: Person,
    reason: str,
    rate: str = "",
) -> Approval:
    """Record a person's yes or no about exactly this plan, and return it; the same answer again
    changes nothing while it holds. Of two people that a plan needs, the second one's yes makes it
    approved.

    A yes is taken where one is missing, and at another rate from whoever gave the one that holds. A
    no ends what has not started, or has halted.

    Raises MayNotError for somebody who may not answer, StalePlanError for another plan, InputError
    for an unusable rate and without a reason, RefusedError for an answer that decides nothing or
    comes too late, for a plan that was not validated or was found wrong, and for a rate at which
    the copies never end.
    """
    while True:
        seen = installation.ledger.answer_seen(run_id)
        run = _run_of_plan(installation, run_id, fingerprint)
        if (given := _same_answer(installation, run, decision, by, rate)) is not None:
            return given
        with _refusals_noted(installation, run, decision, by):
            reason = required(reason, "reason")
            if decision is Decision.GRANTED:
                wanted, needed = _checked_yes(installation, run, by, rate)
            else:
                wanted, needed = None, 0
                _check_not_over(run)
                access.check_may_reject(_policy_of(installation, run), run, by)
        try:
            return _record(
                installation, run, decision, by, reason, wanted, needed=needed, seen=seen
            )
        except RunConflictError:
            if installation.ledger.answer_seen(run_id) == seen:
                raise
            # Somebody has answered meanwhile: the checks say what this answer is worth now.


def answer_plan(
    installation: Installation,
    plan: RebalancePlan,
    *,
    decision: Decision,
    by: Person,
    reason: str,
    rate: str = "",
    try_permissions: bool = True,
) -> tuple[Approval, tuple[str, ...]]:
    """Answer about the newest run of the plan of a file that may be answered, as `answer` does, and
    return warnings for whoever did.

    Where the plan has no run, one is opened: for a yes it is validated (`propose_plan`), and
    whoever says it is its requester; for a no it supersedes no other plan. A refused answer opens
    none.
    """
    runs = installation.ledger.runs(fingerprint=plan.fingerprint)
    warnings: tuple[str, ...] = ()
    if runs:
        run_id = next((run for run in runs if run.state in _MAY_BE_ANSWERED), runs[0]).run_id
    else:
        from counterpoise.services.plans import Origin, submit
        from counterpoise.services.validations import propose_plan

        required(reason, "reason")
        if decision is Decision.GRANTED:
            check_grant(installation, plan, by=by, requester=by, rate=rate)
            policy = installation.cluster(plan.cluster).policy
            _check_can_be_completed(
                policy, by, (by,), needed=access.people_needed(plan, policy.approval)
            )
            proposal = propose_plan(
                installation, plan, by, try_permissions=try_permissions, verb="approve"
            )
            run_id, warnings = proposal.run_id, proposal.warnings
        else:
            run_id = submit(installation, plan, Origin(by), may_supersede=False)["run_id"]
    approval = answer(
        installation,
        run_id,
        plan.fingerprint,
        decision=decision,
        by=by,
        reason=reason,
        rate=rate,
    )
    return approval, warnings


def check_yes(
    installation: Installation, run_id: str, fingerprint: str, *, by: Person, rate: str
) -> int:
    """Return the bytes per second at which somebody may approve a plan that waits. Raises what
    `answer` raises.
    """
    run = _run_of_plan(installation, run_id, fingerprint)
    return _checked_yes(installation, run, by, rate)[0]


def _run_of_plan(installation: Installation, run_id: str, fingerprint: str) -> Run:
    run = installation.ledger.run(run_id)
    if run.fingerprint != fingerprint:
        raise StalePlanError(
            f"this answer is for another plan than {run.fingerprint}, which the run has: read that "
            "plan, and answer again"
        )
    return run


def _policy_of(installation: Installation, run: Run) -> ClusterPolicy:
    try:
        return installation.cluster(run.cluster).policy
    except UnknownNameError:
        raise MayNotError(f"the settings do not name cluster {run.cluster} any more") from None


def _same_answer(
    installation: Installation, run: Run, decision: Decision, by: Person, rate: str
) -> Approval | None:
    """Return the answer that this person has given before and that holds, where it says the same;
    None for another one. A yes is not the same where it holds no more: it was to what a newer plan
    has superseded, it was given before a halt, or policy or people have changed since; nor where it
    would approve the plan now, since the policy asks for fewer people by now.
    """
    ledger = installation.ledger
    approvals = ledger.approvals_of(run.run_id)
    if decision is not Decision.GRANTED:
        last = approvals[-1] if approvals else None
        is_same = last is not None and (last.decision, last.person) == (decision, by)
        return last if is_same else None
    if run.state is RunState.SUPERSEDED:
        return None
    if run.state is not RunState.PROPOSED and waits_for_answer(installation, run):
        return None
    policy = _policy_of(installation, run)
    standing = access.standing_approvals(policy, run, approvals, ledger.now(), needed=1)
    given = next((one for one in standing if one.person == by), None)
    if given is None or given.rate_bytes_per_second != rate_or_none(rate):
        return None
    if run.state is not RunState.PROPOSED:
        return given
    needed = access.people_needed(_plan_to_approve(installation, run), policy.approval)
    return given if len(standing) < needed else None


@contextmanager
def _refusals_noted(
    installation: Installation, run: Run, decision: Decision, by: Person
) -> Iterator[None]:
    """Note at a run that an answer was refused, and why."""
    try:
        yield
    except CounterpoiseError as error:
        text = f"{decision} by {by.shown}: {error}"
        installation.ledger.journal(run.run_id).event("answer refused", text)
        raise


def _check_not_over(run: Run) -> None:
    if run.state not in _MAY_BE_ANSWERED:
        raise _decides_nothing(run)


def _decides_nothing(run: Run) -> RefusedError:
    return RefusedError(
        f"run {run.run_id} is {run.state}, so it waits for no answer any more; for another answer, "
        "make a new plan, or propose this one again (`counterpoise propose PLAN`)"
    )


def _checked_yes(installation: Installation, run: Run, by: Person, rate: str) -> tuple[int, int]:
    """Return the bytes per second of a yes, and how many people have to say it. Raises what
    `answer` raises.
    """
    _check_not_over(run)
    policy, plan = _policy_of(installation, run), _plan_to_approve(installation, run)
    needed = access.people_needed(plan, policy.approval)
    approvals, now = installation.ledger.approvals_of(run.run_id), installation.ledger.now()
    yes = whose_yes(policy, run, approvals, now, needed=needed)
    if by not in yes.given and not waits_for_answer(installation, run):
        raise _decides_nothing(run)
    access.check_would_count(policy, run, approvals, now, needed=needed, by=by)
    _check_can_be_completed(policy, run.requester, (*yes.given, by), needed=needed)
    _check_in_time(installation, run)
    check_validated(installation, run)
    check_kept_empty(installation, plan)
    return usable_rate(installation, plan, typed_rate(rate)), needed


def _check_can_be_completed(
    policy: ClusterPolicy, requester: Person, given: Sequence[Person], *, needed: int
) -> None:
    """Raise RefusedError where people are missing beside those who have said yes (`given`), and too
    few are left who may.
    """
    if len(given) < needed:
        access.people_to_ask(policy, requester, given, needed=needed)


def _plan_to_approve(installation: Installation, run: Run) -> RebalancePlan:
    try:
        if installation.archive.store.info(run.plan_uri) is not None:
            return installation.plan_of(run)
    except (InputError, StalePlanError):
        pass  # a damaged file
    raise RefusedError(
        f"the store does not have the plan of run {run.run_id}, so nobody can approve it; bring "
        "the file back, or reject the plan"
    )


def _check_in_time(installation: Installation, run: Run) -> None:
    """Raise RefusedError for a yes to a plan for which people were asked too long ago."""
    until = answer_until(installation, run) if run.state is RunState.PROPOSED else None
    if until is not None and installation.ledger.now() >= until:
        raise RefusedError(
            f"the time to answer about run {run.run_id} ended at {format_moment(until)} (wait_for "
            "of the policy): make a new plan"
        )


def check_validated(installation: Installation, run: Run) -> None:
    """Raise RefusedError where nobody has checked exactly this plan, or the last check has found
    that it must not run. What has halted was checked before it started.
    """
    events = installation.ledger.journal(run.run_id).events()
    if is_refused_by_validation(run, events):
        why = why_refused_by_validation(events) or "the log of the task validate says why"
        raise RefusedError(
            f"plan {run.fingerprint} was not validated, and must not run: {why}. Make a new plan, "
            "and reject this one"
        )
    if validated_at(run, events) is None and run.state is not RunState.HALTED:
        raise RefusedError(
            "the rules and data of this plan have not been checked yet: the task validate does "
            "that, mostly within a minute; answer again then. Where it ended without (somebody may "
            "have marked it as success), propose the plan again (`counterpoise propose PLAN`)"
        )


def _record(
    installation: Installation,
    run: Run,
    decision: Decision,
    by: Person,
    reason: str,
    rate_bytes_per_second: int | None = None,
    *,
    needed: int = 0,
    seen: str = "",
) -> Approval:
    """Keep an answer; a yes approves the plan once `needed` people have said it."""
    approval = Approval(
        run_id=run.run_id,
        fingerprint=run.fingerprint,
        decision=decision,
        by=by.recorded,
        reason=reason,
        at=installation.ledger.now(),
        rate_bytes_per_second=rate_bytes_per_second,
    )
    if decision is not Decision.GRANTED:
        installation.ledger.record_decision(approval, seen=seen)
        return approval
    policy = installation.cluster(run.cluster).policy
    approval = replace(approval, expires_at=approval.at + policy.approval.expires_after)

    def is_enough(approvals: Sequence[Approval]) -> bool:
        standing = access.standing_approvals(policy, run, approvals, approval.at, needed=needed)
        return len(standing) >= needed

    installation.ledger.record_decision(approval, is_enough=is_enough, seen=seen)
    return approval


def end_unanswered(
    installation: Installation,
    run: Run,
    *,
    decision: Decision,
    by: Person,
    reason: str,
    seen: str = "",
) -> Approval:
    """Record that a plan waits no more: nobody answered in time, or a Dag withdraws its own one.

    With `seen`, only while the run is as it was seen (`Ledger.answer_seen`). Raises MayNotError
    for somebody who may not say no, RunConflictError where somebody has answered since.
    """
    if decision is not Decision.TIMED_OUT:
        access.check_may_reject(_policy_of(installation, run), run, by)
    return _record(installation, run, decision, by, reason, seen=seen)


# -- rates


def check_grant(
    installation: Installation, plan: RebalancePlan, *, by: Person, requester: Person, rate: str
) -> int:
    """Return the rate in bytes per second.

    Raises InputError for an unusable one, MayNotError when `by` may not approve or requested the
    plan, RefusedError for a rate that the policy forbids or at which the copies never end.
    """
    access.check_may_approve(installation.cluster(plan.cluster).policy, by, requester)
    return usable_rate(installation, plan, typed_rate(rate))


def typed_rate(rate: str) -> int:
    """Return the bytes per second that somebody typed. Raises InputError for what is no rate."""
    return parse_rate(limited(rate, "rate"), where="rate")


def rate_or_none(rate: str) -> int | None:
    """Return the bytes per second that somebody typed; None for what is no rate."""
    try:
        return typed_rate(rate)
    except InputError:
        return None


def usable_rate(installation: Installation, plan: RebalancePlan, wanted: int) -> int:
    """Return a rate that can be approved. Raises RefusedError for one that the policy forbids, and
    for one at which the copies never end.
    """
    policy = installation.cluster(plan.cluster).policy
    access.check_rate(policy, wanted)
    if warning := rate_warning(plan, wanted, max_moves_at_once(policy.movement)):
        raise RefusedError(warning)
    return wanted


# -- what people are asked, until when, and whether a yes holds


def open_question(installation: Installation, run_id: str) -> Question | None:
    """Return what people are asked about a plan; None where it waits for no answer (any more).

    The ledger notes when they were first asked. Raises RefusedError where the plan was not
    validated, breaks a rule, or is done: there is nothing to approve then.
    """
    run = installation.ledger.run(run_id)
    if run.state is RunState.DONE:
        raise RefusedError(
            f"run {run_id} is done, so there is nothing to approve; start a new Dag run for a new "
            "plan"
        )
    if not waits_for_answer(installation, run):
        return None
    _check_approvable(installation, run)
    journal = installation.ledger.journal(run_id)
    seen = installation.ledger.answer_seen(run_id)
    is_first = asked_since(journal.events()) is None
    if is_first:
        journal.event(ASKED, run.fingerprint)
    until, now = answer_until(installation, run), installation.ledger.now()
    assert until is not None, "people were asked"
    shown = _in_short(installation, run, installation.plan_of(run))
    return Question(shown, is_first, until, max(until - now, timedelta(0)), seen)


def is_for_a_rule(installation: Installation, run_id: str) -> bool:
    """Return whether a rule of the policy may approve the plan of a run, which waits.

    Raises RefusedError for a plan that nobody may approve.
    """
    run = installation.ledger.run(run_id)
    policy = installation.cluster(run.cluster).policy
    if run.state is not RunState.PROPOSED or not policy.approval.automatic:
        return False
    _check_approvable(installation, run)
    return True


def _check_approvable(installation: Installation, run: Run) -> None:
    """Raise RefusedError where a plan can be approved neither by people nor by a rule: it was not
    validated, or breaks a rule of plans.
    """
    from counterpoise.services.validations import check_plan_rules

    check_validated(installation, run)
    _, plan = installation.run_and_plan(run.run_id, run.fingerprint)
    check_kept_empty(installation, plan)
    check_plan_rules(installation, plan)


def waits_for_answer(installation: Installation, run: Run) -> bool:
    """Return whether a yes is missing before the run may start, or go on after it has halted; not
    where nobody can say whether the one that it has holds, since plan or policy are not there.
    """
    if run.state is RunState.PROPOSED:
        return True
    if run.state not in (RunState.APPROVED, RunState.HALTED):
        return False
    if run.state is RunState.HALTED and not _has_yes_since_halt(installation, run):
        return True
    try:
        check_approved(installation, run, installation.plan_of(run))
    except NotApprovedError:
        return True
    except (InputError, StalePlanError, StoreError):
        return False
    return False


def asks_people(installation: Installation, run: Run) -> bool:
    """Return whether people are asked now: about what has halted, only where a task asks again."""
    if run.state is RunState.HALTED:
        events = installation.ledger.journal(run.run_id).events()
        if asked_since(events) is None:
            return False
    return waits_for_answer(installation, run)


def _has_yes_since_halt(installation: Installation, run: Run) -> bool:
    events = installation.ledger.journal(run.run_id).events()
    return any(event.kind == Decision.GRANTED for event in events_since_halt(events))


def answer_until(installation: Installation, run: Run) -> datetime | None:
    """Return when the time to answer ends; None where nobody was asked for an answer yet."""
    since = asked_since(installation.ledger.journal(run.run_id).events())
    if since is None:
        return None
    if run.state is RunState.APPROVED:  # they are asked again once the yes has run out
        approvals = installation.ledger.approvals_of(run.run_id)
        ends = (approval.expires_at for approval in approvals)
        since = max([since, *(end for end in ends if end and end <= installation.ledger.now())])
    return since + installation.cluster(run.cluster).policy.approval.wait_for


@dataclass(frozen=True, slots=True)
class WhoseYes:
    """Whose yes to a plan counts now, and who may give the one that is missing."""

    given: tuple[Person, ...] = ()
    needed: int = 1  # people
    may_give: tuple[str, ...] = ()  # names of the policy; (): everybody, unless `why_nobody`
    why_nobody: str = ""  # may, of those whom the policy names

    @property
    def missing(self) -> int:
        return max(0, self.needed - len(self.given))


def whose_yes(
    policy: ClusterPolicy,
    run: Run,
    approvals: Sequence[Approval],
    now: datetime,
    *,
    needed: int | None = None,
) -> WhoseYes:
    """Return whose yes a plan has and lacks, of the people `needed`: by default, of a plan that
    waits for its start, one more than one that has said yes. Where none is missing, anybody who may
    approve may give the one that a run waits for, also whoever gave one before it halted.
    """
    if needed is None:
        needed = 2 if approvals and run.state is RunState.PROPOSED else 1
    standing = access.standing_approvals(policy, run, approvals, now, needed=needed)
    given = tuple(approval.person for approval in standing)
    others, missing = (given, needed) if len(given) < needed else ((), 1)
    try:
        may_give = access.people_to_ask(policy, run.requester, others, needed=missing)
    except RefusedError as error:
        return WhoseYes(given, needed, why_nobody=str(error))
    return WhoseYes(given, needed, may_give)


def whose_yes_to(installation: Installation, run: Run, plan: RebalancePlan) -> WhoseYes:
    """Return whose yes the plan of a run has and lacks now, as many as it needs."""
    policy, ledger = installation.cluster(run.cluster).policy, installation.ledger
    needed = access.people_needed(plan, policy.approval)
    approvals = ledger.approvals_of(run.run_id)
    return whose_yes(policy, run, approvals, ledger.now(), needed=needed)


def check_approved(installation: Installation, run: Run, plan: RebalancePlan) -> None:
    """Check that the approval holds now: policy and people may have changed since.

    Raises NotApprovedError.
    """
    policy, ledger = installation.cluster(run.cluster).policy, installation.ledger
    approvals = ledger.approvals_of(run.run_id)
    approval = access.check_granted(policy, run, plan, approvals, ledger.now())
    if approval.person.is_rule:
        check_rule_still_holds(installation, run, approval)
    _check_requested_rate(installation, run, approval)


def _check_requested_rate(installation: Installation, run: Run, approval: Approval) -> None:
    """Check the rate that somebody requested since the approval: it goes on to hold."""
    active = installation.active_requests(run.cluster, run.run_id)
    if active.rate is None:
        return
    policy = installation.cluster(run.cluster).policy
    rate = active.rate.rate_bytes_per_second or 0
    try:
        access.check_rate(policy, rate)
        if rate > (approval.rate_bytes_per_second or 0):
            access.check_may(policy, active.rate.person, Action.APPROVE)
    except RefusedError as error:
        raise NotApprovedError(
            f"the rate that {active.rate.person.shown} requested does not hold any more: {error}. "
            "Approve the plan again: the rate of that approval holds then"
        ) from None


def _in_short(installation: Installation, run: Run, plan: RebalancePlan) -> PlanInShort:
    """Return what a plan does, who asked for it, and whose yes is missing."""
    view = PlanView.offered(plan, installation.cluster(run.cluster).policy.movement)
    yes = whose_yes_to(installation, run, plan)
    why = why_requested(installation.ledger.journal(run.run_id).events())
    requested = f"Requested by {for_markdown(run.requester.shown)}"
    names = ", ".join(yes.may_give) or "everybody whom Airflow lets"
    who = f"May answer: {for_markdown(names)}."
    if yes.why_nobody:
        who = f"Nobody can approve it: {for_markdown(one_line(yes.why_nobody))}."
    if yes.needed > 1:
        names_given = " and ".join(person.shown for person in yes.given)
        given = f", approved by {for_markdown(names_given)}" if yes.given else ""
        who += f" {yes.needed} people have to approve it{given}; {yes.missing} missing."
    return PlanInShort(
        sentence=view.sentence,
        lines=(
            f"Cluster {for_markdown(run.cluster)}, goal {for_markdown(view.goal_in_words)}.",
            f"{requested}: {for_markdown(why).rstrip('.')}." if why else f"{requested}.",
            who,
        ),
    )


# -- rules that approve without a person


def approve_by_rule(installation: Installation, run_id: str, fingerprint: str) -> Approval:
    """Record the yes of the policy's rule for the goal of a plan, at the rate that people are
    offered.

    Raises RefusedError where people decide, RunConflictError where somebody was faster.
    """
    run = _run_of_plan(installation, run_id, fingerprint)
    plan, policy = installation.plan_of(run), installation.cluster(run.cluster).policy
    rule = check_rule_approves(installation, run)
    _check_in_time(installation, run)
    by, reason = Person.of_rule(rule.goal), _rule_reason(rule, plan)
    with _refusals_noted(installation, run, Decision.GRANTED, by):
        rate = usable_rate(installation, plan, default_rate(plan, policy.movement))
    needed = access.people_needed(plan, policy.approval)
    return _record(installation, run, Decision.GRANTED, by, reason, rate, needed=needed)


def check_rule_approves(installation: Installation, run: Run) -> AutomaticApproval:
    """Return the rule that approves a plan that waits for its first answer.

    Raises RefusedError with the reason why a person has to.
    """
    if run.state is not RunState.PROPOSED or installation.ledger.approvals_of(run.run_id):
        raise RefusedError("a rule approves only what waits for its first answer")
    if installation.active_requests(run.cluster).frozen:
        raise RefusedError(f"a rule approves nothing while {run.cluster} is frozen")
    return _rule_that_holds(installation, run)


def check_rule_still_holds(installation: Installation, run: Run, approval: Approval) -> None:
    """Check, when a run starts, that the rule that approved it holds, still.

    Raises NotApprovedError. What has halted goes on after a person's yes: a rule starts a run once.
    """
    try:
        if run.state is RunState.HALTED:
            raise RefusedError(f"the run has halted ({run.reason}), and a rule starts a run once")
        _rule_that_holds(installation, run)
    except RefusedError as error:
        raise access.approval_does_not_hold(approval, error) from None


def _rule_that_holds(installation: Installation, run: Run) -> AutomaticApproval:
    policy, plan = installation.cluster(run.cluster).policy, installation.plan_of(run)
    rule = next((rule for rule in policy.approval.automatic if rule.goal == plan.goal), None)
    if rule is None:
        raise RefusedError(f"no rule of the policy approves plans for {plan.goal} (automatic)")
    check_validated(installation, run)
    _check_not_rejected(installation, run)
    if because := access.why_two_people(plan, policy.approval):
        raise RefusedError(f"the plan {because}, so two people have to approve it")
    if plan.copied_replicas:
        _check_bytes(installation, run, plan, rule)
    opens = opens_at(replace(policy.movement, windows=rule.windows), installation.ledger.now())
    if opens is not None:
        raise RefusedError(f"the rule approves again from {format_moment(opens)} (windows)")
    return rule


def _check_not_rejected(installation: Installation, run: Run) -> None:
    """Raise RefusedError where somebody has rejected the same plan, in this run or another."""
    for other in installation.ledger.runs(cluster=run.cluster, fingerprint=run.fingerprint):
        for decision in installation.ledger.approvals_of(other.run_id):
            if decision.decision is Decision.REJECTED:
                raise RefusedError(
                    f"{decision.person.shown} has rejected this plan (run {other.run_id})"
                )


def _check_bytes(
    installation: Installation, run: Run, plan: RebalancePlan, rule: AutomaticApproval
) -> None:
    """Raise RefusedError where the plan copies more than the rule has left of its 24 h."""
    if not rule.max_bytes_per_day:
        raise RefusedError("the rule is for plans that copy no replica (max_bytes_per_day)")
    _check_sizes(installation, plan)
    if plan.copied_bytes + _copied_within_a_day(installation, run, rule) > rule.max_bytes_per_day:
        most = format_bytes(rule.max_bytes_per_day)
        raise RefusedError(f"the rule approves up to {most} in 24 h (max_bytes_per_day)")


def _check_sizes(installation: Installation, plan: RebalancePlan) -> None:
    """Raise RefusedError where it is not known how much a plan copies."""
    without_size = {
        move.topic_partition for move in plan.moves if move.adding and not move.size_bytes
    }
    if not without_size:
        return
    unknown = "it is not known how much the plan copies"
    try:
        snapshot = installation.archive.read_snapshot(plan.cluster, plan.snapshot_id)
    except CounterpoiseError as error:
        raise RefusedError(f"{unknown}: {error}") from None
    rows = snapshot.partitions.select(["topic", "partition", "size_bytes"]).to_pylist()
    if any(
        row["size_bytes"] is None
        for row in rows
        if (row["topic"], row["partition"]) in without_size
    ):
        raise RefusedError(f"{unknown}: the brokers did not tell the sizes of all its partitions")


def _copied_within_a_day(installation: Installation, run: Run, rule: AutomaticApproval) -> int:
    """Return the bytes of the other plans that a rule has approved within 24 h."""
    ledger = installation.ledger
    since = ledger.now() - AUTOMATIC_APPROVALS_COUNT_FOR
    run_ids = {
        approval.run_id
        for approval in ledger.approvals_since(run.cluster, since)
        if approval.person == Person.of_rule(rule.goal) and approval.run_id != run.run_id
    }
    others = [ledger.run(run_id) for run_id in sorted(run_ids)]
    try:
        return sum(
            installation.plan_of(other).copied_bytes
            for other in others
            if other.state is not RunState.SUPERSEDED  # it has moved nothing
        )
    except CounterpoiseError as error:
        raise RefusedError(f"it is not known how much it has approved in 24 h: {error}") from None


def _rule_reason(rule: AutomaticApproval, plan: RebalancePlan) -> str:
    """Return why a rule approved, as the ledger keeps it: what the rule said at that time."""
    parts = [f"goal {plan.goal}", f"copies {format_bytes(plan.copied_bytes)}"]
    if rule.max_bytes_per_day:
        parts.append(f"up to {format_bytes(rule.max_bytes_per_day)} in 24 h are allowed")
    parts += [f"from {window.starts!r} on" for window in rule.windows]
    return f"approval: automatic ({', '.join(parts)})"

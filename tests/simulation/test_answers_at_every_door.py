"""A plan is answered on its page, by the API and by command: same answers, same refusals."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.cli.common import read_plan
from counterpoise.installation import open_installation
from counterpoise.ledger import Ledger
from counterpoise.model.acl import REASSIGN
from counterpoise.model.approval import Approval, Decision
from counterpoise.model.person import AccountKind, Person
from counterpoise.model.run import ASKED, MUST_NOT_RUN, NOT_VALIDATED, RunState
from counterpoise.services import approvals
from counterpoise.services.validations import propose_plan
from counterpoise.services.viewers import Viewer
from counterpoise.web.forms import form_token
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine
from tests.support.ledger_view import LedgerView, add_event, change_state
from tests.support.web import browser

YES = {"decision": "approve", "rate": "1MB/s", "reason": "broker 3 is new"}
NO = {"decision": "reject", "reason": "not now"}
BEARER = {"Authorization": "Bearer x"}
ALONE = "access: {approve: [alice]}, approval: {requester_may_approve: yes}"
DONE, UNUSABLE, REFUSED = "done", "unusable", "refused"
STATUS = {200: DONE, 303: DONE, 422: UNUSABLE, 403: REFUSED, 409: REFUSED}
CODES = {0: DONE, 2: UNUSABLE, 1: REFUSED}


@dataclass(frozen=True)
class Proposed:
    """A plan that waits, and all that a door needs to know of it."""

    shell: CommandLine
    path: Path
    run_id: str
    fingerprint: str

    @property
    def approvals(self) -> tuple[Approval, ...]:
        with open_installation(environment=self.shell.environment) as installation:
            return installation.ledger.approvals_of(self.run_id)

    @property
    def state(self) -> RunState:
        with open_installation(environment=self.shell.environment) as installation:
            return installation.ledger.run(self.run_id).state

    def note(self, kind: str, text: str = "") -> None:
        with open_installation(environment=self.shell.environment) as installation:
            add_event(installation.ledger, self.run_id, kind, text or self.fingerprint)

    def kinds(self) -> list[str]:
        with open_installation(environment=self.shell.environment) as installation:
            return LedgerView.of(installation.ledger).event_kinds(self.run_id)


def by_page(plan: Proposed, user: str, **answer: str) -> tuple[str, str]:
    sent = {"fingerprint": plan.fingerprint, "form_token": form_token(Viewer(user))} | answer
    sent["answer"], sent["plan"] = sent.pop("decision"), sent.pop("fingerprint")
    with browser(plan.shell.environment, user) as client:
        told = client.post(f"/runs/{plan.run_id}/answer", data=sent)
    return STATUS[told.status_code], told.text


def by_api(plan: Proposed, user: str, **answer: str) -> tuple[str, str]:
    sent = {"fingerprint": plan.fingerprint} | answer
    with browser(plan.shell.environment, user) as client:
        told = client.post(f"/api/runs/{plan.run_id}/decision", json=sent, headers=BEARER)
    return STATUS[told.status_code], told.text


def by_command(plan: Proposed, user: str, decision: str, **answer: str) -> tuple[str, str]:
    words = [word for name, text in answer.items() for word in (f"--{name}", text)]
    typed = plan.shell.type(decision, plan.path, *words, user=user)
    return CODES[typed.code], typed.out + typed.err


Door = Callable[..., tuple[str, str]]
WEB: tuple[Door, ...] = (by_page, by_api)


@pytest.fixture(params=[*WEB, by_command], ids=lambda door: door.__name__)
def door(request: pytest.FixtureRequest) -> Door:
    found: Door = request.param
    return found


@pytest.fixture
def kind(door: Door) -> AccountKind:
    """Of whoever answers at this door."""
    return AccountKind.SYSTEM if door is by_command else AccountKind.AIRFLOW


def configure(shell: CommandLine, approval: str = "requester_may_approve: yes") -> None:
    policy = f"{{access: {{approve: [alice, bob]}}, approval: {{{approval}}}}}"
    shell.configure("simulated:9092", extra=f"    policy: {policy}\n")


@pytest.fixture
def planned(shell: CommandLine) -> Path:
    configure(shell)
    path = shell.folder / "plan.json"
    words = ("--goal", "add-brokers", "--brokers", "3", "--out", path)
    assert shell.type("plan", "--cluster", "demo", *words).code == 0
    return path


def waiting(shell: CommandLine, path: Path) -> Proposed:
    with open_installation(environment=shell.environment) as installation:
        run = installation.ledger.runs()[0]
    return Proposed(shell, path, run.run_id, run.fingerprint)


@pytest.fixture
def proposed(shell: CommandLine, planned: Path) -> Proposed:
    """A plan that somebody proposed on the command line."""
    typed = shell.type("propose", planned)
    assert typed.code == 0, typed.err
    return waiting(shell, planned)


def test_what_was_proposed_on_the_command_line_is_approved_at_every_door(
    proposed: Proposed, door: Door, kind: AccountKind
) -> None:
    for _ in range(2):
        told, words = door(proposed, "alice", **YES)
        assert told == DONE, words
    (yes,) = proposed.approvals
    assert (yes.decision, yes.rate_bytes_per_second) == (Decision.GRANTED, 1_000_000)
    assert yes.person == Person(kind, "alice")
    assert proposed.state is RunState.APPROVED
    assert proposed.shell.type("execute", proposed.path).code == 0


def test_and_rejected(proposed: Proposed, door: Door) -> None:
    for _ in range(2):
        told, words = door(proposed, "alice", **NO)
        assert told == DONE, words
    assert [no.decision for no in proposed.approvals] == [Decision.REJECTED]
    assert proposed.state is RunState.REJECTED
    assert waiting(proposed.shell, proposed.path).run_id == proposed.run_id, "no other run"


def test_another_answer_than_the_one_that_holds(proposed: Proposed, door: Door) -> None:
    """Whoever gave it may change it; another person's yes does not take its place."""
    assert door(proposed, "alice", **YES)[0] == DONE
    other = YES | {"rate": "2MB/s"}
    told, words = door(proposed, "bob", **other)
    assert told == REFUSED and "waits for no answer any more" in " ".join(words.split())
    told, words = door(proposed, "alice", **other)
    assert told == DONE, words
    assert [yes.rate_bytes_per_second for yes in proposed.approvals] == [1_000_000, 2_000_000]
    assert door(proposed, "alice", **NO)[0] == DONE
    assert proposed.state is RunState.REJECTED


def test_a_yes_to_a_rejected_plan_is_refused(proposed: Proposed, door: Door) -> None:
    assert door(proposed, "alice", **NO)[0] == DONE
    told, words = door(proposed, "alice", **YES)
    assert told == REFUSED and "make a new plan, or propose this one again" in words
    assert proposed.shell.type("propose", proposed.path).code == 0
    assert door(waiting(proposed.shell, proposed.path), "alice", **YES)[0] == DONE


def test_a_yes_to_what_has_halted_counts_for_its_going_on(
    proposed: Proposed, door: Door, ledger: Ledger
) -> None:
    assert door(proposed, "alice", **YES)[0] == DONE
    for state in (RunState.RUNNING, RunState.SETTLING, RunState.HALTED):
        change_state(ledger, proposed.run_id, state, "broker 3 is dead")
    for _ in range(2):
        told, words = door(proposed, "alice", **YES)
        assert told == DONE, words
    assert len(proposed.approvals) == 2
    assert proposed.shell.type("execute", proposed.path).code == 0


def test_the_requester_is_refused_with_the_reason(
    shell: CommandLine, planned: Path, door: Door, kind: AccountKind
) -> None:
    configure(shell, "requester_may_approve: no")
    with open_installation(environment=shell.environment) as installation:
        propose_plan(installation, read_plan(planned), Person(kind, "alice"))
    plan = waiting(shell, planned)
    told, words = door(plan, "alice", **YES)
    assert told == REFUSED and "requested this plan, so another" in words
    assert plan.approvals == ()
    assert door(plan, "bob", **YES)[0] == DONE


@pytest.mark.parametrize("door", WEB)
def test_who_is_somebody_else_is_not_known_between_two_kinds_of_accounts(
    shell: CommandLine, planned: Path, door: Door
) -> None:
    configure(shell, "requester_may_approve: no")
    assert shell.type("propose", planned, user="alice").code == 0
    plan = waiting(shell, planned)
    told, words = door(plan, "bob", **YES)
    assert told == REFUSED
    assert "by the system user alice: another system user has to approve it" in words
    assert plan.approvals == ()


@pytest.mark.parametrize("answer", [YES, NO], ids=["yes", "no"])
def test_somebody_whom_the_policy_does_not_name_is_refused(
    proposed: Proposed, door: Door, answer: dict[str, str]
) -> None:
    told, words = door(proposed, "mallory", **answer)
    assert told == REFUSED and "may not approve here; the policy names alice, bob" in words
    assert proposed.approvals == ()


def test_a_yes_after_the_time_is_refused_and_a_no_counts(
    shell: CommandLine, proposed: Proposed, door: Door
) -> None:
    configure(shell, "requester_may_approve: yes, wait_for: 1s")
    proposed.note(ASKED)
    with open_installation(environment=shell.environment) as installation:
        asked_at = installation.ledger.now()
        while installation.ledger.now() < asked_at + timedelta(seconds=1):
            pass
    told, words = door(proposed, "alice", **YES)
    assert told == REFUSED and "time to answer about run" in words
    assert proposed.approvals == ()
    assert door(proposed, "alice", **NO)[0] == DONE


def test_a_yes_that_has_run_out_is_given_again(
    shell: CommandLine, proposed: Proposed, door: Door
) -> None:
    """Before, the same yes again counted as given."""
    configure(shell, "requester_may_approve: yes, expires_after: 1s")
    assert door(proposed, "alice", **YES)[0] == DONE
    (first,) = proposed.approvals
    with open_installation(environment=shell.environment) as installation:
        assert first.expires_at is not None
        while installation.ledger.now() < first.expires_at:
            pass
    assert door(proposed, "alice", **YES)[0] == DONE
    assert len(proposed.approvals) == 2


@pytest.mark.parametrize("door", WEB)
@pytest.mark.parametrize("answer", [YES, NO], ids=["yes", "no"])
def test_an_answer_to_another_plan_is_refused(
    proposed: Proposed, door: Door, answer: dict[str, str]
) -> None:
    told, words = door(proposed, "alice", **answer, fingerprint="sha256:0")
    assert told == REFUSED and "read that plan, and answer again" in words
    assert proposed.approvals == ()


def test_of_two_people_each_says_yes_once(
    shell: CommandLine, proposed: Proposed, door: Door
) -> None:
    configure(shell, "requester_may_approve: yes, critical: yes")
    for _ in range(2):
        assert door(proposed, "alice", **YES)[0] == DONE
    assert (len(proposed.approvals), proposed.state) == (1, RunState.PROPOSED)
    told, words = door(proposed, "alice", **YES | {"rate": "2MB/s"})
    assert told == REFUSED and "approved this plan, so another" in words
    assert door(proposed, "bob", **YES)[0] == DONE
    assert proposed.state is RunState.APPROVED


def test_where_one_is_enough_by_now_the_same_yes_approves(
    shell: CommandLine, proposed: Proposed, door: Door
) -> None:
    configure(shell, "requester_may_approve: yes, critical: yes")
    assert door(proposed, "alice", **YES)[0] == DONE
    configure(shell)
    assert proposed.state is RunState.PROPOSED
    assert door(proposed, "alice", **YES)[0] == DONE
    assert proposed.state is RunState.APPROVED


def test_a_yes_that_nobody_could_complete_is_refused(
    shell: CommandLine, planned: Path, door: Door, kind: AccountKind
) -> None:
    configure(shell, "critical: yes")
    with open_installation(environment=shell.environment) as installation:
        propose_plan(installation, read_plan(planned), Person(kind, "alice"))
    plan = waiting(shell, planned)
    told, words = door(plan, "bob", **YES)
    assert told == REFUSED and "add an approver to the policy" in " ".join(words.split())
    assert plan.approvals == ()


def test_a_yes_that_the_policy_no_longer_lets_count_is_not_the_same(
    shell: CommandLine, proposed: Proposed, door: Door
) -> None:
    assert door(proposed, "alice", **YES)[0] == DONE
    limited = "movement: {rate: 100kB/s}, approval: {requester_may_approve: yes, max_rate: 500kB/s}"
    shell.configure("simulated:9092", extra=f"    policy: {{{limited}}}\n")
    told, words = door(proposed, "alice", **YES)
    assert told == REFUSED and "more than the policy allows" in " ".join(words.split())
    assert door(proposed, "alice", **YES | {"rate": "400kB/s"})[0] == DONE
    assert shell.type("execute", proposed.path).code == 0


def test_a_yes_to_a_superseded_plan_is_refused_also_the_same_one(
    shell: CommandLine, proposed: Proposed, door: Door
) -> None:
    assert door(proposed, "alice", **YES)[0] == DONE
    newer = shell.folder / "newer.json"
    assert shell.type("plan", "--cluster", "demo", "--goal", "leaders", "--out", newer).code == 0
    assert shell.type("propose", newer).code == 0
    for user in ("alice", "bob"):
        told, words = door(proposed, user, **YES)
        assert told == REFUSED and "waits for no answer any more" in " ".join(words.split())
    shown = shell.type("execute", proposed.path).err
    assert "propose this one again (`counterpoise propose" in " ".join(shown.split())


def test_who_gave_the_yes_before_a_halt_sees_that_theirs_is_missing(
    proposed: Proposed, ledger: Ledger
) -> None:
    assert by_page(proposed, "alice", **YES)[0] == DONE
    for state in (RunState.RUNNING, RunState.SETTLING, RunState.HALTED):
        change_state(ledger, proposed.run_id, state, "broker 3 is dead")
    proposed.note(ASKED)
    with browser(proposed.shell.environment, "alice") as alice:
        page = alice.get(f"/runs/{proposed.run_id}").text
        (waiting,) = alice.get("/api/open-runs", headers=BEARER).json()["waiting"]
    assert "Nobody can approve" not in page and 'value="approve"' in page
    assert waiting["is_mine"] and waiting["may_approve"] == ["alice", "bob"]


def test_a_refused_yes_by_command_supersedes_nothing(
    shell: CommandLine, proposed: Proposed
) -> None:
    assert by_command(proposed, "bob", **YES)[0] == DONE
    shell.configure("simulated:9092", extra=f"    policy: {{{ALONE}}}\n")
    lowered = shell.folder / "lowered.json"
    words = ("--goal", "replication-factor", "--replication-factor", "1", "--topics", "*")
    assert shell.type("plan", "--cluster", "demo", *words, "--out", lowered).code == 0
    refused = shell.type("approve", lowered, "--rate", "1MB/s", "--reason", "x", user="alice")
    assert refused.code == 1 and "it takes a yes of" in " ".join(refused.err.split())
    assert proposed.state is RunState.APPROVED


def test_people_are_asked_again_once_the_yes_has_run_out(
    shell: CommandLine, proposed: Proposed
) -> None:
    """With the same time for both, the time to answer was over when the yes was."""
    configure(shell, "requester_may_approve: yes, expires_after: 1s, wait_for: 1s")
    proposed.note(ASKED)
    assert by_page(proposed, "alice", **YES)[0] == DONE
    (first,) = proposed.approvals
    with open_installation(environment=shell.environment) as installation:
        assert first.expires_at is not None
        while installation.ledger.now() < first.expires_at:
            pass
        question = approvals.open_question(installation, proposed.run_id)
    assert question is not None and question.until > first.expires_at


def test_a_plan_that_was_not_validated_is_refused(
    shell: CommandLine, planned: Path, door: Door
) -> None:
    with open_installation(environment=shell.environment) as installation:
        plan = read_plan(planned)
        path = installation.archive.write_plan(plan)
        installation.ledger.propose(plan, path, requested_by="airflow:rita")
    opened = waiting(shell, planned)
    told, words = door(opened, "alice", **YES)
    assert told == REFUSED and "have not been checked yet" in " ".join(words.split())
    assert opened.approvals == ()
    assert door(opened, "alice", **NO)[0] == DONE


def test_a_plan_that_was_found_wrong_is_refused(proposed: Proposed, door: Door) -> None:
    proposed.note(NOT_VALIDATED)
    proposed.note(MUST_NOT_RUN, "orders-0: no such broker")
    told, words = door(proposed, "alice", **YES)
    assert told == REFUSED and "must not run: orders-0: no such broker" in " ".join(words.split())
    assert proposed.approvals == ()
    assert door(proposed, "alice", **NO)[0] == DONE


def test_a_refused_answer_is_noted_with_its_reason(proposed: Proposed, door: Door) -> None:
    assert door(proposed, "mallory", **YES)[0] == REFUSED
    assert proposed.kinds()[-1] == "answer refused"


# -- whoever proposes validates


def test_who_proposes_is_told_all_that_is_wrong_and_no_run_is_opened(
    shell: CommandLine, kafka: SimulatedCluster, planned: Path
) -> None:
    kafka.denied = {REASSIGN: "not authorized"}
    policy = "{balance: {excluded_topics: [orders]}}"
    shell.configure("simulated:9092", extra=f"    policy: {policy}\n")
    for verb, more in (("propose", ()), ("approve", ("--rate", "1MB/s", "--reason", "x"))):
        refused = shell.type(verb, planned, *more)
        shown = " ".join(refused.err.split())
        assert refused.code == 1
        assert "of a topic that the policy excludes" in shown
        assert "not authorized" in shown and f"nothing was {verb}" in shown
    assert shell.type("status", "--json").out.strip() == "[]"


def test_a_plan_may_be_proposed_without_trying_the_permissions(
    shell: CommandLine, kafka: SimulatedCluster, planned: Path, door: Door
) -> None:
    kafka.denied = {REASSIGN: "not authorized"}
    assert shell.type("propose", planned).code == 1
    assert shell.type("propose", planned, "--no-preflight").code == 0
    plan = waiting(shell, planned)
    with open_installation(environment=shell.environment) as installation:
        events = LedgerView.of(installation.ledger).events(plan.run_id)
    (text,) = [event.text for event in events if event.kind == "validated"]
    assert text.startswith(plan.fingerprint) and "were not tried (--no-preflight)" in text
    with browser(shell.environment, "alice") as alice:
        page = alice.get(f"/runs/{plan.run_id}?tab=checks").text
    assert "Its rules were checked" in page and "permissions were not tried" in page
    assert 'value="approve"' in page
    assert door(plan, "alice", **YES)[0] == DONE

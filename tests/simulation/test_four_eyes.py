"""Nobody approves what they requested, two people are two accounts, and hints work: as typed."""

import json
import shlex
from pathlib import Path

import pytest

from counterpoise.cli import repeating
from counterpoise.cli.common import read_plan
from counterpoise.installation import open_installation
from counterpoise.model.kafka import FOLLOWER_RATE
from counterpoise.model.person import Person
from counterpoise.services import plans
from tests.simulated_kafka.cluster import SimulatedCluster
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.ledger_view import forge_rate
from tests.support.pictures import simulated
from tests.support.runs import at_broker, own_configs

SKEWED = "\n".join(f"orders-{number}: 1 2 size=3000000" for number in range(6))
TWO = "access: {approve: [alice, bob]}"
YES = ("--rate", "1MB/s", "--reason", "broker 3 is new")


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SimulatedCluster:
    made = simulated(SKEWED, racks="1=a 2=b 3=c")
    let_commands_reach(made, monkeypatch)
    return made


def configure(shell: CommandLine, policy: str) -> None:
    shell.configure("simulated:9092", extra=f"    policy: {{{policy}}}\n")


def planned(shell: CommandLine, brokers: str = "3", name: str = "plan.json") -> Path:
    path = shell.folder / name
    goal = ("--goal", "demote-brokers" if brokers == "1" else "add-brokers", "--brokers", brokers)
    assert shell.type("plan", "--cluster", "demo", *goal, "--out", path).code == 0
    return path


def test_one_person_alone_needs_no_configuration(shell: CommandLine) -> None:
    configure(shell, "")
    path = planned(shell)
    assert shell.type("approve", path, *YES).code == 0
    assert shell.type("execute", path).code == 0


def test_who_typed_is_shown_everywhere(shell: CommandLine) -> None:
    configure(shell, "")
    path = planned(shell)
    shown = "tester (system user)"
    assert shown in shell.type("approve", path, *YES).out
    assert shown in " ".join(shell.type("status", path).out.split())
    (run,) = json.loads(shell.type("status", "--json").out)
    assert run["decided_by"] == shown
    assert shell.type("execute", path).code == 0
    (page,) = (shell.folder / "store" / "reports" / "demo").glob("**/*run*.html")
    assert shown in page.read_text()


@pytest.mark.parametrize("user", ["alice", "bob"])
def test_what_was_requested_in_airflow_is_not_answered_on_the_command_line(
    shell: CommandLine, user: str
) -> None:
    """The system user may be the requester, whatever the name is; told when they answer."""
    configure(shell, TWO)
    path = planned(shell)
    with shell._environment(), open_installation() as installation:
        origin = plans.Origin(Person.airflow("alice"))
        plans.submit(installation, read_plan(path), origin)
    refused = shell.type("approve", path, *YES, user=user)
    assert refused.code == 1
    assert "requested by the Airflow user alice: another Airflow user has to" in refused.err
    assert states(shell) == ["proposed"]


@pytest.mark.parametrize(
    ("words", "says", "code"),
    [
        (("--rate", "1MB/s", "--reason", " "), "reason: must not be empty", 2),
        (("--rate", "11MB/s", "--reason", "x"), "max_rate is 10.0 MB/s", 1),
        (("--rate", "9MB/s", "--reason", "x"), "link_capacity of the policy is 8.0 MB/s", 1),
    ],
)
def test_an_answer_without_a_reason_or_at_any_rate_grants_nothing(
    shell: CommandLine, words: tuple[str, ...], says: str, code: int
) -> None:
    movement = "movement: {rate: 5MB/s, link_capacity: 8MB/s}"
    configure(shell, f"{movement}, approval: {{max_rate: 10MB/s}}")
    path = planned(shell)
    typed = shell.type("approve", path, *words)
    assert typed.code == code, typed.out
    assert says in typed.err
    assert all(run["decision"] is None for run in json.loads(shell.type("status", "--json").out))


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (
            "access: {approve: [carol]}",
            "may not approve here; the policy names carol",
        ),
        (
            "access: {approve: [bob, tester]}, approval: {requester_may_approve: no}",
            "",
        ),
        ("movement: {rate: 50kB/s}, approval: {max_rate: 500kB/s}", "max_rate is 500 kB/s"),
    ],
)
def test_an_approval_is_checked_again_when_the_run_starts(
    shell: CommandLine, kafka: SimulatedCluster, policy: str, says: str
) -> None:
    configure(shell, TWO)
    path = planned(shell)
    assert shell.type("propose", path).code == 0
    assert shell.type("approve", path, *YES, user="bob").code == 0
    configure(shell, policy)
    typed = shell.type("execute", path)
    if says:
        assert typed.code == 1
        assert (
            "the approval by bob (system user) does not hold any more" in typed.err
            and says in typed.err
        )
        assert own_configs(kafka) == {}
    else:
        assert typed.code == 0, typed.err


def test_only_who_may_operate_supersedes_an_approved_run(shell: CommandLine) -> None:
    configure(shell, "access: {operate: [oscar]}")
    first, second = planned(shell), planned(shell, "1", "other.json")
    assert shell.type("propose", first).code == 0
    assert shell.type("propose", second).code == 0, "a plan that waits is superseded by anybody's"
    assert shell.type("approve", second, *YES).code == 0
    refused = shell.type("propose", first, user="mallory")
    assert refused.code == 1
    assert "mallory (system user) may not operate here" in refused.err
    assert shell.type("propose", first, user="oscar").code == 0


@pytest.mark.parametrize(
    "policy",
    [
        "movement: {rate: 1MB/s}, approval: {max_rate: 2MB/s}",
        "movement: {rate: 1MB/s, link_capacity: 2MB/s}",
    ],
)
def test_a_rate_that_was_written_past_the_check_stays_within_the_policy(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """By a role of the database that may insert requests, in the name of somebody else."""
    configure(shell, policy)
    path = planned(shell)
    assert shell.type("approve", path, *YES).code == 0
    rates: list[str] = []

    def wait(seconds: float) -> None:
        rate = own_configs(kafka).get(at_broker(3), {}).get(FOLLOWER_RATE)
        if rate and not rates:
            forge_rate(shell.folder / "ledger.db", 900_000_000)
        rates.extend([rate] if rate else [])
        kafka.advance(seconds)

    monkeypatch.setattr(repeating, "sleep", wait)
    typed = shell.type("execute", path)
    assert typed.code == 0, typed.err
    assert rates[0] == "1000000"
    assert set(rates[1:]) == {"2000000"}


class Execution:
    """`execute`, with the throttle rates that brokers had meanwhile."""

    def __init__(
        self, shell: CommandLine, kafka: SimulatedCluster, patch: pytest.MonkeyPatch
    ) -> None:
        self._shell, self._kafka, self._patch = shell, kafka, patch
        self.rates: set[int] = set()

    def run(
        self, path: Path, *, interrupted_after: int | None = None, command: str = "execute"
    ) -> int:
        """Return the exit code; killed by the keyboard after so many waits."""
        waits = 0
        self.rates.clear()

        def wait(seconds: float) -> None:
            nonlocal waits
            waits += 1
            for settings in own_configs(self._kafka).values():
                rates = (settings[key] for key in settings if key.endswith("throttled.rate"))
                self.rates.update(map(int, rates))
            self._kafka.advance(seconds)
            if waits == interrupted_after:
                raise KeyboardInterrupt

        with self._patch.context() as patch:
            patch.setattr(repeating, "sleep", wait)
            return self._shell.type(command, path).code


@pytest.fixture
def execution(
    shell: CommandLine, kafka: SimulatedCluster, monkeypatch: pytest.MonkeyPatch
) -> Execution:
    return Execution(shell, kafka, monkeypatch)


def halted_at_a_higher_rate(shell: CommandLine, execution: Execution) -> Path:
    """Return a plan that was approved at 100 kB/s, made faster under way, then settled."""
    path = planned(shell)
    yes = ("--rate", "100kB/s", "--reason", "x")
    assert shell.type("approve", path, *yes).code == 0
    assert execution.run(path, interrupted_after=4) == 130
    assert shell.type("rate", path, "120kB/s", "--why", "it is night").code == 0
    assert execution.run(path, interrupted_after=4) == 130
    assert 120_000 in execution.rates
    configure(shell, "movement: {on_halt: cancel}")
    assert execution.run(path, command="settle") == 0
    configure(shell, "")
    (run,) = json.loads(shell.type("status", "--json").out)
    assert run["state"] == "halted"
    return path


def test_a_rate_requested_before_is_checked_again_when_the_run_starts(
    shell: CommandLine, execution: Execution
) -> None:
    configure(shell, "")
    path = halted_at_a_higher_rate(shell, execution)
    for policy, says in (
        ("movement: {rate: 50kB/s}, approval: {max_rate: 110kB/s}", "max_rate is 110 kB/s"),
        ("access: {approve: [bob]}, approval: {requester_may_approve: yes}", "names bob"),
    ):
        configure(shell, policy)
        refused = shell.type("execute", path)
        assert refused.code == 1
        assert says in refused.err
    configure(shell, policy)
    again = ("--rate", "90kB/s", "--reason", "by who may")
    assert shell.type("approve", path, *again, user="bob").code == 0
    assert execution.run(path) == 0
    assert execution.rates == {90_000}


def test_one_account_gives_one_yes_and_the_hint_for_the_second_works_as_typed(
    shell: CommandLine,
) -> None:
    configure(shell, "")
    path = lowering(shell)
    first = shell.type("approve", path, *YES)
    assert "another system user has to approve it too" in first.out
    again = shell.type("approve", path, *YES)
    assert again.code == 0, "the same answer again changes nothing"
    assert "another system user has to approve it too" in again.out
    other = shell.type("approve", path, "--rate", "2MB/s", "--reason", "faster")
    assert other.code == 1
    assert "tester (system user) approved this plan, so another system user has to" in other.err
    assert shell.type("execute", path).code == 1
    second = shell.type(*line_in(first.out, "approve"), user="bob")
    assert second.code == 0, second.err
    assert "has to approve it too" not in second.out
    assert shell.type("approve", path, "--rate", "2MB/s", "--reason", "faster").code == 0
    assert shell.type("execute", path).code == 0


def line_in(text: str, command: str) -> list[str]:
    """Return the words of a printed line, as a shell splits them, without the program's name."""
    (line,) = [line for line in text.split("`") if line.startswith(f"counterpoise {command} ")]
    return shlex.split(line)[1:]


def test_a_printed_line_carries_the_address_that_this_command_was_given(
    shell: CommandLine,
) -> None:
    """Without it, the line would look for a cluster that clusters.yaml does not have."""
    at = ("--bootstrap", "simulated:9092")
    (shell.folder / "clusters.yaml").write_text("clusters: {}\n")
    path = shell.folder / "my plan.json"
    goal = ("--goal", "add-brokers", "--brokers", "3", "--out", path)
    assert shell.type("plan", *at, *goal).code == 0
    hint = shell.type("execute", path, *at)
    assert hint.code == 1
    assert shell.type(*filled_in(line_in(hint.err, "approve"))).code == 0
    assert shell.type("execute", path, *at).code == 0
    undo = shell.folder / "undo.json"
    back = shell.type("undo", path, *at, "--why", "x", "--out", undo)
    assert shell.type(*filled_in(line_in(back.out, "approve"))).code == 0
    executed = shell.type(*line_in(back.out, "execute"))
    assert executed.code == 0, executed.err


def filled_in(words: list[str]) -> list[str]:
    return [{"RATE": "1MB/s", "TEXT": "broker 3"}.get(word, word) for word in words]


def lowering(shell: CommandLine) -> Path:
    """A plan that two people approve, since it gives replicas up."""
    path = shell.folder / "lower.json"
    goal = ("--goal", "replication-factor", "--replication-factor", "1", "--topics", "orders")
    assert shell.type("plan", "--cluster", "demo", *goal, "--out", path).code == 0
    return path


def states(shell: CommandLine) -> list[str]:
    """The states of all runs, the newest first."""
    return [run["state"] for run in json.loads(shell.type("status", "--json").out)]


@pytest.mark.parametrize("state", ["proposed", "approved"])
def test_a_no_to_a_plan_that_does_not_wait_leaves_the_one_that_does(
    shell: CommandLine, state: str
) -> None:
    configure(shell, "")
    old, new = planned(shell), planned(shell, "1", "other.json")
    no = ("reject", old, "--reason", "no")
    assert shell.type("propose", old).code == 0
    assert shell.type(*no).code == 0
    assert shell.type("propose", new).code == 0
    if state == "approved":
        assert shell.type("approve", new, *YES).code == 0
    again = shell.type(*no)
    assert again.code == 0, "the same no, as at every door"
    assert states(shell) == [state, "rejected"]
    refused = shell.type("reject", old, "--reason", "no", user="bob")
    assert refused.code == 1 and "waits for no answer any more" in " ".join(refused.err.split())
    assert states(shell) == [state, "rejected"]


def test_a_no_that_is_refused_opens_no_run(shell: CommandLine) -> None:
    configure(shell, TWO)
    waiting, other = planned(shell), planned(shell, "1", "other.json")
    assert shell.type("propose", waiting, user="mallory").code == 0
    refused = shell.type("reject", other, "--reason", "x", user="mallory")
    assert refused.code == 1
    assert "of another plan is proposed" in refused.err
    assert states(shell) == ["proposed"]

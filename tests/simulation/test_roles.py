"""Who may do what: the table of docs/security.md, walked through the command line and the pages."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from counterpoise.ledger import Ledger
from counterpoise.model.control import Control, ControlRequest
from counterpoise.model.run import RunState
from tests.support import web
from tests.support.command_line import CommandLine, let_commands_reach
from tests.support.ledger_view import change_state
from tests.support.pictures import simulated

ROOT = Path(__file__).parents[2]
PEOPLE = {"view": "vera", "propose": "pia", "approve": "alice", "operate": "oscar"}
POLICY = ", ".join(f"{permission}: [{name}]" for permission, name in PEOPLE.items())
SKEWED = "\n".join(f"orders-{number}: 1 2 size=3000000" for number in range(6))
WHY = ("--why", "x")
READING = "read runs, plans and reports on Airflow's pages"


@dataclass(frozen=True)
class Row:
    action: str
    command: str
    cells: dict[str, str]  # by permission: yes, no, or own


def rows() -> list[Row]:
    text = (ROOT / "docs" / "security.md").read_text()
    header = "| action | command line | view | propose | approve | operate |"
    table = text.split(header)[1].split("\n\n")[0].splitlines()[2:]
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return [
        Row(action, command.strip("`"), dict(zip(PEOPLE, cells, strict=True)))
        for action, command, *cells in lines
    ]


ALLOWED = [
    (row, permission)
    for row in rows()
    for permission, cell in row.cells.items()
    if row.command and cell != "no"
]


class Story:
    """A cluster whose four permissions belong to four people, and a run in the state for it."""

    def __init__(self, shell: CommandLine) -> None:
        self.shell = shell
        self.plan = shell.folder / "plan.json"
        words = ("--goal", "add-brokers", "--brokers", "3", "--out", self.plan)
        assert shell.type("plan", "--cluster", "demo", *words).code == 0

    def typed(self, user: str, *words: str | Path) -> None:
        typed = self.shell.type(*words, user=user)
        assert typed.code == 0, typed.err

    def proposed(self) -> None:
        self.typed("pia", "propose", self.plan)

    def approved(self) -> None:
        self.proposed()
        self.typed("alice", "approve", self.plan, "--rate", "10MB/s", "--reason", "x")

    def running(self) -> None:
        self.approved()
        ledger = Ledger.open(
            self.shell.environment["COUNTERPOISE_LEDGER"], lambda: datetime.now(UTC)
        )
        change_state(ledger, ledger.runs()[0].run_id, RunState.RUNNING)
        ledger.close()

    def paused(self) -> None:
        self.running()
        self.typed("oscar", "pause", self.plan, *WHY)

    def frozen(self) -> None:
        self.typed("oscar", "freeze", "demo", "--until", "8h", *WHY)

    def kept_empty(self) -> None:
        url = self.shell.environment["COUNTERPOISE_LEDGER"]
        now = datetime.now(UTC)
        keep = ControlRequest("demo", None, Control.KEEP_EMPTY, "alice", "x", now, broker_id=3)
        with closing(Ledger.open(url, lambda: now)) as ledger:
            ledger.record_request(keep)

    def nothing(self) -> None:
        """Need no run."""


YES = ("PLAN", "--rate", "10MB/s", "--reason", "x")
NO = ("PLAN", "--reason", "x")
# What comes before, and what is typed after the command.
STORIES: dict[str, tuple[Callable[[Story], None], tuple[str, ...]]] = {
    "propose a plan, also an undo plan": (Story.nothing, ("PLAN",)),
    "approve a plan of somebody else": (Story.proposed, YES),
    "reject a plan that waits": (Story.proposed, NO),
    "reject an approved plan that has not started": (Story.approved, NO),
    "start an approved run": (Story.approved, ("PLAN",)),
    "pause a run": (Story.running, ("PLAN", *WHY)),
    "let a run go on": (Story.paused, ("PLAN", *WHY)),
    "copy slower, or as fast as was approved": (Story.running, ("PLAN", "10MB/s", *WHY)),
    "copy faster than was approved": (Story.running, ("PLAN", "11MB/s", *WHY)),
    "cancel a run": (Story.running, ("PLAN", *WHY)),
    "undo a run under way: cancels it": (Story.running, ("PLAN", *WHY, "--out", "undo.json")),
    "end a run": (Story.running, ("PLAN",)),
    "freeze a cluster": (Story.nothing, ("demo", "--until", "8h", *WHY)),
    "end a freeze": (Story.frozen, ("demo", *WHY)),
    "release a broker": (Story.kept_empty, ("demo", "--brokers", "3", *WHY)),
}


@pytest.fixture
def story(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Story:
    kafka = simulated(SKEWED, racks="1=a 2=b 3=c")
    let_commands_reach(kafka, monkeypatch)
    monkeypatch.chdir(tmp_path)
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("simulated:9092", extra=f"    policy: {{access: {{{POLICY}}}}}\n")
    return Story(shell)


def test_the_table_has_every_story_and_the_other_way_round() -> None:
    assert {row.action for row in rows()} == {*STORIES, READING}


@pytest.mark.parametrize(
    ("row", "permission"), ALLOWED, ids=[f"{row.action}: {who}" for row, who in ALLOWED]
)
def test_the_command_line_does_what_the_table_says(story: Story, row: Row, permission: str) -> None:
    """First those who may not, then the one who may."""
    prepare, words = STORIES[row.action]
    prepare(story)
    typed_words = [story.plan if word == "PLAN" else word for word in words]
    for other in (who for who, cell in row.cells.items() if cell == "no"):
        refused = story.shell.type(row.command, *typed_words, user=PEOPLE[other])
        assert refused.code == 1, f"{other}: {refused.out or refused.err}"
        assert "here; the policy names" in refused.err
    typed = story.shell.type(row.command, *typed_words, user=PEOPLE[permission])
    assert typed.code == 0, typed.err
    is_own = row.command == "reject" and permission == "propose"
    assert row.cells[permission] == ("own" if is_own else "yes")


@pytest.mark.parametrize("permission", PEOPLE)
def test_the_pages_do_what_the_table_says(story: Story, permission: str) -> None:
    environment = story.shell.environment
    report = story.shell.folder / "store" / "reports" / "demo" / "a.html"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.write_text("hello")
    (cells,) = (row.cells for row in rows() if row.action == READING)
    with web.browser(environment, PEOPLE[permission], role="user") as client:
        status = client.get("/reports/demo/a.html").status_code
    assert status == (200 if cells[permission] == "yes" else 403)

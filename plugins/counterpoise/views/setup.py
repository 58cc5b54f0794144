"""What people see while Counterpoise is set up: steps, and what this server sees.

view.steps[0].is_done, view.next_step
"""

from msgspec import Struct


class Step(Struct, frozen=True):
    """One thing that has to be there."""

    title: str
    word: str  # done, missing, 6 of 6 are paused
    text: str = ""
    lines: str = ""  # to type
    more: tuple[str, str] | None = None  # a title, and what is folded below it
    action: str = ""  # what a button does: unpause, snapshot
    button: str = ""
    is_later: bool = False  # another step comes first
    is_elsewhere: bool = False  # somebody does it elsewhere
    is_under_way: bool = False  # nobody has to do anything: the page loads itself again

    @property
    def is_done(self) -> bool:
        return self.word == "done"


class SetupView(Struct, frozen=True):
    steps: tuple[Step, ...]
    sees: tuple[tuple[str, str], ...]

    @property
    def done_count(self) -> int:
        return sum(step.is_done for step in self.steps)

    @property
    def is_done(self) -> bool:
        return self.done_count == len(self.steps)

    @property
    def next_step(self) -> Step | None:
        """Return the first step that somebody can do now."""
        return next((one for one in self.steps if not one.is_done and not one.is_later), None)

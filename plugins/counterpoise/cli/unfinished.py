"""What a command leaves that ends before its run does: trouble, Ctrl-C, SIGTERM, a closed terminal.

    with saying_what_is_left(installation, run.run_id, go_on):
        ...    # stderr: run demo-... goes on without this process: 2 partitions keep moving, ...

On stderr, also with --quiet, and among the events of the run: whoever closed the terminal finds it
on its page.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from counterpoise.errors import CounterpoiseError, LedgerError
from counterpoise.installation import Installation
from counterpoise.model.run import UNDER_WAY_STATES
from counterpoise.model.safe_text import one_line
from counterpoise.services.left import left_of

_EVENT: Final = "process ended"


@contextmanager
def saying_what_is_left(installation: Installation, run_id: str, go_on: str) -> Iterator[None]:
    """Say what is left of a run under way where the block ends with an exception; `go_on` are the
    commands that go on with the run, or end it.
    """
    try:
        yield
    except (KeyboardInterrupt, BrokenPipeError, CounterpoiseError) as ended_by:
        text = _what_is_left(installation, run_id)
        if text is None:
            if not isinstance(ended_by, CounterpoiseError):
                _say(f"nothing of run {run_id} is under way")
            raise
        _say(f"run {run_id} goes on without this process: {text}. {go_on}")
        with suppress(LedgerError):
            installation.ledger.journal(run_id).event(_EVENT, text)
        raise


def _what_is_left(installation: Installation, run_id: str) -> str | None:
    """Return what moves and what is set; None where the run is not under way."""
    try:
        if installation.ledger.run(run_id).state not in UNDER_WAY_STATES:
            return None
        return left_of(installation, run_id).in_words
    except LedgerError:
        return "what is in flight keeps moving under its throttle; the ledger does not say how much"


def _say(text: str) -> None:
    with suppress(OSError):  # nobody reads it any more
        print(one_line(text), file=sys.stderr, flush=True)

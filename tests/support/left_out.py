"""Tests that a run left out: noted by each session, told in one line at the end of `make test`.

    python -m tests.support.left_out FILE
    left out: 3 tests: docker-compose is not installed (apt-get install docker-compose)

FILE has a line for each test that was skipped: the reason, which says how to get what is missing.
Sessions find its name in COUNTERPOISE_LEFT_OUT; without it nothing is noted.
"""

import os
import sys
from collections import Counter
from pathlib import Path

VARIABLE = "COUNTERPOISE_LEFT_OUT"


def note_left_out(reason: str) -> None:
    """Append the reason, as one line, to the file that the environment names."""
    if name := os.environ.get(VARIABLE):
        with Path(name).open("a") as file:
            file.write(" ".join(reason.split()) + "\n")


def summary(reasons: list[str]) -> str:
    """Return the line that `make test` ends with."""
    if not reasons:
        return "left out: nothing"
    counts = Counter(reasons).most_common()
    parts = [f"{count} test{'s' * (count > 1)}: {reason}" for reason, count in counts]
    return f"left out: {'; '.join(parts)}"


def main(name: str) -> None:
    path = Path(name)
    reasons = path.read_text().splitlines() if path.exists() else []
    sys.stdout.write(summary(reasons) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

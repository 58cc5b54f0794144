"""The last resort: an exception that nobody foresaw becomes one line, and a file with the details.

    return report_unexpected(error, "show")      # 70, EX_SOFTWARE of sysexits.h

The file is for its owner alone: what went wrong may be in it with names and values of the settings.
"""

import os
import platform
import sys
import tempfile
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

UNEXPECTED: Final = 70


def report_unexpected(error: Exception, command: str) -> int:
    """Print one line, without what the exception says, and return the exit code."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    print(
        f"counterpoise {command}: a mistake in Counterpoise ({type(error).__name__} at "
        f"{Path(where.filename).name}:{where.lineno}); {_kept(error, command)}",
        file=sys.stderr,
    )
    return UNEXPECTED


def _kept(error: Exception, command: str) -> str:
    try:
        handle, path = tempfile.mkstemp(prefix="counterpoise-", suffix=".txt")
        with os.fdopen(handle, "w", errors="backslashreplace") as file:
            file.write(_details(error, command))
    except OSError as failure:
        return f"no file with the details could be written ({failure.strerror})"
    return f"please read {path}, and report it with that"


def _details(error: Exception, command: str) -> str:
    return "\n".join(
        (
            f"counterpoise {command}",
            f"Python {platform.python_version()}, {platform.platform()}",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            "Names and values of your settings may be below: read it before you pass it on.",
            "",
            "".join(traceback.format_exception(error)),
        )
    )

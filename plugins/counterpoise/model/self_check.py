"""What `counterpoise self-check` says of each thing that Counterpoise runs on.

failed("java", "no Java 17 or 21 was found", "install one, or set COUNTERPOISE_JAVA_HOME")
"""

from enum import StrEnum
from typing import NamedTuple


class CheckState(StrEnum):
    OK = "ok"
    FAILED = "failed"
    LEFT_OUT = "left out"  # not there, and not needed by everybody


class CheckResult(NamedTuple):
    what: str
    state: CheckState
    detail: str  # without secrets
    remedy: str = ""  # what to do, where it failed


def passed(what: str, detail: str) -> CheckResult:
    return CheckResult(what, CheckState.OK, detail)


def failed(what: str, detail: str, remedy: str) -> CheckResult:
    return CheckResult(what, CheckState.FAILED, detail, remedy)


def left_out(what: str, detail: str) -> CheckResult:
    return CheckResult(what, CheckState.LEFT_OUT, detail)

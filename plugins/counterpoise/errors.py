"""Errors that a caller acts on, with an exit code and whether a retry makes sense.

    raise InputError("--brokers 7,7: broker 7 is listed twice; list each broker once")

A message says what is wrong, where, and what to do. It never holds a secret.
"""

from collections.abc import Hashable, Sequence
from typing import Final

_MAX_COMPLAINTS: Final = 20


def list_complaints(where: str, complaints: Sequence[str]) -> str:
    """Return `x.json: 3 problems` and the first 20 of them, one a line."""
    lines = [f"{where}: {_count_problems(complaints)}"]
    lines += [f"  {complaint}" for complaint in complaints[:_MAX_COMPLAINTS]]
    if len(complaints) > _MAX_COMPLAINTS:
        lines.append(f"  ... and {len(complaints) - _MAX_COMPLAINTS} more")
    return "\n".join(lines)


def _count_problems(complaints: Sequence[str]) -> str:
    return "1 problem" if len(complaints) == 1 else f"{len(complaints)} problems"


class CounterpoiseError(Exception):
    """The base of all.

    `exit_code` is that of the command line, `retryable` whether trying again may help.
    """

    exit_code = 3
    retryable = False


class InputError(CounterpoiseError):
    """An argument, a document or a configuration cannot be used; nothing was changed."""

    exit_code = 2


class UnknownNameError(InputError):
    """There is nothing of this name: no such run, report, cluster, or form."""


class MissingConnectionError(InputError):
    """Nobody has said how a cluster is reached: there is no connection of this id."""


class ConfigurationError(InputError):
    """`config/clusters.yaml` or a connection cannot be read or is malformed; `complaints` has all
    that is wrong.
    """

    def __init__(self, where: str, complaints: tuple[str, ...]) -> None:
        self.where = where
        self.complaints = complaints
        lines = [f"{where}: {_count_problems(complaints)}"]
        lines += [f"  {complaint}" for complaint in complaints]
        super().__init__("\n".join(lines))


class RefusedError(CounterpoiseError):
    """A rule forbids what was requested; nothing was changed."""

    exit_code = 1


class MayNotError(RefusedError):
    """The policy does not let this person do it; whatever was typed, it would be refused."""


class NotApprovedError(RefusedError):
    """The ledger holds no granted, unexpired approval of exactly this plan."""


class StalePlanError(RefusedError):
    """The cluster is no longer what the plan was made for; a new plan is needed."""


class RunConflictError(RefusedError):
    """Another run is open on this cluster, or another process executes this one."""

    retryable = True


class StepLockHeldError(RunConflictError):
    """Another process holds the run's step lock; if it died, the lock expires soon."""


class StepExpiredError(RunConflictError):
    """The process was stopped for longer than its step lock holds: what it knows may be old."""


class HaltedError(RefusedError):
    """The run halted for a reason that a person has to look into."""


class CancelledError(HaltedError):
    """A person has cancelled the run: nothing is wrong."""


class ClusterError(CounterpoiseError):
    """The cluster, or the network to it, is in trouble."""

    exit_code = 3


class NotPermittedError(ClusterError):
    """The principal lacks a permission; the message names it."""


class UnsupportedRequestError(ClusterError):
    """The broker is too old for a request, or has no part of the cluster that it is about."""


class RetriableClusterError(ClusterError):
    """The cluster refused for now, with an error that Kafka calls retriable: while another
    controller takes over, for example.
    """

    retryable = True


class ClusterUnreachableError(ClusterError):
    """Nobody responds; `attempts` has each address with its reason.

    The addresses are those of the bootstrap list or, `are_advertised`, those of the brokers.
    """

    retryable = True

    def __init__(
        self, attempts: tuple[tuple[str, str], ...], *, are_advertised: bool = False
    ) -> None:
        self.attempts = attempts
        nobody = "no address that brokers advertise" if are_advertised else "no bootstrap address"
        self._nobody = f"{nobody} answered"
        lines = "\n".join(f"  {address}: {reason}" for address, reason in attempts)
        super().__init__(
            f"{self._nobody} ({len(attempts)} tried):\n{lines}\n"
            "Check the addresses, the security settings and the network between here and "
            "the brokers."
        )

    @property
    def in_one_line(self) -> str:
        """Return what happened, with the first address."""
        return f"{self._nobody}: {': '.join(self.attempts[0])}" if self.attempts else self._nobody


class BrokerUnresponsiveError(ClusterError):
    """A broker does not respond, and nothing was changed.

    It may be dead and not yet fenced, or the quorum is electing a leader.
    """

    retryable = True


class WrongClusterError(ClusterError):
    """The cluster that responded has another cluster id than the pinned one."""


class UnknownOutcomeError(ClusterError):
    """A call that changes the cluster got no response: it may still be applied, even much later.

    `broker_id` is the broker it was sent to (None: any). Once that broker's session has ended, and
    the cluster has been quiet since, the call will not be applied any more. `subjects` are the
    topics and brokers whose outcome is not known, where a call was made in several requests; empty:
    all of it.
    """

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        broker_id: int | None = None,
        subjects: frozenset[Hashable] = frozenset(),
    ) -> None:
        self.broker_id = broker_id
        self.subjects = subjects
        super().__init__(message)


class StoreError(CounterpoiseError):
    """The store (history, plans, reports) cannot be read or written."""

    exit_code = 3
    retryable = True


class LedgerError(CounterpoiseError):
    """The ledger database cannot be reached or has another schema version."""

    exit_code = 3
    retryable = True


class LedgerNotMigratedError(LedgerError):
    """There are no tables yet, or those of an earlier release: `counterpoise ledger migrate`."""

"""Errors that a caller would act on, each with the exit code of the command line and whether a
retry makes sense.

    raise InputError("--brokers 7,7: broker 7 is listed twice; list each broker once")

A message says what is wrong, where, and what to do. It never holds a secret.
"""


class CounterpoiseError(Exception):
    """The base: `exit_code` is what the command line ends with, `retryable` whether trying again
    may help.
    """

    exit_code = 3
    retryable = False


class InputError(CounterpoiseError):
    """Something a person wrote (argument, document, configuration) cannot be used.

    Nothing was changed.
    """

    exit_code = 2


class ConfigurationError(InputError):
    """`config/clusters.yaml` or a connection is malformed; `complaints` lists all of them at once."""

    def __init__(self, where: str, complaints: tuple[str, ...]) -> None:
        self.where = where
        self.complaints = complaints
        super().__init__(
            "\n".join([f"{where}: {len(complaints)} problem(s)", *(f"  {c}" for c in complaints)])
        )


class RefusedError(CounterpoiseError):
    """The answer is "no": a rule forbids what was asked. Nothing was changed."""

    exit_code = 1


class NotApprovedError(RefusedError):
    """The ledger holds no granted, unexpired approval of exactly this plan."""


class StalePlanError(RefusedError):
    """The cluster is no longer what the plan was made for; a new plan is needed."""


class RunConflictError(RefusedError):
    """Another run is open on this cluster, or another copy of this one is at work."""

    retryable = True


class StepTakenError(RunConflictError):
    """Another process holds the run's step lock; if it died, the lock ends by itself soon."""


class HaltedError(RefusedError):
    """The run stopped itself for a reason that a person has to look at."""


class ClusterError(CounterpoiseError):
    """The cluster, or something on the way to it, is in trouble."""

    exit_code = 3


class ClusterUnreachableError(ClusterError):
    """No bootstrap address answered; `attempts` has each address with its reason."""

    retryable = True

    def __init__(self, attempts: tuple[tuple[str, str], ...]) -> None:
        self.attempts = attempts
        lines = "\n".join(f"  {address}: {reason}" for address, reason in attempts)
        super().__init__(
            f"no bootstrap address answered ({len(attempts)} tried):\n{lines}\n"
            "Check the addresses, the security settings and the network between here and the brokers."
        )


class BrokerSilentError(ClusterError):
    """A broker gave no answer and nothing was changed: it may be dead, not yet noticed, or the
    quorum is electing.
    """

    retryable = True


class WrongClusterError(ClusterError):
    """The cluster that answered has another cluster id than the pinned one."""


class UnknownOutcomeError(ClusterError):
    """A call that changes the cluster got no answer: it may still be applied, even much later.

    `broker_id` is the broker that was asked (None: not one in particular): once its session has
    ended, and the cluster has been quiet since, nothing of the call will come any more.
    """

    retryable = True

    def __init__(self, message: str, *, broker_id: int | None = None) -> None:
        self.broker_id = broker_id
        super().__init__(message)


class StoreError(CounterpoiseError):
    """The store (history, plans, reports) cannot be read or written."""

    exit_code = 3
    retryable = True


class LedgerError(CounterpoiseError):
    """The ledger database cannot be reached or has another schema version."""

    exit_code = 3
    retryable = True

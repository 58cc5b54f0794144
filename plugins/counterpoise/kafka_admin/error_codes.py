"""Error codes in responses as text, with the permission that is missing and what grants it.

raise_for(response.error_code, None, "the log dirs of broker 4", DESCRIBE_CLUSTER, broker_client)
"""

from typing import Protocol

import kafka.errors as kafka_errors

from counterpoise.errors import ClusterError, NotPermittedError, RetriableClusterError
from counterpoise.model.acl import Acl


class HasPrincipal(Protocol):
    """Who sends requests."""

    @property
    def principal(self) -> str: ...

    def acl_to_grant(self, acl: Acl) -> Acl: ...


def is_refusal(error_code: int) -> bool:
    """Return whether a permission is missing."""
    return issubclass(kafka_errors.for_code(error_code), kafka_errors.AuthorizationError)


def describe_error_code(
    error_code: int, message: str | None, acl: Acl | None = None, sender: HasPrincipal | None = None
) -> str:
    """Return `NAME: message` of an error code in a response; "" for no error.

    For a missing permission the message has what is needed (`acl`, or the one with it that the
    sender needs anyway) and the command that grants it to the sender.
    """
    if error_code == 0:
        return ""
    error = kafka_errors.for_code(error_code)
    name = getattr(error, "message", None) or f"error {error_code}"
    if is_refusal(error_code):
        # Kafka's own message is a dump of the whole request.
        lacking = f"{name}: the principal lacks a permission (ACL)"
        if acl is None or sender is None:
            return lacking
        who, needed = sender.principal, sender.acl_to_grant(acl)
        return f"{lacking}: {who} needs {needed.in_words}; grant it with `{needed.grant(who)}`"
    return f"{name}: {message}" if message and message != name else name


def raise_for(
    error_code: int,
    message: str | None,
    what: str,
    acl: Acl | None = None,
    sender: HasPrincipal | None = None,
) -> None:
    """Raise ClusterError for an error code, NotPermittedError where a permission is missing, and
    RetriableClusterError where trying again may help, as the message says then.

    `acl` is the permission that the request of `sender` needs.
    """
    if error_code:
        reason = f"{what}: {describe_error_code(error_code, message, acl, sender)}"
        if is_refusal(error_code):
            raise NotPermittedError(reason)
        if kafka_errors.for_code(error_code).retriable:
            raise RetriableClusterError(f"{reason}; try again")
        raise ClusterError(reason)

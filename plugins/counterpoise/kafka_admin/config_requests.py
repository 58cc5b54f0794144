"""Config changes in requests that Kafka accepts, and how the reasons of failed ones begin.

in_requests(changes)    # [[those of topics, at most 4,000], ...]
without_answer(errors)  # resources whose change may still be applied
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from counterpoise.model.grouping import grouped
from counterpoise.model.kafka import ConfigChange, ConfigResource, ResourceKey

# The reason begins so where a change was sent without response,
NO_RESPONSE: Final = "no answer"
# and so where its broker did not respond, so that nothing was sent.
NOT_SENT: Final = "nothing was sent"
# Of topics, in one request: the controller refuses more than 10,000 records. What a record holds is
# the whole list, which may be longer than the change.
MAX_CHANGES_PER_REQUEST: Final = 4_000
MAX_CHARACTERS_PER_REQUEST: Final = 1_000_000


def without_repeated_keys(changes: Iterable[ConfigChange]) -> list[list[ConfigChange]]:
    """Return the changes in as few parts as name each key at most once, in order.

    Example: APPEND to the list of orders, SUBTRACT from it, SET of a rate: the first and the last
    are one part, the SUBTRACT is the second.
    """
    parts: list[list[ConfigChange]] = []
    times: Counter[ResourceKey] = Counter()
    for change in changes:
        part = times[change.resource_key]
        times[change.resource_key] += 1
        parts += [[]] if part == len(parts) else []
        parts[part].append(change)
    return parts


def without_answer(errors: Mapping[ConfigResource, str]) -> set[ConfigResource]:
    """Return the resources that were sent a change and did not answer: they may still apply it."""
    return {resource for resource, reason in errors.items() if reason.startswith(NO_RESPONSE)}


def in_requests(changes: Iterable[ConfigChange]) -> list[list[ConfigChange]]:
    """Return the changes in requests that Kafka accepts, in the order in which they are sent.

    Each names a key at most once, and has the changes of all brokers that it names, and of topics
    no more than a request may hold. Example: 6,000 topics with two lists each are 4,000 changes,
    4,000 changes, and 4,000 changes.
    """
    return [request for part in without_repeated_keys(changes) for request in _within_limits(part)]


def _within_limits(changes: Iterable[ConfigChange]) -> list[list[ConfigChange]]:
    """Return the changes in as few requests as the limits allow, those of a resource together."""
    changes_by_resource = grouped((change.resource, change) for change in changes)
    requests: list[list[ConfigChange]] = [[]]
    count = characters = 0
    for resource, own_changes in sorted(changes_by_resource.items(), key=lambda i: i[0].is_topic):
        if resource.is_topic:
            count += len(own_changes)
            characters += sum(len(change.value) for change in own_changes)
        if count > MAX_CHANGES_PER_REQUEST or characters > MAX_CHARACTERS_PER_REQUEST:
            requests.append([])
            count = len(own_changes)
            characters = sum(len(change.value) for change in own_changes)
        requests[-1] += own_changes
    return [request for request in requests if request]

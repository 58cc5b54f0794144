"""What can be wrong with the content of a plan whose fingerprint is right: another program made it.

    check_content(document)            # ValueError: moves[0]: topic 5 is no topic of Kafka

Limits: types, and what a move has to be by itself; whether it fits the cluster is validation's.
"""

from collections.abc import Mapping
from typing import Any, Final

from counterpoise.model.document_checks import is_id, is_topic

_TEXTS: Final = ("cluster", "cluster_id", "snapshot_id", "policy_digest", "reason", "undoes")


def check_content(content: Mapping[str, Any]) -> None:
    """Raises ValueError, or what a missing key raises, for the first thing that is wrong."""
    for key in _TEXTS:
        if not isinstance(content[key], str):
            raise ValueError(f"{key} must be text")
    if not all(isinstance(warning, str) for warning in content["warnings"]):
        raise ValueError("warnings must be texts")
    seen: set[tuple[str, int]] = set()
    for index, move in enumerate(content["moves"]):
        complaint = _complaint(move)
        if not complaint and (move["topic"], move["partition"]) in seen:
            complaint = f"{move['topic']}-{move['partition']} moves twice"
        if complaint:
            raise ValueError(f"moves[{index}]: {complaint}")
        seen.add((move["topic"], move["partition"]))


def _complaint(move: Mapping[str, Any]) -> str | None:
    if not is_topic(move["topic"]):
        return f"topic {str(move['topic'])[:60]!r} is no topic of Kafka"
    if not is_id(move["partition"]):
        return f"partition {move['partition']!r} is no whole number, 0 or more"
    for key in ("replicas_before", "replicas_after"):
        replicas = move[key]
        if not isinstance(replicas, list) or not replicas or not all(is_id(b) for b in replicas):
            return f"{key} must be a list of one or more broker ids"
        if len(set(replicas)) != len(replicas):
            return f"{key} names a broker twice: {replicas}"
    for key, least in (("size_bytes", 0), ("bytes_in_per_second", 0), ("leader_before", -1)):
        value = move[key]
        is_untold = value is None and key == "bytes_in_per_second"
        if not is_untold and (type(value) is not int or not least <= value < 2**63):
            return f"{key} is {str(value)[:60]!r}; it must be a whole number, {least} or more"
    return None

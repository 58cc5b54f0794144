"""What did not answer, so that rules could not look.

    yield from not_told(facts, Asked.BROKER_CONFIGS)     # in a rule: "unknown", with what kept silent as its cause
    silent(facts)                                        # {"broker 2": ("broker configs", "versions"), ...}

A cause is named as the rule `not-answered` names its findings: "broker 2"; or what was asked
("metadata quorum"), where nobody at all answered it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.rule import Sighting, unknown
from counterpoise.model.inspection import Asked
from counterpoise.model.words import join_ids

NOT_ANSWERED: Final = "not-answered"
LOG_DIRS: Final = "log dirs"  # told in the photograph
WALK: Final = "walk"
NOBODY_WALKED: Final = "nobody walked to the cluster's endpoints"
_CLUSTER: Final = "cluster"


def not_told(facts: AuditFacts, what: str, without: str = "") -> Iterator[Sighting]:
    """Nothing where every live broker told it; `without`: what else was not found."""
    told = _told(facts)[what]
    missing = [broker_id for broker_id in facts.snapshot.live_broker_ids if broker_id not in told]
    if missing:
        words = f"{without}{what} of broker {join_ids(missing)}: {why(facts, what)}"
        yield unknown(_CLUSTER, words, causes(facts, what, missing))


def causes(facts: AuditFacts, what: str, broker_ids: Iterable[int]) -> tuple[str, ...]:
    """Why it is not known of these brokers; none if one of them did answer."""
    if _told(facts)[what].intersection(broker_ids):
        return ()
    return tuple(cause for cause, whats in silent(facts).items() if what in whats)


def silent(facts: AuditFacts) -> Mapping[str, tuple[str, ...]]:
    """By cause, what is not known because of it; brokers by id, then what nobody answered."""
    told, live = _told(facts), facts.snapshot.live_broker_ids
    found: dict[str, tuple[str, ...]] = {}
    for broker_id in live:
        if whats := tuple(
            what for what, brokers in told.items() if brokers and broker_id not in brokers
        ):
            found[f"broker {broker_id}"] = whats
    found |= {what: (what,) for what, brokers in told.items() if live and not brokers}
    if facts.inspection.quorum is None:
        found[Asked.QUORUM] = (Asked.QUORUM,)
    if facts.walk is None:
        found[WALK] = (WALK,)
    return found


def why(facts: AuditFacts, what: str) -> str:
    if what == WALK:
        return NOBODY_WALKED
    otherwise = "the cluster has no metadata quorum" if what == Asked.QUORUM else "not told"
    return facts.inspection.unanswered.get(what, otherwise)


def _told(facts: AuditFacts) -> dict[str, frozenset[int]]:
    """Who answered, by what every live broker is asked."""
    asked = facts.inspection
    return {
        Asked.BROKER_CONFIGS: frozenset(asked.broker_configs),
        Asked.VERSIONS: frozenset(asked.versions),
        Asked.FEATURES: frozenset(asked.features),
        LOG_DIRS: frozenset(facts.snapshot.log_dirs["broker_id"].unique().to_pylist()),
    }

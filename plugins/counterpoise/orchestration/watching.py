"""One watch of one cluster, told in the task's log: what was put in order, and what a person has to
look at.

found = watch_cluster(site, "orders-eu")  # {"cluster": "orders-eu", "found": "1 foreign throttle"}
"""

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from counterpoise.installation import Installation

_LOGGER = logging.getLogger(__name__)
_DONE: Final = {
    "settled_runs": "runs settled",
    "paid": "config keys restored",
    "late_moves": "moves that came late",
}
_TO_LOOK_AT: Final = {
    "owed": "config keys owed by dead brokers",
    "foreign_throttles": "throttles that no run of ours has set",
}


def watch_cluster(installation: "Installation", cluster: str) -> dict[str, str]:
    """Looks after a cluster and logs each thing that was found; the summary. Raises what makes a
    watch impossible.

    What is left for a person is a warning and no failure: it would be the same at every watch until
    somebody has time.
    """
    from counterpoise import pipeline

    report = pipeline.watch_throttles(installation, cluster, _LOGGER.info)
    counted = []
    for names, level in ((_DONE, logging.INFO), (_TO_LOOK_AT, logging.WARNING)):
        for name, words in names.items():
            found: tuple[str, ...] = getattr(report, name)
            for one in found:
                _LOGGER.log(level, "%s: %s", words, one)
            if found:
                counted.append(f"{len(found)} {words}")
    return {"cluster": cluster, "found": ", ".join(counted) or "nothing"}

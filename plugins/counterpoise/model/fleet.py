"""What is known of each cluster of the fleet, and what can be the matter with it.

ClusterState("demo", age, balance=balance, load=load, wanted=wanted)
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from counterpoise.model.balance import LeaderBalance, LeftOut, WantedRebalance
from counterpoise.model.load import ClusterLoad

DEFAULT_PATIENCE: Final = timedelta(hours=24)  # with one snapshot there is no usual interval


class Concern(StrEnum):
    """What can be the matter with a cluster, the gravest first: clusters are ordered by their
    gravest concern.
    """

    SILENT = "silent"  # no new snapshot, though one is due: whatever else is known of it is old
    NOT_ANALYSED = "not analysed"
    OFFLINE = "offline"  # partitions that nobody leads
    CRITICAL = "critical findings"  # of the newest audit, that nobody waived
    DISK = "disk"  # a disk is full within 30 days
    DEAD = "dead broker"  # registered, but not live
    IDLE = "idle broker"  # live, and holds nothing
    UNEVEN = "uneven leaders"  # more than the policy allows
    OFF_SHARE = "uneven replicas or bytes"  # farther from a fair share than the policy allows
    NOT_PREFERRED = (
        "not preferred"  # more than 10 % of partitions are not led by their preferred leader
    )
    BUSY = "busy broker"  # takes in 1.5 times its share or more, as leader
    LEFT_OUT = "left out"  # snapshots that could not be analysed


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What is known of one cluster by now."""

    cluster: str
    age: timedelta | None  # of its newest snapshot; None: it has none
    balance: LeaderBalance | None = None  # None: not analysed
    load: ClusterLoad | None = None
    wanted: WantedRebalance | None = None  # what would help; None: the policy asks for nothing
    left_out: tuple[LeftOut, ...] = ()

"""Who runs a cluster for the team, and what that leaves open: a table of five rows.

    profile_of(Provider.MSK).max_partitions_per_call       # 10
    profile_of(None).may_execute                           # True: brokers of one's own

Sources, as read in November 2026:

- Amazon MSK: "Best practices for Standard brokers" (no more than 10 partitions in one call of
  kafka-reassign-partitions) and "Remove a broker" (MSK removes brokers that have no partitions but
  those of its canary topics), docs.aws.amazon.com/msk.
- Amazon MSK Serverless: "What is MSK Serverless?" (it fully manages the placement of partitions),
  same place.
- Confluent Cloud: "ACL operations" (ALTER on the cluster is for ACLs alone) and "Cluster types"
  (fully managed replica placement), docs.confluent.io/cloud.
- Strimzi: "Unidirectional topic operator" (changes made beside a KafkaTopic are reverted), and
  KafkaRebalance (Cruise Control moves partitions), strimzi.io.

Limits: none of the services was tried; docs/install.md says what was, on brokers with the same
restrictions.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_PARTITIONS_PER_CALL: Final = 1_000  # one huge request hurts the controller


class Provider(StrEnum):
    MSK = "msk"
    MSK_SERVERLESS = "msk-serverless"
    CONFLUENT = "confluent"
    STRIMZI = "strimzi"


@dataclass(frozen=True, slots=True)
class ProviderProfile:
    """What a provider lets its customers do, and who else changes the cluster."""

    name: str
    why_no_runs: str = ""  # "": runs may be executed
    max_partitions_per_call: int = MAX_PARTITIONS_PER_CALL  # of AlterPartitionReassignments
    own_topics: tuple[str, ...] = ()  # patterns: the provider places these, we leave them alone
    removes_one_broker_a_zone: bool = False  # at a time: brokers that are emptied are one in each
    before_a_run: str = ""  # what else moves partitions or reverts configs, and how to pause it

    @property
    def plan_warnings(self) -> tuple[str, ...]:
        """Return what a plan warns of: that no run is open, or what to do before one."""
        sentence = self.why_no_runs or self.before_a_run
        return (f"{self.name}: {sentence}",) if sentence else ()

    def emptying_warnings(
        self, own_topics: Collection[str], broker_ids: Collection[int], racks: Mapping[int, str]
    ) -> tuple[str, ...]:
        """Return what a plan that empties these brokers warns of; `racks` are those of all."""
        warnings = []
        if own_topics:
            warnings.append(
                f"{self.name}: {', '.join(sorted(own_topics))} stay where they are: the provider "
                "takes them off a broker that has nothing else, so it counts as empty"
            )
        removed = Counter(racks.get(broker_id) for broker_id in broker_ids)
        if self.removes_one_broker_a_zone and any(removed[zone] != 1 for zone in racks.values()):
            counts = ", ".join(f"{zone} {removed[zone]}" for zone in sorted(set(racks.values())))
            warnings.append(
                f"{self.name} removes one broker of each zone at a time; these are, by zone: "
                f"{counts}"
            )
        return tuple(warnings)

    @property
    def may_execute(self) -> bool:
        return not self.why_no_runs

    @property
    def may_hide_brokers(self) -> bool:
        """Return whether it may be nobody's to read log dirs, reassignments or configs of brokers.

        They count as not known then, which no run can depend on: there is none.
        """
        return not self.may_execute


_REPORTS_ONLY: Final = "this cluster is for snapshots, reports and audits only"
_PROFILES: Final[Mapping[Provider | None, ProviderProfile]] = {
    None: ProviderProfile("your own brokers"),
    Provider.MSK: ProviderProfile(
        "Amazon MSK",
        max_partitions_per_call=10,
        own_topics=("__amazon_msk_canary*",),
        removes_one_broker_a_zone=True,
    ),
    Provider.MSK_SERVERLESS: ProviderProfile(
        "Amazon MSK Serverless",
        why_no_runs=f"AWS places the partitions itself; {_REPORTS_ONLY}",
    ),
    Provider.CONFLUENT: ProviderProfile(
        "Confluent Cloud",
        why_no_runs=f"reassignments are not open to users; {_REPORTS_ONLY}",
    ),
    Provider.STRIMZI: ProviderProfile(
        "Strimzi",
        before_a_run=(
            "the operators may take throttles back (those of a topic with a KafkaTopic, those of "
            "brokers with every reconciliation), and a KafkaRebalance moves partitions: pause them "
            "(kubectl annotate kafka,kafkatopic,kafkarebalance --all "
            'strimzi.io/pause-reconciliation="true")'
        ),
    ),
}


def profile_of(provider: Provider | None) -> ProviderProfile:
    """Return the profile of a provider; None is a team that runs its own brokers."""
    return _PROFILES[provider]

"""Who runs a cluster for the team, and what that leaves open: one profile for each provider.

    profile_of(Provider.MSK).max_partitions_per_call       # 10
    profile_of(None).may_execute                           # True: brokers of one's own

Sources, as read in November 2026:

- Amazon MSK: "Best practices for Standard brokers" (no more than 10 partitions in one call of
  kafka-reassign-partitions) and "Intelligent rebalancing for clusters" (no other tool can reassign
  partitions of Express brokers before that is paused), docs.aws.amazon.com/msk.
- Amazon MSK Serverless: "What is MSK Serverless?" (it fully manages the placement of partitions),
  same place.
- Confluent Cloud: "ACL operations" (ALTER on the cluster is for ACLs alone) and "Cluster types"
  (fully managed replica placement), docs.confluent.io/cloud.
- Aiven: "Access control lists in Aiven for Apache Kafka" (a DENY of either kind of ACL is
  stronger), aiven.io/docs/products/kafka.
- Strimzi: "Unidirectional topic operator" (changes made beside a KafkaTopic are reverted), and
  KafkaNodeConfigurationDiff (the operator compares the configs of brokers), strimzi.io.

Limits: none of the services was tried; docs/install.md says what was, on brokers with the same
restrictions.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

MAX_PARTITIONS_PER_CALL: Final = 1_000  # one huge request hurts the controller


class Provider(StrEnum):
    MSK = "msk"
    MSK_SERVERLESS = "msk-serverless"
    CONFLUENT_CLOUD = "confluent-cloud"
    AIVEN = "aiven"
    STRIMZI = "strimzi"


@dataclass(frozen=True, slots=True)
class ProviderProfile:
    """What a provider lets its customers do, and who else changes the cluster."""

    name: str
    why_no_runs: str = ""  # "": runs may be executed
    max_partitions_per_call: int = MAX_PARTITIONS_PER_CALL  # of AlterPartitionReassignments
    before_a_run: str = ""  # what else moves partitions or reverts configs, and how to pause it
    pauses: tuple[str, ...] = ()  # commands that do so
    owned_configs: str = ""  # "": configs are changed with Kafka's own tools
    address: str = ""  # a pattern of its bootstrap addresses

    @property
    def in_words(self) -> Iterator[str]:
        """Yield what doctor says: what is open, what to do before a run, who owns configs."""
        if not self.may_execute:
            yield f"{self.name}: {self.why_no_runs}"
        if self.max_partitions_per_call != MAX_PARTITIONS_PER_CALL:
            yield f"{self.name}: {self.max_partitions_per_call} partitions in one reassignment call"
        if self.before_a_run:
            yield ": ".join((f"before a run: {self.before_a_run}", *self.pauses))
        if self.owned_configs:
            yield f"configs are changed in {self.owned_configs}"

    @property
    def plan_warnings(self) -> tuple[str, ...]:
        """Return what a plan warns of: that no run is open, or what to do before one."""
        sentence = self.why_no_runs or self.before_a_run
        return (f"{self.name}: {sentence}",) if sentence else ()

    @property
    def may_execute(self) -> bool:
        return not self.why_no_runs

    @property
    def may_hide_brokers(self) -> bool:
        """Return whether it may be nobody's to read log dirs, reassignments or configs of brokers.

        They count as not known then, which no run can depend on: there is none.
        """
        return not self.may_execute


_OWN_BROKERS: Final = ProviderProfile("your own brokers")
_PROFILES: Final[Mapping[Provider, ProviderProfile]] = {
    Provider.MSK: ProviderProfile(
        "Amazon MSK",
        max_partitions_per_call=10,
        address="*.kafka.*.amazonaws.com*:*",
        before_a_run=(
            "Express brokers: intelligent rebalancing has to be paused first, or nobody else can "
            "reassign partitions; standard brokers have none"
        ),
        pauses=(
            "aws kafka update-rebalancing --cluster-arn ARN --current-version VERSION "
            "--rebalancing Status=PAUSED",
        ),
        owned_configs="an MSK configuration (aws kafka update-cluster-configuration)",
    ),
    Provider.MSK_SERVERLESS: ProviderProfile(
        "Amazon MSK Serverless",
        why_no_runs=(
            "AWS places the partitions itself; this cluster is for snapshots, reports and audits "
            "only"
        ),
        address="*.kafka-serverless.*.amazonaws.com*:*",
        owned_configs="AWS (topics: kafka-configs.sh)",
    ),
    Provider.CONFLUENT_CLOUD: ProviderProfile(
        "Confluent Cloud",
        why_no_runs=(
            "reassignments are not open to users; this cluster is for snapshots, reports and "
            "audits only"
        ),
        address="*.confluent.cloud:*",
        owned_configs="Confluent (topics: confluent kafka topic update)",
    ),
    Provider.AIVEN: ProviderProfile(
        "Aiven",
        before_a_run=(
            "maintenance and a change of the service plan move partitions, too: let neither "
            "happen during a run"
        ),
        owned_configs="the service (avn service update -c)",
        address="*.aivencloud.com:*",
    ),
    Provider.STRIMZI: ProviderProfile(
        "Strimzi",
        before_a_run=(
            "the operators may take throttles back (those of a topic with a KafkaTopic, those of "
            "brokers with every reconciliation), and a KafkaRebalance moves partitions: pause them"
        ),
        pauses=(
            "kubectl annotate kafka,kafkatopic,kafkarebalance --all "
            'strimzi.io/pause-reconciliation="true"',
        ),
        address="*-kafka-bootstrap*:*",
        owned_configs="the resources Kafka and KafkaTopic (kubectl edit)",
    ),
}


def provider_at(addresses: Iterable[str]) -> Provider | None:
    """Return whose bootstrap addresses these look like; None where that does not show."""
    for address in addresses:
        for provider, profile in _PROFILES.items():
            if fnmatchcase(address.lower(), profile.address):
                return provider
    return None


def profile_of(provider: Provider | None) -> ProviderProfile:
    """Return the profile of a provider; None is a team that runs its own brokers."""
    return _OWN_BROKERS if provider is None else _PROFILES[provider]

"""What somebody may see and do, by the policies of clusters.yaml: the settings are read once.

viewing = Viewing.of(installation, viewer)
viewing.clusters                              # those whose policy lets the viewer view
viewing.may("orders-eu", Action.PROPOSE), viewing.check("orders-eu")
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from counterpoise import access
from counterpoise.errors import RefusedError, UnknownNameError
from counterpoise.installation import Installation
from counterpoise.model.person import Person
from counterpoise.model.policy import Action
from counterpoise.model.words import join_names
from counterpoise.queries import Viewer, settings_of_pages
from counterpoise.settings import ClusterSettings, Settings

MAY_NOT_VIEW: Final = "The policy of this cluster does not name you (view)."
EVERYBODY: Final = "everybody whom Airflow lets change runs of kafka_rebalance"


def who_may(settings: Settings, cluster: str, action: Action) -> str:
    """Return who may do something with a cluster of the settings, in words."""
    policy = settings.clusters[cluster].policy
    return join_names(access.named_entries(policy, action)) or EVERYBODY


def airflow_refusal(who: str, what: str) -> str:
    """Return the sentence for an account that Airflow lets read alone; `who` may do it."""
    return f"Airflow does not let you change runs; {who} may {what}"


def policy_refusal(settings: Settings, cluster: str, person: Person, action: Action) -> str:
    """Return why the policy of a cluster of the settings lets somebody not do something; "" where
    it does.
    """
    try:
        access.check_may(settings.clusters[cluster].policy, person, action)
    except RefusedError as error:
        return str(error)
    return ""


class UnknownClusterError(UnknownNameError):
    """There is no such cluster; `known` are those that the viewer may view."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(f"there is no cluster {name!r}")
        self.known = known


class MayNotViewError(RefusedError):
    """The policy of the cluster does not name the viewer."""


@dataclass(frozen=True, slots=True)
class Viewing:
    settings: Settings
    viewer: Viewer
    person: Person
    clusters: tuple[str, ...]  # that the viewer may view, by name

    @classmethod
    def of(cls, installation: Installation, viewer: Viewer) -> "Viewing":
        """Return what a viewer may see. Raises ConfigurationError for settings that cannot be
        read.
        """
        settings = settings_of_pages(installation)
        may_view = (
            name
            for name, cluster in settings.clusters.items()
            if access.may(cluster.policy, viewer.person, Action.VIEW, roles=viewer.roles)
        )
        return cls(settings, viewer, viewer.person, tuple(sorted(may_view)))

    def may(self, cluster: str, action: Action) -> bool:
        """Return whether the viewer may do something with a cluster that they may view.

        An account that Airflow lets read alone may view alone, whatever the policy says.
        """
        if action is not Action.VIEW and not self.viewer.may_change:
            return False
        policy = self.settings.clusters[cluster].policy
        return access.may(policy, self.person, action, roles=self.viewer.roles)

    def refusal(self, cluster: str, action: Action) -> str:
        """Return why the viewer may not do something with a cluster that they may view, and who
        may; "" where they may.
        """
        if not self.viewer.may_change:
            return airflow_refusal(who_may(self.settings, cluster, action), action)
        return policy_refusal(self.settings, cluster, self.person, action)

    def check(self, cluster: str) -> ClusterSettings:
        """Return the settings of a cluster. Raises UnknownClusterError, MayNotViewError."""
        if cluster not in self.settings.clusters:
            raise UnknownClusterError(cluster, self.clusters)
        if cluster not in self.clusters:
            raise MayNotViewError(MAY_NOT_VIEW)
        return self.settings.clusters[cluster]

    def check_can_be_approved(self, cluster: str) -> None:
        """Raise RefusedError where nobody could approve a plan that the viewer asks for.

        A plan may need more people than its cluster does; the task that makes it checks that.
        """
        policy = self.settings.clusters[cluster].policy
        needed = 2 if policy.approval.critical else 1
        access.check_somebody_may_approve(policy, self.person, needed=needed)

    def with_removed(self, clusters: Iterable[str]) -> tuple[str, ...]:
        """Return what of these the viewer may view: also clusters that the settings do not name
        any more, for somebody who may view every cluster that they name.
        """
        sees_all = set(self.clusters) == set(self.settings.clusters)
        return tuple(
            name
            for name in sorted(set(clusters))
            if name in self.clusters or (sees_all and name not in self.settings.clusters)
        )

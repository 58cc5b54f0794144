"""What somebody may see and do, by the policies of clusters.yaml: the settings are read once.

viewing = Viewing.of(installation, viewer)
viewing.clusters                              # those whose policy lets the viewer view
viewing.may("orders-eu", Action.PROPOSE), viewing.check("orders-eu")
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from counterpoise import access
from counterpoise.errors import RefusedError, UnknownNameError
from counterpoise.installation import Installation, settings_in
from counterpoise.model.person import Person
from counterpoise.model.policy import Action, ClusterPolicy
from counterpoise.model.words import join_names
from counterpoise.settings import ClusterSettings, Settings, read_settings

EVERYBODY: Final = "everybody whom Airflow lets change runs of kafka_rebalance"


@dataclass(frozen=True, slots=True)
class Viewer:
    """A user of Airflow who asks for a page."""

    user_name: str
    roles: tuple[str, ...] = ()
    may_change: bool = True  # Airflow lets the account change runs, not only read them
    may_answer: bool = True  # Airflow lets the account answer required actions

    @property
    def person(self) -> Person:
        return Person.airflow(self.user_name)


def settings_of_pages(installation: Installation) -> Settings:
    """Return the settings, kept for as long as their file stays as it is; none where no variable
    names a file and there is none at the default place. A command that was given addresses knows
    its cluster without a file.

    Raises ConfigurationError where the file that a variable names is not there, or cannot be read:
    without it, everybody would see every cluster.
    """
    if installation.known_clusters is not None:
        return installation.known_clusters
    locations = installation.locations
    return (
        settings_in(locations) if locations.is_default_config else read_settings(locations.config)
    )


def who_may(policy: ClusterPolicy, action: Action) -> str:
    """Return who may do something with a cluster, in words."""
    return join_names(access.named_entries(policy, action)) or EVERYBODY


def airflow_refusal(who: str, what: str) -> str:
    """Return the sentence for an account that Airflow lets read alone; `who` may do it."""
    return f"Airflow does not let you change runs; {who} may {what}"


def why_not(check: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Return why a check refuses; "" where it does not."""
    try:
        check(*arguments, **options)
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

    def __init__(self) -> None:
        super().__init__("The policy of this cluster does not name you (view).")


@dataclass(frozen=True, slots=True)
class Viewing:
    settings: Settings
    viewer: Viewer
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
        return cls(settings, viewer, tuple(sorted(may_view)))

    @property
    def person(self) -> Person:
        return self.viewer.person

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
        policy = self.settings.clusters[cluster].policy
        if not self.viewer.may_change:
            return airflow_refusal(who_may(policy, action), action)
        return why_not(access.check_may, policy, self.person, action)

    def check(self, cluster: str) -> ClusterSettings:
        """Return the settings of a cluster. Raises UnknownClusterError, MayNotViewError."""
        if cluster not in self.settings.clusters:
            raise UnknownClusterError(cluster, self.clusters)
        if cluster not in self.clusters:
            raise MayNotViewError
        return self.settings.clusters[cluster]

    def narrowed_to(self, cluster: str) -> "Viewing":
        """Return the same for one cluster that the viewer may view."""
        return replace(self, clusters=(cluster,))

    @property
    def sees_all(self) -> bool:
        """Return whether the viewer may view every cluster that the settings name."""
        return set(self.clusters) == set(self.settings.clusters)

    def sees(self, cluster: str) -> bool:
        """Return whether the viewer may view a cluster: also one that the settings do not name any
        more, for somebody who may view every cluster that they name.
        """
        return cluster in self.clusters or (self.sees_all and cluster not in self.settings.clusters)

    def check_sees(self, cluster: str) -> None:
        """Raise MayNotViewError unless the viewer `sees` a cluster."""
        if not self.sees(cluster):
            raise MayNotViewError

    def of_these(self, clusters: Iterable[str]) -> tuple[str, ...]:
        """Return, by name, which of these clusters the viewer `sees`."""
        return tuple(name for name in sorted(set(clusters)) if self.sees(name))

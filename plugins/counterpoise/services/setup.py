"""What has to be there before pages show clusters, and what to do about each thing that is missing.

    found = setup(open_installation, airflow)
    found.done_count, found.steps[2].word        # "missing"

Nothing here connects to Kafka. The ledger is made by the way, where there never was one and this
process may make it. Limits: what the api-server sees; `counterpoise self-check` tries all of it
from where tasks run.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from counterpoise import __version__
from counterpoise.errors import (
    CounterpoiseError,
    InputError,
    LedgerNotMigratedError,
    RefusedError,
)
from counterpoise.installation import Installation
from counterpoise.model.words import capitalized, join_names, pluralize
from counterpoise.settings.locations import DefaultPlaces, example_clusters
from counterpoise.shipped_files import shipped_folder
from counterpoise.storage import shown_uri
from counterpoise.views.setup import SetupView, Step

OpenInstallation = Callable[[], AbstractContextManager[Installation]]

_HOME_LINE: Final = "export COUNTERPOISE_HOME=/opt/counterpoise"
_BUNDLE_LINE: Final = (
    'export AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST=\'[{"name": "counterpoise", '
    '"classpath": "counterpoise.entry_points.dag_bundle.PackagedDagBundle", "kwargs": {}}]\''
)


@dataclass(frozen=True, slots=True)
class AirflowNow:
    """What this Airflow has of ours."""

    version: str
    paused: Mapping[str, bool]  # by Dag that it knows
    may_unpause: bool  # the viewer


def make_working_folder(environment: Mapping[str, str], folder: str | None) -> Path:
    """Make a working folder with a commented clusters.yaml; return the file's path.

    Without a folder it is the one in which everything lies by default. Raises RefusedError where
    the file is there already, InputError where it cannot be written.
    """
    home = {"COUNTERPOISE_HOME": folder} if folder else {}
    places = DefaultPlaces.from_environment({**environment, **home})
    if places.clusters.exists():
        raise RefusedError(f"{places.clusters} is there already, and was not changed")
    try:
        places.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        places.config.mkdir(parents=True, exist_ok=True)
        places.clusters.write_text(example_clusters())
    except OSError as error:
        raise InputError(f"{error.filename}: {error.strerror}; name another folder") from None
    return places.clusters


def setup(open_installation: OpenInstallation, airflow: AirflowNow) -> SetupView:
    """Return the steps in the order in which they are done."""
    sees = [("Counterpoise", __version__), ("Airflow", airflow.version)]
    try:
        with open_installation() as installation:
            steps, more = _steps(installation, airflow)
            return SetupView((*steps,), (*sees, *more))
    except InputError as error:
        home = Step(
            "Working folder",
            "missing",
            text=f"{capitalized(str(error))}. Set it for every component of Airflow, and restart "
            "them.",
            lines=f"{_HOME_LINE}\ncounterpoise init /opt/counterpoise",
        )
        later = [
            Step(title, "after the working folder", is_later=True)
            for title in ("Ledger", "clusters.yaml", "Connection to Kafka")
        ]
        steps = [home, *later, _dags(airflow), _first_snapshot(has_any=False, may_start=False)]
        return SetupView((*steps,), (*sees,))


def _steps(
    installation: Installation, airflow: AirflowNow
) -> tuple[list[Step], list[tuple[str, str]]]:
    locations = installation.locations
    home = Step("Working folder", "done", text=f"{capitalized(locations.default.reason)}.")
    if not locations.default.reason.startswith("COUNTERPOISE_HOME"):
        home = Step("Working folder", "done", text="Settings, store and ledger have their places.")
    ledger, has_snapshot = _ledger(installation)
    clusters = _clusters(installation)
    connection = _connection(installation, clusters)
    dags = _dags(airflow)
    may_start = all(step.is_done for step in (ledger, clusters, connection, dags))
    snapshot = _first_snapshot(has_snapshot, may_start)
    sees = [("clusters.yaml", str(locations.config))]
    with suppress(CounterpoiseError):
        sees.append(("Store", shown_uri(locations.store)))
    return [home, ledger, clusters, connection, dags, snapshot], sees


def _ledger(installation: Installation) -> tuple[Step, bool]:
    """Return the step, and whether a snapshot was ever recorded."""
    try:
        _make_ledger(installation)
        has_snapshot = bool(installation.ledger.entries().newest_snapshots())
        return Step("Ledger", "done", text="It is there, and up to date."), has_snapshot
    except LedgerNotMigratedError:
        text = "This server may not make its tables. Type this with a role that may."
        return Step("Ledger", "missing", text=text, lines="counterpoise ledger migrate"), False
    except CounterpoiseError as error:
        text = f"{capitalized(str(error).partition(chr(10))[0])}."
        return Step("Ledger", "not readable", text=text, lines="counterpoise self-check"), False


def _make_ledger(installation: Installation) -> None:
    """Make a ledger where there never was one: an older one is migrated by tasks and commands."""
    from counterpoise.ledger import Ledger

    if not installation.locations.new_default_ledger:
        return
    Ledger.open(installation.locations.ledger).close()


def _clusters(installation: Installation) -> Step:
    title, path = "clusters.yaml", installation.locations.config
    if not path.exists():
        text = "There is none. This line makes one with comments; then write your clusters into it."
        line = f"counterpoise init {installation.locations.default.config.parent}"
        example = ("A short clusters.yaml", example_clusters())
        return Step(title, "missing", text=text, lines=line, more=example, is_elsewhere=True)
    try:
        count = len(installation.settings.clusters)
    except CounterpoiseError:  # its text may name clusters that the viewer may not see
        text = "It cannot be read, so no page shows a cluster. This line says why."
        line = "counterpoise self-check"
        return Step(title, "not readable", text=text, lines=line, is_elsewhere=True)
    return Step(title, "done", text=f"It names {pluralize(count, 'cluster')}.")


def _connection(installation: Installation, clusters: Step) -> Step:
    title, text = "Connection to Kafka", "One connection of Airflow for each cluster."
    if not clusters.is_done:
        return Step(title, "after clusters.yaml", text=text, is_later=True)
    missing: dict[str, str] = {}
    for cluster in installation.settings.clusters.values():
        for connection_id in (cluster.connection_id, cluster.operator_connection_id):
            try:
                installation.connection_settings(connection_id)
            except InputError as error:
                missing.setdefault(connection_id, str(error))
    if not missing:
        return Step(title, "done", text="Every cluster has one that can be read.")
    first = next(iter(missing))
    line = (
        f"airflow connections add {first} --conn-type kafka \\\n"
        '  --conn-extra \'{"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}\''
    )
    which = f"{text} Missing, or not to be used: {join_names(sorted(missing))}."
    return Step(title, "missing", text=which, lines=line, is_elsewhere=True)


def our_dags() -> tuple[str, ...]:
    """Return the ids of the Dags that belong to this code."""
    return tuple(sorted(path.stem for path in shipped_folder("dags").glob("*.py")))


def _dags(airflow: AirflowNow) -> Step:
    ours = our_dags()
    unknown = [dag_id for dag_id in ours if dag_id not in airflow.paused]
    paused = [dag_id for dag_id in ours if airflow.paused.get(dag_id)]
    if unknown:
        text = (
            f"Airflow does not know {join_names(unknown)} yet. The dag-processor has to run, with "
            "the folder `dags` or with this line, which replaces Airflow's own list."
        )
        return Step("Dags", "missing", text=text, lines=_BUNDLE_LINE, is_elsewhere=True)
    if not paused:
        return Step("Dags", "done", text="All are known to Airflow, and none is paused.")
    text = "Unpaused, they make snapshots and audits; they move nothing without an approval."
    return Step(
        "Dags",
        f"{len(paused)} of {len(ours)} are paused",
        text=text,
        lines="" if airflow.may_unpause else "\n".join(f"airflow dags unpause {d}" for d in paused),
        action="unpause" if airflow.may_unpause else "",
        button="Unpause them",
    )


def _first_snapshot(has_any: bool, may_start: bool) -> Step:
    title, text = "First snapshot", "Takes about a minute. The first balance report follows."
    if has_any:
        return Step(title, "done", text="The history has begun.")
    if not may_start:
        return Step(title, "after the rest", text=text, is_later=True)
    return Step(title, "missing", text=text, action="snapshot", button="Take it now")

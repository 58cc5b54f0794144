"""What has to be there before pages show clusters, and what to do about each thing that is missing.

    found = setup(open_installation, airflow)
    found.done_count, found.steps[2].word        # "missing"

Nothing here connects to Kafka. The ledger is made by the way, where there never was one and this
process may make it. What a file, a connection or a snapshot lacks is told to whoever may unpause
our Dags: it may name clusters that others may not see. Limits: what the api-server sees;
`counterpoise self-check` tries all of it from where tasks run.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoise import __version__
from counterpoise.errors import (
    CounterpoiseError,
    InputError,
    LedgerNotMigratedError,
    MissingConnectionError,
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


_SNAPSHOT: Final = "First snapshot"
_SNAPSHOT_TEXT: Final = "It takes about a minute."
_SNAPSHOT_DAG: Final = "kafka_snapshot"
_REPORT: Final = "First balance report"
_ANALYSIS_DAG: Final = "kafka_leader_balance"
_UNDER_WAY: Final = ("queued", "running")
_REPORT_LATER: Final = Step(_REPORT, "after the snapshot", is_later=True)
_SNAPSHOT_AND_REPORT_LATER: Final = (
    Step(_SNAPSHOT, "after the rest", is_later=True),
    _REPORT_LATER,
)


@dataclass(frozen=True, slots=True)
class AirflowNow:
    """What this Airflow has of ours."""

    version: str
    paused: Mapping[str, bool]  # by Dag that it knows
    may_unpause: bool  # the viewer
    silent: Collection[str] = ()  # its components without a sign of life, like "scheduler"
    newest: Mapping[str, str] = field(default_factory=dict)  # state of each Dag's newest run
    missing_pools: Collection[str] = ()  # that our tasks are to use


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
        steps = [home, *later, _dags(airflow), *_SNAPSHOT_AND_REPORT_LATER]
        return SetupView((*steps,), (*sees,))


def _steps(
    installation: Installation, airflow: AirflowNow
) -> tuple[list[Step], list[tuple[str, str]]]:
    locations = installation.locations
    home = Step("Working folder", "done", text=f"{capitalized(locations.default.reason)}.")
    if not locations.default.reason.startswith("COUNTERPOISE_HOME"):
        home = Step("Working folder", "done", text="Settings, store and ledger have their places.")
    ledger = _ledger(installation)
    clusters = _clusters(installation, airflow)
    connection = _connection(installation, clusters, airflow)
    steps = [home, ledger, clusters, connection, _dags(airflow)]
    may_start = all(step.is_done for step in steps)
    if ledger.is_done:
        steps += _first_results(installation, airflow, may_start=may_start)
    else:
        steps += _SNAPSHOT_AND_REPORT_LATER
    sees = [("clusters.yaml", str(locations.config))]
    with suppress(CounterpoiseError):
        sees.append(("Store", shown_uri(locations.store)))
    return steps, sees


def _ledger(installation: Installation) -> Step:
    try:
        _make_ledger(installation)
        installation.ledger.entries()
        return Step("Ledger", "done", text="It is there, and up to date.")
    except LedgerNotMigratedError:
        text = "This server may not make its tables. Type this with a role that may."
        return Step("Ledger", "missing", text=text, lines="counterpoise ledger migrate")
    except CounterpoiseError as error:
        text = f"{capitalized(str(error).partition(chr(10))[0])}."
        return Step("Ledger", "not readable", text=text, lines="counterpoise self-check")


def _make_ledger(installation: Installation) -> None:
    """Make a ledger where there never was one: an older one is migrated by tasks and commands."""
    from counterpoise.ledger import Ledger

    if not installation.locations.new_default_ledger:
        return
    Ledger.open(installation.locations.ledger).close()


def _clusters(installation: Installation, airflow: AirflowNow) -> Step:
    title, path = "clusters.yaml", installation.locations.config
    if not path.exists():
        text = "There is none. This line makes one with comments; then write your clusters into it."
        line = f"counterpoise init {installation.locations.default.config.parent}"
        example = ("A short clusters.yaml", example_clusters())
        return Step(title, "missing", text=text, lines=line, more=example, is_elsewhere=True)
    try:
        count = len(installation.settings.clusters)
    except CounterpoiseError as error:
        text = "It cannot be read, so no page shows a cluster."
        lines = str(error) if airflow.may_unpause else "counterpoise self-check"
        return Step(title, "not readable", text=text, lines=lines, is_elsewhere=True)
    if path.read_text() == example_clusters():
        text = (
            "It has the cluster `example` alone, as it came. Give your cluster its own name there: "
            "history, reports and runs go by it."
        )
        return Step(title, "the example", text=text, lines=str(path), is_elsewhere=True)
    return Step(title, "done", text=f"It names {pluralize(count, 'cluster')}.")


def _connection(installation: Installation, clusters: Step, airflow: AirflowNow) -> Step:
    title, text = "Connection to Kafka", "One connection of Airflow for each cluster."
    if not clusters.is_done:
        return Step(title, "after clusters.yaml", text=text, is_later=True)
    unusable: dict[str, InputError] = {}
    for cluster in installation.settings.clusters.values():
        for connection_id in (cluster.connection_id, cluster.operator_connection_id):
            try:
                installation.connection_settings(connection_id)
            except InputError as error:
                unusable.setdefault(connection_id, error)
    if not unusable:
        return Step(title, "done", text="Every cluster has one that can be read.")
    first, why = next(iter(unusable.items()))
    is_missing = isinstance(why, MissingConnectionError)
    line = (
        f"airflow connections add {first} --conn-type kafka \\\n"
        '  --conn-extra \'{"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}\''
    )
    if not is_missing:
        line = f"airflow connections delete {first}\n{line}"
    text += f" Missing, or not to be used: {join_names(sorted(unusable))}."
    if airflow.may_unpause:
        text += f" {capitalized(str(why))}."
    word = "missing" if is_missing else "not usable"
    return Step(title, word, text=text, lines=line, is_elsewhere=True)


def our_dags() -> tuple[str, ...]:
    """Return the ids of the Dags that belong to this code."""
    return tuple(sorted(path.stem for path in shipped_folder("dags").glob("*.py")))


def _dags(airflow: AirflowNow) -> Step:
    ours = our_dags()
    unknown = [dag_id for dag_id in ours if dag_id not in airflow.paused]
    paused = [dag_id for dag_id in ours if airflow.paused.get(dag_id)]
    if unknown and airflow.paused:
        text = f"Airflow is still reading {join_names(unknown)}; it does so once in a while."
        return Step("Dags", "being read", text=text, is_under_way=True)
    if unknown:
        text = (
            f"Airflow does not know {join_names(unknown)} yet. The dag-processor has to run, with "
            "the folder `dags` or with this line, which replaces Airflow's own list."
        )
        return Step("Dags", "missing", text=text, lines=_BUNDLE_LINE, is_elsewhere=True)
    if not paused and airflow.missing_pools:
        pools = sorted(airflow.missing_pools)
        text = f"Airflow has no pool {join_names(pools)}, so tasks that are to use it never start."
        lines = "\n".join(f'airflow pools set {pool} 16 "Counterpoise"' for pool in pools)
        return Step("Dags", "pool missing", text=text, lines=lines, is_elsewhere=True)
    if not paused and airflow.silent:
        text = f"No sign of life: {', '.join(airflow.silent)}. Nothing starts, or goes on, without."
        lines = "\n".join(f"airflow {name}" for name in airflow.silent)
        return Step("Dags", "not running", text=text, lines=lines, is_elsewhere=True)
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


def _first_results(
    installation: Installation, airflow: AirflowNow, *, may_start: bool
) -> Sequence[Step]:
    """Return the steps of the first snapshot and the first report."""
    if installation.ledger.entries().newest_snapshots():
        snapshot = Step(_SNAPSHOT, "done", text="The history has begun.")
        return [snapshot, _first_report(installation, airflow)]
    if not may_start:
        return _SNAPSHOT_AND_REPORT_LATER
    state = airflow.newest.get(_SNAPSHOT_DAG)
    if state in _UNDER_WAY:
        text = f"{_SNAPSHOT_DAG} is {state}. {_SNAPSHOT_TEXT}"
        return [Step(_SNAPSHOT, "under way", text=text, is_under_way=True), _REPORT_LATER]
    failures = list(installation.ledger.failures().values())
    if not failures and state is None:
        first = Step(
            _SNAPSHOT, "missing", text=_SNAPSHOT_TEXT, action="snapshot", button="Take it now"
        )
        return [first, _REPORT_LATER]
    text = f"The log of {_SNAPSHOT_DAG} in Airflow says why."
    if failures and airflow.may_unpause:
        text = f"{failures[0].cluster}: {failures[0].text}."
    again = Step(_SNAPSHOT, "failed", text=text, action="snapshot", button="Try again")
    return [again, _REPORT_LATER]


def _first_report(installation: Installation, airflow: AirflowNow) -> Step:
    try:
        if installation.results.analysed:
            return Step(_REPORT, "done", text="The page of each cluster shows it, and Reports.")
    except CounterpoiseError as error:
        text = f"{capitalized(str(error).partition(chr(10))[0])}."
        return Step(_REPORT, "store not readable", text=text, lines="counterpoise self-check")
    if airflow.newest.get(_ANALYSIS_DAG) == "failed":
        text = f"The log of {_ANALYSIS_DAG} in Airflow says why; this line tries Java and Spark."
        return Step(_REPORT, "failed", text=text, lines="counterpoise self-check")
    text = f"{_ANALYSIS_DAG} makes it after the snapshot, in about two minutes."
    return Step(_REPORT, "under way", text=text, is_under_way=True)

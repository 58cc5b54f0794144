"""Whether everything is there that Counterpoise runs on, and what to do where it is not.

    for result in self_check(installation, timeout_seconds=120):
        print(result.what, result.state, result.detail, result.remedy)

All checks run at once, each in a thread; one that has not ended in time has failed. Nothing is
kept: the store gets files that are deleted again, ledger and clusters are asked and not changed.
What other commands know (`doctor`, `preflight`) comes from the functions behind them.
"""

import importlib.util
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from counterpoise import __version__
from counterpoise.airflow_process import answer_of_airflow, why_no_airflow
from counterpoise.errors import CounterpoiseError, LedgerNotMigratedError
from counterpoise.installation import Installation
from counterpoise.model.provider import profile_of
from counterpoise.model.self_check import CheckResult, failed, left_out, passed
from counterpoise.model.severity import Severity
from counterpoise.model.words import pluralize
from counterpoise.services.doctor import Examination, examine
from counterpoise.services.validations import refused_to_operator
from counterpoise.settings.locations import Address
from counterpoise.shipped_files import shipped_folder
from counterpoise.storage import Store, shown_uri, working_copy

Check = Callable[[], Iterable[CheckResult]]

_MAX_CLOCK_SECONDS: Final = 5
_OLDEST_AIRFLOW, _FIRST_UNKNOWN_AIRFLOW = (3, 3), (4,)
_SPARK_JOB: Final = "one_row.py"
_LEFT_FOR_LATE_SECONDS: Final = 5.0  # of the time, for what ends its child processes itself
_SPARK_REMEDY: Final = (
    "see what Spark says; check COUNTERPOISE_SPARK_MASTER and COUNTERPOISE_SPARK_CONF (is its "
    "spark.authenticate.secret the master's?), whether workers see the store, and whether programs "
    "may run from temporary directories (no noexec)"
)
_NO_SPARK: Final = (
    "pyspark is not installed here (the extra `spark`); only reports and compaction need it"
)
_MIGRATE: Final = (
    "make it, or bring it up to date, with `counterpoise ledger migrate`; or name another one in "
    "COUNTERPOISE_LEDGER"
)
_REACH_LEDGER: Final = (
    "do what it says; else see whether the database runs and can be reached from here, and check "
    "address and login in COUNTERPOISE_LEDGER"
)
_REACH_STORE: Final = (
    "check the address in COUNTERPOISE_STORE, and whether this user may write there and there is "
    "space; credentials of an object store come from its own variables (docs/install.md, Store)"
)
_WRITE_SETTINGS: Final = "write the file (docs/install.md, clusters.yaml), or name another one in"


def self_check(installation: Installation, *, timeout_seconds: float) -> tuple[CheckResult, ...]:
    """Return a result for each thing, in the order in which they are needed."""
    child_seconds = max(1.0, timeout_seconds - _LEFT_FOR_LATE_SECONDS)
    checks: dict[str, Check] = {
        "counterpoise": _check_code,
        "settings": partial(_check_settings, installation),
        **_by_cluster("connections", installation, _check_connections),
        "ledger": partial(_check_ledger, installation),
        "store": partial(_check_store, installation),
        "java": _check_java,
        "spark": partial(_check_spark, installation, child_seconds),
        "airflow": partial(_check_airflow, child_seconds),
        **_by_cluster("kafka", installation, _check_kafka),
    }
    return tuple(_run_all(checks, timeout_seconds))


def _by_cluster(
    what: str,
    installation: Installation,
    check: Callable[[str, Installation, str], Iterable[CheckResult]],
) -> dict[str, Check]:
    try:
        names = sorted(installation.settings.clusters)
    except CounterpoiseError:  # `settings` says why
        names = []
    if not names:
        return {what: lambda: [left_out(what, "the settings name no cluster")]}
    subjects = {f"{what} {name}": name for name in names}
    return {
        subject: partial(check, subject, installation, name) for subject, name in subjects.items()
    }


def _run_all(checks: Mapping[str, Check], timeout_seconds: float) -> Iterable[CheckResult]:
    """Yield the results in order. A thread that hangs ends with the process."""
    found: dict[str, list[CheckResult]] = {}

    def run(what: str, check: Check) -> None:
        found[what] = _results_of(what, check)

    threads = {
        what: threading.Thread(target=run, args=(what, check), name=what, daemon=True)
        for what, check in checks.items()
    }
    deadline = time.monotonic() + timeout_seconds
    for thread in threads.values():
        thread.start()
    for what, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        late = failed(
            what,
            f"no answer within {timeout_seconds:g} s",
            "see whether it can be reached from here, or allow more time with --timeout",
        )
        yield from found.get(what, [late])


def _results_of(what: str, check: Check) -> list[CheckResult]:
    try:
        return list(check())
    except CounterpoiseError as error:
        return [failed(what, str(error), "see what it says; docs/install.md has the settings")]
    except Exception as error:  # noqa: BLE001 # its text might hold a secret
        remedy = "the command that uses it says more; please report it"
        return [failed(what, f"unexpected {type(error).__name__}", remedy)]


def _check_code() -> Iterable[CheckResult]:
    version = ".".join(map(str, sys.version_info[:3]))
    folder = Path(__file__).resolve().parents[1]
    yield passed("counterpoise", f"{__version__}, Python {version}, {folder}")


def _check_settings(installation: Installation) -> Iterable[CheckResult]:
    remedy = f"{_WRITE_SETTINGS} COUNTERPOISE_CONFIG"
    try:
        clusters = installation.settings.clusters
    except CounterpoiseError as error:
        yield failed("settings", str(error), remedy)
        return
    file = installation.locations.config.absolute()
    if not clusters:
        yield failed("settings", f"{file}: no cluster", remedy)
        return
    yield passed("settings", f"{file}: {pluralize(len(clusters), 'cluster')}")


def _check_connections(
    subject: str, installation: Installation, name: str
) -> Iterable[CheckResult]:
    cluster = installation.cluster(name)
    ids = dict.fromkeys((cluster.connection_id, cluster.operator_connection_id))
    try:
        protocols = [installation.connection_settings(id_).security_protocol for id_ in ids]
    except CounterpoiseError as error:
        yield failed(
            subject,
            str(error),
            "give the command line the connection too: in connections.yaml, or as AIRFLOW_CONN_...",
        )
        return
    used = (f"{id_} ({protocol})" for id_, protocol in zip(ids, protocols, strict=True))
    yield passed(subject, ", ".join(used))


def _check_ledger(installation: Installation) -> Iterable[CheckResult]:
    # Imported here: the database's driver is slow to import.
    from counterpoise.ledger import shown_address
    from counterpoise.ledger.database import ledger_health

    try:
        health = ledger_health(installation.locations.ledger, installation.clock)
    except LedgerNotMigratedError as error:
        yield failed("ledger", str(error), _MIGRATE)
        return
    except CounterpoiseError as error:
        yield failed("ledger", str(error), _REACH_LEDGER)
        return
    address = _address_in_words(installation.locations.ledger_address, shown_address, installation)
    yield passed("ledger", f"{address}: schema {health.schema}")
    if health.refused:
        yield failed(
            "ledger rights",
            "; ".join(health.refused),
            "tasks need the role that writes (docs/security.md, Roles in Postgres); a component "
            "that only serves pages does not",
        )
    else:
        yield passed("ledger rights", "reads and writes every table")
    ahead = health.clock_ahead_seconds
    clock = f"{abs(ahead)} s {'ahead of' if ahead > 0 else 'behind'} ours"
    if abs(ahead) > _MAX_CLOCK_SECONDS:
        yield failed("ledger clock", clock, "synchronise both machines' clocks (NTP)")
    else:
        yield passed("ledger clock", clock)


@contextmanager
def _temporary_path(store: Store, suffix: str) -> Iterator[str]:
    """Yield the path of a file that goes after the block, and its folder."""
    name = uuid.uuid4().hex
    # Of a folder in an object store a marker stays: one for all checks.
    folder = f"self-check-{name}" if store.is_local else "self-check"
    path = f"{folder}/{name}{suffix}"
    try:
        yield path
    finally:
        store.delete(path)
        if store.is_local:
            store.delete_folder(folder)


def _address_in_words(
    address: Address, shown: Callable[[str], str], installation: Installation
) -> str:
    """Return `postgresql://db/counterpoise (COUNTERPOISE_LEDGER)`, without what may be secret."""
    why = address.variable
    if address.is_default:
        why = f"{address.variable} is not set: {installation.locations.default.reason}"
    return f"{shown(address.read())} ({why})"


def _check_store(installation: Installation) -> Iterable[CheckResult]:
    try:
        yield _tried_store(installation)
    except CounterpoiseError as error:
        yield failed("store", str(error), _REACH_STORE)


def _tried_store(installation: Installation) -> CheckResult:
    address = _address_in_words(installation.locations.store_address, shown_uri, installation)
    started_at = time.monotonic()
    store = installation.archive.store
    with _temporary_path(store, ".txt") as path:
        folder = path.partition("/")[0]
        store.write_text(path, path)
        wrong = [] if store.read_text(path) == path else ["what was read is not what was written"]
        wrong += [] if path in store.list(folder) else ["a file that was written is not listed"]
    wrong += ["a file that was deleted is still listed"] if path in store.list(folder) else []
    if wrong:
        remedy = "use a store that shows a file as soon as it is written, to every component"
        return failed("store", f"{address}: {'; '.join(wrong)}", remedy)
    milliseconds = round(1000 * (time.monotonic() - started_at))
    done = f"wrote, read, listed and deleted a file in {milliseconds} ms"
    return passed("store", f"{address}: {done}")


def _check_java() -> Iterable[CheckResult]:
    from counterpoise.java_runtime import OVERRIDE, NoJavaError, find_java

    if not _needs_spark():
        yield left_out("java", f"only Spark needs it, and {_NO_SPARK}")
        return
    try:
        java = find_java()
    except NoJavaError as error:
        yield failed("java", str(error), f"install Java 17 or 21, or set {OVERRIDE}")
        return
    yield passed("java", f"{java.version}, {java.executable}")


def _needs_spark() -> bool:
    """Return whether analyses are to run here: beside Airflow, or where there is a Spark."""
    return importlib.util.find_spec("pyspark") is not None or not why_no_airflow()


def _check_spark(installation: Installation, timeout_seconds: float) -> Iterable[CheckResult]:
    import pyarrow as pa

    from counterpoise.spark_submit import START_FAST, SparkJobError, run_job

    if not _needs_spark():
        yield left_out("spark", _NO_SPARK)
        return
    locations, store = installation.locations, installation.archive.store
    started_at = time.monotonic()
    with (
        _temporary_path(store, ".parquet") as path,
        working_copy(store, locations.spark_master) as copy,
    ):
        store.write_table(path, pa.table({"number": [1]}))
        copy.fetch([path])
        try:
            run_job(
                locations.spark_jobs / _SPARK_JOB,
                [f"{copy.root}/{path}"],
                master=locations.spark_master,
                conf={**START_FAST, **locations.spark_conf},
                pass_on=locations.spark_environment,
                log=lambda _line: None,
                timeout_seconds=timeout_seconds,
            )
        except SparkJobError as error:
            yield failed("spark", f"{locations.spark_master}: {error}", _SPARK_REMEDY)
            return
    seconds = round(time.monotonic() - started_at)
    yield passed("spark", f"{locations.spark_master}: a job of one row took {seconds} s")


def _check_kafka(subject: str, installation: Installation, name: str) -> Iterable[CheckResult]:
    examined = examine(installation, name)
    by_hand = f"counterpoise doctor --cluster {name}"
    worst = [each for each in examined.findings if each.severity is Severity.CRITICAL]
    if examined.connectivity.answered_by is None or worst:
        summary = worst[0].summary if worst else "no bootstrap address responded"
        yield failed(subject, summary, f"`{by_hand}` says which step fails, and what to do")
        return
    yield passed(subject, _connected(examined, by_hand))
    profile = profile_of(installation.cluster(name).policy.provider)
    if not profile.may_execute:
        yield left_out(f"{subject} changes", f"{profile.name}: {profile.why_no_runs}")
        return
    if refused := refused_to_operator(installation, name):
        operations = "; ".join(f"{what}: {reason}" for what, reason in refused.items())
        yield failed(
            f"{subject} changes",
            operations,
            "snapshots and plans work, runs do not; docs/security.md has the permissions",
        )
    else:
        yield passed(f"{subject} changes", "all that a run needs is allowed")


def _connected(examined: Examination, by_hand: str) -> str:
    cluster = examined.metadata
    brokers = "" if cluster is None else f", {pluralize(len(cluster.brokers), 'broker')}"
    noted = len(examined.findings)
    notes = f"; {pluralize(noted, 'finding')} (`{by_hand}`)" if noted else ""
    protocol = examined.connectivity.security_protocol
    return f"connected ({protocol}) to every advertised endpoint{brokers}{notes}"


# -- Airflow, asked by a process of its own (`orchestration/self_check.py`) in this environment

_MODULE: Final = "counterpoise.orchestration.self_check"
_HEALTHY: Final = "healthy"
_COMPONENTS: Final = {
    "scheduler": "airflow scheduler",
    "dag_processor": "airflow dag-processor",
    "triggerer": "airflow triggerer",
}
_ASK_WHERE_DATABASE_IS: Final = (
    "run `airflow db check`; where this component has no access to Airflow's database, run "
    "self-check beside the scheduler"
)


def _check_airflow(timeout_seconds: float) -> Iterable[CheckResult]:
    """Return what this environment's Airflow says."""
    if reason := why_no_airflow():
        return [left_out("airflow", f"{reason}; the command line needs none")]
    found = answer_of_airflow(_MODULE, timeout_seconds)
    if found is None:
        remedy = "run `airflow version` and `airflow dags list` to see why"
        return [failed("airflow", f"cannot be asked within {timeout_seconds:g} s", remedy)]
    return [*_version(found), *_plugin(found), *_dags(found), *_components(found)]


def _unreadable(what: str, part: str, found: Mapping[str, Any]) -> Iterable[CheckResult]:
    error = found.get("unreadable", {}).get(part)
    if error:
        yield failed(what, f"cannot be read ({error})", _ASK_WHERE_DATABASE_IS)


def _version(found: Mapping[str, Any]) -> Iterable[CheckResult]:
    what = "airflow version"
    if error := found.get("unreadable", {}).get("version"):
        remedy = "run `airflow version` to see why: Airflow itself cannot be imported as it is set"
        yield failed(what, f"cannot be read ({error})", remedy)
        return
    version = str(found.get("version", "unknown"))
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if _OLDEST_AIRFLOW <= numbers < _FIRST_UNKNOWN_AIRFLOW:
        yield passed(what, version)
    else:
        yield failed(what, version, "use Airflow 3.3 or later, below 4")


def _plugin(found: Mapping[str, Any]) -> Iterable[CheckResult]:
    what = "airflow plugin"
    if bad := list(_unreadable(what, "plugins", found)):
        yield from bad
        return
    source = found.get("plugins", {}).get("counterpoise")
    errors = [name for name in found.get("plugin_errors", []) if "counterpoise" in name]
    if source is None or errors:
        detail = f"not loaded: {', '.join(errors)}" if errors else "Airflow does not find it"
        remedy = (
            "install the wheel, or set AIRFLOW__CORE__PLUGINS_FOLDER; `airflow plugins` says more"
        )
        yield failed(what, detail, remedy)
    else:
        yield passed(what, str(source))


def _dags(found: Mapping[str, Any]) -> Iterable[CheckResult]:
    what = "airflow dags"
    if bad := list(_unreadable(what, "dags", found)):
        yield from bad
        return
    ours = sorted(path.stem for path in shipped_folder("dags").glob("*.py"))
    known = {dag_id: dag for dag_id, dag in found["dags"].items() if not dag["stale"]}
    broken = [name for name in found.get("import_errors", []) if Path(name).stem in ours]
    missing = [dag_id for dag_id in ours if dag_id not in known]
    paused = [dag_id for dag_id in ours if dag_id in known and known[dag_id]["paused"]]
    if broken:
        remedy = "`airflow dags list-import-errors` has the reasons"
        yield failed(what, f"cannot be imported: {', '.join(broken)}", remedy)
    elif missing:
        remedy = (
            "name the Dag bundle of the package, or the folder `dags` (docs/install.md); the "
            "dag-processor has to run"
        )
        yield failed(what, f"not known to Airflow: {', '.join(missing)}", remedy)
    elif paused:
        remedy = "`airflow dags unpause DAG`: a run of a paused Dag waits without a word"
        yield failed(what, f"paused: {', '.join(paused)}", remedy)
    else:
        yield passed(what, f"{', '.join(ours)}")


def _components(found: Mapping[str, Any]) -> Iterable[CheckResult]:
    components = found.get("components", {})
    for name, command in _COMPONENTS.items():
        what = f"airflow {name.replace('_', '-')}"
        state = components.get(name)
        if state == _HEALTHY:
            yield passed(what, "alive")
        elif components.get("metadatabase") != _HEALTHY:
            yield failed(what, "Airflow's database cannot be read", _ASK_WHERE_DATABASE_IS)
        else:
            yield failed(what, "no sign of life", f"start `{command}`, under a supervisor")

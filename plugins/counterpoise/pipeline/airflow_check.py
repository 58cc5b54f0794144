"""Whether Airflow has what the Dags need: version, plugin, Dags, components that live.

    check_airflow(timeout_seconds=60)

Airflow is asked by a process of its own (`orchestration/self_check.py`), in this environment.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from counterpoise.model.self_check import CheckResult, failed, left_out, passed
from counterpoise.pipeline.airflow_process import answer_of_airflow, why_no_airflow
from counterpoise.shipped_files import shipped_folder

_MODULE: Final = "counterpoise.orchestration.self_check"
_OLDEST, _FIRST_UNKNOWN = (3, 3), (4,)
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


def check_airflow(timeout_seconds: float) -> Iterable[CheckResult]:
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
    if _OLDEST <= numbers < _FIRST_UNKNOWN:
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

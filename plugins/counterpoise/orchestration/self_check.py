"""What this Airflow has of Counterpoise, for `counterpoise self-check`; changes nothing.

    python -m counterpoise.orchestration.self_check facts.json

Runs as a process of its own, since the command line knows no Airflow. Writes JSON: version,
plugins, Dags, import errors, components. A part that cannot be read is named with its error's type
alone: the text may show the address of Airflow's database.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def facts() -> dict[str, Any]:
    """Return what is there, part by part."""
    parts: dict[str, Callable[[], Any]] = {
        "version": _version,
        "plugins": _plugins,
        "plugin_errors": _plugin_errors,
        "dags": _dags,
        "import_errors": _import_errors,
        "components": _components,
    }
    found: dict[str, Any] = {}
    for name, read in parts.items():
        try:
            found[name] = read()
        except Exception as error:  # noqa: BLE001 # each part on its own
            found.setdefault("unreadable", {})[name] = type(error).__name__
    return found


def _version() -> str:
    import airflow

    return airflow.__version__


def _plugins() -> dict[str, str]:
    from airflow.plugins_manager import get_plugin_info

    return {plugin["name"]: str(plugin["source"]) for plugin in get_plugin_info()}


def _plugin_errors() -> list[str]:
    from airflow.plugins_manager import get_import_errors

    return sorted(get_import_errors())


def _dags() -> dict[str, dict[str, bool]]:
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        rows = session.execute(select(DagModel.dag_id, DagModel.is_paused, DagModel.is_stale))
        return {row.dag_id: {"paused": row.is_paused, "stale": row.is_stale} for row in rows}


def _import_errors() -> list[str]:
    from airflow.models.errors import ParseImportError
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        return sorted(filter(None, session.scalars(select(ParseImportError.filename))))


def _components() -> dict[str, str | None]:
    from airflow.api.common.airflow_health import get_airflow_health

    return {name: part["status"] for name, part in get_airflow_health().items()}


def main(arguments: Sequence[str]) -> int:
    Path(arguments[0]).write_text(json.dumps(facts()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

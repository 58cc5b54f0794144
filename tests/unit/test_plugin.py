"""What Airflow shows of the plugin: menu entries that open our pages outside Airflow's frame, and
what waits and runs on Airflow's own home; what it costs components that show none; and whose form a
Kafka connection has.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import (
    ExternalViewResponse,
    ReactAppResponse,
)

from counterpoise.entry_points.plugin import CounterpoisePlugin, home_entry, menu_entries


def test_pages_open_outside_the_frame_of_airflow() -> None:
    """Airflow's frame is sandboxed: in it no link can leave for Airflow's own pages."""
    assert CounterpoisePlugin.external_views
    assert all("url_route" not in entry for entry in CounterpoisePlugin.external_views)


def test_entries_stand_below_browse_where_they_are_links() -> None:
    """Airflow 3.3 shows one at the top level as a button, which leads nowhere."""
    entries = [ExternalViewResponse(**entry) for entry in menu_entries("")]
    assert [entry.name for entry in entries] == [
        "Kafka fleet",
        "Kafka approvals",
        "Balance reports",
    ]
    assert all(entry.category == "browse" and not entry.nav_top_level for entry in entries)


@pytest.mark.parametrize(
    ("base_url", "prefix"),
    [
        ("", ""),
        ("http://localhost:8080", ""),
        ("https://example.org/airflow/", "/airflow"),
        ("https://example.org/team/airflow", "/team/airflow"),
    ],
)
def test_menu_entries_stand_below_the_prefix_of_airflow(base_url: str, prefix: str) -> None:
    assert [entry["href"] for entry in menu_entries(base_url)] == [
        f"{prefix}/counterpoise/fleet",
        f"{prefix}/counterpoise/waiting",
        f"{prefix}/counterpoise/reports",
    ]


def test_home_shows_what_waits_from_below_the_prefix_of_airflow() -> None:
    entry = ReactAppResponse(**home_entry("https://example.org/airflow/"))
    assert entry.destination == "dashboard"
    assert entry.bundle_url == "/airflow/counterpoise/static/home.js"
    assert len(CounterpoisePlugin.react_apps) == 1


def test_only_who_serves_pages_imports_what_they_are_made_of() -> None:
    """Every component of Airflow, and every task, imports the plugin."""
    code = (
        "import sys; from counterpoise.entry_points.plugin import CounterpoisePlugin as plugin\n"
        "print(*(name for name in sys.modules if name.endswith(('.core_api.app', '.web.app'))))\n"
        "print(*(app['url_prefix'] for app in plugin.fastapi_apps))\n"
        "from counterpoise.web.responses import _environment\n"
        "print(len(_environment().cache) >= len(_environment().list_templates()))"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert shown.stdout.splitlines() == ["", "/counterpoise", "True"]


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_form_is_that_of_the_kafka_provider_where_there_is_one(
    is_installed: bool, tmp_path: Path
) -> None:
    provider = tmp_path / "airflow" / "providers" / "apache" / "kafka"
    if is_installed:
        provider.mkdir(parents=True)
        (provider / "__init__.py").touch()
    code = (
        "import json; from counterpoise.entry_points.provider import provider_info\n"
        "print(json.dumps(provider_info()))"
    )
    paths = (str(tmp_path), os.environ.get("PYTHONPATH", ""))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    info = json.loads(done.stdout)
    assert ("connection-types" in info) is not is_installed
    assert info["notifications"]
    assert info["asset-uris"]

"""What Airflow shows of the plugin: menu entries that open our pages outside Airflow's frame, and
what waits and runs on Airflow's own home; what it costs components that show none; and whose form a
Kafka connection has.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.api_fastapi.core_api.datamodels.plugins import (
    ExternalViewResponse,
    ReactAppResponse,
)

from counterpoise import reporting
from counterpoise.entry_points.plugin import CounterpoisePlugin, home_entry, menu_entries
from counterpoise.entry_points.provider import provider_info
from counterpoise.kafka_admin.connection import (
    KNOWN,
    SASL_MECHANISMS,
    SECURITY_PROTOCOLS,
    ConnectionSettings,
)
from counterpoise.orchestration.installation import AirflowConnections


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


def test_airflow_takes_what_we_say_of_ourselves() -> None:
    """What a package may tell at runtime, and the rest by the schema of `provider.yaml`."""
    info = provider_info()
    folder = Path(airflow.__file__).parent
    jsonschema.validate(info, json.loads((folder / "provider_info.schema.json").read_text()))
    of_yaml = json.loads((folder / "provider.yaml.schema.json").read_text())["properties"]
    for name in ("integrations", "asset-uris", "connection-types", "notifications"):
        jsonschema.validate(info[name], of_yaml[name])


def test_the_form_of_a_connection_has_addresses_and_security_only() -> None:
    ((connection),) = provider_info()["connection-types"]
    fields = connection["conn-fields"]
    assert list(fields) == [name for name in KNOWN if name in fields], "in librdkafka's names"
    assert {name.partition(".")[0] for name in fields} == {"bootstrap", "security", "sasl", "ssl"}
    assert fields["security.protocol"]["schema"]["enum"] == list(SECURITY_PROTOCOLS)
    assert fields["sasl.mechanism"]["schema"]["enum"] == list(SASL_MECHANISMS)
    secret = {name for name in fields if fields[name]["schema"].get("format") == "password"}
    assert secret == {"sasl.password", "ssl.key.password"}


def test_fields_that_were_left_empty_in_the_form_are_not_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow's page writes null for each of them."""
    (connection,) = provider_info()["connection-types"]
    extra = dict.fromkeys(connection["conn-fields"]) | {"bootstrap.servers": "a:9092"}
    saved = json.dumps({"conn_type": "kafka", "extra": extra})
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_TYPED", saved)
    settings = AirflowConnections().settings_for("kafka_typed")
    assert ConnectionSettings.parse(settings).bootstrap_servers == ("a:9092",)


def test_menu_entries_have_the_icon_of_our_pages() -> None:
    template = Path(reporting.__file__).parent / "templates" / "base.html"
    icons = {entry["icon"] for entry in menu_entries("")}
    assert len(icons) == 1 and f'<link rel="icon" href="{icons.pop()}">' in template.read_text()

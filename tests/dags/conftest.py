"""An Airflow home of its own for these tests; at the top, since Airflow reads its settings when first imported."""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOME = Path(tempfile.mkdtemp(prefix="counterpoise-airflow-"))

assert "airflow" not in sys.modules, "something imported Airflow before it had a home of its own"
os.environ.update(
    AIRFLOW_HOME=str(HOME),
    AIRFLOW__CORE__DAGS_FOLDER=str(ROOT / "dags"),
    AIRFLOW__CORE__PLUGINS_FOLDER=str(ROOT / "plugins"),
    AIRFLOW__CORE__LOAD_EXAMPLES="False",
    AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=f"sqlite:///{HOME / 'airflow.db'}",
    AIRFLOW__USAGE_DATA_COLLECTION__ENABLED="False",
    AIRFLOW_CONN_KAFKA_DEMO='{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}',
)


@pytest.fixture(scope="session", autouse=True)
def airflow_home() -> Iterator[Path]:
    """The home, with a migrated database; gone afterwards."""
    from airflow.utils.db import initdb

    initdb()
    yield HOME
    shutil.rmtree(HOME, ignore_errors=True)

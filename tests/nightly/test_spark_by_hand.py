"""Each job by hand, with the commands of docs/install.md: on `local[2]` over a directory, and on
`local[2]` and a standalone cluster over an object store, which Spark reads with Hadoop's connector;
and by the commands `report` and `compact` on the latter. All write the same tables.

Spark fetches the connector with `--packages` (some 690 MB, once, into .venv/ivy); `make
test-nightly` makes the environment of the S3 server.
"""

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from benchmarks.standalone import CONF, QUICK, standalone_cluster
from counterpoise.archive import Archive
from counterpoise.model.result_tables import DAILY_TABLES, RESULT_TABLES
from counterpoise.model.tables import SNAPSHOT_TABLES
from counterpoise.storage import Store
from dev.local_processes import free_ports, start, wait_until
from tests.spark.scenarios import LOG_DIRS
from tests.spark.snapshot_files import SnapshotSpec, part

pytestmark = pytest.mark.timeout(3000)
ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "install.md"
PROGRAMS = ROOT / ".venv" / "bin"
S3_SERVER = ROOT / ".venv" / "s3" / "bin" / "moto_server"
KEYS = {
    "AWS_ACCESS_KEY_ID": "of-a-test",
    "AWS_SECRET_ACCESS_KEY": "of-a-test",
    "AWS_REGION": "eu-central-1",
}
BUCKET = "bucket"
Expected = Callable[[str], dict[str, pa.Table]]  # the tables of a job
JOBS = ("leader_balance", "partition_load", "analysis_round")
COMPACTION = "history_compaction"
KEPT = ", ".join(f"{name}: 3650d" for name in ("keep_all", "keep_hourly", "keep_daily"))
SPECS = [
    SnapshotSpec(
        cluster,
        hour,
        [
            part(
                "orders",
                0,
                [1, 2],
                leader=1 + hour % 2,
                epoch=hour,
                size=10 + hour,
                offsets=(0, 9 + hour),
            ),
            part("orders", 1, [2, 3], leader=2, isr=[2], size=7, offsets=(0, 7)),
        ],
        log_dirs=LOG_DIRS,
    )
    for cluster in ("demo", "other")
    for hour in range(3)
]


@dataclass(frozen=True)
class Place:
    """Where a history lies: as the command line and as Spark name it."""

    store: str
    spark_store: str
    conf: Mapping[str, str] = field(default_factory=dict)


@pytest.fixture(scope="module")
def keys() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in KEYS.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="module")
def object_store(keys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    (port,) = free_ports(1)
    log = tmp_path_factory.mktemp("s3") / "server.log"
    command = [str(S3_SERVER), "-H", "127.0.0.1", "-p", str(port)]
    server = start(command, log_path=log, name="the S3 server")
    try:
        s3 = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}", scheme="http", allow_bucket_creation=True
        )
        wait_until(lambda: _is_made(s3), "the S3 server", 120, [server])
        place = Place(
            f"s3://{BUCKET}/history?endpoint_override=127.0.0.1:{port}&scheme=http",
            f"s3a://{BUCKET}/history",
            {
                "spark.jars.ivy": str(ROOT / ".venv" / "ivy"),
                "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{port}",
                "spark.hadoop.fs.s3a.path.style.access": "true",
            },
        )
        write_history(place)
        yield place
    finally:
        server.begin_stop()
        server.wait()


def _is_made(s3: fs.S3FileSystem) -> bool:
    try:
        s3.create_dir(BUCKET)
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder = tmp_path_factory.mktemp("store")
    place = Place(str(folder), folder.as_uri())
    write_history(place)
    return place


def write_history(place: Place) -> None:
    for spec in SPECS:
        Archive(Store(place.store)).write_snapshot(spec.as_snapshot())


def commands(export: str) -> tuple[list[str], list[str]]:
    """Return the two commands that docs/install.md gives for an export, as words."""
    line = rf"^    (counterpoise history {export} .*)\n    (.*\\\n.*)$"
    found = re.search(line, DOCUMENT.read_text(), re.MULTILINE)
    assert found is not None, "docs/install.md has the commands"
    return shlex.split(found[1]), shlex.split(found[2].replace("\\\n", " "))


def run_by_hand(place: Place, job: str, name: str, folder: Path, spark: Sequence[str]) -> None:
    """Run what the docs say, for this store and job; `spark` are further options."""
    export, submit = commands("export-compaction" if job == COMPACTION else "export-round")
    assert submit[:2] == ["PYTHONPATH=plugins", "spark-submit"]
    replaced = {"file:///var/lib/counterpoise": place.spark_store}
    if job == COMPACTION:
        replaced |= {"work/by-hand": f"work/{name}", "plan.json": str(folder / "plan.json")}
    else:
        replaced |= {
            "by-hand": name,
            "snapshots.json": str(folder / "snapshots.json"),
            "spark_jobs/leader_balance.py": f"spark_jobs/{job}.py",
        }
    assert replaced.keys() <= {*submit}
    environment = variables(place, folder)
    options = [
        *spark,
        *(w for key, value in place.conf.items() for w in ("--conf", f"{key}={value}")),
    ]
    words = [replaced.get(word, word) for word in submit[2:]]
    for command in (
        [str(PROGRAMS / export[0]), *(replaced.get(word, word) for word in export[1:])],
        [str(PROGRAMS / submit[1]), *words[:2], *options, *words[2:]],
    ):
        run_command(command, environment)


def variables(place: Place, folder: Path) -> dict[str, str]:
    """Return the environment of an installation with this store, whose settings are in `folder`."""
    settings = f"{{connection: none, policy: {{history: {{{KEPT}}}}}}}"
    clusters = "".join(f"  {spec.cluster}: {settings}\n" for spec in SPECS[::3])
    (folder / "clusters.yaml").write_text(f"clusters:\n{clusters}")
    return {
        **os.environ,
        "COUNTERPOISE_STORE": place.store,
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder}/ledger.db",
        "JAVA_HOME": java_home(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": "plugins",
        "PYSPARK_PYTHON": str(PROGRAMS / "python"),
    }


@cache
def java_home() -> str:
    """Return what the docs have exported as JAVA_HOME."""
    line = r'^ {4}export JAVA_HOME="\$\(python (.*)\)"$'
    found = re.search(line, DOCUMENT.read_text(), re.MULTILINE)
    assert found is not None, "docs/install.md says which Java"
    return run_command([str(PROGRAMS / "python"), *shlex.split(found[1])], {**os.environ}).strip()


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a command prints that has to end with 0."""
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def tables(place: Place, folder: str) -> dict[str, pa.Table]:
    """Return the tables of results with any rows in this folder of theirs, rows in an order of
    their own.
    """
    store = Store(place.store)
    found = {}
    for table in RESULT_TABLES:
        paths = store.list(f"results/{table}/{folder}", suffix=".parquet")
        if paths:
            rows = pa.concat_tables([store.read_table(path) for path in paths]).to_pylist()
            found[table] = sorted(rows, key=str)
    return found


def compacted(place: Place, name: str) -> dict[str, list[str]]:
    """Return the rows of each table that the compaction made by hand, in an order of their own."""
    store = Store(place.store)
    found: dict[str, list[str]] = {}
    for path in store.list(f"work/{name}", suffix=".parquet"):
        rows = found.setdefault(path.split("/")[2], [])
        rows += map(str, store.read_table(path).to_pylist())
    return {table: sorted(rows) for table, rows in found.items()}


@pytest.fixture(scope="module")
def expected(directory: Place, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """Return what a job writes on `local[2]` into a directory, each run once."""

    @cache
    def of_job(job: str) -> dict[str, pa.Table]:
        folder = tmp_path_factory.mktemp(job)
        run_by_hand(directory, job, job, folder, conf_options(QUICK))
        return tables(directory, f"round={job}")

    return of_job


def conf_options(conf: Mapping[str, str]) -> list[str]:
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


def packages() -> list[str]:
    """Return the option of the docs for Hadoop's connector; its version is that of pyspark."""
    text = (ROOT / "docs" / "install.md").read_text()
    found = re.search(r"--packages (org\.apache\.hadoop:hadoop-aws:([\d.]+))", text)
    assert found is not None
    jars = next(ROOT.glob(".venv/lib/python*/*/pyspark/jars/hadoop-client-api-*.jar"))
    assert jars.name == f"hadoop-client-api-{found[2]}.jar"
    return ["--packages", found[1]]


def test_both_jobs_in_one_session_write_what_each_does(expected: Expected) -> None:
    leader_balance, partition_load, both = map(expected, JOBS)
    assert leader_balance | partition_load == both
    assert both.keys() == RESULT_TABLES.keys()
    assert not leader_balance.keys() & partition_load.keys()
    assert all(both.values())


@pytest.mark.parametrize("job", JOBS)
def test_local_spark_over_an_object_store_writes_the_same(
    object_store: Place, expected: Expected, tmp_path: Path, job: str
) -> None:
    run_by_hand(object_store, job, f"l-{job}", tmp_path, [*packages(), *conf_options(QUICK)])
    assert tables(object_store, f"round=l-{job}") == expected(job)


@pytest.mark.parametrize("job", JOBS)
def test_a_standalone_cluster_over_an_object_store_writes_the_same(
    object_store: Place, expected: Expected, tmp_path: Path, job: str
) -> None:
    with standalone_cluster(tmp_path) as cluster:
        options = ["--master", cluster.master, *packages(), *conf_options(CONF)]
        run_by_hand(object_store, job, f"c-{job}", tmp_path, options)
        assert tables(object_store, f"round=c-{job}") == expected(job)
    assert not cluster.open_ports


def test_the_compaction_by_hand_has_each_row_of_the_history(
    directory: Place, tmp_path: Path
) -> None:
    run_by_hand(directory, COMPACTION, "d", tmp_path, conf_options(QUICK))
    expected = {
        table: sorted(
            str(row | {"snapshot_id": spec.snapshot_id})
            for spec in SPECS
            for row in spec.as_snapshot().tables[table].to_pylist()
        )
        for table in SNAPSHOT_TABLES
    }
    assert compacted(directory, "d") == {table: rows for table, rows in expected.items() if rows}


def test_the_compaction_over_an_object_store_writes_the_same(
    object_store: Place, directory: Place, tmp_path: Path
) -> None:
    run_by_hand(object_store, COMPACTION, "s", tmp_path, [*packages(), *conf_options(QUICK)])
    run_by_hand(directory, COMPACTION, "t", tmp_path, conf_options(QUICK))
    assert compacted(object_store, "s") == compacted(directory, "t")


def test_report_and_compact_on_a_standalone_cluster_over_an_object_store(
    object_store: Place, expected: Expected, tmp_path: Path
) -> None:
    """What the tasks `analyse` and `compact` do, with the settings of docs/install.md (Store)."""
    place = replace(
        object_store,
        store=object_store.store.replace("/history?", "/by-command?"),
        spark_store=f"s3a://{BUCKET}/by-command",
    )
    write_history(place)
    _, connector = packages()
    settings = {"spark.jars.packages": connector, **place.conf, **CONF}
    command_line = str(PROGRAMS / "counterpoise")
    with standalone_cluster(tmp_path) as cluster:
        environment = {
            **variables(place, tmp_path),
            "COUNTERPOISE_SPARK_MASTER": cluster.master,
            "COUNTERPOISE_SPARK_CONF": " ".join(f"{k}={v}" for k, v in settings.items()),
        }
        run_command([command_line, "report", "--cluster", "demo"], environment)
        assert tables(place, "") == expected("analysis_round")
        told = run_command([command_line, "compact"], environment)
        clusters = {spec.cluster for spec in SPECS}
        assert told.count(": 1 day compacted") == len(clusters)
        assert f", {len(DAILY_TABLES) * len(clusters)} tables of a day made, " in told
    assert not cluster.open_ports

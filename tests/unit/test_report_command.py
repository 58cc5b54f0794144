"""What a person can get wrong about reports: one clear message each, and no Spark is started for
nothing.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.made_results import results_table
from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.errors import InputError
from counterpoise.installation import open_installation
from counterpoise.model.tables import RESULT_TABLES, SNAPSHOTS
from counterpoise.settings import Locations
from counterpoise.storage import Store
from tests.support.command_line import CommandLine
from tests.support.ten_days import ten_days


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.configure("nowhere.invalid:9092")
    return shell


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--cluster", "other"], 2, "cluster 'other' is not in"),
        (
            ["--cluster", "demo"],
            1,
            "has no analysed snapshot yet; make one: counterpoise snapshot --cluster demo",
        ),
        (["--cluster", "demo", "--last", "a month"], 2, "--last: 'a month' is not a duration"),
        (["--cluster", "demo", "--until", "yesterday"], 2, "--until: 'yesterday' is not a time"),
        (["--fleet", "--until", "2026-01-31"], 2, "--until goes with --cluster"),
        (["--fleet", "--cluster", "demo"], 2, "not allowed with"),
        ([], 2, "one of the arguments --cluster --fleet is required"),
    ],
)
def test_one_message_says_what_to_do(
    shell: CommandLine, words: list[str], code: int, told: str
) -> None:
    typed = shell.type("report", *words)
    assert (typed.code, typed.out) == (code, "")
    assert told in typed.err
    assert "Traceback" not in typed.err


def test_a_fleet_without_snapshots_is_reported_as_such(shell: CommandLine) -> None:
    typed = shell.type("report", "--fleet")
    assert typed.code == 0
    assert "has no snapshot yet" in typed.out
    assert json.loads(shell.type("report", "--fleet", "--json").out)


@pytest.mark.parametrize(
    "harm", ["cut short", "gone", "a column is missing", "rows are missing", "a newer schema"]
)
def test_a_snapshot_that_cannot_be_read_is_left_out_by_name(shell: CommandLine, harm: str) -> None:
    (snapshot,) = ten_days(1)
    archive = Archive(Store(str(shell.folder / "store")))
    archive.write_snapshot(snapshot)
    path = next((shell.folder / "store").glob("history/partitions/**/*.parquet"))
    table = archive.store.read_table(str(path.relative_to(shell.folder / "store")))
    if harm == "cut short":
        path.write_bytes(path.read_bytes()[:-100])
    elif harm == "gone":
        path.unlink()
    elif harm == "a column is missing":
        archive.store.write_table(
            str(path.relative_to(shell.folder / "store")), table.drop_columns(["replicas"])
        )
    elif harm == "rows are missing":
        archive.store.write_table(str(path.relative_to(shell.folder / "store")), table.slice(1))
    else:
        manifest = next(
            (shell.folder / "store").glob("history/snapshots/**/*.parquet")
        ).relative_to(shell.folder / "store")
        (row,) = archive.store.read_table(str(manifest)).to_pylist()
        archive.store.write_table(
            str(manifest), pa.Table.from_pylist([row | {"schema_version": 99}], schema=SNAPSHOTS)
        )
    typed = shell.type("report", "--cluster", "demo")
    assert typed.code == 1, "nothing is left to report"
    what = {
        "a newer schema": "schema version 99",
        "a column is missing": "lacks columns: replicas",
    }
    assert f"snapshot {snapshot.snapshot_id} is left out" in typed.err.replace("\n", " ")
    assert what.get(harm, path.name) in typed.err.replace("\n", " ")
    (left_out,) = json.loads((shell.folder / "store/views/demo/left-out.json").read_text())
    assert left_out["snapshot_id"] == snapshot.snapshot_id


@pytest.mark.parametrize("words", ["driver.memory=8g", "spark.driver.memory", "spark.x='y"])
def test_spark_settings_have_names_and_values(words: str) -> None:
    with pytest.raises(InputError, match="COUNTERPOISE_SPARK_CONF"):
        Locations.from_environment({"COUNTERPOISE_SPARK_CONF": words})
    given = Locations.from_environment(
        {"COUNTERPOISE_SPARK_CONF": "spark.driver.memory=8g spark.x='a b=c'"}
    )
    assert given.spark_conf == {"spark.driver.memory": "8g", "spark.x": "a b=c"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("spark.sql.session.timeZone=CET", "is always UTC, since the results depend on it"),
        ("spark.sql.ansi.enabled=false", "is always true, since the results depend on it"),
        ("spark.master=local", "cannot be set here: set COUNTERPOISE_SPARK_MASTER instead"),
    ],
)
def test_a_spark_setting_that_would_be_ignored_is_refused(words: str, says: str) -> None:
    with pytest.raises(InputError, match=f"COUNTERPOISE_SPARK_CONF: .* {says}"):
        Locations.from_environment({"COUNTERPOISE_SPARK_CONF": words})


def test_a_report_on_the_terminal_has_a_row_for_each_broker(shell: CommandLine) -> None:
    now = datetime.now(UTC)
    times = [now - timedelta(hours=hours) for hours in range(48, -1, -1)]
    with open_installation(environment=shell.environment) as installation:
        for table in RESULT_TABLES:
            path = f"results/{table}/round=r/cluster_name=demo/all.parquet"
            installation.archive.store.write_table(path, results_table(table, ["demo"], times))
        ids = [history.snapshot_id_for("demo", at) for at in times]
        rows = [{"snapshot_id": i, "cluster": "demo", "previous_snapshot_id": None} for i in ids]
        installation.results.finish_round("r", now, rows, is_by_cluster=True)

    typed = shell.type("report", "--cluster", "demo", "--last", "1d")

    assert typed.code == 0
    first, heads, *lines = typed.out.splitlines()
    assert first.startswith("demo: 25 snapshots, ")
    assert heads.split()[:4] == ["broker", "rack", "state", "leaders"]
    document = json.loads(shell.type("report", "--cluster", "demo", "--json").out)
    shown = [line.split()[0] for line in lines if line[:1].isdigit()]
    assert shown == [str(broker["broker_id"]) for broker in document["brokers"]]
    assert "leaders per live broker: " in typed.out
    assert lines[-1].startswith("report: ") and lines[-1].endswith("leader-balance.html")


def test_a_damaged_view_of_a_cluster_keeps_no_other_from_the_fleet_and_fails_the_command(
    shell: CommandLine,
) -> None:
    shell.configure("nowhere.invalid:9092", extra="  other: {connection: kafka}\n")
    names = ["demo", "other"]
    at = datetime.now(UTC)
    with open_installation(environment=shell.environment) as installation:
        store = installation.archive.store
        for table in RESULT_TABLES:
            path = f"results/{table}/round=r/all.parquet"
            store.write_table(path, results_table(table, names, [at]))
        rows = [{"snapshot_id": history.snapshot_id_for(n, at), "cluster": n} for n in names]
        rows = [row | {"previous_snapshot_id": None} for row in rows]
        installation.results.finish_round("r", at, rows)
    assert shell.type("report", "--fleet").code == 0
    (path,) = store.list("views/demo/series")
    store.write_text(path, "no Parquet")

    typed = shell.type("report", "--fleet")

    assert typed.code == 3
    shown = {line.split()[0]: line for line in typed.out.splitlines()}
    assert shown["demo"].endswith("its analysis cannot be read")
    assert shown["demo"].split()[1] == "-", "brokers"
    assert shown["other"].split()[1] == "3", "brokers"
    assert "is damaged" in typed.err and path in typed.err
    assert "delete the folder" in typed.err and "views/demo/series" in typed.err
    as_json = shell.type("report", "--fleet", "--json")
    assert as_json.code == 3
    brokers = {one["cluster"]: one["brokers"] for one in json.loads(as_json.out)["clusters"]}
    assert brokers == {"demo": None, "other": 3}

    store.delete_folder("views/demo/series")
    assert shell.type("report", "--fleet").code == 0

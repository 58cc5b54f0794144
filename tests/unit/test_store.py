"""The store: whole files or none, on any file system, clear errors, and no secrets in them."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from counterpoise.errors import InputError, StoreError
from counterpoise.storage import Store, opening, working_root
from counterpoise.storage.opening import open_uri


def test_what_is_written_reads_back_and_is_listed(tmp_path: Path) -> None:
    store = Store(f"file://{tmp_path}/store")
    table = pa.table({"a": [1, 2]})
    store.write_table("history/x/1.parquet", table)
    store.write_text("plans/p.json", "one")
    store.write_text("plans/p.json", "two")
    assert store.read_table("history/x/1.parquet") == table
    assert store.read_text("plans/p.json") == "two"
    assert store.list("history", suffix=".parquet") == ("history/x/1.parquet",)
    assert store.list("nowhere") == ()
    assert [p.name for p in (tmp_path / "store" / "plans").iterdir()] == ["p.json"], (
        "no part file stays"
    )


def test_a_store_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "plans").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="cannot write file://"):
        Store(str(tmp_path)).write_text("plans/p.json", "x")


def test_paths_stay_inside(tmp_path: Path) -> None:
    for path in ("/etc/passwd", "../x", "a/../../x"):
        with pytest.raises(InputError, match="not a path inside the store"):
            Store(str(tmp_path)).read_text(path)


def test_an_unknown_kind_of_store_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        Store("carrier-pigeon://x/y")


@pytest.fixture(params=["directory", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A directory, and a file system of fsspec's."""
    return Store(
        str(tmp_path / "a store")
        if request.param == "directory"
        else f"memory://{uuid.uuid4().hex}/a"
    )


def test_every_store_does_the_same(store: Store, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2]})
    store.write_table("history/x/1.parquet", table)
    store.write_text("plans/p.json", "one")
    store.write_text("plans/p.json", "two")
    assert store.read_table("history/x/1.parquet") == table
    assert store.list("") == ("history/x/1.parquet", "plans/p.json")
    assert store.list("nowhere") == ()

    store.move("plans/p.json", "elsewhere/q.json")
    (moved,) = store.files("elsewhere")
    assert (moved.path, moved.size_bytes) == ("elsewhere/q.json", 3)
    assert moved.modified_at is not None
    assert abs(moved.modified_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert store.info("elsewhere/q.json") == moved
    assert store.info("plans/p.json") is None

    store.download("elsewhere/q.json", tmp_path / "here" / "q")
    assert (tmp_path / "here" / "q").read_text() == "two"
    store.upload(tmp_path / "here" / "q", "again.json")
    assert store.read_text("again.json") == "two"

    store.delete("elsewhere/q.json")
    store.delete("elsewhere/q.json")
    store.delete_folder("history")
    store.delete_folder("history")
    assert store.list("") == ("again.json",)


def test_what_is_missing_says_so_in_every_store(store: Store) -> None:
    for ask in (store.read_text, store.read_table, store.parquet_shape):
        with pytest.raises(StoreError, match=r"the store has no \w+://.*/plans/none"):
            ask("plans/none")
    store.write_bytes("cut.parquet", b"PAR1")
    for look in (store.read_table, store.parquet_shape):
        with pytest.raises(StoreError, match=r"cut\.parquet is not a complete Parquet file"):
            look("cut.parquet")


def test_one_snapshot_of_a_file_with_many_is_read_without_the_others(store: Store) -> None:
    ids = [f"demo-{n}" for n in range(50) for _ in range(100)]
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"n": range(5000), "snapshot_id": ids}), buffer, row_group_size=100)
    data = buffer.getvalue().to_pybytes()
    at = data.index(b"demo-7")
    store.write_bytes("many.parquet", data[:at] + b"DAMAGE" + data[at + 6 :])

    one = store.read_table("many.parquet", snapshot_id="demo-40")

    assert one["n"].to_pylist() == list(range(4000, 4100))
    assert store.read_table("many.parquet", snapshot_id="demo-400").num_rows == 0
    store.write_table("one.parquet", pa.table({"n": [1]}))
    assert store.read_table("one.parquet", snapshot_id="demo-1").num_rows == 1


@pytest.mark.parametrize("uri", ["s3://AKIAKEY:hunter2@bucket/x", "ftp://user:hunter2@host/x"])
def test_a_secret_in_a_uri_is_refused_and_not_shown(uri: str) -> None:
    with pytest.raises(InputError, match="leave user and password out") as caught:
        Store(uri)
    assert "hunter2" not in str(caught.value)
    assert "AKIAKEY" not in str(caught.value)


def test_options_of_a_uri_are_no_part_of_its_paths() -> None:
    options = "endpoint_override=127.0.0.1:9&scheme=http&region=eu-1"
    store = Store(f"s3://bucket/prefix/?{options}")
    assert store.root_uri == "s3://bucket/prefix"
    assert store.uri("plans/p.json") == "s3://bucket/prefix/plans/p.json"
    with pytest.raises(InputError, match="options after"):
        Store("memory://x?region=eu-1")


@pytest.mark.parametrize(
    ("options", "is_one_request"),
    [
        ("", True),
        ("?scheme=http&region=eu-1", True),
        ("?region=eu-1&allow_delayed_open=false", False),
    ],
)
def test_a_small_file_is_one_request_to_s3_unless_the_uri_says_otherwise(
    options: str, is_one_request: bool
) -> None:
    opened = open_uri(f"s3://bucket/x{options}{'&' if options else '?'}endpoint_override=127.0.0.1")
    _, (given,) = opened.file_system.__reduce__()
    assert given["allow_delayed_open"] is is_one_request
    assert opened.uri == "s3://bucket/x"


def test_an_arrow_that_does_not_know_the_option_opens_the_store_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from_uri = opening._from_uri

    def without_option(uri: str) -> object:
        if "allow_delayed_open" in uri:
            raise pa.ArrowInvalid("Unexpected query parameter in S3 URI: 'allow_delayed_open'")
        return from_uri(uri)

    monkeypatch.setattr(opening, "_from_uri", without_option)
    assert open_uri("s3://bucket/x?region=eu-1").uri == "s3://bucket/x"


@pytest.mark.parametrize(
    ("uri", "master", "expected"),
    [
        ("s3://bucket/x?region=eu-1", "spark://host:7077", "s3a://bucket/x"),
        ("memory://x", "yarn", "memory://x"),
        ("/var/store", "local[2]", "file:///var/store"),
        ("/var/store", "spark://host:7077", "file:///var/store"),
    ],
)
def test_spark_works_in_the_store_where_it_can(uri: str, master: str, expected: str) -> None:
    with working_root(Store(uri), master, ["not/read.json"]) as root:
        assert root == expected


def test_for_a_spark_on_this_machine_files_are_copied_there_and_back() -> None:
    store = Store(f"memory://{uuid.uuid4().hex}")
    for path in ("in/a.json", "in/b.json", "other/c.json"):
        store.write_text(path, json.dumps(path))

    with working_root(store, "local[2]", ["in/a.json"]) as root:
        folder = Path(root.removeprefix("file://"))
        assert [p.name for p in folder.rglob("*.*")] == ["a.json"]
        (folder / "out").mkdir()
        for name in ("part-1", "_SUCCESS", ".part-1.crc"):
            (folder / "out" / name).write_text(name)
    assert store.list("") == ("in/a.json", "in/b.json", "other/c.json", "out/part-1")
    assert not folder.exists()

    with (
        pytest.raises(ValueError, match="the job failed"),
        working_root(store, "local[2]", []) as root,
    ):
        Path(root.removeprefix("file://"), "half").write_text("")
        raise ValueError("the job failed")
    assert "half" not in store.list("")


def test_a_document_is_read_up_to_a_limit(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    with (tmp_path / "endless.json").open("wb") as file:
        file.truncate(2 * 10**9)
    with pytest.raises(StoreError, match=r"endless\.json: it is larger than 1\.0 GB"):
        store.read_text("endless.json")


def test_tables_are_read_without_files_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of Arrow that read one need the interpreter, also when it ends: a command that had
    done all then died of SIGABRT, 7 times of 90 (apache/arrow#34314).
    """
    sources: list[object] = []
    read_table = pq.read_table

    def read(source: object, **options: object) -> pa.Table:
        sources.append(source)
        return read_table(source, **options)

    monkeypatch.setattr(pq, "read_table", read)
    store = Store(str(tmp_path))
    store.write_table("a.parquet", pa.table({"n": [1]}))
    assert store.read_table("a.parquet").num_rows == 1
    assert [type(source) for source in sources] == [pa.BufferReader]

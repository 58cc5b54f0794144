"""The files of a view: one that is damaged takes no other with it."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.made_results import view_table
from counterpoise.results import ViewFiles
from counterpoise.storage import Store
from tests.support.stores import damaged

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def files() -> ViewFiles:
    files = ViewFiles(Store(f"memory://{uuid.uuid4().hex}"), "demo", "series")
    for hour in range(3):
        at = BEGIN + timedelta(hours=hour)
        files.add(view_table("series", "demo", [at]), f"round-{hour}")
    path = "views/demo/series/month=2026-03/round-1.parquet"
    data = files.store.read_bytes(path, is_document=False)
    files.store.write_bytes(path, damaged(data))
    return files


def test_a_file_whose_footer_alone_is_sound_is_left_out_of_a_merge_and_stays(
    files: ViewFiles,
) -> None:
    assert files.merge() == 2
    names = [path.rpartition("/")[2] for path in files.store.list("views/demo/series")]
    assert [name.partition("-")[0] for name in names] == ["merged", "round"]


def test_a_file_whose_footer_alone_is_sound_is_renamed(files: ViewFiles) -> None:
    assert len(files.quarantine_damaged()) == 1
    assert len(files.read()["snapshot_id"].unique()) == 2

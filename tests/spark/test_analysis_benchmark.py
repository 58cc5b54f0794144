"""The histories that the analysis benchmark makes, and when its standalone cluster is there."""

from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.history_maker import Shape, make_history, newest_only
from counterpoise.model.tables import SNAPSHOT_TABLES

SMALL = Shape(partitions=1000, snapshots=2)


def test_a_made_history_is_as_the_archive_would_write_it(tmp_path: Path) -> None:
    made = make_history(tmp_path / "one", SMALL)
    assert made == make_history(tmp_path / "other", SMALL)
    assert [row["previous_snapshot_id"] for row in made] == [None, made[0]["snapshot_id"]]
    assert [row["is_context"] for row in newest_only(made)] == [True, False]
    for file in (file for row in made for file in row["files"]):
        one, other = (
            pq.read_table(tmp_path / name / file["path"], partitioning=None)
            for name in ("one", "other")
        )
        assert one == other
        assert one.schema.equals(SNAPSHOT_TABLES[file["table"]])
        assert one.num_rows == file["row_count"]
    partitions = pq.read_table(tmp_path / "one" / made[1]["files"][2]["path"], partitioning=None)
    assert partitions.num_rows == SMALL.partitions
    assert (
        len(
            set(
                zip(*(partitions[name].to_pylist() for name in ("topic", "partition")), strict=True)
            )
        )
        == 1000
    )
    assert all(len(set(replicas)) == 3 for replicas in partitions["replicas"].to_pylist())

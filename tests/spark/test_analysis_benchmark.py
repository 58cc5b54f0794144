"""The histories that the analysis benchmark makes, and when its standalone cluster is there."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pyarrow.parquet as pq
import pytest

from benchmarks.history_maker import Shape, make_history, newest_only
from benchmarks.standalone import alive_workers
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


@pytest.mark.parametrize(
    ("answer", "alive"),
    [
        pytest.param((200, b'{"aliveworkers": 2}'), 2, id="all there"),
        pytest.param(
            (200, b"<!DOCTYPE html><html>Spark Master</html>"), 0, id="its front page only"
        ),
        pytest.param((404, b""), 0, id="no page yet"),
    ],
)
def test_a_master_that_is_not_all_there_has_no_workers(
    answer: tuple[int, bytes], alive: int
) -> None:
    with _answering(*answer) as page:
        assert alive_workers(page) == alive
    assert alive_workers(page) == 0


@contextmanager
def _answering(status: int, body: bytes) -> Iterator[int]:
    """The port of a server that always answers so."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()

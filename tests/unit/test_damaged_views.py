"""A view that cannot be made again keeps no other cluster from its analysis."""

import logging
from pathlib import Path

import pytest

from benchmarks.made_results import made_up_job
from benchmarks.store_requests import NOW, snapshot
from counterpoise.errors import CounterpoiseError
from counterpoise.installation import Installation
from counterpoise.services import analyses, reports
from counterpoise.settings import FileConnections, Locations, parse_settings

CLUSTERS = ["demo", "other"]


def test_a_view_that_cannot_be_made_again_is_named_and_the_others_are_extended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The view of `demo` was deleted, and a file that it is made of is damaged."""
    monkeypatch.setattr(analyses, "run_job", made_up_job)
    settings = "".join(f"  {name}: {{connection: none}}\n" for name in CLUSTERS)
    places = {"COUNTERPOISE_STORE": str(tmp_path / "store")}
    places["COUNTERPOISE_LEDGER"] = f"sqlite:///{tmp_path}/ledger.db"
    with Installation(
        Locations.from_environment(places),
        FileConnections(Path("none"), {}),
        known_clusters=parse_settings(f"clusters:\n{settings}", where="a test"),
        clock=lambda: NOW,
    ) as installation:
        store = installation.archive.store
        for hour in (9, 10):
            for name in CLUSTERS:
                installation.archive.write_snapshot(snapshot(name, NOW.replace(hour=hour)))
            if hour == 10:
                store.delete_folder("views/demo/series")
                (damaged,) = [
                    path for path in store.list("results/broker_balance") if "=demo/" in path
                ]
                store.write_text(damaged, "no Parquet")
            caplog.set_level(logging.WARNING)
            assert analyses.analyse(installation, f"at {hour}") == CLUSTERS

        assert f"{store.uri(damaged)} is not a complete Parquet file" in caplog.text
        assert store.list("views/demo/series") == (), "whoever reads it tries again"
        other = installation.results.series("other")
        assert other is not None and len(other["snapshot_id"].unique()) == 2
        reported = reports.report_balances(installation, CLUSTERS)
        assert [*reported.failures] == ["demo"]
        with pytest.raises(CounterpoiseError, match="is not a complete Parquet file"):
            reported.check()
        store.delete(damaged)
        assert reports.report_balances(installation, CLUSTERS).failures == {}

"""`report` over a store and `status --follow` over a ledger that are not what they should be. What
waits without an end is ended by Ctrl-C, or by SIGTERM.

The store has an analysed week of a cluster; in the ledger, a run is under way.
"""

import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.made_results import results_table
from counterpoise import history, pipeline
from counterpoise.installation import Installation
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.settings import FileConnections, Locations, parse_settings
from tests.fuzzing.conftest import Commands
from tests.fuzzing.test_commands import (
    CONNECTIONS,
    EXAMPLES,
    FUZZED,
    ODD,
    TERMINALS,
)
from tests.support.runs import SimulatedRun

CLUSTER: Final = "demo"
NOW: Final = datetime(2026, 11, 23, 1, tzinfo=UTC)
_THE_RUN: Final = "the run under way"
FILES: Final = {
    "clusters.yaml": f"clusters: {{{CLUSTER}: {{connection: kafka}}}}\n".encode(),
    "connections.yaml": CONNECTIONS,
}
# A store in which something has to be counted anew would start Spark, which is not fuzzed here.
WITHOUT_JAVA: Final = {"COUNTERPOISE_JAVA_HOME": "/nowhere"}
# Each takes a second or more: a failure is told as it is found.
FEWER: Final = settings(
    FUZZED,
    max_examples=max(15, EXAMPLES // 3),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
SIGNALS: Final = st.tuples(
    st.floats(0.1, 1.0, allow_nan=False), st.sampled_from((signal.SIGINT, signal.SIGTERM))
)


@st.composite
def changes(draw: st.DrawFn) -> Callable[[bytes], bytes]:
    """Cut a file short, change a few of its bytes, or put others in its place."""
    kind = draw(st.sampled_from(("cut", "flip", "flip", "other", "as it is")))
    place, other = draw(st.floats(0, 1)), draw(st.binary(min_size=1, max_size=8))

    def changed(data: bytes) -> bytes:
        at = int(place * len(data))
        if kind == "cut":
            return data[:at]
        if kind == "flip":
            return data[:at] + other + data[at + len(other) :]
        return other if kind == "other" else data

    return changed


@pytest.fixture(scope="session")
def under_way(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """A ledger in which a run is under way, and that run's id."""
    folder = tmp_path_factory.mktemp("ledger")
    run = SimulatedRun.make(folder)
    run.until_moving(run.driver())
    run.ledger.close()
    return (folder / "ledger.db").read_bytes(), run.run_id


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, bytes]:
    """Return the files of a store with the results and views of a week."""
    folder = tmp_path_factory.mktemp("store")
    locations = Locations.from_environment(
        {"COUNTERPOISE_STORE": str(folder), "COUNTERPOISE_LEDGER": "sqlite://"}
    )
    settings_of_one = parse_settings("clusters:\n  demo: {connection: none}\n", where="the test")
    times = [NOW - timedelta(hours=hours) for hours in range(7 * 24, -1, -1)]
    snapshot_ids = [history.snapshot_id_for(CLUSTER, at) for at in times]
    known = [
        {"snapshot_id": snapshot_id, "cluster": CLUSTER, "previous_snapshot_id": None}
        for snapshot_id in snapshot_ids
    ]
    with Installation(
        locations,
        FileConnections(Path("none"), {}),
        known_clusters=settings_of_one,
        clock=lambda: NOW,
    ) as installation:
        for table in RESULT_TABLES:
            path = f"results/{table}/round=r/cluster_name={CLUSTER}/all.parquet"
            installation.archive.store.write_table(path, results_table(table, [CLUSTER], times))
        installation.results.finish_round("r", NOW, known, is_by_cluster=True)
        pipeline.rebuild_views(installation, CLUSTER)
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


Changes = list[tuple[float, Callable[[bytes], bytes] | None]]


def write_store(folder: Path, stored: Mapping[Path, bytes], changed: Changes) -> None:
    """Write what is stored; None in place of a change leaves the file out.

    Each change is of the file at that place in the list, from 0 to 1.
    """
    names = list(stored)
    by_name = {names[int(place * (len(names) - 1))]: change for place, change in changed}
    for name, content in stored.items():
        change = by_name.get(name, _as_it_is)
        if change:
            path = folder / "store" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change(content))


def _as_it_is(data: bytes) -> bytes:
    return data


@FEWER
@given(
    st.lists(st.tuples(st.floats(0, 1), st.none() | changes()), min_size=1, max_size=2),
    st.sampled_from((("--cluster", CLUSTER), ("--fleet",))),
    st.sampled_from(((), ("--json",), ("--quiet",))),
    st.sampled_from(((), ("--last", "12h"))) | ODD.map(lambda one: ("--last", one)),
    TERMINALS,
)
def test_reports(
    commands: Commands,
    stored: dict[Path, bytes],
    changed: Changes,
    which: tuple[str, ...],
    form: tuple[str, ...],
    period: tuple[str, ...],
    environment: dict[str, str],
) -> None:
    words = ["report", *which, *form, *period]
    commands.run(
        words,
        FILES,
        WITHOUT_JAVA | environment,
        prepare=lambda folder: write_store(folder, stored, changed),
    )


@FEWER
@given(
    changes(),
    st.sampled_from(((), (_THE_RUN,), ("--cluster", CLUSTER))),
    st.booleans(),
    SIGNALS,
    TERMINALS,
    st.booleans(),
)
def test_following(
    commands: Commands,
    under_way: tuple[bytes, str],
    change: Callable[[bytes], bytes],
    which: tuple[str, ...],
    as_json: bool,
    interrupt: tuple[float, int],
    environment: dict[str, str],
    terminal: bool,
) -> None:
    ledger, run_id = under_way
    which = tuple(run_id if word == _THE_RUN else word for word in which)
    words = ["status", "--follow", *which, *(["--json"] if as_json else [])]
    files = FILES | {"ledger.db": change(ledger)}
    commands.run(
        words, files, environment, writes=("ledger.db",), terminal=terminal, interrupt=interrupt
    )

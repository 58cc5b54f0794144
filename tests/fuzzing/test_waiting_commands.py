"""`report` over a store, `status --follow` over a ledger and `doctor --watch` before a broker that
are not what they should be. What waits without an end is ended by Ctrl-C, or by SIGTERM.

Store and ledger are those of an installation that was used for weeks (tests/upgrades/data).
"""

import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.fuzzing.conftest import ROOT, Commands
from tests.fuzzing.test_commands import (
    BROKER,
    CONNECTIONS,
    EXAMPLES,
    FUZZED,
    ODD,
    PARTITION,
    TERMINALS,
    mangling,
)
from tests.support.fake_broker import HERE, Answers, fake_broker

USED: Final = ROOT / "tests" / "upgrades" / "data" / "2026-11-23"
CLUSTER: Final = "orders-eu"
UNDER_WAY: Final = "orders-eu-20261123T004200Z-54e4cd"
FILES: Final = {
    "clusters.yaml": f"clusters: {{{CLUSTER}: {{connection: kafka}}}}\n".encode(),
    "connections.yaml": CONNECTIONS,
}
# A store in which something has to be counted anew would start Spark, which is not fuzzed here.
WITHOUT_JAVA: Final = {"COUNTERPOISE_JAVA_HOME": "/nowhere"}
# What is read about one cluster.
STORED: Final = sorted(
    path.relative_to(USED / "store")
    for path in (USED / "store").rglob("*.parquet")
    if f"cluster={CLUSTER}" in path.parts or "cluster=" not in str(path)
)
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
def migrated(commands: Commands, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a ledger of today's schema, in which a run is under way."""
    ledger = tmp_path_factory.mktemp("used") / "ledger.db"
    shutil.copy(USED / "ledger.db", ledger)
    address = {"COUNTERPOISE_LEDGER": f"sqlite:///{ledger}"}
    assert commands.run(["ledger", "migrate"], FILES, address).status == 0
    return ledger


def copy_store(folder: Path, changed: Mapping[Path, Callable[[bytes], bytes] | None]) -> None:
    """Copy what is stored; None in place of a change leaves the file out."""
    for name in STORED:
        change = changed.get(name, _as_it_is)
        if change:
            path = folder / "store" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(change((USED / "store" / name).read_bytes()))


def _as_it_is(data: bytes) -> bytes:
    return data


@FEWER
@given(
    st.dictionaries(st.sampled_from(STORED), st.none() | changes(), min_size=1, max_size=2),
    st.sampled_from((("--cluster", CLUSTER), ("--fleet",))),
    st.sampled_from(((), ("--json",), ("--csv",), ("--quiet",))),
    st.sampled_from(((), ("--last", "12h"))) | ODD.map(lambda one: ("--last", one)),
    TERMINALS,
)
def test_reports(
    commands: Commands,
    changed: dict[Path, Callable[[bytes], bytes] | None],
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
        prepare=lambda folder: copy_store(folder, changed),
    )


@FEWER
@given(
    changes(),
    st.sampled_from(((), (UNDER_WAY,), ("--cluster", CLUSTER))),
    st.booleans(),
    SIGNALS,
    TERMINALS,
    st.booleans(),
)
def test_following(
    commands: Commands,
    migrated: Path,
    change: Callable[[bytes], bytes],
    which: tuple[str, ...],
    as_json: bool,
    interrupt: tuple[float, int],
    environment: dict[str, str],
    terminal: bool,
) -> None:
    words = ["status", "--follow", *which, *(["--json"] if as_json else [])]
    files = FILES | {"ledger.db": change(migrated.read_bytes())}
    commands.run(
        words, files, environment, writes=("ledger.db",), terminal=terminal, interrupt=interrupt
    )


@FEWER
@given(
    st.lists(BROKER, max_size=3),
    st.lists(PARTITION, max_size=3),
    st.just(lambda frame, _number: frame) | mangling(),
    st.sampled_from((("--for", "1s"), ())) | ODD.map(lambda one: ("--for", one)),
    st.booleans(),
    SIGNALS,
)
def test_watching(
    commands: Commands,
    brokers: list[tuple[int, str | None, int]],
    partitions: list[tuple[str | None, int, int, list[int]]],
    mangle: Callable[[bytes, int], bytes],
    duration: tuple[str, ...],
    as_json: bool,
    interrupt: tuple[float, int],
) -> None:
    answers = Answers([(1, HERE, 0), *brokers], "fake", partitions, mangle=mangle)
    with fake_broker(answers) as address:
        json_word = ["--json"] if as_json else []
        words = ["doctor", "--bootstrap", address, "--watch", *duration, *json_word]
        seconds, number = interrupt
        commands.run(words, FILES, interrupt=(seconds + 1, number))

"""A store on S3 that is slow, throttles, fails or hangs up: what passes is waited for, what does
not is said in a sentence; snapshots, plans, retention and compaction come through it.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from counterpoise.errors import StoreError
from counterpoise.installation import Installation
from counterpoise.model.request import Goal, RebalanceRequest
from counterpoise.services import plans, snapshots
from counterpoise.settings import Locations
from counterpoise.storage import Store
from tests.support import s3_server
from tests.support.decisions import ALICE
from tests.support.installations import installation_over
from tests.support.pictures import simulated
from tests.support.planned_runs import planned_run
from tests.support.s3_server import S3Server, Trouble

SECRET = "s3cr3t"
PASSING = {
    "throttled": s3_server.slow_down,
    "failing": s3_server.internal_error,
    "hanging up": s3_server.hang_up,
    "slow": s3_server.wait(0.2),
}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of-a-test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with s3_server.s3_server() as running:
        yield running


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING)
def test_what_passes_is_waited_for(server: S3Server, trouble: Trouble) -> None:
    store, table = Store(server.uri), pa.table({"n": [1, 2]})
    server.trouble = [trouble] * 2
    store.write_text("plans/a.json", "{}")
    server.trouble = [trouble] * 2
    assert store.read_text("plans/a.json") == "{}"
    store.write_table("t.parquet", table)
    server.trouble = [trouble] * 2
    assert store.read_table("t.parquet").equals(table)
    server.trouble = [trouble] * 2
    assert store.list("") == ("plans/a.json", "t.parquet")
    server.trouble = [trouble] * 2
    store.delete("plans/a.json")
    assert store.list("") == ("t.parquet",)
    assert server.trouble == []


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [(s3_server.access_denied, "ACCESS_DENIED"), (s3_server.slow_down, "SLOW_DOWN")],
)
def test_what_does_not_pass_is_said_and_nothing_is_half_written(
    server: S3Server, trouble: Trouble, reason: str
) -> None:
    store = Store(server.uri)
    server.always = trouble
    with pytest.raises(StoreError) as told:
        store.write_text("plans/a.json", "{}")
    assert "cannot write s3://bucket/store/plans/a.json" in str(told.value)
    assert reason in str(told.value) and SECRET not in str(told.value)
    server.always = None
    assert store.list("") == ()


def test_snapshots_and_plans_come_through_a_store_that_throttles(
    server: S3Server, tmp_path: Path
) -> None:
    kafka = simulated(
        "\n".join(f"orders-{p}: 1 2 size=1000" for p in range(6)), racks="1=a 2=b 3=c"
    )
    with on_s3(server, installation_over(tmp_path, lambda _: kafka)) as installation:
        server.trouble = every_third(s3_server.slow_down, 120)
        snapshots.make(installation, "demo", installation.clock())
        request = RebalanceRequest(Goal.ADD_BROKERS, (3,))
        planned = planned_run(installation, "demo", request, plans.Origin(ALICE))
        assert planned is not None
        plan = installation.archive.read_plan(planned["plan_uri"], planned["fingerprint"])
        assert plan.moves
        assert installation.archive.manifests(["demo"]).num_rows >= 1
    assert len(server.trouble) < 110, "throttled on the way"


def on_s3(server: S3Server, installation: Installation) -> Installation:
    places = {
        "COUNTERPOISE_STORE": server.uri,
        "COUNTERPOISE_LEDGER": installation.locations.ledger,
    }
    installation.locations = Locations.from_environment(places)
    return installation


def every_third(trouble: Trouble, count: int) -> list[Trouble]:
    return [trouble if number % 3 == 0 else s3_server.no_trouble for number in range(count)]

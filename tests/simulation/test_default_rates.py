"""Somebody else's limit, the dynamic default or a broker's own, is never raised by a run."""

from pathlib import Path

import pytest

from counterpoise.execution import Driver
from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.control import Control
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    RATE_KEYS,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.movement import effective_rate
from counterpoise.model.plan import SettingBefore
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.model.run import RunState
from counterpoise.planning import make_plan
from counterpoise.snapshot import take_snapshot
from counterpoise.views.plan import PlanView
from tests.support.ledger_view import change_was_not_answered
from tests.support.pictures import simulated
from tests.support.runs import FOUR_BROKERS, SKEWED, START, SimulatedRun, at_broker, own_configs


def rates_set(run: SimulatedRun) -> set[str]:
    """Return the rates that brokers have of their own."""
    return {
        value
        for resource, values in own_configs(run.cluster).items()
        if resource.is_broker
        for value in values.values()
    }


def until_set(run: SimulatedRun) -> None:
    driver = run.driver()
    driver.open()
    while not rates_set(run):
        run.cluster.advance(driver.step() or 0)


@pytest.mark.parametrize(
    ("default", "rate"), [("200000", "200000"), ("90000000", "1000000"), ("1000000", "1000000")]
)
def test_a_run_sets_its_rate_or_the_default_where_that_is_lower(
    tmp_path: Path, default: str, rate: str
) -> None:
    run = SimulatedRun.make(tmp_path)
    run.cluster.configs.broker_defaults[FOLLOWER_RATE] = default
    until_set(run)
    assert rates_set(run) == {rate}
    assert run.go() is RunState.DONE
    assert rates_set(run) == set(), "they were not set before: deleted, so that the default holds"
    assert run.cluster.configs.broker_defaults == {FOLLOWER_RATE: default}
    assert not run.view.left_as_others_set_them(run.run_id)


def test_a_default_that_is_lowered_meanwhile_is_followed(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    assert rates_set(run) == {"1000000"}
    run.cluster.configs.broker_defaults[LEADER_RATE] = "300000"
    run.cluster.advance(driver.step() or 0)
    assert rates_set(run) == {"300000"}
    assert run.run_progress().rate_bytes_per_second == 300_000
    texts = [e.text for e in run.events() if e.kind == "throttling"]
    assert "the default of all brokers, which is kept" in texts[-1]
    del run.cluster.configs.broker_defaults[LEADER_RATE]
    run.cluster.advance(driver.step() or 0)
    assert rates_set(run) == {"1000000"}


def snapshot_with_default(default: str) -> ClusterSnapshot:
    cluster = simulated(SKEWED, racks=FOUR_BROKERS)
    cluster.configs.broker_defaults |= dict.fromkeys(RATE_KEYS, default)
    return take_snapshot(cluster, cluster="orders-eu", snapshot_id="s", observed_at=START)


def test_who_approves_is_told_of_a_lower_default() -> None:
    snapshot = snapshot_with_default("200000")
    plan = make_plan(snapshot, PlanRequest(Goal.ADD_BROKERS, (4,)))
    defaults = [setting for setting in plan.settings_before if setting.resource_name == ""]
    assert {setting.key: setting.value for setting in defaults} == dict.fromkeys(
        RATE_KEYS, "200000"
    )
    shown = PlanView.of(plan, asked_rate_bytes_per_second=1_000_000)
    assert shown.limit_warning and "throttle rates is 200 kB/s" in shown.limit_warning
    assert shown.limit_warning in shown.all_warnings
    assert effective_rate(plan, 1_000_000) == 200_000
    assert PlanView.of(plan).limit_warning, "it holds whatever rate is chosen"
    assert not PlanView.of(plan, asked_rate_bytes_per_second=100_000).limit_warning
    assert SettingBefore(*defaults[0]).resource.is_broker


HALF, WHOLE = 500_000, 1_000_000


def request_rate(run: SimulatedRun, driver: Driver, rate: int) -> None:
    """Request a rate, and take the steps that set it and read it back."""
    run.ask(Control.RATE, rate_bytes_per_second=rate)
    for _ in range(2):
        run.cluster.advance(min(driver.step() or 0, 0.1))


def follower_rate(run: SimulatedRun, broker_id: int) -> str | None:
    return own_configs(run.cluster).get(at_broker(broker_id), {}).get(FOLLOWER_RATE)


def set_by_somebody(run: SimulatedRun, rate: int) -> None:
    change = ConfigChange(at_broker(4), FOLLOWER_RATE, ConfigOperation.SET, str(rate))
    run.cluster.alter_configs([change])


def test_a_rate_that_a_call_without_an_answer_may_still_set_is_the_runs(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    run.until_moving(driver)
    request_rate(run, driver, HALF)
    at_four = [owned for owned in run.owned_keys() if owned.resource == at_broker(4)]
    change_was_not_answered(run.ledger, run.run_id, at_four)
    request_rate(run, driver, WHOLE)
    set_by_somebody(run, HALF)  # or the call, that came late: nobody can know
    driver.step()
    assert follower_rate(run, 4) == str(WHOLE)
    run.repeat(driver.step)
    assert run.end(driver) is RunState.DONE
    assert own_configs(run.cluster) == {}

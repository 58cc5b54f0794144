"""What comes late: calls of brokers and processes that were frozen, restores on dead brokers; and
the stop by hand.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from counterpoise.errors import HaltedError
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    ConfigChange,
    ConfigOperation,
)
from counterpoise.model.plan import SettingBefore
from counterpoise.model.run import RunState
from counterpoise.services.emergency_stop import stop_from_plan
from tests.support.runs import SimulatedRun, at_broker, of_topic, own_configs


def halted_by_the_death_of(broker_id: int, run: SimulatedRun) -> None:
    driver = run.driver()
    run.until_moving(driver)
    run.cluster.kill_broker(broker_id)
    with pytest.raises(HaltedError):
        run.repeat(driver.step)
    assert run.end(driver) is RunState.HALTED


def test_a_pending_restore_is_done_when_its_broker_returns_and_not_before(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    halted_by_the_death_of(4, run)
    restored, pending = run.restore_pending()
    assert (len(restored), [t.resource for t in pending]) == (0, [at_broker(4)])
    run.cluster.restart_broker(4)
    restored, pending = run.restore_pending()
    assert ([t.resource for t in restored], pending) == ([at_broker(4)], ())
    assert own_configs(run.cluster) == {}
    assert run.restore_pending() == ((), ())


def test_a_pending_restore_that_somebody_changed_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    run = SimulatedRun.make(tmp_path)
    halted_by_the_death_of(4, run)
    run.cluster.restart_broker(4)
    theirs = ConfigChange(at_broker(4), FOLLOWER_RATE, ConfigOperation.SET, "777777")
    run.cluster.alter_configs([theirs])
    paid, _ = run.restore_pending()
    assert len(paid) == 1
    assert own_configs(run.cluster) == {at_broker(4): {FOLLOWER_RATE: "777777"}}


def test_a_broker_that_did_not_answer_is_on_record_also_when_the_answer_about_topics_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    driver = run.driver()
    driver.open()
    alter = run.cluster.alter_configs

    def freeze_and_alter(changes: Any, **more: Any) -> Any:
        run.cluster.addressed_broker = 4
        run.cluster.freeze_broker(4)
        return alter(changes, **more)

    with monkeypatch.context() as patch:
        patch.setattr(run.cluster, "alter_configs", freeze_and_alter)
        driver.step()
    unanswered = {owned.resource for owned in run.owned_keys() if owned.is_unanswered}
    assert unanswered == {at_broker(4), of_topic("orders")}


def test_the_stop_from_a_plan_alone_cancels_and_brings_earlier_values_of_others_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = SimulatedRun.make(tmp_path)
    theirs = {
        (of_topic("orders"), LEADER_REPLICAS): "7:3,0:1",
        (at_broker(1), LEADER_RATE): "500000",
        (at_broker(4), FOLLOWER_RATE): "90000000",
    }
    for (resource, key), value in theirs.items():
        run.cluster.alter_configs([ConfigChange(resource, key, ConfigOperation.SET, value)])
    before, placement = own_configs(run.cluster), run.placement()
    settings = tuple(
        SettingBefore(resource.type, resource.name, key, value)
        for (resource, key), value in sorted(theirs.items())
    )
    plan = replace(run.plan, settings_before=settings)
    run.until_moving(run.driver())
    assert own_configs(run.cluster) != before
    monkeypatch.setattr(time, "sleep", run.cluster.advance)
    keys = stop_from_plan(run.cluster, plan, run.log.append).keys
    assert keys and all(key.done_at for key in keys)
    assert run.placement() == placement
    assert own_configs(run.cluster) == before
    assert not run.cluster.list_reassignments()

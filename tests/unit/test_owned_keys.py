"""The config keys that runs own, on both databases: of each key of a cluster one row is open."""

from dataclasses import replace
from datetime import timedelta

import pytest

from counterpoise.execution.throttling.restore import keys_to_own, without_ours
from counterpoise.execution.throttling.targets import broker_resource, topic_resource
from counterpoise.ledger import Ledger
from counterpoise.model.kafka import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    ConfigChange,
    ConfigOperation,
    ConfigSource,
    ConfigValue,
)
from counterpoise.model.request import Goal
from counterpoise.model.run import OwnedKey
from tests.support.clocks import Clock
from tests.support.pictures import cluster
from tests.support.plans import move, plan_by_hand

PLAN = plan_by_hand(
    cluster("orders-0: 1 2 3", racks="1 2 3 4"), Goal.REBALANCE, move("orders-0", "1 2 3", "4 2 3")
)
BROKER, TOPIC = broker_resource(4), topic_resource("orders")
RATE = OwnedKey("", BROKER, FOLLOWER_RATE, None, ("1000000",))
LIST = OwnedKey("", TOPIC, FOLLOWER_REPLICAS, "9:9", ("0:4",))


def a_run(ledger: Ledger, state: str = "halted") -> str:
    run_id = ledger.propose(PLAN, "p", requested_by="a").run_id
    with ledger._transactions.writing() as connection:
        connection.exec_driver_sql(f"UPDATE runs SET state = '{state}' WHERE run_id = '{run_id}'")
    return run_id


def touch(ledger: Ledger, run_id: str, *keys: OwnedKey, is_answered: bool = True) -> None:
    """Let a run set keys; nobody answers unless told."""
    with ledger.journal(run_id).step() as step:
        before = step.touching(keys)
        if is_answered:
            step.keys_answered(before)


def test_an_answer_puts_back_what_was_and_says_nothing_of_resources_without_one(
    ledger: Ledger, clock: Clock
) -> None:
    run_id = a_run(ledger)
    touch(ledger, run_id, replace(RATE, run_id=run_id), is_answered=False)
    first = clock.now
    clock.now += timedelta(seconds=10)
    touch(ledger, run_id, *ledger.journal(run_id).owned_keys())
    with ledger.journal(run_id).step() as step:
        before = step.touching([replace(LIST, run_id=run_id)])
        step.keys_answered(before, except_for={TOPIC})
    rate, entries = ledger.journal(run_id).owned_keys()
    assert (rate.unanswered_at, entries.unanswered_at) == (first, clock.now)


def test_a_restored_key_is_open_for_a_day_after_a_call_that_nobody_answered(
    ledger: Ledger, clock: Clock
) -> None:
    run_id = a_run(ledger)
    touch(ledger, run_id, replace(RATE, run_id=run_id), is_answered=False)
    with ledger.journal(run_id).step() as step:
        step.keys_done(ledger.journal(run_id).owned_keys())
    clock.now += timedelta(hours=23)
    assert [key.done_at is not None for key in ledger.open_keys(PLAN.cluster)] == [True]
    clock.now += timedelta(hours=1)
    assert ledger.open_keys(PLAN.cluster) == []
    (key,) = ledger.journal(run_id).owned_keys()
    assert key.unanswered_at is None


def test_a_key_that_was_never_restored_is_open_for_good(ledger: Ledger, clock: Clock) -> None:
    run_id = a_run(ledger)
    touch(ledger, run_id, replace(RATE, run_id=run_id))
    clock.now += timedelta(days=400)
    assert [key.resource for key in ledger.open_keys(PLAN.cluster)] == [BROKER]


def test_the_open_key_of_an_ended_run_becomes_that_of_the_run_that_sets_it(ledger: Ledger) -> None:
    earlier, later = a_run(ledger), a_run(ledger)
    touch(ledger, earlier, replace(RATE, run_id=earlier), is_answered=False)
    (of_earlier,) = ledger.open_keys(PLAN.cluster)
    touch(ledger, later, replace(of_earlier, written=("1000000", "2000000")))
    (key,) = ledger.open_keys(PLAN.cluster)
    assert (key.run_id, key.before, key.written) == (later, None, ("1000000", "2000000"))
    assert key.unanswered_at == of_earlier.unanswered_at, "the earlier call may still be made"


def test_the_key_of_a_run_under_way_stays_that_runs(ledger: Ledger) -> None:
    earlier, later = a_run(ledger), a_run(ledger, "running")
    touch(ledger, later, replace(RATE, run_id=later))
    touch(ledger, earlier, *ledger.open_keys(PLAN.cluster))
    assert [key.run_id for key in ledger.open_keys(PLAN.cluster)] == [later]


def test_of_several_rates_only_the_last_stays_once_it_is_shown(ledger: Ledger) -> None:
    run_id = a_run(ledger)
    touch(ledger, run_id, replace(RATE, run_id=run_id, written=("1000000", "500000")))
    with ledger.journal(run_id).step() as step:
        step.rates_shown(ledger.open_keys(PLAN.cluster))
    assert [key.written for key in ledger.open_keys(PLAN.cluster)] == [("500000",)]


@pytest.mark.parametrize(
    ("present", "would_be"),
    [
        (None, None),
        ("9:9", "9:9"),
        ("9:9,0:4", "9:9"),
        ("0:4,9:9,7:1", "9:9,7:1"),
        ("0:4", ""),
        ("*", "*"),
    ],
)
def test_a_list_without_ours_is_as_it_was_or_as_others_left_it(
    present: str | None, would_be: str | None
) -> None:
    assert without_ours(LIST, present) == would_be


@pytest.mark.parametrize(("present", "before"), [("1000000", None), ("777", "777"), (None, None)])
def test_what_is_ours_grows_and_its_value_of_before_is_the_one_without_ours(
    present: str | None, before: str | None
) -> None:
    shown = {FOLLOWER_RATE: ConfigValue(present, ConfigSource.DYNAMIC_BROKER)} if present else {}
    change = ConfigChange(BROKER, FOLLOWER_RATE, ConfigOperation.SET, "500000")
    (key,) = keys_to_own([change], {BROKER: shown}, [RATE], "later")
    assert (key.before, key.written) == (before, ("1000000", "500000"))

"""Findings that a plan should mend, against the planner: they fire where it has a plan, and only
there.
"""

from dataclasses import replace

import pyarrow as pa
import pytest

from counterpoise.audit.auditing import find
from counterpoise.audit.facts import AuditFacts
from counterpoise.audit.planned import wanted_plans
from counterpoise.model.constraints import Constraints
from counterpoise.model.finding import Finding, WantedPlan
from counterpoise.model.load import DiskForecast, Outlook
from counterpoise.model.policy import AuditPolicy, BalancePolicy
from counterpoise.model.request import Goal
from counterpoise.model.severity import Severity
from counterpoise.model.tables import LOG_DIRS
from counterpoise.services.audits import findings_of
from tests.support.audits import HEALTHY, facts, healthy

GB = 10**9


def found(given: AuditFacts) -> dict[tuple[str, str], Finding]:
    return {finding.key: finding for finding in findings_of(given)}


def uneven_racks(count: int = 12) -> AuditFacts:
    """Racks a, a, b, c with three replicas each: brokers 3 and 4 hold every partition."""
    orders = ("1 3 4", "3 4 2", "4 2 3", "1 4 3", "3 1 4", "4 3 2")
    lines = [f"orders-{n}: {orders[n % 6]} size={GB * 10}" for n in range(count)]
    return facts(healthy("\n".join(lines), racks="1=a 2=a 3=b 4=c"))


def test_what_racks_make_uneven_is_not_reported() -> None:
    given = uneven_racks()
    assert {"replicas-uneven", "bytes-uneven"} <= {finding.rule for finding in find(given)}
    assert {rule for rule, _ in found(given)} & {"replicas-uneven", "bytes-uneven"} == set()


def lopsided(**changes: object) -> AuditFacts:
    lines = [f"orders-{n}: 1 2 3 size={GB}" for n in range(12)]
    lines += [f"clicks-{n}: {one} size={GB}" for n, one in enumerate(["1 2 3", "4 5 6"] * 3)]
    return facts(healthy("\n".join(lines), racks="1=a 2=b 3=c 4=a 5=b 6=c"), **changes)


def test_a_finding_says_what_its_plan_brings() -> None:
    one = found(lopsided())[("replicas-uneven", "cluster")]
    assert one.severity is Severity.WARNING
    assert one.plan is not None and one.plan.goal is Goal.REBALANCE
    assert "; a plan copies " in one.summary
    assert "brings replicas per broker from 3 to 15 to between 9 and 9" in one.summary


def test_during_a_run_balance_is_an_info_and_nothing_is_planned() -> None:
    given = lopsided(active_run_id="demo-1")
    assert wanted_plans(find(given), given) == ()
    one = found(given)[("replicas-uneven", "cluster")]
    assert (one.severity, one.plan) == (Severity.INFO, None)
    assert one.summary.endswith("; run demo-1 is under way")


def test_what_no_plan_can_mend_stands_without_one() -> None:
    given = facts(healthy("single-0: 1\nsingle-1: 2\nsingle-2: 3"))
    policy = replace(given.policy, balance=BalancePolicy(excluded_topics=("single",)))
    one = found(replace(given, policy=policy))[("replication-factor-1", "topic single")]
    assert (one.severity, one.plan) == (Severity.CRITICAL, None)
    assert "; no plan can be made now: " in one.summary


def with_a_full_disk(used_percent: int) -> AuditFacts:
    """Broker 2 holds 40 GB of orders and 20 GB of clicks; others have room."""
    lines = [f"orders-{n}: 1 2 3 size={GB * 10}" for n in range(4)]
    lines += [f"clicks-{n}: 1 2 3 size={GB * 10}" for n in range(2)]
    lines += [f"views-{n}: 1 3 4 size={GB}" for n in range(2)]
    given = facts(healthy("\n".join(lines), racks="1=a 2=b 3=c 4=b"))
    figures = {"total_bytes": 100 * GB, "usable_bytes": (100 - used_percent) * GB}
    log_dirs = [
        row | figures if row["broker_id"] == 2 else row
        for row in given.snapshot.log_dirs.to_pylist()
    ]
    tables = {
        **given.snapshot.tables,
        "log_dirs": pa.Table.from_pylist(log_dirs, schema=LOG_DIRS),
    }
    return replace(given, snapshot=replace(given.snapshot, tables=tables))


def test_a_disk_that_is_nearly_full_is_relieved_with_the_fewest_bytes() -> None:
    one = found(with_a_full_disk(90))[("disk-nearly-full", "broker 2")]
    assert one.plan == WantedPlan(Goal.RELIEF, below_percent=85)
    assert "; a plan copies 10.0 GB and changes 1 partition" in one.summary
    assert one.plan.command(("--cluster", "demo")) == (
        "counterpoise plan --cluster demo --goal relief --below 85% --out relief.json"
    )


def filling(*, used_percent: int, gb_a_day: float, others_used: int = 10) -> AuditFacts:
    """Broker 2's disk fills; those of the others do not."""

    def disk(broker_id: int, used: int, growth: float) -> DiskForecast:
        usable, days = (100 - used) * GB, (100 - used) / growth if growth else None
        outlook = Outlook.FILLS if growth else Outlook.NOT_WITHIN_A_YEAR
        return DiskForecast(
            broker_id, ("/d",), used * GB, 100 * GB, usable, int(growth * GB), 10**6, outlook, days
        )

    disks = [disk(2, used_percent, gb_a_day), *(disk(b, others_used, 0) for b in (1, 3, 4))]
    given = with_a_full_disk(used_percent)
    return replace(given, past=replace(given.past, disk_forecasts=tuple(disks)))


@pytest.mark.parametrize(
    ("disks", "below"),
    [
        ({"used_percent": 80, "gb_a_day": 0.8}, 75),  # 24 GB in 30 days
        ({"used_percent": 80, "gb_a_day": 2.0}, 40),
        ({"used_percent": 80, "gb_a_day": 2.0, "others_used": 40}, 60),  # together 50 %
        ({"used_percent": 90, "gb_a_day": 0.4}, 85),  # as the policy says
    ],
)
def test_a_disk_that_fills_gets_the_room_that_its_growth_needs(
    disks: dict[str, float], below: int
) -> None:
    one = found(filling(**disks))[("disk-full-soon", "broker 2")]
    assert one.plan == WantedPlan(Goal.RELIEF, below_percent=below)
    assert "; a plan copies " in one.summary


def test_a_disk_that_fills_and_has_no_more_than_the_others_gets_no_plan() -> None:
    given = filling(used_percent=60, gb_a_day=2.0, others_used=60)
    one = found(given)[("disk-full-soon", "broker 2")]
    assert one.plan is None
    assert "; no plan mends it: already done: each disk is below 70 %" in one.summary


def test_an_idle_broker_that_would_receive_nothing_is_not_reported() -> None:
    tiny = facts(healthy("orders-0: 1 2 3", racks="1=a 2=b 3=c 4=a"))
    assert "idle-broker" in {finding.rule for finding in find(tiny)}
    assert ("idle-broker", "broker 4") not in found(tiny)
    one = found(facts(healthy(racks="1=a 2=b 3=c 4=a")))[("idle-broker", "broker 4")]
    assert "; a plan copies " in one.summary


def test_an_idle_broker_that_the_policy_keeps_empty_hides_no_other() -> None:
    given = facts(healthy(racks="1=a 2=b 3=c 4=a 5=b"))
    closed = BalancePolicy(constraints=Constraints(no_new_replicas_on=(4,)))
    after = found(replace(given, policy=replace(given.policy, balance=closed)))
    four, five = after[("idle-broker", "broker 4")], after[("idle-broker", "broker 5")]
    assert (four.severity, four.plan) == (Severity.INFO, None)
    assert "no_new_replicas_on" in four.summary
    assert five.severity is Severity.WARNING
    assert "; a plan copies " in five.summary
    assert five.plan is not None and five.plan.broker_ids == (5,)


def test_one_plan_is_asked_for_each_goal() -> None:
    picture = f"{HEALTHY}\n" + "\n".join(f"t{n}-0: {n % 3 + 1}" for n in range(30))
    given = facts(healthy(picture, racks="1=a 2=b 3=c 4=a"))
    wanted = wanted_plans(find(given), given)
    assert [one.goal for one in wanted].count(Goal.REPLICATION_FACTOR) == 1
    (factor,) = [one for one in wanted if one.goal is Goal.REPLICATION_FACTOR]
    assert len(factor.topics) == 30
    each = [one for one in found(given).values() if one.rule == "replication-factor-1"]
    assert len(each) == 30
    assert all("a plan copies" in one.summary for one in each)


@pytest.mark.parametrize("least", [3, 4])
def test_the_factor_of_the_policy_is_the_plans(least: int) -> None:
    audit = AuditPolicy(thresholds={"replication-factor-low": {"least": least}})
    given = facts(healthy(racks="1=a 2=b 3=c 4=d"), audit=audit)
    plans = {one.plan.replication_factor for one in found(given).values() if one.plan}
    assert (4 in plans) is (least == 4)


def test_where_disks_differ_uneven_leaders_ask_for_leaders_alone() -> None:
    """Replicas follow the disks: they are no reason for a rebalance, which would copy."""
    lines = [f"orders-{n}: 3 1" for n in range(12)] + [f"clicks-{n}: 3 2" for n in range(12)]
    cluster = healthy("\n".join(lines), racks="1=a 2=b 3=c")
    cluster.brokers[3].disk_total_bytes = 2 * 10**12
    one = found(facts(cluster))[("leaders-uneven", "cluster")]
    assert one.plan == WantedPlan(Goal.LEADERS)


def test_leaders_that_no_replica_set_lets_be_more_even_are_not_reported() -> None:
    lines = [f"orders-{n}: {1 if n < 4 else 2}" for n in range(24)]
    cluster = healthy("\n".join(lines), racks="1=a 2=a")
    cluster.brokers[2].disk_total_bytes = 5 * 10**12
    assert "leaders-uneven" in {finding.rule for finding in find(facts(cluster))}
    assert ("leaders-uneven", "cluster") not in found(facts(cluster))

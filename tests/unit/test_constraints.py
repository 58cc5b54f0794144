"""Constraints of plans, as policy and per request: kept by every goal, and said when they bind."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from counterpoise.errors import ConfigurationError
from counterpoise.model.cluster import TopicPartition
from counterpoise.model.constraints import BrokerSet, Constraints
from counterpoise.model.document import from_document_text, to_document
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest, RebalanceRequest, Scope
from counterpoise.planning import make_plan, plan_from
from counterpoise.settings import parse_settings
from counterpoise.validation import find_violations
from tests.support.command_line import CommandLine, Typed
from tests.support.goal_judge import executed
from tests.support.pictures import cluster

RACKS = "1=a 2=b 3=c 4=a 5=b 6=c"
# Twelve partitions of two topics on brokers 1 to 3; 4 to 6 are empty.
LINES = [
    f"{topic}-{n}: {' '.join('123123'[n % 3 : n % 3 + 2])} size={1000 + n} rate={rate}"
    for topic, rate in (("pay", 300), ("web", 100))
    for n in range(6)
]


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    snapshot = cluster("\n".join(LINES), racks=RACKS, name="demo")
    (tmp_path / "state.json").write_text(json.dumps(to_document(snapshot)))
    return CommandLine.in_folder(tmp_path, capsys)


def plan(shell: CommandLine, goal: str, *more: str, code: int = 0) -> Typed:
    typed = shell.type(
        *("plan", "--state", shell.folder / "state.json", "--goal", goal, *more),
        *("--out", shell.folder / "plan.json"),
    )
    assert typed.code == code, typed.err
    return typed


def replicas_after(shell: CommandLine) -> dict[str, list[int]]:
    state = json.loads((shell.folder / "state.json").read_text())
    after = {f"{row[0]}-{row[1]}": row[2] for row in state["partitions"]}
    for move in json.loads((shell.folder / "plan.json").read_text())["moves"]:
        after[f"{move['topic']}-{move['partition']}"] = move["replicas_after"]
    return after


def counts_after(shell: CommandLine) -> Counter[int]:
    return Counter(b for replicas in replicas_after(shell).values() for b in replicas)


def test_topics_of_a_broker_set_move_to_its_brokers_and_all_others_off_them(
    shell: CommandLine,
) -> None:
    typed = plan(shell, "rebalance", "--broker-sets", "pay*=1,2,3")
    for name, replicas in replicas_after(shell).items():
        assert set(replicas) <= ({1, 2, 3} if name.startswith("pay") else {4, 5, 6}), name
    assert set(counts_after(shell).values()) == {4}
    assert "made with topics pay* on 1, 2, 3 only, as requested" in " ".join(typed.out.split())


def test_a_broker_set_is_named_by_racks_too(shell: CommandLine) -> None:
    plan(shell, "rebalance", "--broker-sets", "pay*=a,b")
    for name, replicas in replicas_after(shell).items():
        assert set(replicas) <= ({1, 2, 4, 5} if name.startswith("pay") else {3, 6}), name


def test_new_brokers_get_replicas_of_their_own_set_only(shell: CommandLine) -> None:
    sets = "web*=1,2,6;pay*=1,2,3,4,5"
    typed = plan(shell, "add-brokers", "--brokers", "4,5", "--broker-sets", sets)
    # Broker 3 has replicas of web, and is not in its set.
    assert "outside of the broker set of their topic" in " ".join(typed.out.split())
    moves = json.loads((shell.folder / "plan.json").read_text())["moves"]
    copied = [m for m in moves if set(m["replicas_after"]) - set(m["replicas_before"])]
    assert copied
    assert {move["topic"] for move in copied} == {"pay"}


def test_a_drain_stays_within_the_set_and_says_what_stands_outside(shell: CommandLine) -> None:
    typed = plan(shell, "remove-brokers", "--brokers", "1", "--broker-sets", "pay*=1,2,4,5")
    for name, replicas in replicas_after(shell).items():
        assert 1 not in replicas
        arrived = set(replicas) & {4, 5, 6}
        assert arrived <= ({4, 5} if name.startswith("pay") else {6}), name
    assert "outside of the broker set of their topic" in " ".join(typed.out.split())


def test_no_broker_gets_more_replicas_than_it_may(shell: CommandLine) -> None:
    plan(shell, "remove-brokers", "--brokers", "1", "--max-replicas-per-broker", "8")
    assert max(counts_after(shell).values()) <= 8
    typed = plan(
        *(shell, "remove-brokers", "--brokers", "1,4,5,6", "--max-replicas-per-broker", "8"),
        code=1,
    )
    assert "max_replicas_per_broker" in typed.err


def test_closed_brokers_get_nothing_new(shell: CommandLine) -> None:
    typed = plan(shell, "rebalance", "--no-new-replicas-on", "4,5")
    counts = counts_after(shell)
    assert counts[4] == counts[5] == 0
    assert max(counts[b] for b in (1, 2, 3, 6)) == 6
    assert "no_new_replicas_on" in typed.out


@pytest.mark.parametrize(
    ("goal", "more", "expected"),
    (
        (
            "rebalance",
            ("--broker-sets", "pay=9"),
            "broker set pay has 0 live brokers, and topic pay of it 2 replicas per partition",
        ),
        (
            "rebalance",
            ("--broker-sets", "pay=1"),
            "broker set pay has 1 live broker, and topic pay of it 2 replicas per partition",
        ),
        (
            "rebalance",
            ("--broker-sets", "pay=1,2,3,4,5,6"),
            "has 0 live brokers, and topic web of it 2 replicas per partition",
        ),
        (
            "rebalance",
            ("--max-replicas-per-broker", "3"),
            "cannot hold 24 replicas with so few each; allow 4 or more",
        ),
        (
            "add-brokers",
            ("--brokers", "4", "--no-new-replicas-on", "4"),
            "broker 4 cannot be added: no_new_replicas_on",
        ),
        ("rebalance", ("--broker-sets", "pay"), "write topics=brokers, like 'pay-*=1,2,3'"),
        ("rebalance", ("--broker-sets", "p/y=1"), "is no topic"),
        ("rebalance", ("--no-new-replicas-on", "x"), "write broker ids like 7,8"),
    ),
)
def test_what_cannot_be_is_refused_with_what_would_help(
    shell: CommandLine, goal: str, more: tuple[str, ...], expected: str
) -> None:
    typed = plan(shell, goal, *more, code=2)
    assert expected in " ".join(typed.err.split())
    assert not (shell.folder / "plan.json").exists()


POLICY = """
clusters:
  demo:
    connection: kafka_demo
    policy:
      balance:
        constraints:
          broker_sets:
            - {name: payments, topics: ["pay*"], broker_ids: [1, 2, 3]}
            - {name: rest, topics: ["*"], racks: [d]}
          max_replicas_per_broker: 4000
          no_new_replicas_on: [7]
"""


def test_the_policy_has_them() -> None:
    constraints = parse_settings(POLICY, where="x.yaml").cluster("demo").policy.balance.constraints
    assert [broker_set.name for broker_set in constraints.broker_sets] == ["payments", "rest"]
    assert constraints.broker_sets[1].racks == ("d",)
    assert constraints.no_new_replicas_on == (7,)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    (
        ("broker_ids: [1, 2, 3]", "broker_ids: [1, two]", "'two' must be a whole number"),
        ("racks: [d]", "broker_ids: [3]", "3 is in two broker sets; a broker is in one"),
        (", racks: [d]", "", "broker set 'rest' has no brokers"),
        ("max_replicas_per_broker: 4000", "max_replicas_per_broker: 0", "from 1 to"),
        ("max_replicas_per_broker: 4000", "replicas: 1", "unknown key 'replicas'"),
    ),
)
def test_a_wrong_policy_is_refused_with_its_line(old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        parse_settings(POLICY.replace(old, new), where="x.yaml")
    assert expected in str(error.value)
    assert re.search(r"line (8|9|1\d): ", str(error.value))


def state(shell: CommandLine, picture: str, racks: str) -> None:
    document = to_document(cluster(picture, racks=racks, name="demo"))
    (shell.folder / "state.json").write_text(json.dumps(document))


def test_a_broker_is_demoted_in_every_broker_set(shell: CommandLine) -> None:
    state(shell, "a-0: 2 3 size=9\nc-0: 2 3 size=9\nc-1: 3 2 size=9", "1 2 3")
    plan(shell, "demote-brokers", "--brokers", "2", "--broker-sets", "a*=1,2")
    assert {replicas[0] for replicas in replicas_after(shell).values()} == {3}


def test_a_drain_whose_other_replicas_wait_for_repair_keeps_its_own_rules(
    shell: CommandLine,
) -> None:
    state(shell, "a-0: 1 2 size=9\na-1: 2 3 1 size=9", "1=a 2=b !3=c 4=d")
    plan(shell, "remove-brokers", "--brokers", "1")
    made = RebalancePlan.from_json((shell.folder / "plan.json").read_text())
    snapshot = from_document_text((shell.folder / "state.json").read_text())
    assert [move.topic_partition for move in made.moves] == [TopicPartition("a", 0)]
    assert find_violations(made, snapshot, BalancePolicy()) == ()


def test_a_broker_set_whose_topics_are_all_excluded_takes_nothing_of_the_budget(
    shell: CommandLine,
) -> None:
    sets = ("--broker-sets", "pay*=4,5,6;web*=1,2,3")
    plan(shell, "rebalance", *sets, "--exclude-topics", "web*", "--max-bytes", "3KB")
    moves = json.loads((shell.folder / "plan.json").read_text())["moves"]
    assert {move["topic"] for move in moves} == {"pay"}
    assert sum(move["size_bytes"] for move in moves) > 0


def test_brokers_of_a_set_without_topics_are_named_and_count_for_nothing(
    shell: CommandLine,
) -> None:
    typed = plan(shell, "add-brokers", "--brokers", "5,6", "--broker-sets", "*=1,2,3", code=1)
    words = " ".join(typed.out.split())
    assert (
        "brokers 4, 5, 6 are in no broker set that has topics and get no replica; add them to a set"
    ) in words
    assert "already balanced: leaders 4 and replicas 8 per broker" in words


def test_what_moves_to_its_broker_set_says_so(shell: CommandLine) -> None:
    plan(shell, "rebalance", "--broker-sets", "pay*=4,5,6;web*=1,2,3")
    moves = json.loads((shell.folder / "plan.json").read_text())["moves"]
    assert {m["why"] for m in moves if m["topic"] == "pay"} == {"broker-set"}
    assert {m["why"] for m in moves if m["topic"] == "web"} <= {"leaders", "preferred"}


def test_a_limit_that_the_wanted_factor_cannot_keep_is_refused(shell: CommandLine) -> None:
    """cruise-control 862: 24 replicas are allowed, and 36 wanted."""
    factor = ("--replication-factor", "3", "--topics", "*")
    typed = plan(shell, "replication-factor", *factor, "--max-replicas-per-broker", "4", code=2)
    assert "cannot hold 36 replicas with so few each; allow 6 or more" in typed.err


@pytest.mark.parametrize(
    "constraints",
    [
        Constraints(no_new_replicas_on=(3,)),
        Constraints(max_replicas_per_broker=1),
        Constraints(broker_sets=(BrokerSet("a", topics=("a",), broker_ids=(1, 2, 4)),)),
    ],
)
def test_what_a_request_asks_for_beside_the_policy_is_known_at_approval(
    constraints: Constraints,
) -> None:
    """Without it, broker 3 could keep the replicas of the partition in three racks."""
    snapshot = cluster("a-0: 1 2\nb-0: 3", racks="1=a 2=b 3=c 4=a")
    request = RebalanceRequest(
        Goal.REPLICATION_FACTOR,
        scope=Scope(topics=("a",)),
        replication_factor=3,
        constraints=constraints,
    )
    plan = plan_from(snapshot, request, BalancePolicy())
    assert [move.adding for move in plan.moves] == [(4,)]
    assert find_violations(plan, snapshot, BalancePolicy()) == ()
    assert RebalancePlan.from_json(plan.to_json()) == plan
    worse = replace(plan, constraints=Constraints(no_new_replicas_on=(4,)))
    rules = {violation.rule for violation in find_violations(worse, snapshot, BalancePolicy())}
    assert "constraints_kept" in rules


@pytest.mark.parametrize(
    ("kept", "limit", "after"), [(4, 6, (6, 5, 5)), (100, 150, (150, 125, 125))]
)
def test_a_broker_above_its_limit_gives_what_is_too_many_of_the_topics_of_the_plan(
    kept: int, limit: int, after: tuple[int, ...]
) -> None:
    """cruise-control 1818: topics are excluded, and all others are even already."""
    picture = [f"kept-{n}: 1" for n in range(kept)]
    picture += [f"free-{n}: {1 + n % 3} size={1 + n}" for n in range(3 * kept)]
    snapshot = cluster("\n".join(picture), racks="1 2 3")
    policy = BalancePolicy(constraints=Constraints(max_replicas_per_broker=limit))
    request = PlanRequest(Goal.REBALANCE, policy=policy, scope=Scope(excluded_topics=("kept",)))
    plan = make_plan(snapshot, request)
    assert tuple(figure.replicas_after for figure in plan.figures) == after
    assert not any("more replicas than max" in warning for warning in plan.warnings)
    assert make_plan(executed(snapshot, plan), request).is_empty

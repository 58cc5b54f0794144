"""Words of plans: which reason binds, and the best there is only where that is proven."""

import json
import random

import pytest

from counterpoise.errors import InputError
from counterpoise.model.constraints import Constraints
from counterpoise.model.document import from_document_text, to_document
from counterpoise.model.plan import RebalancePlan
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.provider import Provider
from counterpoise.model.request import Budget, Goal, PlanRequest, RebalanceRequest, Scope
from counterpoise.planning import make_plan, plan_from
from counterpoise.planning.placing import local_search
from tests.support.pictures import cluster


def why_outside(picture: str, racks: str, goal: Goal = Goal.REBALANCE, **fields: object) -> str:
    """What a plan says of brokers outside the band of bytes."""
    named = (5,) if goal is Goal.ADD_BROKERS else ()
    plan = make_plan(cluster(picture, racks=racks), PlanRequest(goal, named, **fields))
    words = [warning for warning in plan.warnings if "will hold bytes" in warning]
    return words[0].replace("share: ", "share; ").partition("fair share; ")[2] if words else ""


def of_chance(seed: int, partitions: int, brokers: int) -> str:
    chance = random.Random(seed)
    return "\n".join(
        f"a-{n}: {1 + n % brokers} {1 + (n + 1 + n // brokers) % brokers} "
        f"size={int(1000 * chance.lognormvariate(0, 1.6))}"
        for n in range(partitions)
    )


def test_a_search_that_ends_by_its_budget_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    picture, racks = of_chance(3, 120, 24), " ".join(map(str, range(1, 25)))
    assert why_outside(picture, racks) == ""
    monkeypatch.setattr(local_search, "MAX_WORK", 1)
    ended = "the search ended by its budget; a scope of fewer topics may find better"
    assert why_outside(picture, racks) == ended


def test_the_reason_that_binds_is_named() -> None:
    fixed = "a-0: 1 size=50\na-1: 1 size=50\nb-0: 2 size=5\nb-1: 2 size=1"
    policy = BalancePolicy(excluded_topics=("a",))
    words = why_outside(fixed, "1 2", policy=policy)
    assert words.startswith("broker 1: what is left alone there (excluded topics, ")
    assert words.endswith(
        "that this goal allows takes a tenth off that within the topics of the plan"
    )
    small = "a-0: 1 size=5\na-1: 2 size=5\na-2: 1 size=5\na-3: 2 size=1"
    assert why_outside(small, "1 2").startswith("no move or exchange of two replicas")
    evenly = "\n".join(f"a-{n}: {1 + n % 4} size={100 + n}" for n in range(40))
    budget = why_outside(evenly, "1 2 3 4 5", Goal.ADD_BROKERS, budget=Budget(300))
    assert budget == "the budget of the request leaves the rest for a later plan"


def test_what_is_the_best_there_is_has_been_proven() -> None:
    picture = "a-0: 1 size=5\na-1: 1 size=5\na-2: 1 size=5\na-3: 1 size=1"
    assert why_outside(picture, "1 2") == "no plan for this goal does better, as is proven"


def test_each_of_several_reasons_is_named_with_its_brokers() -> None:
    picture = "a-0: 1 size=500\na-1: 1 size=1\nb-0: 2 size=1\nb-1: 2 size=1\nc-0: 3 size=900"
    policy = BalancePolicy(excluded_topics=("a",))
    words = why_outside(f"{picture}\nb-2: 4 size=1", "1 2 3 4", policy=policy)
    assert words == (
        "broker 1: what is left alone there (excluded topics, reassignments, beside dead "
        "brokers) is more than that; "
        "broker 3: c-0 alone is more than a fair share; brokers 2, 4: no move or exchange of two "
        "replicas that this goal allows takes a tenth off that within the topics of the plan"
    )


def test_all_limits_that_bind_at_once_are_named() -> None:
    picture = "\n".join(f"a-{n}: {1 + n % 2} size={100 + n}" for n in range(8))
    limits = Constraints(no_new_replicas_on=(3,), max_replicas_per_broker=4)
    words = why_outside(picture, "1 2 3", policy=BalancePolicy(constraints=limits))
    assert words == (
        "no move or exchange of two replicas that this goal allows takes a tenth off that within "
        "max_replicas_per_broker, no_new_replicas_on"
    )


def test_more_replicas_than_a_limit_are_told_apart_by_what_keeps_them() -> None:
    picture = "\n".join([*(f"a-{n}: 1" for n in range(5)), *(f"b-{n}: 2" for n in range(5))])
    policy = BalancePolicy(constraints=Constraints(max_replicas_per_broker=4))
    scope = Scope(excluded_topics=("a",), excluded_broker_ids=(2,))
    request = PlanRequest(Goal.ADD_BROKERS, (3,), policy=policy, scope=scope)
    plan = make_plan(cluster(f"{picture}\nc-0: 4\nc-1: 4", racks="1 2 3 4"), request)
    (words,) = [warning for warning in plan.warnings if "max_replicas_per_broker" in warning]
    assert words == (
        "broker 1 keeps more replicas than max_replicas_per_broker 4: so many are left alone there "
        "(topics excluded, under reassignment); broker 2 keeps more replicas than "
        "max_replicas_per_broker 4: the scope of the request takes none away there"
    )


def test_a_repair_without_a_dead_broker_says_so() -> None:
    even = cluster("a-0: 1 2\na-1: 2 1", racks="1 2")
    plan = make_plan(even, PlanRequest(Goal.REPAIR))
    assert plan.reason == "already done: no broker is dead, all 2 are live"
    plan = make_plan(cluster("a-0: 1 2\na-1: 1 2", racks="1 2"), PlanRequest(Goal.REPAIR))
    words = "nothing is repaired, only leaders change: no broker is dead, all 2 are live"
    assert words in plan.warnings


def test_a_broker_with_topics_that_the_request_excludes_stays_non_empty() -> None:
    snapshot = cluster("a-0: 1 3\nb-0: 3 2", racks="1 2 3")
    scope = Scope(excluded_topics=("b",))
    plan = make_plan(snapshot, PlanRequest(Goal.REMOVE_BROKERS, (3,), scope=scope))
    words = "1 partition is excluded, so broker 3 stays non-empty and must not be stopped: b-0"
    assert words in plan.warnings
    alone = cluster("a-0: 1 2\nb-0: 3 2", racks="1 2 3")
    again = make_plan(alone, PlanRequest(Goal.REMOVE_BROKERS, (3,), scope=scope))
    assert again.is_empty and words in again.reason


def test_what_a_goal_leaves_is_named_once() -> None:
    snapshot = cluster("a-0: 1\na-1: 1 @none\na-2: 1 +2\nb-0: 1 +2", racks="1 2 3")
    scope = Scope(topics=("a",))
    request = PlanRequest(Goal.REPLICATION_FACTOR, scope=scope, replication_factor=3)
    words = "\n".join(make_plan(snapshot, request).warnings)
    assert "1 partition (a-1) is without a leader to copy from" in words
    assert "1 partition (a-2) is under reassignment" in words
    assert "1 other partition is being reassigned already and left alone: b-0" in words
    assert "no leader; bring" not in words


def test_what_a_budget_leaves_has_a_broker_to_go_to() -> None:
    snapshot = cluster("a-0: 1 3 size=10\na-1: 1 3 size=50", racks="1 2 !3")
    plan = make_plan(snapshot, PlanRequest(Goal.REPAIR, budget=Budget(max_bytes=20)))
    assert len(plan.moves) == 1 and plan.deferred.partitions == 1
    assert not any("without a broker to go to" in warning for warning in plan.warnings)


def test_msk_takes_its_canaries_off_itself_and_removes_one_broker_of_each_zone() -> None:
    picture = "__amazon_msk_canary-0: 1 2 3 4 5 6\norders-0: 4 2 3\norders-1: 1 5 6"
    snapshot = cluster(picture, racks="1=a 2=b 3=c 4=a 5=b 6=c")

    def warnings(*broker_ids: int) -> list[str]:
        request = RebalanceRequest(Goal.REMOVE_BROKERS, broker_ids)
        plan = plan_from(snapshot, request, BalancePolicy(), Provider.MSK)
        assert {move.topic for move in plan.moves} == {"orders"}
        assert not any("non-empty" in warning for warning in plan.warnings)
        return [warning for warning in plan.warnings if "MSK" in warning]

    (left,) = warnings(4, 5, 6)
    assert left.startswith("Amazon MSK: __amazon_msk_canary stay where they are")
    assert warnings(4)[1] == (
        "Amazon MSK removes one broker of each zone at a time; these are, by zone: a 1, b 0, c 0"
    )


def test_a_lost_broker_can_be_listed() -> None:
    with pytest.raises(InputError) as refused:
        cluster("a-0: 1 9", racks="1 2")
    assert 'list a lost one as {"id": 9, "fenced": true}' in str(refused.value)


def test_room_that_nobody_knows_is_not_known() -> None:
    """cruise-control 2210: capacities of -1 on MSK; the plan goes by bytes, and says so."""
    picture = "a-0: 1 2 size=10\na-1: 3 1 size=10"
    request = PlanRequest(Goal.REMOVE_BROKERS, (3,))
    plan = make_plan(cluster(picture, racks="1 2 3"), request)
    words = "broker 2 tells no sizes of log dirs (brokers before 3.3 do not)"
    assert any(warning.startswith(words) for warning in plan.warnings)
    known = cluster(picture, racks="1 2 3", disks="2=10/1000")
    assert not any("sizes of log dirs" in one for one in make_plan(known, request).warnings)


def words_about_leaders(*topics: str) -> str:
    """What a plan for leaders says: only broker 1 holds topic a, and all brokers hold topic b."""
    picture = "\n".join((*(f"a-{n}: 1" for n in range(6)), *(f"b-{n}: 1 2 3" for n in range(6))))
    scope = Scope(topics=topics)
    request = PlanRequest(Goal.LEADERS, scope=scope)
    plan = make_plan(cluster(picture + "\nc-0: 2 3\nc-1: 2 3\nc-2: 2 3", racks="1 2 3"), request)
    return next((words for words in plan.warnings if words.startswith("leaders")), "")


def test_what_keeps_leaders_uneven_is_the_scope_only_where_a_wider_one_helps() -> None:
    assert "the replica sets allow no better" in words_about_leaders("*")
    assert "the scope of the request allows no better" in words_about_leaders("c")


def warnings_of(picture: str, racks: str, request: PlanRequest, **fields: str) -> str:
    return "\n".join(make_plan(cluster(picture, racks=racks, **fields), request).warnings)


def test_what_is_possible_beside_topics_that_are_left_alone_is_possible() -> None:
    """Racks b and c have one broker each, and so all of one replica of every partition."""
    picture = "\n".join(f"{topic}-{n}: 1 3 4" for topic in ("kept", "free") for n in range(80))
    policy = BalancePolicy(excluded_topics=("kept",))
    plan = make_plan(
        cluster(picture, racks="1=a 2=a 3=b 4=c"), PlanRequest(Goal.REBALANCE, policy=policy)
    )
    assert not any("is possible" in warning for warning in plan.warnings)
    assert [figure.replicas_best for figure in plan.figures] == [80, 80, 160, 160]


def test_a_budget_that_leaves_counts_uneven_is_named() -> None:
    picture = "\n".join(f"a-{n}: {1 + n % 2} size=100" for n in range(40))
    budget = Budget(300)
    request = PlanRequest(Goal.REBALANCE, budget=budget)
    words = warnings_of(picture, "1 2 3", request, disks="1=2000/2100 2=2000/2100 3=0/2100")
    assert (
        "replicas per broker will be 3 to 19; 13 to 14 is possible; leaders per broker will be 3 "
        "to 19; brokers 1, 2, 3 will hold bytes more than 10 % away from the fair share: the "
        "budget of the request leaves the rest for a later plan"
    ) in words
    assert words.count("budget") == 1


def test_counts_that_do_not_follow_the_disks_name_the_broker_that_is_farthest_off() -> None:
    picture = "\n".join(f"a-{n}: {1 + n % 2} size=100" for n in range(40))
    request = PlanRequest(Goal.ADD_BROKERS, (3,), scope=Scope(excluded_topics=("b",)))
    beside = f"{picture}\n" + "\n".join(f"b-{n}: 1 size=1" for n in range(20))
    words = warnings_of(beside, "1 2 3", request, disks="1=2000/4000 2=2000/4000 3=16000/20000")
    assert (
        "replicas per broker in the scope of this plan will not follow the shares: broker 3 will "
        "hold 10, where 28 is possible"
    ) in words
    assert "broker 3 can take no more" in words


def test_full_disks_of_brokers_that_receive_nothing_bind_nobody() -> None:
    picture = "\n".join(f"a-{n}: {1 + n % 2} size={(50, 1)[n % 2]}" for n in range(6))
    disks = "1=9900/10000 2=9900/10000 3=0/10000"
    request = PlanRequest(Goal.ADD_BROKERS, (3,))
    words = warnings_of(picture, "1 2 3", request, disks=disks)
    assert "will hold bytes" in words and "disk_limit_percent" not in words


def test_a_giant_is_named_for_the_brokers_that_hold_it() -> None:
    """topicctl 109: three partitions on twelve brokers."""
    picture = "a-0: 9 3 2 size=10\na-1: 11 7 8 size=10\na-2: 6 4 1 size=10"
    request = PlanRequest(Goal.REMOVE_BROKERS, (11,))
    words = warnings_of(picture, " ".join(map(str, range(1, 13))), request)
    assert "one replica alone (such as a-0) is more than a fair share" in words


def test_of_two_giants_on_one_broker_one_gets_a_broker_of_its_own() -> None:
    """No exchange for smaller replicas would bring either broker into its band."""
    small = "\n".join(f"b-{n}: {2 + n % 5} size={1 + n % 3}" for n in range(240))
    picture = f"a-0: 1 size=500\na-1: 1 size=230\n{small}"
    assert why_outside(picture, "1 2 3 4 5 6") == ""
    plan = make_plan(cluster(picture, racks="1 2 3 4 5 6"), PlanRequest(Goal.REBALANCE))
    copied = [m for m in plan.moves if set(m.replicas_after) != set(m.replicas_before)]
    moved = {f"{move.topic}-{move.partition}" for move in copied}
    assert "a-1" in moved
    assert "a-0" not in moved


def test_brokers_without_a_rack_beside_others_are_named() -> None:
    """blueking-dbm 14096: Kafka's own tool refuses such a cluster."""
    request = PlanRequest(Goal.REBALANCE)
    words = warnings_of("a-0: 1 2\na-1: 2 1\na-2: 1 2", "1=a 2=b 3 4", request)
    assert (
        "brokers 3, 4 tell no rack, and count together as a rack of their own: whether replicas "
        "there share a rack with others is not known; set broker.rack"
    ) in words
    assert "no rack" not in warnings_of("a-0: 1 2\na-1: 2 1\na-2: 1 2", "1 2 3 4", request)


def test_sizes_that_are_not_known_are_not_in_the_budget() -> None:
    picture = "a-0: 1\na-1: 1\na-2: 1 size=5\na-3: 1 size=5"
    words = warnings_of(picture, "1 2", PlanRequest(Goal.REBALANCE, budget=Budget(5)))
    assert "2 partitions have no known size and count as 0 bytes, within --max-bytes too" in words


def test_a_repair_names_a_log_dir_that_a_live_broker_has_lost() -> None:
    """cruise-control 1822: a disk failed, and the broker runs on."""
    snapshot = cluster("a-0: 1 2\na-1: 2 1", racks="1 2", disks="1=0/100 2=0/100,!")
    assert make_plan(snapshot, PlanRequest(Goal.REPAIR)).reason == (
        "already done: no broker is dead, all 2 are live; broker 2 has lost a log dir: mend the "
        "disk, or empty the broker (goal remove-brokers)"
    )


def test_goal_repair_is_not_offered_for_what_it_cannot_repair() -> None:
    """redpanda 12307: replicas on a dead broker, and none elsewhere."""
    request = PlanRequest(Goal.REBALANCE)
    assert "goal repair" not in warnings_of("a-0: 1 @none\na-1: 2", "!1 2 3", request)
    assert "let goal repair" in warnings_of("a-0: 1 2 @2\na-1: 2", "!1 2 3", request)


def leaders_in(plan: RebalancePlan) -> str:
    return next((words for words in plan.warnings if words.startswith("leaders per broker")), "")


def test_leaders_that_only_an_election_would_even_are_told_apart() -> None:
    """The goal moves leaders where it changes replicas, and leaves elections to Kafka."""
    picture = "a-0: 1 2 3 @2\na-1: 2 3 1 @2\na-2: 3 1 2 @2\nb-0: 1 2\nb-1: 2 3\nb-2: 3 1"
    request = PlanRequest(Goal.REPLICATION_FACTOR, scope=Scope(topics=("*",)), replication_factor=3)
    plan = make_plan(cluster(picture, racks="1 2 3"), request)
    assert leaders_in(plan) == (
        "leaders per broker will be 1 to 4; 2 once preferred leaders are elected (goal leaders)"
    )


def test_replicas_out_of_sync_are_named_where_they_keep_leaders_uneven() -> None:
    snapshot = cluster("a-0: 1 2\na-1: 1 2\na-2: 1 2\na-3: 1 2", racks="1 2")
    out_of_sync = [["a", number, [1]] for number in range(4)]
    document = json.dumps(to_document(snapshot) | {"in_sync": out_of_sync})
    plan = make_plan(from_document_text(document), PlanRequest(Goal.LEADERS))
    assert "as even as" in plan.reason
    assert leaders_in(plan) == (
        "leaders per broker will be 0 to 4; 1 broker leads nothing: replicas out of sync, and "
        "partitions that are left alone, allow no better"
    )


def test_a_demotion_leaves_what_other_brokers_lead() -> None:
    picture = "a-0: 1 2\na-1: 2 3\na-2: 2 3\na-3: 2 3"
    plan = make_plan(cluster(picture, racks="1 2 3"), PlanRequest(Goal.DEMOTE_BROKERS, (1,)))
    assert leaders_in(plan).endswith(
        "this goal leaves what other brokers lead; goal leaders may do more"
    )


def test_partitions_that_a_budget_leaves_on_a_broker_are_not_stacked() -> None:
    picture = "\n".join(f"a-{n}: 1 2 3 size=10" for n in range(6))
    request = PlanRequest(Goal.REMOVE_BROKERS, (3,), budget=Budget(20))
    words = warnings_of(picture, "1=a 2=b 3=c 4=a", request)
    assert "in one rack" not in words and "is possible" not in words


def test_a_repair_of_one_broker_tells_to_repair_the_other_one_too() -> None:
    plan = make_plan(cluster("a-0: 1 5 6", racks="1 2 3 !5 !6"), PlanRequest(Goal.REPAIR, (5,)))
    assert plan.reason == (
        "cannot, because 1 partition (a-0) is left alone: with a replica on another dead broker "
        "no copy could end; repair that one, too"
    )


def test_where_the_scope_keeps_leaders_uneven_it_is_the_reason() -> None:
    """Brokers 1 and 3 share six partitions, all led by 3, which the request leaves out."""
    lines = [f"a-{n}: 3 1 size=10" for n in range(6)] + [f"b-{n}: 2 size=10" for n in range(2)]
    request = PlanRequest(Goal.LEADERS, scope=Scope(excluded_broker_ids=(3,)))
    plan = make_plan(cluster("\n".join(lines), racks="1 2 3"), request)
    assert plan.moves == ()
    assert plan.reason.endswith("as even as the replica sets allow within the scope of the request")
    (leaders,) = (words for words in plan.warnings if words.startswith("leaders per broker"))
    assert leaders.endswith(": the scope of the request allows no better")


def test_a_broker_above_its_limit_that_the_request_leaves_out_says_so() -> None:
    lines = [f"a-{n}: 1 size=10" for n in range(9)] + [f"b-{n}: 2 size=10" for n in range(3)]
    request = RebalanceRequest(
        Goal.REBALANCE,
        scope=Scope(excluded_broker_ids=(1,)),
        constraints=Constraints(max_replicas_per_broker=6),
    )
    plan = plan_from(cluster("\n".join(lines), racks="1 2 3"), request, BalancePolicy())
    assert (
        "broker 1 keeps more replicas than max_replicas_per_broker 6: the scope of the request "
        "takes none away there"
    ) in plan.warnings

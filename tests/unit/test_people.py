"""Who somebody is, what an account may do, who has to differ, and what the file may say of it."""

import pytest

from counterpoise import access
from counterpoise.errors import ConfigurationError, InputError, RefusedError
from counterpoise.model.person import AccountKind, Person
from counterpoise.model.policy import AccessPolicy, Action, ApprovalPolicy, ClusterPolicy
from counterpoise.settings import parse_settings

ALICE, BOB, CAROL = map(Person.airflow, ("alice", "bob", "carol"))
STRICT = ClusterPolicy(approval=ApprovalPolicy(requester_may_approve=False))


@pytest.mark.parametrize(
    ("person", "recorded", "shown", "in_full"),
    [
        (ALICE, "airflow:alice", "alice", "the Airflow user alice"),
        (Person.airflow("a:b"), "airflow:a:b", "a:b", "the Airflow user a:b"),
        (
            Person.system("alice"),
            "system:alice",
            "alice (system user)",
            "the system user alice",
        ),
        (
            Person.of_analysis(),
            "airflow-dag:kafka_leader_balance",
            "kafka_leader_balance (Dag)",
            "kafka_leader_balance (Dag)",
        ),
        (Person.dag(""), "airflow-dag:", "a Dag", "a Dag"),
        (
            Person.of_rule("leaders"),
            "policy-rule:leaders",
            "rule leaders (policy)",
            "rule leaders (policy)",
        ),
        (Person.unknown("nobody"), "unknown:nobody", "nobody", "nobody"),
        (Person.unknown("airflow:bob"), "unknown:airflow:bob", "airflow:bob", "airflow:bob"),
    ],
)
def test_a_person_is_a_kind_of_account_and_a_name(
    person: Person, recorded: str, shown: str, in_full: str
) -> None:
    assert (person.recorded, person.shown, person.in_full) == (recorded, shown, in_full)
    assert Person.from_ledger(recorded) == person


@pytest.mark.parametrize("name", ["", " ", "al\u202eice", "alice\n", "a\x00", "\udcff"])
def test_a_name_that_nobody_can_read_is_refused(name: str) -> None:
    for make in (Person.airflow, Person.system):
        with pytest.raises(InputError):
            make(name)


@pytest.mark.parametrize(
    ("entry", "may"),
    [
        ("bob", {"airflow:bob", "system:bob"}),
        ("airflow:bob", {"airflow:bob"}),
        ("system:bob", {"system:bob"}),
    ],
)
def test_only_the_very_account_has_the_permission(entry: str, may: set[str]) -> None:
    policy = ClusterPolicy(access=AccessPolicy(approve=(entry,), view=(entry,)))
    candidates = (
        *(Person(kind, "bob") for kind in AccountKind),
        *(Person.airflow(name) for name in ("BOB", "bob ", "airflow:bob", "system:bob", "mallory")),
        *(Person.system(name) for name in ("BOB", "airflow:bob", "system:bob")),
        Person.of_analysis(),
    )
    for action in (Action.APPROVE, Action.VIEW):
        allowed = {who.recorded for who in candidates if access.may(policy, who, action)}
        assert allowed == may


def test_a_role_of_airflow_is_not_the_user_of_that_name() -> None:
    policy = ClusterPolicy(access=AccessPolicy(view=("airflow-role:Viewer",)))
    assert access.may(policy, BOB, Action.VIEW, roles=("Viewer",))
    for user in (BOB, Person.airflow("airflow-role:Viewer"), Person.airflow("Viewer")):
        assert not access.may(policy, user, Action.VIEW)


def test_what_is_no_person_may_propose_and_nothing_else() -> None:
    everybody = ClusterPolicy()
    for nobody in (Person.of_analysis(), Person.dag("another"), Person.unknown()):
        assert access.may(everybody, nobody, Action.PROPOSE)
        for action in set(Action) - {Action.PROPOSE}:
            assert not access.may(everybody, nobody, action)
    assert not any(access.may(everybody, Person.of_rule("leaders"), action) for action in Action)
    named = ClusterPolicy(access=AccessPolicy(propose=("bob",)))
    assert access.may(named, Person.of_analysis(), Action.PROPOSE)
    assert not access.may(named, Person.dag("another"), Action.PROPOSE)


@pytest.mark.parametrize("name", ["alice", "Alice", "\uff21lice"])
def test_nobody_approves_what_they_requested_however_the_name_is_spelt(name: str) -> None:
    again = Person.airflow(name)
    with pytest.raises(RefusedError, match="requested this plan, so another Airflow user has to"):
        access.check_may_approve(STRICT, again, ALICE)
    access.check_may_approve(ClusterPolicy(), again, ALICE)
    access.check_may_approve(STRICT, BOB, ALICE)


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_who_has_to_differ_has_an_account_of_the_same_kind(name: str) -> None:
    with pytest.raises(
        RefusedError, match=r"requested by the Airflow user alice: another Airflow user has to"
    ):
        access.check_may_approve(STRICT, Person.system(name), ALICE)
    with pytest.raises(RefusedError, match="approved by the system user alice: another system"):
        access.check_may_approve(ClusterPolicy(), BOB, ALICE, [Person.system("alice")])
    access.check_may_approve(ClusterPolicy(), Person.system(name), ALICE)
    for dag_of_ours in (Person.of_analysis(), Person.dag("kafka_rebalance")):
        access.check_may_approve(STRICT, Person.system(name), dag_of_ours)


@pytest.mark.parametrize(
    ("entries", "left"),
    [
        (("bob", "carol"), ("carol",)),
        (("airflow:bob", "airflow:carol", "system:dora"), ("airflow:carol",)),
        (("bob", "system:carol"), None),
        (("Bob",), None),
    ],
)
def test_who_is_asked_could_answer(entries: tuple[str, ...], left: tuple[str, ...] | None) -> None:
    policy = ClusterPolicy(access=AccessPolicy(approve=entries))
    if left is None:
        with pytest.raises(
            RefusedError, match="by the Airflow user bob: it takes a yes of 1 other"
        ):
            access.people_to_ask(policy, BOB)
        return
    assert access.people_to_ask(policy, BOB) == left


def test_nobody_proposes_unknown_where_requester_and_approver_have_to_differ() -> None:
    """An event over REST says nothing of who sent it, so an approver could have."""
    for unknown in (Person.unknown(), Person.dag(""), Person.dag("another")):
        with pytest.raises(RefusedError, match="nobody knows who requests this plan"):
            access.check_may_propose(STRICT, unknown)
        with pytest.raises(RefusedError, match="nobody knows who requests this plan"):
            access.check_may_approve(STRICT, BOB, unknown)
        access.check_may_propose(ClusterPolicy(), unknown)
        with pytest.raises(RefusedError, match="may not propose here"):
            access.check_may_propose(ClusterPolicy(access=AccessPolicy(propose=("bob",))), unknown)


def test_a_group_is_its_members_and_nobody_of_its_name() -> None:
    policy = "policy: {access: {approve: [alice, 'group:sre']}}"
    groups = "groups: {ops: [mallory], sre: [bob, 'system:carol', alice]}\n"
    text = f"{groups}clusters: {{demo: {{connection: x, {policy}}}}}\n"
    demo = parse_settings(text, where="clusters.yaml").cluster("demo")
    assert demo.policy.access.approve == ("alice", "bob", "system:carol")
    assert not demo.policy.access.view


@pytest.mark.parametrize("policy", ["access: {view: [sre]}", "access: {approve: [bob, sre]}"])
def test_a_group_without_its_prefix_is_complained_of(policy: str) -> None:
    text = (
        f"groups: {{sre: [alice]}}\nclusters: {{demo: {{connection: x, policy: {{{policy}}}}}}}\n"
    )
    with pytest.raises(ConfigurationError) as raised:
        parse_settings(text, where="clusters.yaml")
    (line,) = raised.value.complaints
    assert line.startswith("line 2: ")
    assert line.endswith("'sre' is a group; write \"group:sre\"")


HEAD = "clusters:\n  a:\n    connection: k\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("people: {alice: {airflow: [2]}}", "unknown key 'people'"),
        ("groups: {sre: []}", "sre: names nobody"),
        ("groups: {sre: [' ']}", "sre: must not be empty"),
        ("groups: {sre: ['group:x']}", "'group:x' is unknown; write a login name"),
        ("groups: {sre: [' group:x']}", "'group:x' is unknown; write a login name"),
        ("groups: {sre: alice}", "sre must be a list"),
    ],
)
def test_mistakes_about_people_are_complained_of_with_their_line(text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_settings(f"{HEAD}{text}\n", where="clusters.yaml")
    (line,) = raised.value.complaints
    assert line.startswith("line 4: ")
    assert complaint in line


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("access: {approve: ['group:nope']}", "there is no group 'nope'; there are: none"),
        ("access: {approve: []}", "approve: names nobody; leave the key out"),
        ("access: {approve: ['']}", "approve: must not be empty"),
        ("access: {approve: ['airflow-role:Admin']}", "only pages can see the roles of Airflow"),
        ("access: {operate: ['groups:sre']}", "'groups:sre' is unknown"),
        ("access: {operate: [' Group:sre']}", "'Group:sre' is unknown"),
        ("access: {operate: ['slack:sre']}", "or one of airflow:NAME, system:NAME, group:NAME"),
        ("access: {operate: ['airflow: ']}", "must not be empty"),
        ("access: {approve: [' airflow-role:Admin']}", "only pages can see the roles of Airflow"),
        ("access: {manage: [alice]}", "unknown key 'manage' in access"),
        ("access: 5", "access must be a mapping"),
        ("approval: {approvers: [a]}", "unknown key 'approvers' in approval"),
        ("approval: {requester_may_approve: perhaps}", "'perhaps' must be yes or no"),
        ("approval: {max_rate: 1MB/s}", "max_rate is less than the rate of movement"),
    ],
)
def test_mistakes_in_a_policy_are_complained_of_with_their_line(
    policy: str, complaint: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        parse_settings(f"{HEAD}    policy: {{{policy}}}\n", where="clusters.yaml")
    (line,) = raised.value.complaints
    assert line.startswith("line 4: ")
    assert complaint in line

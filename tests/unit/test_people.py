"""People and accounts: who somebody is, whether two are one, and what a file may say of them."""

import pytest

from counterpoise import access
from counterpoise.errors import ConfigurationError, InputError, RefusedError
from counterpoise.model.person import AIRFLOW, People, Person, normalized_name
from counterpoise.model.policy import AccessPolicy, Action, ApprovalPolicy, ClusterPolicy
from counterpoise.settings import parse_settings

PEOPLE = People(
    {"airflow:2": "alice", "airflow:alice": "alice", "system:asmith": "alice"},
    {"sre": ("alice", "bob")},
)
NOBODY_LISTED = People()
BOB_APPROVES = ClusterPolicy(access=AccessPolicy(approve=("bob",)))


@pytest.mark.parametrize(
    ("person", "shown", "recorded"),
    [
        (Person("alice"), "alice", None),
        (PEOPLE.airflow_user("2", "alice"), "alice (airflow:2)", "airflow:2"),
        (PEOPLE.airflow_user("alice"), "alice", "airflow:alice"),
        (PEOPLE.airflow_user("3", "bob"), "bob (airflow:3)", "airflow:3"),
        (PEOPLE.airflow_user("7", "alice"), "7", "airflow:7"),
        (PEOPLE.airflow_user("7", "2"), "7", "airflow:7"),
        (PEOPLE.system_user("asmith"), "alice (system:asmith)", "system:asmith"),
        (PEOPLE.system_user("alice"), "system:alice (system:alice)", "system:alice"),
        (PEOPLE.system_user("bob"), "bob", "system:bob"),
        (
            PEOPLE.claimed_by(PEOPLE.system_user("bob"), " carol "),
            "carol (claimed by system user bob)",
            "claimed:system:bob",
        ),
        (PEOPLE.claimed_by(PEOPLE.system_user("bob"), "BOB"), "bob", "system:bob"),
    ],
)
def test_a_person_is_shown_with_the_account_and_comes_back_from_the_ledger(
    person: Person, shown: str, recorded: str | None
) -> None:
    assert (person.shown, person.recorded_account) == (shown, recorded)
    assert Person.from_ledger(person.name, person.recorded_account) == person


@pytest.mark.parametrize(
    "other", ["alice", " alice ", "ALICE", "ali\N{FULLWIDTH LATIN SMALL LETTER C}e"]
)
def test_spellings_of_one_name_are_one_person(other: str) -> None:
    assert Person("alice", "airflow:9").is_same(Person(normalized_name(other, where="by")))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "  ",
        "a\x1b[31mb",
        "alice\N{ZERO WIDTH SPACE}",
        "a\x00",
        "alice\ufe0f",
        "\N{HANGUL FILLER}",
        "ali\N{COMBINING GRAPHEME JOINER}ce",
        "\N{BRAILLE PATTERN BLANK}",
    ],
)
def test_names_that_nobody_can_read_are_refused(name: str) -> None:
    with pytest.raises(InputError):
        PEOPLE.claimed_by(PEOPLE.system_user("bob"), name)


@pytest.mark.parametrize(
    "person",
    [
        NOBODY_LISTED.system_user("mallory"),
        NOBODY_LISTED.system_user("BOB"),
        NOBODY_LISTED.airflow_user("bob "),
        NOBODY_LISTED.airflow_user("7", "bob"),
        NOBODY_LISTED.claimed_by(NOBODY_LISTED.system_user("mallory"), "bob"),
        Person("bob", "", is_claimed=True),
        Person("bob", "airflow-dag:another", is_claimed=True),
        Person("analysis", "airflow-dag:kafka_leader_balance"),
    ],
    ids=str,
)
def test_only_the_very_account_has_the_permission(person: Person) -> None:
    with pytest.raises(RefusedError):
        access.check_may(BOB_APPROVES, NOBODY_LISTED, person, Action.APPROVE)


def test_a_claimed_name_counts_where_nobody_is_named_and_nowhere_else() -> None:
    carol = PEOPLE.claimed_by(PEOPLE.system_user("bob"), "carol")
    assert access.check_may(ClusterPolicy(), PEOPLE, carol, Action.APPROVE) == carol
    counting = access.check_may(BOB_APPROVES, PEOPLE, carol, Action.APPROVE)
    assert counting.shown == "bob"


@pytest.mark.parametrize(
    ("approver", "requester"),
    [
        (PEOPLE.airflow_user("2", "alice"), PEOPLE.airflow_user("alice")),
        (PEOPLE.airflow_user("2", "alice"), PEOPLE.system_user("asmith")),
        (NOBODY_LISTED.airflow_user("2", "alice"), NOBODY_LISTED.airflow_user("alice")),
        (NOBODY_LISTED.system_user("alice"), NOBODY_LISTED.airflow_user("Alice")),
        (
            PEOPLE.claimed_by(PEOPLE.system_user("bob"), "carol"),
            PEOPLE.system_user("bob"),
        ),
        (Person("alice "), Person("alice")),
        # Airflow keeps the name of who started a Dag run; the file lists the id alone.
        (People({"airflow:3": "robert"}).airflow_user("3", "bob"), PEOPLE.airflow_user("bob")),
    ],
    ids=str,
)
def test_nobody_approves_what_they_requested_under_another_account(
    approver: Person, requester: Person
) -> None:
    strict = ClusterPolicy(approval=ApprovalPolicy(requester_may_approve=False))
    with pytest.raises(RefusedError, match="requested this plan"):
        access.check_requester(strict, PEOPLE, approver, requester)
    access.check_requester(ClusterPolicy(), PEOPLE, approver, requester)


def test_the_users_to_ask_are_those_of_airflow_without_the_requester() -> None:
    policy = ClusterPolicy(access=AccessPolicy(approve=("group:sre",)))
    asked = access.people_to_ask(policy, PEOPLE, PEOPLE.airflow_user("bob"))
    assert asked == ("alice",)
    assert PEOPLE.accounts_of("alice", AIRFLOW) == ("2", "alice")
    assert PEOPLE.accounts_of("bob", AIRFLOW) == ("bob",)


def test_nobody_proposes_unknown_where_requester_and_approver_have_to_differ() -> None:
    """An event over REST says nothing of who sent it, so an approver could have."""
    strict = ClusterPolicy(approval=ApprovalPolicy(requester_may_approve=False))
    unknown = Person("zoe", is_claimed=True)
    with pytest.raises(RefusedError, match="nobody knows who requests this plan"):
        access.check_may_propose(strict, PEOPLE, unknown)
    assert access.check_may_propose(ClusterPolicy(), PEOPLE, unknown) == unknown
    by_a_dag = Person("zoe", "airflow-dag:another", is_claimed=True)
    assert access.check_may_propose(strict, PEOPLE, by_a_dag) == by_a_dag
    with pytest.raises(RefusedError, match="may not propose here"):
        propose = ClusterPolicy(access=AccessPolicy(propose=("bob",)))
        access.check_may_propose(propose, PEOPLE, unknown)


def test_a_person_who_is_called_like_a_group_is_not_the_group() -> None:
    people = "people: {alice: {airflow: [alice]}}\ngroups: {alice: [mallory], sre: [bob]}\n"
    policy = "policy: {access: {approve: [alice, 'group:sre']}}"
    text = f"{people}clusters: {{demo: {{connection: x, {policy}}}}}\n"
    settings = parse_settings(text, where="clusters.yaml")
    may_approve = {
        user: access.may(
            settings.clusters["demo"].policy,
            settings.people,
            settings.people.airflow_user(user),
            Action.APPROVE,
        )
        for user in ("alice", "mallory", "bob", "sre")
    }
    assert may_approve == {"alice": True, "mallory": False, "bob": True, "sre": False}


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
        ("people: {alice: {airflow: [2]}, bob: {airflow: [2]}}", "'2' belongs to alice and to bob"),
        ("people: {alice: {airflow: [2]}, Alice: {airflow: [3]}}", "are the same name"),
        ("people: {alice: {}}", "alice has no account"),
        ("people: {alice: {airflow: []}}", "airflow: the list is empty"),
        ("people: {alice: {airflow: ['']}}", "airflow: must not be empty"),
        ("people: {alice: {slack: [a]}}", "unknown key 'slack' in alice"),
        ("people: {alice: 2}", "alice must be a mapping"),
        ("people: {'': {airflow: [2]}}", "must not be empty"),
        ("people: {'group:x': {airflow: [2]}}", "'group:x' is no person"),
        ("groups: {sre: []}", "sre: names nobody"),
        ("groups: {sre: [' ']}", "sre: must not be empty"),
        ("groups: {sre: ['group:x']}", "'group:x' is no person"),
        ("groups: {sre: [' group:x']}", "'group:x' is no person"),
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

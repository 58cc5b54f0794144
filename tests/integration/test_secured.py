"""Every way into a secured cluster, through the command line, with two principals that may do what
the docs grant them and nothing more; and every usual mistake there, named in one sentence.

One cluster: three brokers with TLS, client certificates, SASL and KRaft's authorizer. The third
names no rack, and the second shows an expired certificate on one of its listeners.
"""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterpoise.model.acl import (
    DESCRIBE_CLUSTER,
    DESCRIBE_CONFIGS_OF_BROKERS,
    OPERATOR_ACLS,
    READER_ACLS,
    Acl,
)
from dev.local_kafka import TopicSpec, create_topics, fill
from dev.local_processes import wait_until
from tests.support.command_line import CommandLine, Typed
from tests.support.kafka_facts import (
    ongoing_reassignments,
    placement,
    throttle_lines,
)
from tests.support.secured_kafka import (
    MECHANISMS,
    PASSWORDS,
    RACKS,
    SecuredKafka,
    connect,
    secured_kafka,
)

SECRETS = (*PASSWORDS.values(), "not-the-one", "PRIVATE KEY-----")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as cluster:
        create_topics(cluster.kafka.bootstrap_string, [TopicSpec("orders", [(1, 2, 3)])])
        cluster.allow("reader", READER_ACLS)
        cluster.allow("operator", OPERATOR_ACLS)
        yield cluster


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> Iterator[CommandLine]:
    """A command line; no secret is in any log, not at the level DEBUG either."""
    caplog.set_level(logging.DEBUG)
    yield CommandLine.in_folder(tmp_path, capsys)
    assert not [secret for secret in SECRETS if secret in caplog.text]


def typed(shell: CommandLine, *words: str | Path, code: int = 0) -> Typed:
    found = shell.type(*words)
    assert found.code == code, f"{words}: {found.code}\n{found.out}\n{found.err}"
    assert not [secret for secret in SECRETS if secret in found.out + found.err]
    return found


# -- the whole job


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_stage_runs_by_every_mechanism(
    secured: SecuredKafka, shell: CommandLine, mechanism: str
) -> None:
    topic, bootstrap = f"orders-{mechanism.lower()}", secured.kafka.bootstrap_string
    create_topics(bootstrap, [TopicSpec(topic, [(1, 2)] * 6)])
    fill(bootstrap, topic, dict.fromkeys(range(6), 100_000))
    reader, operator = (secured.settings(mechanism, who) for who in ("reader", "operator"))
    connect(shell, reader, operator)
    plan, state = shell.folder / "plan.json", shell.folder / "state.json"
    where = ("--cluster", "demo")
    doctor = json.loads(typed(shell, "doctor", *where, "--json").out)
    assert doctor["findings"] == []
    assert {check["answered"] for check in doctor["advertised"].values()} == {True}
    typed(shell, "snapshot", *where, "--out", state)
    rows = json.loads(typed(shell, "audit", *where, "--json").out)["findings"]
    assert not [row["seen"] for row in rows if row["severity"] == "unknown" and "ACL" in str(row)]
    assert not {"rights-refused", "no-authorizer"} & {row["rule"] for row in rows}
    unencrypted = {row["subject"] for row in rows if row["rule"] == "listener-unencrypted"}
    assert unencrypted == {"listener PLAINTEXT", "listener CLEAR"}, "of eight listeners"
    goal = ("--goal", "rebalance", "--topics", topic)
    typed(shell, "plan", *where, *goal, "--out", plan)
    assert typed(shell, "preflight", plan).out == "all allowed\n"
    typed(shell, "approve", plan, "--rate", "50MB/s", "--reason", "a test")
    typed(shell, "execute", plan)
    typed(shell, "verify", plan)
    typed(shell, "watch", *where)
    typed(shell, "stop", "--from-plan", plan, *where)
    now, moves = placement(secured.kafka), json.loads(plan.read_text())["moves"]
    for move in moves:
        assert now[f"{topic}-{move['partition']}"][0] == tuple(move["replicas_after"])
    assert any(set(move["replicas_after"]) - {1, 2} for move in moves)


def test_nothing_is_left_behind(secured: SecuredKafka) -> None:
    """After the runs above, by Kafka's own tools."""
    assert throttle_lines(secured.kafka) == []
    assert not ongoing_reassignments(secured.kafka)


def test_tokens_and_certificates_without_files_and_without_a_provider(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    """A token from a file, and from an address; certificates as text, as a secrets backend has
    them.
    """
    file = shell.folder / "token"
    file.write_text(secured.tokens.sign("reader"))
    oauth = {
        key: value
        for key, value in secured.settings("OAUTHBEARER", "reader").items()
        if not key.startswith("sasl.oauthbearer")
    }
    tls = secured.settings("mTLS", "reader")
    pem = (secured.folder / "reader.pem").read_text()
    ways = [
        oauth | {"sasl.oauthbearer.config": f"token_file={file}"},
        oauth | {"sasl.oauthbearer.config": f"token_url={secured.tokens.static_url('reader')}"},
        {key: tls[key] for key in ("bootstrap.servers", "security.protocol")}
        | {
            "ssl.ca.pem": secured.ca.read_text(),
            "ssl.certificate.pem": pem,
            "ssl.key.pem": pem,
        },
    ]
    for settings in ways:
        connect(shell, settings)
        assert (
            json.loads(typed(shell, "doctor", "--cluster", "demo", "--json").out)["findings"] == []
        )
        typed(shell, "snapshot", "--cluster", "demo", "--out", shell.folder / "state.json")


# -- mistakes

PLAIN = {"sasl.mechanism": "PLAIN", "sasl.username": "reader", "sasl.password": "read-secret"}
SASL_TLS = PLAIN | {"security.protocol": "SASL_SSL"}
OIDC = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "reader",
    "sasl.oauthbearer.client.secret": "read-secret",
}
TLS = {"security.protocol": "SSL"}
REFUSED = r'the broker refuses user "reader" \(.*\); check "sasl.username" and "sasl.password"$'
MISTAKES = [
    ("SASL", SASL_TLS | {"sasl.password": "not-the-one"}, "sasl", f"PLAIN failed: {REFUSED}"),
    *(
        (
            "SASL",
            SASL_TLS | {"sasl.mechanism": mechanism, "sasl.password": "not-the-one"},
            "sasl",
            f"{mechanism} failed: {REFUSED}",
        )
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
    ),
    (
        "SASL",
        OIDC | {"sasl.oauthbearer.client.secret": "not-the-one"},
        "sasl",
        r"no token: http://.*/token answers 401: check .*client\.secret",
    ),
    (
        "SASL",
        {key: value for key, value in OIDC.items() if ".oauthbearer" not in key}
        | {"enable.sasl.oauthbearer.unsecure.jwt": "true"}
        | {"sasl.oauthbearer.config": "principal=reader"},
        "sasl",
        'OAUTHBEARER failed: the broker refuses the token of "reader" .*check its issuer, audience',
    ),
    (
        "CLEAR",
        OIDC | {"security.protocol": "SASL_PLAINTEXT"},
        "sasl",
        'does not offer OAUTHBEARER; it offers .*PLAIN.*: set one of them in "sasl.mechanism"',
    ),
    (
        "TLS",
        TLS | {"ssl.ca.location": "probe"},
        "tls",
        "was issued by CN=the authority of a test, which is not trusted here; name the certificate "
        'of that authority in "ssl.ca.location"',
    ),
    ("EXPIRED", TLS, "tls", "the certificate expired on .* UTC; renew it"),
    (
        "ELSEWHERE",
        TLS,
        "tls",
        r"is for \*\.kafka\.example, not for 127\.0\.0\.1; connect by a name that it has",
    ),
    ("TLS", {}, "api versions", 'it speaks TLS, but "security.protocol" is PLAINTEXT; set SSL'),
    (
        "SASL",
        PLAIN | {"security.protocol": "SASL_PLAINTEXT"},
        "sasl",
        'it speaks TLS, but "security.protocol" is SASL_PLAINTEXT; set SASL_SSL',
    ),
    (
        "CLEAR",
        SASL_TLS,
        "tls",
        'it does not speak TLS, but "security.protocol" is SASL_SSL; name the port of a TLS '
        "listener, or set SASL_PLAINTEXT",
    ),
    (
        "CLEAR",
        {},
        "metadata|api versions",
        r"it wants SASL \(.*PLAIN.*\), but .*; set SASL_PLAINTEXT",
    ),
    ("SASL", TLS, "metadata|api versions", r"it wants SASL \(.*SCRAM.*\), but .*; set SASL_SSL"),
    (
        "TLS",
        SASL_TLS,
        "sasl",
        "does not accept SASL on this listener .*; name the port of a SASL listener",
    ),
    ("MUTUAL", TLS, "tls", 'requires a client certificate; set "ssl.certificate.location"'),
    (
        "MUTUAL",
        TLS | dict.fromkeys(("ssl.certificate.location", "ssl.key.location"), "other/unknown.pem"),
        "tls",
        "the broker does not accept our certificate.* from an authority that the brokers trust",
    ),
]


@pytest.mark.parametrize(
    ("at", "settings", "stage", "says"),
    MISTAKES,
    ids=[f"{at}-{number}" for number, (at, *_) in enumerate(MISTAKES)],
)
def test_a_mistake_is_one_sentence_whoever_says_it(
    secured: SecuredKafka,
    shell: CommandLine,
    at: str,
    settings: dict[str, str],
    stage: str,
    says: str,
) -> None:
    """What is wrong, where, and what to do: the same for a check and for the clients at work."""
    address = secured.at(at)
    given = {
        key: str(secured.folder / value) if value.endswith(".pem") else value
        for key, value in settings.items()
    }
    given |= {"bootstrap.servers": address}
    if given.get("security.protocol", "").endswith("SSL"):
        given = {"ssl.ca.location": str(secured.ca)} | given
    if "sasl.oauthbearer.method" in given:
        given["sasl.oauthbearer.token.endpoint.url"] = secured.tokens.token_url
    connect(shell, given)
    found = json.loads(typed(shell, "doctor", "--cluster", "demo", "--json", code=3).out)
    failed = found["bootstrap"][0]["steps"][-1]
    assert not failed["ok"]
    assert re.fullmatch(stage, failed["step"])
    assert re.search(says, failed["said"]), failed["said"]
    (fix,) = (row["fix"] for row in found["findings"] if row["rule"] == "bootstrap-dead-address")
    assert "start the broker" not in fix[0], "it is running"
    lines = typed(shell, "snapshot", "--cluster", "demo", code=3).err.splitlines()
    assert f"  {address}: {failed['step']}: {failed['said']}" in lines
    assert not (shell.folder / "store").exists()
    if at in ("EXPIRED", "ELSEWHERE"):  # shown although it is not trusted
        certificate = found["bootstrap"][0]["certificate"]
        assert certificate["subject"] == f"CN={at}"
        assert certificate["issuer"] == "CN=the authority of a test"


def test_certificates_are_shown_and_what_is_wrong_with_them(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    ca = TLS | {"ssl.ca.location": str(secured.ca)}

    def found(at: str, **settings: str) -> tuple[dict[str, Any], list[str]]:
        given = {key.replace("_", "."): value for key, value in settings.items()}
        connect(shell, ca | given | {"bootstrap.servers": secured.at(at)})
        document = json.loads(shell.type("doctor", "--cluster", "demo", "--json").out)
        rules = [row["rule"] for row in document["findings"]]
        return document["bootstrap"][0]["certificate"], rules

    certificate, rules = found("TLS")
    assert (certificate["names"], certificate["matches_host"]) == (["127.0.0.1"], True)
    assert "connection-unverified" not in rules
    certificate, rules = found("ELSEWHERE", ssl_endpoint_identification_algorithm="none")
    assert not certificate["matches_host"]
    assert {"certificate-expires", "connection-unverified"} <= set(rules)
    _, rules = found("EXPIRED", enable_ssl_certificate_verification="false")
    assert {"certificate-expires", "connection-unverified"} <= set(rules)


# -- audits

# What is true of these brokers by whichever listener they are asked.
ALWAYS = {
    *(("advertised-loopback", f"broker {broker_id}") for broker_id in RACKS),
    ("default-replication-factor", "default.replication.factor"),
    ("min-insync-1", "cluster"),
    ("racks-missing", "broker 3"),
    *(("certificate-expires", f"listener {name}") for name in ("ELSEWHERE", "EXPIRED")),
}
TOLD = ("warning", "critical")


def audited(shell: CommandLine) -> dict[str, Any]:
    words = ("audit", "--cluster", "demo", "--json", "--fail-at", "warning")
    document: dict[str, Any] = json.loads(typed(shell, *words, code=1).out)
    return document


def subjects(document: dict[str, Any], severities: tuple[str, ...] = TOLD) -> set[tuple[str, str]]:
    """Rule and subject of the findings, those of topics aside."""
    return {
        (row["rule"], row["subject"])
        for row in document["findings"]
        if row["severity"] in severities and not row["subject"].startswith("topic ")
    }


def test_a_broker_without_a_rack_where_others_have_one(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    connect(shell, {"bootstrap.servers": secured.kafka.bootstrap_string})
    document = audited(shell)
    assert subjects(document) == {*ALWAYS, ("certificate-expires", "listener MIXED")}
    expiring = {
        row["subject"]: row for row in document["findings"] if row["rule"] == "certificate-expires"
    }
    assert expiring["listener EXPIRED"]["severity"] == "critical"
    brokers = {subject: row["evidence"]["rows"] for subject, row in expiring.items()}
    assert [row[0] for row in brokers["listener ELSEWHERE"]] == ["1", "2", "3"]
    assert [row[:3] for row in brokers["listener MIXED"]] == [
        ["2", secured.at("MIXED", 2), "CN=EXPIRED"]
    ]
    assert subjects(document, ("unknown",)) == {("quorum-one-rack", "quorum")}
    (rack,) = [row for row in document["findings"] if row["rule"] == "racks-missing"]
    assert rack["seen"] == "broker 3 has no rack, 2 other brokers have one"
    assert rack["evidence"]["rows"] == [["1", "a"], ["2", "b"], ["3", "none"]]


def test_a_certificate_that_has_expired_on_one_broker(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    ca = {"ssl.ca.location": str(secured.ca)}
    connect(shell, TLS | ca | {"bootstrap.servers": secured.addresses("MIXED")})
    document = audited(shell)
    assert subjects(document) == {
        *ALWAYS,
        ("certificate-expires", "broker 2"),
        ("advertised-unreachable", "broker 2"),
        ("bootstrap-dead-address", f"bootstrap address {secured.at('MIXED', 2)}"),
    }
    assert subjects(document, ("unknown",)) == {
        ("quorum-one-rack", "quorum"),
        ("bootstrap-one-rack", "cluster"),  # broker 3, one of two that answer, names none
        ("not-answered", "broker 2"),
    }
    of_broker_2 = [row for row in document["findings"] if "2" in row["subject"]]
    fixes = {row["rule"]: row["fix"] for row in of_broker_2}
    renew = ["# renew it, and make the broker load the new one"]
    assert fixes["advertised-unreachable"] == renew, "what it advertises is right"
    criticals = [row["rule"] for row in document["findings"] if row["severity"] == "critical"]
    assert criticals[0] == "advertised-unreachable", "it is no loopback"
    (row,) = [row for row in of_broker_2 if row["rule"] == "certificate-expires"]
    assert row["severity"] == "critical"
    assert row["seen"].startswith(f"the certificate of {secured.at('MIXED', 2)} expired at ")
    assert row["evidence"]["rows"][0][:2] == ["CN=EXPIRED", "CN=the authority of a test"]


@pytest.mark.parametrize("acl", [DESCRIBE_CLUSTER, DESCRIBE_CONFIGS_OF_BROKERS], ids=str)
def test_a_login_that_may_not_read_is_told_the_permission_that_reading_needs(
    secured: SecuredKafka, shell: CommandLine, acl: Acl
) -> None:
    """One login for everything, as with --bootstrap: no writing permission for it."""
    connect(shell, secured.settings("PLAIN", "reader"))
    words = ("audit", "--cluster", "demo")
    secured.disallow("reader", acl)
    try:
        wait_until(lambda: "needs" in shell.type(*words).err, "the refusal", 60)
        refused = shell.type(*words).err
    finally:
        secured.allow("reader", [acl])
    assert f"`{acl.grant('User:reader')}`" in refused
    assert "--operation Alter" not in refused
    wait_until(lambda: "needs" not in shell.type(*words).err, "the audit with it", 60)


def test_an_operator_that_cannot_log_in_is_found_before_the_yes(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    topic, bootstrap = "orders-operator", secured.kafka.bootstrap_string
    create_topics(bootstrap, [TopicSpec(topic, [(1, 2)] * 6)])
    reader, operator = (secured.settings("PLAIN", who) for who in ("reader", "operator"))
    connect(shell, reader, operator)
    plan = shell.folder / "plan.json"
    goal = ("--goal", "rebalance", "--topics", topic)
    typed(shell, "plan", "--cluster", "demo", *goal, "--out", plan)
    unknown_ca = {"ssl.ca.location": "probe"}
    for mistake, says in (
        ({"sasl.password": "not-the-one"}, 'PLAIN failed: the broker refuses user "operator"'),
        (unknown_ca, "which is not trusted here"),
    ):
        connect(shell, reader, operator | mistake)
        refused = typed(shell, "approve", plan, "--rate", "50MB/s", "--reason", "x", code=3)
        assert "nothing was approved, since a connection to demo fails: " in refused.err
        assert says in refused.err
        assert json.loads(typed(shell, "status", "--json").out) == []
    connect(shell, reader, operator)
    typed(shell, "approve", plan, "--rate", "50MB/s", "--reason", "x")


def test_a_wrong_password_is_one_message_on_stderr_and_nothing_is_written(
    secured: SecuredKafka, shell: CommandLine
) -> None:
    """In a process of its own: what is logged there goes to stderr, not to the tests' own log."""
    wrong = secured.settings("PLAIN", "reader") | {"sasl.password": "not-the-one"}
    connect(shell, wrong)
    files = set(shell.folder.rglob("*"))
    run = "from counterpoise.cli.main import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", run, "audit", "--cluster", "demo", "--json"],
        env={**os.environ, **shell.environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout) == (3, "")
    first, *lines, last = done.stderr.splitlines()
    assert first == "counterpoise audit: no bootstrap address answered (3 tried):"
    assert last.strip().startswith("Check the addresses, the security settings and the network")
    for address, line in zip(wrong["bootstrap.servers"].split(","), lines, strict=True):
        assert line.startswith(f'  {address}: sasl: PLAIN failed: the broker refuses user "reader"')
    assert not [secret for secret in SECRETS if secret in done.stderr]
    assert set(shell.folder.rglob("*")) == files

"""clusters.yaml and connections.yaml with a wrong value in every section, and files that are no
YAML at all.
"""

from collections.abc import Iterator
from typing import Final

from tests.support.broken.case import SECRET, Broken

_HEAD: Final = "clusters:\n  demo:\n    connection: kafka\n"
_GOOD: Final = 'kafka: {bootstrap.servers: "127.0.0.1:1"}\n'
_AUDIT: Final = ("audit", "--cluster", "demo")
_BOMB: Final = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def _file(id_: str, content: str | bytes, *says: str) -> Broken:
    return Broken(
        f"clusters.yaml {id_}", _AUDIT, says, {"clusters.yaml": content, "connections.yaml": _GOOD}
    )


def _policy(id_: str, lines: str, *says: str) -> Broken:
    text = _HEAD + "    policy:\n" + "".join(f"      {line}\n" for line in lines.split("\n"))
    return _file(f"policy {id_}", text, "clusters.yaml", *says)


# What PyYAML would repeat, or break on.
_SECRETS_IN_YAML: Final = {
    "with a tag of a truth": f"!!bool {SECRET}",
    "with a tag of a number": f"!!int {SECRET}",
    "with a tag of binary data": f"!!binary {SECRET}",
    "with an unknown tag": f"!{SECRET} x",
    "with a tag in angle brackets": f"!<{SECRET}> x",
    "with an unknown handle": f"!{SECRET}!x y",
    "with an unknown anchor": f"*{SECRET}",
    "with an escape that is none": f'"\\q{SECRET}"',
    "with text behind a quote": f'"x" {SECRET}',
    "with a value that opens": f"[{SECRET}",
}


def files() -> Iterator[Broken]:
    where = "clusters.yaml"
    for id_, text in _SECRETS_IN_YAML.items():
        yield _file(id_, f"clusters:\n  demo: {text}\n", where, "not YAML", "line ")
    yield _file("with a key that is a list", "clusters: {[demo]: 5}\n", where, "key must be text")
    yield _file("empty", "", where, "the file is empty")
    yield _file("comments alone", "# nothing\n", where, "the file is empty")
    yield _file("a list", "- demo\n", where, "line 1", "must be a mapping")
    yield _file("text", "demo\n", where, "must be a mapping")
    yield _file("with a tab", "clusters:\n\tdemo: {}\n", where, "line 2", "not YAML")
    yield _file("with an open quote", 'clusters:\n  demo: "\n', where, "not YAML")
    yield _file("with an open brace", "clusters: {demo: {connection: x\n", where, "not YAML")
    yield _file("with two documents", _HEAD + "---\n" + _HEAD, where, "not YAML")
    yield _file("not UTF-8", b"clusters: \xff\n", where, "cannot be read")
    yield _file("with a control character", "clusters: \x07\n", where, "not YAML")
    yield _file("with an unknown alias", "clusters: *nobody\n", where, "not YAML")
    yield _file("an alias that holds itself", "clusters: &a\n  demo: *a\n", where)
    yield _file(
        "a bomb of aliases", _BOMB + "clusters: {demo: {connection: *i}}\n", where, "must be text"
    )
    yield _file(
        "a merge key",
        "base: &b {connection: x}\nclusters: {demo: {<<: *b}}\n",
        where,
        "unknown key",
    )
    yield _file("nested deeply", "clusters: " + "[" * 5000, where)
    yield _file("without clusters", "notify: {}\n", where, 'needs "clusters"')
    yield _file("clusters null", "clusters:\n", where, "must be a mapping")
    yield _file("a cluster null", "clusters:\n  demo:\n", where, "line 2", "must be a mapping")
    yield _file(
        "a cluster twice", _HEAD + "  demo:\n    connection: y\n", where, "line 4", "given twice"
    )
    yield _file("an unknown key", _HEAD + "    colour: red\n", where, "line 4", "'colour'")
    yield _file("an unknown top key", _HEAD + "colour: red\n", where, "'colour'")
    yield _file("a hostile key", _HEAD + '    "\\e[31mred": 1\n', where, "line 4", "unknown key")
    yield _file(
        "an upper-case name", "clusters:\n  Demo: {connection: x}\n", where, "a cluster's name"
    )
    yield _file(
        "a path for a name", "clusters:\n  ../demo: {connection: x}\n", where, "a cluster's name"
    )
    yield _file("without a connection", "clusters:\n  demo: {}\n", where, 'needs "connection"')
    yield _file(
        "a connection that is a list",
        "clusters:\n  demo: {connection: [a]}\n",
        where,
        "must be text",
    )
    yield _file(
        "a cluster_id that is a mapping",
        _HEAD + "    cluster_id: {}\n",
        where,
        "cluster_id must be text",
    )
    yield _file(
        "another cluster",
        "clusters:\n  other: {connection: kafka}\n",
        "cluster 'demo' is not in",
        "other",
    )


def policies() -> Iterator[Broken]:
    yield _file("policy text", _HEAD + "    policy: strict\n", "line 4", "policy must be a mapping")
    for part in ("balance", "proposals", "movement", "approval", "history", "audit"):
        yield _policy(f"{part} a list", f"{part}: []", f"{part} must be a mapping")
        yield _policy(
            f"{part} with an unknown key",
            f"{part}: {{colour: red}}",
            f"unknown key 'colour' in {part}",
        )
    for part, key, value, said in (
        ("balance", "bytes_tolerance_percent", "ten", "whole number from 1 to 100"),
        ("balance", "excluded_topics", "orders", "must be a list"),
        ("balance", "excluded_topics", '["a b"]', "is no topic"),
        ("balance", "disk_limit_percent", "8_5", "whole number"),
        ("movement", "rate", "10", "has no unit"),
        ("movement", "rate", "10Mb/s", "counts bits"),
        ("movement", "rate", "", "rate must be text"),
        ("movement", "on_halt", "explode", "is none of finish, cancel"),
        ("movement", "time_zone", "Mars/Olympus", "is no time zone"),
        ("movement", "time_zone", "../../etc/passwd", "is no time zone"),
        ("movement", "windows", "[{lasts: 6h}]", 'needs "starts"'),
        ("movement", "windows", '[{starts: "61 * * * *", lasts: 6h}]', "starts"),
        ("movement", "windows", '[{starts: "0 22 * * *", lasts: 6}]', "lasts"),
        (
            "movement",
            "daily_rates",
            '[{from: "25:00", until: "08:00", rate: 5MB/s}]',
            "is no time of day",
        ),
        ("movement", "daily_rates", '[{from: "08:00"}]', 'needs "until"'),
        ("movement", "pause_patience", "-15m", "is not a duration"),
        ("movement", "dead_broker_patience", "9" * 5000 + "d", "dead_broker_patience"),
        ("approval", "two_people_above", "9" * 400 + "TB", "out of range"),
        ("history", "keep_all", "1h", "at least 1d"),
        ("history", "keep_hourly", "2d", "must not be shorter"),
    ):
        shown = value if len(value) < 20 else value[:12] + " ..."
        yield _policy(f"{key} {shown}", f"{part}:\n  {key}: {value}", "line 6", said)


def audits() -> Iterator[Broken]:
    for id_, lines, said in (
        ("fails_at bad", "fails_at: bad", "is none of info, warning, critical"),
        ("controller_racks of names", "controller_racks: {one: a}", "node id of a controller"),
        (
            "thresholds text",
            "thresholds: {leaders-uneven: {most_percent_of_mean: many}}",
            "whole number",
        ),
        (
            "thresholds huge",
            "thresholds: {leaders-uneven: {most_percent_of_mean: " + "9" * 5000 + "}}",
            "whole number",
        ),
        (
            "threshold of no rule",
            "thresholds: {leader-uneven: {x: 1}}",
            'there is no rule "leader-uneven"; did you mean',
        ),
        (
            "threshold that no rule has",
            "thresholds: {leaders-uneven: {x: 1}}",
            'has no threshold "x"',
        ),
        ("threshold of a hostile rule", 'thresholds: {"\\e[31mred": {x: 1}}', "there is no rule"),
        ("waiver without a reason", "waivers: [{rule: idle-broker}]", 'needs "reason"'),
        (
            "waiver of no rule",
            "waivers: [{rule: idle-brokers, reason: x}]",
            'there is no rule "idle-brokers"',
        ),
        (
            "waiver without subjects",
            "waivers: [{rule: idle-broker, reason: x, subjects: []}]",
            "write subjects",
        ),
        (
            "waiver until soon",
            "waivers: [{rule: idle-broker, reason: x, until: soon}]",
            "is not a time",
        ),
    ):
        yield _policy(f"audit {id_}", f"audit:\n  {lines}", said)


def _connection(id_: str, content: str | bytes, *says: str) -> Broken:
    return Broken(
        f"connections.yaml {id_}",
        _AUDIT,
        says,
        {"clusters.yaml": _HEAD, "connections.yaml": content},
    )


def _settings(id_: str, settings: str, *says: str) -> Broken:
    return _connection(id_, f"kafka: {{{settings}}}\n", "connection kafka", *says)


def connections() -> Iterator[Broken]:
    where, password = "connections.yaml", f"sasl.password: {SECRET}"
    yield _connection("empty", "", "connection 'kafka' is neither in")
    yield _connection("a list", "[1]\n", where, "must map")
    yield _connection("text", f"{SECRET}\n", where, "must map")
    yield _connection(
        "without the id", f"other: {{{password}}}\n", "connection 'kafka' is neither in"
    )
    yield _connection("a connection of text", f"kafka: {SECRET}\n", where, "must be a mapping")
    yield _connection("with a tab", f"kafka:\n\tsasl.password: {SECRET}\n", where, "line 2")
    yield _connection(
        "with an open brace", f"kafka: {{sasl.password: {SECRET}\n", where, "line 2: not YAML"
    )
    yield _connection("not UTF-8", b"kafka: \xff" + SECRET.encode(), where, "cannot be read")
    yield _connection(
        "with a Python object",
        f"kafka: !!python/object:os.system {SECRET}\n",
        where,
        "line 1",
        "a tag",
    )
    for id_, text in _SECRETS_IN_YAML.items():
        yield _connection(id_, f"kafka:\n  sasl.password: {text}\n", where, "line ", "not YAML")
    yield _connection("nested deeply", "kafka: " + "[" * 5000, where)
    yield _connection("with a key that is a list", f"kafka: {{[a]: {SECRET}}}\n", "connection")
    yield _connection(
        "with a key that is a number", 'kafka: {5: x, bootstrap.servers: ""}\n', "connection"
    )
    yield _connection("with a date that is none", "kafka: {client.id: 2027-13-45}\n", where)
    yield _settings("without addresses", password, '"bootstrap.servers" is missing')
    yield _settings(
        "with addresses in a list", "bootstrap.servers: [a, b]", "must be text, not list"
    )
    yield _settings("with addresses null", "bootstrap.servers: ", "must be text, not null")
    good = "bootstrap.servers: 'a:9092'"
    for id_, more, said in (
        ("an unknown protocol", "security.protocol: TLS", "it must be PLAINTEXT, SSL"),
        ("a password in the clear", password, "did you mean SASL_SSL"),
        (
            "SASL without a password",
            "security.protocol: SASL_SSL, sasl.mechanism: PLAIN",
            '"sasl.password" is missing',
        ),
        (
            "an unknown mechanism",
            f"security.protocol: SASL_SSL, sasl.mechanism: MAGIC, sasl.username: u, {password}",
            "supported, in upper case, are PLAIN",
        ),
        (
            "a password that is a list",
            f"security.protocol: SASL_SSL, sasl.password: [{SECRET}]",
            "must be text, not list",
        ),
        ("an unknown ssl key", f"ssl.colour: {SECRET}", "is unknown"),
        ("a keystore", f"ssl.keystore.password: {SECRET}", "is not supported"),
        (
            "half a certificate",
            "security.protocol: SSL, ssl.certificate.location: /c.pem",
            "ssl.key.location",
        ),
        ("an odd identification", "ssl.endpoint.identification.algorithm: maybe", "https or none"),
        (
            "two names for one",
            "sasl.mechanism: PLAIN, sasl.mechanisms: GSSAPI, security.protocol: SASL_SSL",
            "contradicts",
        ),
        ("control characters", '"ssl.\\e[31mred": x', "is unknown"),
    ):
        yield _settings(f"with {id_}", f"{good}, {more}", said)
    for id_, value in (
        ("text", SECRET),
        ("a list", "[]"),
        ("no extra", "{}"),
        ("a wrong extra", '{"extra": "[1]"}'),
    ):
        yield Broken(
            f"AIRFLOW_CONN_KAFKA {id_}",
            _AUDIT,
            ("AIRFLOW_CONN_KAFKA must be JSON",),
            {"clusters.yaml": _HEAD},
            environment={"AIRFLOW_CONN_KAFKA": value},
        )


CASES: Final = (*files(), *policies(), *audits(), *connections())

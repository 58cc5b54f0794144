"""What is typed wrongly: addresses, rates, durations, times, ids, requests, URIs."""

from collections.abc import Iterator
from typing import Final

from tests.support.broken.case import HOSTILE, SECRET, Broken
from tests.support.broken.documents import TEXT
from tests.support.broken.plans import TEXT as PLAN

_CLUSTERS: Final = {
    "clusters.yaml": "clusters:\n  demo:\n    connection: kafka\n",
    "connections.yaml": 'kafka: {bootstrap.servers: "127.0.0.1:1"}\n',
}


def addresses() -> Iterator[Broken]:
    for address, said in (
        (",", "--bootstrap"),
        ("", "no address"),
        ("localhost", "has no port"),
        ("localhost:0", "from 1 to 65535"),
        ("localhost:٣", "--bootstrap"),
        ("localhost:" + "9" * 5000, "--bootstrap"),
        ("::1:9092", 'write "[::1]:9092"'),
        ("kafka://localhost:9092", "write host:port"),
        (f"SASL_SSL://user:{SECRET}@a:9092", "sasl.password"),
        (f"user:{SECRET}@a:9092", "--bootstrap"),
        ("a:9092;b:9092", "separated by commas"),
        (f"{HOSTILE}:9092", "is not host:port"),
        ("h" * 10_000 + ":9092/", "--bootstrap"),
    ):
        shown = ascii(address[:30]).replace(SECRET[:4], "...")
        yield Broken(f"doctor --bootstrap {shown}", ("doctor", "--bootstrap", address), (said,))
    for command in ("audit", "snapshot"):
        yield Broken(
            f"{command} --bootstrap localhost",
            (command, "--bootstrap", "localhost"),
            ("has no port",),
        )
    yield Broken(
        "snapshot of an empty label",
        ("snapshot", "--bootstrap", "a..b:9092"),
        ("no bootstrap",),
        code=3,
    )
    yield Broken(
        "audit of nobody",
        ("audit", "--bootstrap", "127.0.0.1:1"),
        ("127.0.0.1:1", "no bootstrap"),
        code=3,
    )


def amounts() -> Iterator[Broken]:
    # Each other wrong rate, duration and time: unit/test_units.py.
    for rate in ("10", "1e3MB/s", "\u0663MB/s", "9" * 5000 + "B/s", HOSTILE):
        yield Broken(
            f"rate {rate[:20]!a} of {len(rate)}",
            ("show", "p.json", "--rate", rate),
            ("--rate",),
            {"p.json": PLAN},
        )
    for time in ("5", "9" * 5000 + "d", "²h", HOSTILE):
        words = ("report", "--cluster", "demo", "--last", time)
        yield Broken(f"duration {time[:20]!a}", words, ("--last",), _CLUSTERS)
    for time in ("soon", "0001-01-01T00:00+14:00", HOSTILE):
        words = ("freeze", "demo", "--until", time, "--why", "x")
        yield Broken(f"until {time[:20]!a}", words, ("until",), _CLUSTERS)
    words = ("report", "--cluster", "demo", "--until", "never")
    yield Broken("report until never", words, ("--until", "is not a time"), _CLUSTERS)


def rebalance_requests() -> Iterator[Broken]:
    for option, value in (
        ("--goal", "everything"),
        ("--goal", HOSTILE),
        ("--brokers", "one"),
        ("--brokers", "4,4"),
        ("--brokers", "9" * 5000),
        ("--brokers", HOSTILE),
        ("--topics", "a b"),
        ("--topics", HOSTILE),
        ("--exclude-topics", ","),
        ("--exclude-brokers", "1.5"),
        ("--max-bytes", "5"),
        ("--bytes-tolerance", "0"),
        ("--replication-factor", "3"),
    ):
        goal = () if option == "--goal" else ("--goal", "add-brokers")
        brokers = () if option == "--brokers" else ("--brokers", "4")
        words = ("plan", "--state", "s.json", "--out", "plan.json", *goal, *brokers, option, value)
        yield Broken(f"plan {option} {value[:20]!a}", words, (option,), {"s.json": TEXT})


def names() -> Iterator[Broken]:
    for name in ("none", "../demo", "", HOSTILE, "x" * 10_000):
        shown = ascii(name[:20])
        yield Broken(
            f"cluster {shown}",
            ("audit", f"--cluster={name}"),
            ("clusters.yaml",) if name else ("is not in",),
            _CLUSTERS,
        )
        words = ("pause", f"run-{name}", "--why", "x")
        yield Broken(f"run {shown}", words, ("is not in the ledger",), _CLUSTERS)
    yield Broken(
        "an unknown severity",
        ("audit", "--cluster", "demo", "--fail-at", "bad"),
        ("--fail-at",),
        _CLUSTERS,
    )
    yield Broken("an unknown command", (HOSTILE,), ("there is no command",))
    yield Broken("an unknown option", ("plan", f"--{HOSTILE}"), ("there is no option",))


def places() -> Iterator[Broken]:
    for id_, uri, said in (
        ("of an unknown kind", "nowhere://bucket/x", "cannot be opened"),
        ("with a password", f"s3://key:{SECRET}@bucket/x", "leave user and password out"),
        ("with unknown options", f"s3://bucket/x?colour={SECRET}", "cannot be opened"),
        ("without a bucket", "s3://", "store"),
        ("with a broken host", "s3://[bucket/x", "store"),
    ):
        environment = {"COUNTERPOISE_STORE": uri}
        yield Broken(
            f"store {id_}", ("report", "--cluster", "demo"), (said,), _CLUSTERS, 2, environment
        )
    for id_, uri in (
        ("of an unknown kind", "nowhere://x"),
        ("that is no URL", "ledger"),
        ("with a password", f"nowhere://u:{SECRET}@h/x"),
        ("with an odd port", f"postgresql://u:{SECRET}@h:port/x"),
    ):
        yield Broken(
            f"ledger {id_}",
            ("status",),
            ("ledger",),
            _CLUSTERS,
            environment={"COUNTERPOISE_LEDGER": uri},
        )
    files = {**_CLUSTERS, "rubbish.sqlite": b"this is no database" * 100}
    environment = {"COUNTERPOISE_LEDGER": "sqlite:///rubbish.sqlite"}
    yield Broken(
        "ledger of rubbish", ("status",), ("ledger",), files, code=3, environment=environment
    )
    for id_, conf in (
        ("half a quote", 'spark.x="'),
        ("no pair", "spark.x"),
        ("another name", f"password={SECRET}"),
    ):
        environment = {"COUNTERPOISE_SPARK_CONF": conf}
        yield Broken(
            f"spark {id_}",
            ("status",),
            ("COUNTERPOISE_SPARK_CONF",),
            _CLUSTERS,
            environment=environment,
        )


CASES: Final = (*addresses(), *amounts(), *rebalance_requests(), *names(), *places())

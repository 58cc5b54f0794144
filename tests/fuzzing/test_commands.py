"""Every command before documents, YAML, plans, arguments, environments and terminals that are not
what they should be, and `doctor` before a broker that is none.

COUNTERPOISE_FUZZ_EXAMPLES=5000 makes that many of each kind; `make soak` does.
"""

import gzip
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from counterpoise.cli.main import build_parser, leaf_commands
from tests.fuzzing.conftest import Commands
from tests.support.broken import documents, plans
from tests.support.broken.case import SECRET
from tests.support.fake_broker import HERE, Answers, fake_broker
from tests.support.hostile import HOSTILE

EXAMPLES: Final = int(os.environ.get("COUNTERPOISE_FUZZ_EXAMPLES", "40"))
FUZZED: Final = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="COUNTERPOISE_FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
CLUSTERS: Final = b"clusters: {demo: {connection: kafka}}\n"
CONNECTIONS: Final = b'kafka: {bootstrap.servers: "127.0.0.1:1", sasl.password: %s}\n' % (
    SECRET.encode()
)
FILES: Final = {
    "state.json": documents.TEXT.encode(),
    "plan.json": plans.TEXT.encode(),
    "clusters.yaml": CLUSTERS,
    "connections.yaml": CONNECTIONS,
}
PARSERS: Final = dict(leaf_commands(build_parser()))
# It always starts Spark, and asks Airflow: that is left to its own tests.
LEFT_OUT: Final = {"self-check", "notify"}
NAMES: Final = sorted(PARSERS.keys() - LEFT_OUT)

ODD: Final = st.sampled_from(
    (
        *("", " ", "\t", "-", "--", "-1", "0", "9" * 400, "1e999", "nan", "٣", "²", HOSTILE),
        *("é\u202e", "../x", "/dev/null", "/dev/zero/x", ".", "x" * 300, "a,b,,c", "*", "%s%n"),
        *("{}", "[red]", "2026-13-45", "2026-01-31T12:00", "-8h", "8h", "50MB/s", "0MB/s"),
        *("1YB/s", "demo", "a:1"),
    )
)
WORD: Final = ODD | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
JSON: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats()
    | st.text(max_size=12)
    | ODD,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD, inner, max_size=4),
    max_leaves=8,
)


def mutated(text: str) -> st.SearchStrategy[bytes]:
    """JSON in which one value, anywhere, is another; or bytes of it that are cut or changed."""
    document = json.loads(text)
    places = list(_places(document, ()))

    def replaced(place: tuple[Any, ...], value: Any) -> bytes:
        copy = json.loads(text)
        inner = copy
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value
        return json.dumps(copy).encode()

    data = text.encode()
    changed = st.builds(replaced, st.sampled_from(places), JSON)
    cut = st.integers(0, len(data)).map(lambda length: data[:length])
    flipped = st.tuples(st.integers(0, len(data) - 1), st.binary(min_size=1, max_size=3)).map(
        lambda change: data[: change[0]] + change[1] + data[change[0] + 1 :]
    )
    return changed | changed | cut | flipped | st.binary(max_size=40) | JSON.map(_dumped)


def _dumped(value: Any) -> bytes:
    return json.dumps(value).encode()


def _places(value: Any, above: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    found: list[tuple[Any, ...]] = []
    for key, below in inner:
        found += [(*above, key), *_places(below, (*above, key))]
    return found


YAML_PIECES: Final = st.sampled_from(
    (
        *("clusters:", "  demo:", "    connection: kafka", "    policy:", "      movement:"),
        *("        rate: ", "20MB/s", "- a", "? x", "&a [*a]", "*a", "<<: *a", "!!int ''"),
        *("!!timestamp x", "0x" + "f" * 5000, "{" * 200, "[" * 200, '"', "'", "|", ">"),
        *("%YAML 9", "---", "...", "\t", "#", ": :", "~", "1_000", "groups: {a: [a]}"),
        *("groups: {a: [b]}", "kafka: {bootstrap.servers: 127.0.0.1:1}"),
        *(f"sasl.password: {SECRET}", "demo: {connection: kafka}", "20:30", "2001-01-01"),
        *("\ufeff", "\x00", "kafka: {linger.ms: 0x" + "f" * 5000 + "}"),
    )
)
YAML: Final = st.lists(YAML_PIECES | st.text(max_size=6), max_size=8).flatmap(
    lambda lines: st.sampled_from(["\n", " ", ""]).map(
        lambda between: between.join(lines).encode(errors="surrogatepass")
    )
)
TERMINALS: Final = st.fixed_dictionaries(
    {},
    optional={
        "COLUMNS": st.sampled_from(["0", "1", "-5", "x", "80", "100000"]),
        "TERM": st.sampled_from(["", "dumb", "xterm-256color", "no-such"]),
        "NO_COLOR": st.just("1"),
        "PYTHONIOENCODING": st.sampled_from(["ascii", "latin-1", "utf-8"]),
        "TZ": st.sampled_from(["", "Europe/Berlin", "no/such"]),
        "LANG": st.sampled_from(["C", "de_DE"]),
    },
)


@FUZZED
@given(st.data())
def test_arguments(commands: Commands, data: st.DataObject) -> None:
    """Each option of any command with any value."""
    name = data.draw(st.sampled_from(NAMES))
    words = name.split()
    writes = []
    for action in PARSERS[name]._actions:
        if action.dest == "help":
            continue
        if action.option_strings and not action.required and data.draw(st.booleans()):
            continue
        value = [] if action.nargs == 0 else [data.draw(_value_of(action.dest))]
        if action.dest in ("out", "reassignment_json", "cursor"):
            writes += ["x.json", *(f"x.json/audit.{end}" for end in ("md", "html", "json"))]
        words += [*action.option_strings[:1], *value]
    commands.run(words, FILES, data.draw(TERMINALS), writes=writes)


def _value_of(dest: str) -> st.SearchStrategy[str]:
    usual = {
        "out": "x.json",
        "reassignment_json": "x.json",
        "cursor": "x.json",
        "state": "state.json",
        "plan": "plan.json",
        "from_plan": "plan.json",
        "run_or_plan": "plan.json",
        "cluster": "demo",
        "bootstrap": "127.0.0.1:1",
        "goal": "leaders",
        "rate": "50MB/s",
        "until": "8h",
    }
    if dest in ("out", "reassignment_json", "cursor"):
        return st.sampled_from(["x.json", "", "/dev/null", "/dev/full", "tmp", "no/such/x.json"])
    return st.just(usual[dest]) | WORD if dest in usual else WORD


@FUZZED
@given(mutated(documents.TEXT), st.sampled_from(("leaders", "rebalance", "repair")), st.booleans())
def test_documents(commands: Commands, content: bytes, goal: str, packed: bool) -> None:
    name = "other.json.gz" if packed else "other.json"
    files = FILES | {name: gzip.compress(content) if packed else content}
    words = ("plan", "--state", name, "--goal", goal, "--out", "x.json")
    commands.run(words, files, writes=("x.json",))


@FUZZED
@given(
    mutated(plans.TEXT),
    st.sampled_from(
        (
            ("show", "PLAN", "--rate", "1MB/s"),
            ("show", "PLAN", "--json"),
            ("export", "PLAN", "--undo"),
            ("approve", "PLAN", "--rate", "1MB/s", "--reason", "x", "--no-preflight"),
            ("execute", "PLAN"),
            ("status", "PLAN"),
            ("import", "PLAN", "--state", "state.json", "--out", "x.json"),
        )
    ),
    TERMINALS,
    st.booleans(),
)
def test_plans(
    commands: Commands,
    content: bytes,
    words: tuple[str, ...],
    environment: Mapping[str, str],
    terminal: bool,
) -> None:
    typed = ["other.json" if word == "PLAN" else word for word in words]
    files = FILES | {"other.json": content}
    commands.run(typed, files, environment, writes=("x.json",), terminal=terminal)


@FUZZED
@given(st.sampled_from(("clusters.yaml", "connections.yaml")), YAML)
def test_yaml(commands: Commands, name: str, content: bytes) -> None:
    words = ("freeze", "demo", "--until", "8h", "--why", "x")
    if name == "connections.yaml":
        words = ("audit", "--cluster", "demo")
    commands.run(words, FILES | {name: content})


@FUZZED
@given(
    st.dictionaries(
        st.sampled_from(
            [
                f"COUNTERPOISE_{name}{ending}"
                for name in ("CONFIG", "CONNECTIONS", "STORE", "LEDGER", "HOME")
                for ending in ("", "_CMD", "_FILE")
            ]
            + ["COUNTERPOISE_SPARK_CONF", "COUNTERPOISE_SPARK_ENV", "AIRFLOW_CONN_KAFKA", "HOME"]
        ),
        ODD
        | st.sampled_from(["sqlite://", "sqlite:///:memory:", "postgresql://", "s3://", "a://b"]),
        max_size=3,
    ),
    st.sampled_from((("status",), ("report", "--fleet"), ("audit", "--cluster", "demo"))),
)
def test_environments(
    commands: Commands, environment: Mapping[str, str], words: tuple[str, ...]
) -> None:
    unwritable = {
        name: value for name, value in environment.items() if "/" in value or value == "."
    }
    kept = {name: value for name, value in environment.items() if name not in unwritable}
    commands.run(words, FILES, kept)


BROKER: Final = st.tuples(
    st.integers(-2, 6),
    st.sampled_from([HERE, HERE, None, "", "kafka.invalid", "127.0.0.1", HOSTILE, "a" * 300]),
    st.sampled_from([0, -1, 1, 70_000, 2**31 - 1]),
)
PARTITION: Final = st.tuples(
    st.sampled_from(["t", "t", None, "", HOSTILE, "x" * 300]),
    st.integers(-1, 3),
    st.integers(-2, 6),
    st.lists(st.integers(-2, 6), max_size=3),
)


@st.composite
def mangling(draw: st.DrawFn) -> Callable[[bytes, int], bytes]:
    """Let one frame, or none, be cut, prolonged, or other bytes."""
    which = draw(st.integers(0, 6))
    kind = draw(st.sampled_from(("cut", "length", "bytes", "flip")))
    place = draw(st.integers(0, 60))
    other = draw(st.binary(min_size=4, max_size=4) | st.just(b"\x3b\x9a\xc9\xff"))

    def mangle(frame: bytes, number: int) -> bytes:
        if number != which:
            return frame
        if kind == "cut":
            return frame[: min(place, len(frame) - 1)]
        if kind == "length":
            return other + frame[4:]
        if kind == "bytes":
            return other * (1 + place)
        at = 4 + place % max(1, len(frame) - 8)
        return frame[:at] + other + frame[at + 4 :]

    return mangle


@settings(FUZZED, max_examples=max(20, EXAMPLES // 3))
@given(
    st.lists(BROKER, max_size=4),
    st.sampled_from(["fake", "fake", None, "", HOSTILE]),
    st.lists(PARTITION, max_size=3),
    st.just(lambda frame, _number: frame) | mangling(),
    st.booleans(),
)
def test_brokers(
    commands: Commands,
    brokers: list[tuple[int, str | None, int]],
    cluster_id: str | None,
    partitions: list[tuple[str | None, int, int, list[int]]],
    mangle: Callable[[bytes, int], bytes],
    as_json: bool,
) -> None:
    answers = Answers([(1, HERE, 0), *brokers], cluster_id, partitions, mangle=mangle)
    with fake_broker(answers) as address:
        json_word = ["--json"] if as_json else []
        commands.run(["doctor", "--bootstrap", address, "--topic", "t", *json_word], FILES)

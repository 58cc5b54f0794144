"""Plan documents that nobody may show, approve or execute."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from counterpoise.model.document import from_document_text
from counterpoise.model.plan import fingerprint_of
from counterpoise.model.policy import BalancePolicy
from counterpoise.model.request import Goal, PlanRequest
from counterpoise.planning import make_plan
from tests.support.broken.case import HOSTILE, Broken
from tests.support.broken.documents import GOOD

PLAN: Final = make_plan(
    from_document_text(json.dumps(GOOD)),
    PlanRequest(Goal.ADD_BROKERS, broker_ids=(4,), policy=BalancePolicy()),
)
TEXT: Final = PLAN.to_json()
_CONFIGURED: Final = {"clusters.yaml": "clusters:\n  demo:\n    connection: kafka\n"}


def _words(command: str) -> tuple[str, ...]:
    more = {
        "show": (),
        "export": (),
        "verify": (),
        "execute": (),
        "approve": ("--rate", "1MB/s", "--reason", "x", "--no-preflight"),
        "reject": ("--reason", "x"),
        "undo": ("--out", "undo.json", "--why", "x"),
    }
    return (command, "plan.json", *more[command])


def _text(id_: str, content: str | bytes, *says: str, command: str = "show") -> Broken:
    return Broken(
        f"plan {id_} ({command})",
        _words(command),
        ("plan.json", *says),
        {"plan.json": content, **_CONFIGURED},
    )


def _resealed(change: Callable[[dict[str, Any]], None]) -> str:
    """Changed, with the fingerprint that belongs to the change: only what it says is wrong."""
    content = json.loads(TEXT)
    del content["fingerprint"]
    change(content)
    return json.dumps({"fingerprint": fingerprint_of(content), **content})


def _set(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content.__setitem__(key, value)


def _move(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    return lambda content: content["moves"][0].__setitem__(key, value)


def texts() -> Iterator[Broken]:
    for id_, content, said in (
        ("empty", "", "not JSON"),
        ("cut short", TEXT[:-20], "cut short"),
        ("nested deeply", "[" * 200_000, "not JSON"),
        ("a cluster document", json.dumps(GOOD), "not a plan"),
        (
            "of another format",
            TEXT.replace("counterpoise-plan/", "counterpoise-plan/9"),
            "another version",
        ),
        ("with NaN", '{"format": NaN}', "not JSON"),
        ("not UTF-8", b"\xc3\x28", "cannot be read"),
        ("with a lone surrogate", TEXT.replace("orders", "\\ud800"), "edited after it was made"),
        ("with a format of control characters", json.dumps({"format": HOSTILE}), "not a plan"),
    ):
        yield _text(id_, content, said)
    for command in ("show", "export", "approve", "reject", "execute", "verify", "undo"):
        yield _text(
            "edited",
            TEXT.replace('"size_bytes":10', '"size_bytes":99', 1),
            "edited",
            command=command,
        )
        yield _text("cut", TEXT[:-3], "not JSON", command=command)
    yield _text(
        "with another fingerprint",
        TEXT.replace("sha256:", "sha256:0", 1),
        "edited after it was made",
    )
    yield _text(
        "without a fingerprint",
        json.dumps({k: v for k, v in json.loads(TEXT).items() if k != "fingerprint"}),
        "edited",
    )
    yield _text(
        "with a hostile fingerprint",
        json.dumps({**json.loads(TEXT), "fingerprint": HOSTILE}),
        "edited",
    )
    yield Broken("plan gone", ("show", "none.json"), ("none.json", "cannot be read"))
    yield Broken("plan a folder", ("show", "."), ("cannot be read",))


def sealed() -> Iterator[Broken]:
    """With a right fingerprint, made by another program."""
    malformed = "missing, unknown or malformed"
    for id_, change in (
        ("without moves", lambda content: content.pop("moves")),
        ("with a move that is text", _set("moves", ["x"])),
        ("with an unknown goal", _set("goal", "everything")),
        ("with a figure too many", lambda content: content["figures"][0].update(colour=1)),
        ("with a setting too short", _set("settings_before", [["broker"]])),
        ("with replicas that are text", _move("replicas_after", "123")),
        ("with a negative size", _move("size_bytes", -5)),
        ("with a move twice", lambda content: content["moves"].append(content["moves"][0])),
        ("with a replica twice", _move("replicas_after", [1, 1, 2])),
        ("without replicas", _move("replicas_after", [])),
        ("with a hostile topic", _move("topic", HOSTILE)),
    ):
        yield _text(f"sealed {id_}", _resealed(change), malformed)
    moved = _resealed(_move("replicas_after", [1, 1, 2]))
    yield _text("sealed with a replica twice", moved, malformed, command="approve")


CASES: Final = (*texts(), *sealed())

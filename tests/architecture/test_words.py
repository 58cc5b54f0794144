"""Words that may not come back: the field has a better one for each.

Checked are code, comments, docstrings, texts, templates and documents. A word that a contract keeps
(a table, a column, a YAML key, a path of the store, a name in somebody else's library) is allowed
where that contract stands.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    "plugins",
    "dags",
    "spark_jobs",
    "demo",
    "dev",
    "benchmarks",
    "config",
    "tests",
    "docs",
)
SUFFIXES = (".py", ".pyi", ".md", ".html", ".yaml", ".toml")
# Tables that were made stay as they are; this list names the words.
LEFT_AS_WRITTEN = (
    "plugins/counterpoise/ledger/migrations/versions/",
    "tests/architecture/test_words.py",
)


@dataclass(frozen=True)
class Word:
    """`pattern` is searched without regard to case, on lines from which `allowed` is cut out."""

    pattern: str
    instead: str
    allowed: str = r"(?!)"


WORDS = (
    Word(r"\bphoto(graph(s|ed|ing)?|s)?\b", "snapshot"),
    Word(
        r"\b(a|an|one|each|every|next|last|first|per|this|that|the|no|another|earlier|later|failed)"
        r"[ _]looks?\b|\blooks_|_looks?\b|\blooks (are|is)\b",
        "observation, observe",
        allowed=r"failed_looks|unthrottled_looks",
    ),
    Word(r"\bpulses?\b|_pulses?\b|\bpulses?_", "run progress", allowed=r"\bpulses\b"),
    Word(
        r"\bbrak(e|es|ed|ing)\b|brake_|_brake",
        "throttle back-off",
        allowed=r"\"brake\"|`brake: ",
    ),
    Word(
        r"\bdebts?\b|_debts?\b|\bdebts?_|\bow(es?|ed|ing)\b|_owed\b",
        "pending restore",
        allowed=r"config_keys_owed|\"owed\"",
    ),
    Word(r"\bbreak[ _-]?glass\b", "emergency stop"),
    Word(r"\bstrangers?\b|_strangers?\b|\bstrangers?_", "foreign change, somebody else"),
    Word(
        r"\blean(s|ing|ed)?\b|_lean(ing)?\b|\blean(ing)?_",
        "leader skew",
        r"leaning_topic_count|topics_that_lean",
    ),
    Word(r"\bsites?\b|_sites?\b|\bsites?_", "installation", allowed=r"site_names?|data_docs_site"),
    Word(r"\b(giver|taker)s?\b|_(giver|taker)s?\b|\b(giver|taker)s?_", "source, destination"),
    Word(r"\bwish(es|ed)?\b|_wish(es)?\b|\bwish_", "rebalance request"),
    Word(r"\bset[ _]aside\b|\bkeep_aside\b|_aside\b", "quarantined"),
)


@cache
def texts() -> dict[str, str]:
    return {path.relative_to(ROOT).as_posix(): path.read_text() for path in files()}


def files() -> Iterator[Path]:
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md")
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in SUFFIXES and not name.startswith(LEFT_AS_WRITTEN):
                yield path


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.instead)
def test_a_private_word_does_not_come_back(word: Word) -> None:
    pattern = re.compile(word.pattern, re.IGNORECASE)
    found = []
    for name, text in texts().items():
        if not pattern.search(text):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if match := pattern.search(re.sub(word.allowed, "", line)):
                found.append(f"{name}:{number}: {match[0]!r}")
    assert not found, f"say {word.instead} instead:\n" + "\n".join(found)

"""Text made safe for a medium, at its edges; whole pages are in `test_hostile_reports.py`."""

import random
import unicodedata
from typing import Final

import pytest
from markdown_it import MarkdownIt

from counterpoise.model.safe_text import (
    for_markdown,
    one_line,
    safe_logger,
    without_secrets,
)
from tests.support.hostile import elements_and_words

# Characters that mean something in Markdown, alone or in a row.
_PIECES: Final = (
    *" \\`*_[]<>|#&~!()-+=.:\"'$^{}@/ab1",
    *("&lt;", "&#60;", "```", "~~~", "---", "1. ", "2) ", "- ", "+ ", "    ", "===", "<b>", "\n\n"),
)
_PLACES: Final = {
    "{}\n": {"p"},
    "- {}\n": {"ul", "li"},
    "**Warning:** {}\n": {"p", "strong"},
    "| a | b |\n| --- | --- |\n| {} | z |\n": {"table", "thead", "tbody", "tr", "th", "td"},
}
# Visible although their category says that they format: signs before Arabic or Syriac numbers.
_VISIBLE: Final = "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2"
_IGNORABLE: Final = "\xad\u034f\u115f\u1160\u17b4\u180b\u180e\u3164\ufe0f\uffa0\U0001d173\U000e0100"


def test_no_character_steers_or_hides() -> None:
    categories = ("Cc", "Cf", "Cs", "Zl", "Zp")
    odd = [
        chr(code) for code in range(0x10FFFF + 1) if unicodedata.category(chr(code)) in categories
    ]
    kept = [letter for letter in odd if letter == one_line(letter) and letter not in _VISIBLE]
    assert all(unicodedata.name(letter).startswith(("KAITHI", "EGYPTIAN")) for letter in kept)
    assert all(one_line(letter) == "\N{REPLACEMENT CHARACTER}" for letter in _IGNORABLE)
    assert one_line("Zürich 北京 🙂 عربي ¡-") == "Zürich 北京 🙂 عربي ¡-"


@pytest.mark.parametrize("place", _PLACES)
def test_markdown_shows_the_text_as_it_is(place: str) -> None:
    chance = random.Random(7)
    renderer = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    for _ in range(3_000):
        text = "".join(chance.choices(_PIECES, k=chance.randint(1, 9)))
        words = " ".join(text.split())
        tags, shown = elements_and_words(renderer.render(place.format(for_markdown(text))))
        assert set(tags) <= _PLACES[place] or not words, (text, tags)
        assert words in shown, (text, shown)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("password=hunter2", "password=***"),
        ("sasl.password=hunter2, see", "sasl.password=***, see"),
        ("the password: p@hunter2 of bob", "the password: *** of bob"),
        ('{"password": "hunter2", "a": 1}', '{"password": ***, "a": 1}'),
        (r"{\"password\": \"hunter2\", 1}", r"{\"password\": ***, 1}"),
        ("password = 'of hunter2'; end", "password = ***; end"),
        (r'password="a \" hunter2" end', "password=*** end"),
        ('password="hunter2 without an end', "password=***"),
        ("PWD=hunter2", "PWD=***"),
        ("api_key=hunter2 secret-key: hunter3", "api_key=*** secret-key: ***"),
        ("ssl.keystore.key=hunter2", "ssl.keystore.key=***"),
        ("Authorization: Bearer hunter2, and", "Authorization: Bearer ***, and"),
        ("token=Bearer hunter2", "token=Bearer ***"),
        ("see https://bob:hunter2@host/x", "see https://bob:***@host/x"),
        ("see https://bob:hun@ter2@host/x", "see https://bob:***@host/x"),
        ("see https://host:9092/x, or mail@host", "see https://host:9092/x, or mail@host"),
        ("the token expired, the key: back", "the token expired, the key: back"),
    ],
)
def test_no_secret_that_somebody_typed_leaves(typed: str, shown: str) -> None:
    assert without_secrets(typed) == shown


def test_a_log_line_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    safe_logger("counterpoise.test").warning("paused by bob: %s", "password=hunter2")
    assert caplog.messages == ["paused by bob: password=***"]

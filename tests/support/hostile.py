"""Text as an attacker would write it, and what each medium has to make of it.

    HOSTILE                        # for a rack, a host, a reason ...
    check_terminal(typed.out)      # nothing that steers a terminal
    check_html(page)               # no element and no attribute that came with the text
    check_markdown(text)           # the same, of Markdown rendered with HTML switched on
    check_pasted(line, words)      # one command with these very words, for a POSIX shell and bash

Each raises AssertionError with the piece that got through. MARK is in the text, so that a test sees
that the text was shown at all.
"""

import json
import logging
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from html.parser import HTMLParser
from typing import Final

MARK: Final = "evilmark"
HOSTILE: Final = (
    f"{MARK}\x1b[31m\x1b]8;;https://{MARK}.example\x07\x9b31m\x08\x7f\r\n"
    "allow.everyone.if.no.acl.found=true\n\u2028\u202egnol\u200b\ufeff"
    "<script>alert(1)</script><meta http-equiv=refresh content=0>"
    "\"'><img src=x onerror=alert(1)></title></style></svg></textarea>-->]]>"
    f"[link=https://{MARK}.example]x[/link][bold red]y[/] :skull: "
    f"[a](https://{MARK}.example) ![b](https://{MARK}.example) <https://{MARK}.example>"
    "\n# head\n\n| a | b |\n|---|---|\n```\n~~~\n&lt;&#60; {{ 7*7 }} {% raw %} %s %(x)s %n ${x}"
    "$(touch owned) `touch owned`; touch owned && touch owned | touch owned # \\"
)
# How lines begin that came with the text: none may look like one of ours.
LINE_STARTS: Final = ("allow.everyone", "# head", "| a | b", "```", "~~~")
NAME: Final = " ".join(  # of a person: what cannot be seen is refused in a name
    "".join(letter for letter in HOSTILE if letter.isprintable()).split()
)
_BASH: Final = shutil.which("bash") or "/bin/bash"
_CONTROL: Final = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_TAGS_OF_TEXT: Final = frozenset({"script", "img", "iframe", "object", "embed", "form", "base"})
_TAGS_OF_MARKDOWN: Final = frozenset(
    {"p", "strong", "em", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "br", "hr"}
    | {"ul", "ol", "li", "a", *(f"h{level}" for level in range(1, 5))}
)


_OURS: Final = re.compile(
    r'<script src="[^"<>]*/static/counterpoise\.js\?[0-9a-f]+" nonce="[\w-]+" defer></script>'
    r'|<noscript><meta http-equiv="refresh" content="\d+; url=/[\w/.-]*"></noscript>'
)


def check_terminal(text: str) -> None:
    """Of a terminal that shows no colours: whatever steers it came with the text."""
    found = _CONTROL.search(text.replace("\t", " "))
    assert found is None, f"{found.group()!r} in {text[max(0, found.start() - 80) :][:160]!r}"


def check_log(records: Iterable[logging.LogRecord]) -> None:
    """Further lines of a message are indented: none can pose as a line of the log."""
    for record in records:
        message = record.getMessage()
        check_terminal(message)
        for line in message.split("\n")[1:]:
            assert line.startswith("  ") or MARK not in message, message


class _Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def elements_and_words(html: str) -> tuple[list[str], str]:
    """Return the elements of a page, and what a person reads on it, blanks as one."""
    found = _Elements(html)
    return [tag for tag, _ in found.elements], " ".join("".join(found.words).split())


def check_html(html: str) -> None:
    html = _OURS.sub("", html, count=2)
    check_terminal(html)
    for tag, attributes in _Elements(html).elements:
        is_ours = tag == "script" and "/static/counterpoise.js?" in (attributes.get("src") or "")
        assert is_ours or tag not in _TAGS_OF_TEXT, f"<{tag}>"
        if tag == "meta":
            equivalent = attributes.get("http-equiv")
            assert equivalent in (None, "Content-Security-Policy"), attributes
        for name, value in attributes.items():
            assert not name.startswith("on"), f"<{tag} {name}>"
            if name in ("href", "src", "xlink:href"):
                assert f"://{MARK}" not in (value or ""), f"<{tag} {name}={value}>"
                assert not (value or "").lower().startswith(("javascript:", "data:text"))
    assert "49" not in re.findall(r"\{\{ (49) \}\}", html)


def check_markdown(text: str) -> None:
    """Links and headings of our own are fine; none may lead where the text says."""
    from markdown_it import MarkdownIt

    check_terminal(text)
    renderer = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table")
    html = renderer.render(text)
    check_html(html)
    tags = {tag for tag, _ in _Elements(html).elements}
    assert tags <= _TAGS_OF_MARKDOWN, tags - _TAGS_OF_MARKDOWN


def check_json(text: str) -> object:
    """The words are all there; only a terminal that shows the document is spared them."""
    check_terminal(text)
    return json.loads(text)


def check_pasted(line: str, words: Sequence[str] = ()) -> None:
    """A line to paste is one line and one command; `words` are among what the command gets."""
    check_terminal(line)
    assert "\n" not in line
    script = f"set -f\ncommand_not_run() {{ printf '%s\\0' \"$@\"; }}\ncommand_not_run {line}\n"
    ran = subprocess.run(
        [_BASH, "--norc", "-c", script], capture_output=True, env={"PATH": "/nowhere"}, timeout=30
    )
    assert ran.returncode == 0, ran.stderr
    assert not ran.stderr, ran.stderr
    received = ran.stdout.decode(errors="surrogateescape").split("\0")[:-1]
    for word in words:
        assert word in received, (word, received)
    if "$'" not in line:
        assert shlex.split(line, comments=True) == received or "$BOOTSTRAP" in line


def check_properties(lines: Sequence[str]) -> None:
    """As java.util.Properties reads them: what lies in a value adds no key."""
    for line in lines:
        check_terminal(line)
        assert "\n" not in line
    keys = [line.partition("=")[0] for line in lines if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", key) for key in keys), keys

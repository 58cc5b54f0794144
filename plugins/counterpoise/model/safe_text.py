r"""Text from outside, made safe for where it is shown: one function per medium.

    one_line("eu\x1b[31m\n1")        # "eu�[31m�1": a terminal, a log line, a comment to paste
    for_markdown("a|b")              # "a\\|b"
    shell_word("a b")                # "'a b'"
    properties_value("a\nb")         # "a\\nb"
    without_secrets("password=x")    # "password=***": what leaves for logs and messages

Names, racks and reasons come from clusters and people, who may put anything into them. HTML is
escaped by Jinja, after `without_control_characters`.
"""

import json
import logging
import re
import shlex
from typing import Any, Final

from counterpoise.errors import InputError
from counterpoise.model.json_values import iso_time

# -- What a person types into one field, before it is kept or searched for
#
#     limited("month end", "reason")         # as it is; InputError for what no person types
#     required(" month end ", "reason")      # "month end"; InputError for an empty text, too
#
# Airflow takes answers over REST as they come, and so may a command: of any length, with characters
# that no database keeps.


MAX_CHARACTERS: Final = 2_000
_LINE_ENDS: Final = re.compile("[\r\n]+")


def is_storable(text: str) -> bool:
    """Return whether every database keeps a text: Postgres takes no NUL, and none takes half a
    character.
    """
    return "\0" not in text and not is_broken_text(text)


def limited(text: str, where: str) -> str:
    """Return what somebody typed. Raises InputError, naming `where`, for what no person types."""
    if len(text) > MAX_CHARACTERS:
        raise InputError(f"{where}: {len(text):,} characters are more than {MAX_CHARACTERS:,}")
    if not is_storable(text):
        raise InputError(f"{where}: there is a character in it that no database keeps")
    return text


def required(text: str, where: str) -> str:
    """Return what somebody typed, on one line and without blanks around it. Raises InputError as
    `limited` does, and for an empty text.
    """
    typed = limited(_LINE_ENDS.sub(" ", text), where).strip()
    if not typed:
        raise InputError(f"{where}: must not be empty; the ledger keeps it for later questions")
    return typed


_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
# What steers a terminal or the direction of a line, what is not seen at all (Unicode's
# Default_Ignorable_Code_Point), and halves of characters, which nothing can print. Line breaks are
# among them.
_INVISIBLE: Final = (
    "\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_CONTROL: Final = re.compile(f"[\x00-\x1f{_INVISIBLE}]")
_CONTROL_BUT_LINES: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_INVISIBLE}]")
_HALF: Final = re.compile("[\ud800-\udfff]")
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]<>|#&~!])")
# A list's or a heading's sign at the beginning of a line: `- a`, `1. a`, `---`, `===`.
_LIST_SIGN: Final = re.compile(r"^(?:\d{1,9}(?=[.)](?:\s|$))|(?=[-+=](?:[-=\s]|$)))")


def one_line(text: str) -> str:
    """Return the text with every control character, line breaks too, replaced by a mark."""
    return _CONTROL.sub(_REPLACEMENT, text)


def without_control_characters(text: str) -> str:
    """Return what `one_line` returns, but with the text's own line breaks and tabs."""
    return _CONTROL_BUT_LINES.sub(_REPLACEMENT, text)


def indented(text: str, indent: str = "  ") -> str:
    """Return a text whose lines after the first cannot look like lines of their own: each begins
    with `indent`, or did so before.
    """
    return re.sub(f"\n(?!{indent})", f"\n{indent}", without_control_characters(text))


def is_broken_text(text: str) -> bool:
    """Return whether the text holds half a character: nothing can write it as UTF-8."""
    return _HALF.search(text) is not None


def for_markdown(text: str) -> str:
    """Return the text with what means something in Markdown or HTML escaped, on one line."""
    escaped = _MARKDOWN.sub(r"\\\1", one_line(" ".join(text.split())))
    return _LIST_SIGN.sub(r"\g<0>\\", escaped)


def shell_word(text: str) -> str:
    r"""Return one word for a shell; one with control characters is quoted as `$'a\nb'` (bash)."""
    if not _CONTROL.search(text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _CONTROL.sub(lambda found: _shell_escape(found.group()), escaped) + "'"


def _shell_escape(character: str) -> str:
    data = character.encode("utf-8", "surrogatepass")
    return "".join(f"\\x{byte:02x}" for byte in data)


def properties_value(text: str) -> str:
    """Return a value for a line of a properties file: control characters are escaped."""
    escaped = text.replace("\\", "\\\\")
    return _CONTROL.sub(lambda found: _utf16_escape(found.group()), escaped)


def for_json(document: Any, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """Return JSON with sorted keys, in which control characters are escaped, the invisible too."""
    text = json.dumps(
        document, indent=indent, sort_keys=True, ensure_ascii=ascii_only, default=iso_time
    )
    return _CONTROL_BUT_LINES.sub(lambda found: _utf16_escape(found.group()), text)


def _utf16_escape(character: str) -> str:
    data = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{data[start : start + 4]}" for start in range(0, len(data), 4))


# Somebody may have typed a password into a reason.
_SECRET: Final = re.compile(
    r"""
    (   (?: password | passwd | passphrase | pwd | secret | token | [_.-]key | apikey )
        \\?["']? \s*[=:]\s* (?:bearer\s+)?     # password= "password": token=Bearer
      | \bbearer\s+
    )
    (?: "(?:[^"\\]|\\.)*"? | '(?:[^'\\]|\\.)*'? | [^\s,;]+ )
    | (://[^\s/:@]*:) [^\s/]+ (?=@)           # //user:password@host
    """,
    re.IGNORECASE | re.VERBOSE,
)


def without_secrets(text: str) -> str:
    """Return the text with `***` for each password, token and key in it."""
    return _SECRET.sub(lambda found: f"{found[1] or found[2]}***", text)


class SafeLogger(logging.LoggerAdapter[logging.Logger]):
    """Logs each message as one line, whatever its arguments hold."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log a message of one line; longer ones of ours are indented after their first line."""
        if self.isEnabledFor(level):
            text = str(msg) % tuple(map(_logged, args)) if args else str(msg)
            kwargs["stacklevel"] = kwargs.get("stacklevel", 1) + 1
            safe_text = without_secrets(without_control_characters(text))
            super().log(level, "%s", safe_text, **kwargs)


def _logged(argument: object) -> object:
    """Return an argument whose line breaks cannot look like further lines of the log."""
    if isinstance(argument, int | float):
        return argument
    return indented(str(argument), "    ")


def safe_logger(name: str) -> SafeLogger:
    return SafeLogger(logging.getLogger(name))

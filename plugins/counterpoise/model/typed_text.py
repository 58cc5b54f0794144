"""What a person types into one field, before it is kept or searched for.

    limited("month end", "reason")         # as it is; InputError for what no person types
    required(" month end ", "reason")      # "month end"; InputError for an empty text, too

Airflow takes answers over REST as they come, and so may a command: of any length, with characters
that no database keeps.
"""

from typing import Final

from counterpoise.errors import InputError
from counterpoise.model.safe_text import is_broken_text

MAX_CHARACTERS: Final = 2_000


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
    """Return what somebody typed, without blanks around it. Raises InputError as `limited` does,
    and for an empty text.
    """
    typed = limited(text, where).strip()
    if not typed:
        raise InputError(f"{where}: must not be empty; the ledger keeps it for later questions")
    return typed

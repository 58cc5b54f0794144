"""Text from outside, fit for a terminal.

    printable("a\\x1b[31mb")     # an empty box where the escape was

Limits: markup is not its concern; print with `markup=False`, or as rich's Text.
"""


def printable(text: str) -> str:
    """`text` without any character that would steer a terminal, line breaks included."""
    return "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )

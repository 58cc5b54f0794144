"""One broken input: the files it lies in, the words that are typed, and what the message has to
say.

    Broken("empty", ("plan", "--state", "x.json", ...), ("x.json", "not JSON"), {"x.json": ""})

`says` names what is wrong and where; `code` is the exit code. A secret in a file is always SECRET,
so that a test can look for it in what is printed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

SECRET: Final = "s3cr3t-never-shown"
HOSTILE: Final = "\x1b[31mred\x1b[0m\x07[bold]x[/bold]<b>../../etc\r\n"


@dataclass(frozen=True)
class Broken:
    id: str
    words: tuple[str, ...]
    says: tuple[str, ...]
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    code: int = 2
    environment: Mapping[str, str] = field(default_factory=dict)

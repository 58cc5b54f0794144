"""Lists the files below a folder of this machine, and nothing that only looks like one.

    for entry in files_below("var/store/reports"):
        entry.path, entry.stat(follow_symlinks=False).st_size

Symbolic links are left out: they may lead anywhere, and in a circle. So are pipes and devices, and
names that are no text in UTF-8, which no other part of Counterpoise could write or show.
"""

import os
from collections.abc import Iterator

from counterpoise.model.safe_text import is_broken_text


def files_below(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a folder; none where it does not exist. Raises OSError.

    A folder that is deleted meanwhile has no files.
    """
    folders = [folder]
    while folders:
        for entry in entries_in(folders.pop()):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                yield entry


def entries_in(folder: str) -> list[os.DirEntry[str]]:
    """Return what lies in a folder under names that are text; none where it does not exist."""
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not is_broken_text(entry.name)]
    except FileNotFoundError:
        return []

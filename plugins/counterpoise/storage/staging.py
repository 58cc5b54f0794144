"""Where a Spark job reads and writes: the store itself, or a directory of this machine that stands
in for it.

    with working_root(store, master, inputs) as root:      # what to give the job as --store
        run_job(script, ["--store", root, ...])
    # what the job wrote is in the store now

A Spark on this machine (`local[...]`) has no way into an object store without Hadoop's connector:
the files that it is to read are copied to a temporary directory, and what it wrote there is copied
back. Any other Spark gets the URI.

Limits: the directory needs room for the inputs. Folders that the job wrote to have nothing but its
files afterwards.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from counterpoise.storage.store import Store

_HADOOP: Final = {"s3": "s3a"}  # what Hadoop calls it


@contextmanager
def working_root(store: Store, master: str, inputs: Iterable[str]) -> Iterator[str]:
    """`inputs` are paths in the store.

    Nothing is copied back when the block is left by an exception.
    """
    if store.is_local or not master.startswith("local"):
        scheme, _, rest = store.root_uri.partition("://")
        yield f"{_HADOOP.get(scheme, scheme)}://{rest}"
        return
    with tempfile.TemporaryDirectory(prefix="counterpoise-store-") as folder:
        root = Path(folder)
        copied = frozenset(inputs)
        for path in sorted(copied):
            store.download(path, root / path)
        yield root.as_uri()
        _copy_back(store, root, copied)


def _copy_back(store: Store, root: Path, copied: frozenset[str]) -> None:
    written = {
        file.relative_to(root).as_posix(): file
        for file in sorted(root.rglob("*"))
        if _is_written(file)
    }
    made = {path: file for path, file in written.items() if path not in copied}
    for path, file in made.items():
        store.upload(file, path)
    for folder in sorted({path.rpartition("/")[0] for path in made}):
        for path in store.list(folder):
            if path not in made and path.rpartition("/")[0] == folder:
                store.delete(path)  # of an earlier try


def _is_written(file: Path) -> bool:
    """Not the check sums and marks that Hadoop leaves."""
    return file.is_file() and not file.name.startswith((".", "_"))

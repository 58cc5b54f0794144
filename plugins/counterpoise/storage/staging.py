"""Provides the directory that a Spark job reads and writes: the store, or a local copy of it.

    with working_root(store, master, inputs) as root:      # the job's --store
        run_job(script, ["--store", root, ...])
    # what the job wrote is in the store now

A local Spark (`local[...]`) cannot read an object store without Hadoop's connector. So its inputs
are copied to a temporary directory, and what it wrote there is copied back. Any other Spark gets
the URI of the store.

Limits: the directory needs room for the inputs. What an earlier attempt wrote stays: each attempt
has folders of its own.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from counterpoise.storage.store import Store

_HADOOP_SCHEMES: Final = {"s3": "s3a"}


@contextmanager
def working_root(store: Store, master: str, inputs: Iterable[str]) -> Iterator[str]:
    """Yield the URI to read from and write to; `inputs` are paths in the store.

    Nothing is copied back after an exception.
    """
    if store.is_local or not master.startswith("local"):
        scheme, _, rest = store.root_uri.partition("://")
        yield f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{rest}"
        return
    with tempfile.TemporaryDirectory(prefix="counterpoise-store-") as folder:
        root = Path(folder)
        copied = frozenset(inputs)
        for path in sorted(copied):
            store.download(path, root / path)
        yield root.as_uri()
        _copy_back(store, root, copied)


def _copy_back(store: Store, root: Path, copied: frozenset[str]) -> None:
    """Upload the new files."""
    outputs = {
        file.relative_to(root).as_posix(): file
        for file in sorted(root.rglob("*"))
        if _is_data_file(file)
    }
    outputs = {path: file for path, file in outputs.items() if path not in copied}
    for path, file in outputs.items():
        store.upload(file, path)


def _is_data_file(file: Path) -> bool:
    """Return whether a file is none of Hadoop's checksums and markers."""
    return file.is_file() and not file.name.startswith((".", "_"))

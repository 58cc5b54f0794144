"""Values read from files of the store, kept for as long as the file stays the same.

    audits = FileCache(parse, max_entries=1_000)
    audits.of(store, "reports/demo/audit.json")      # None: there is no such file
    audits.of_each(store, paths)                     # the error in place of what cannot be read

A file is the same while its size and time of change are; a store that tells no times is read each
time. Limits: one process, and values that nobody changes.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Final, Generic, TypeVar

from counterpoise.errors import CounterpoiseError
from counterpoise.model.files import StoredFile
from counterpoise.storage import Store

Value = TypeVar("Value")
_READERS: Final = 16  # of a store behind a network at once


class FileCache(Generic[Value]):
    """`parse` gets the text and, for messages, the URI of a file as `where`."""

    def __init__(self, parse: Callable[..., Value], *, max_entries: int) -> None:
        self._parse = parse
        self._max_entries = max_entries
        self._values: OrderedDict[tuple[str, StoredFile], Value] = OrderedDict()
        self._lock = Lock()

    def of(self, store: Store, path: str) -> Value | None:
        """Return the value of a file; None where there is none.

        Raises StoreError, and what `parse` raises.
        """
        file = store.info(path)
        return None if file is None else self.of_file(store, file)

    def of_file(self, store: Store, file: StoredFile) -> Value:
        """Return the value of a file that a listing has told."""
        key = (store.uri(file.path), file)
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = self._parse(store.read_text(file.path), where=store.uri(file.path))
        if file.modified_at is not None:
            self._keep(key, value)
        return value

    def of_each(self, store: Store, paths: Sequence[str]) -> list[Value | CounterpoiseError | None]:
        """Return the value of each file, several at once where the store is behind a network.

        One that cannot be read hides no other: it has the error in its place.
        """

        def value_or_error(path: str) -> Value | CounterpoiseError | None:
            try:
                return self.of(store, path)
            except CounterpoiseError as error:
                return error

        if store.is_local:
            return list(map(value_or_error, paths))
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(value_or_error, paths))

    def _keep(self, key: tuple[str, StoredFile], value: Value) -> None:
        with self._lock:
            self._values[key] = value
            while len(self._values) > self._max_entries:
                self._values.popitem(last=False)

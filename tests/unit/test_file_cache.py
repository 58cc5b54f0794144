"""Values kept of files of the store: read again when the file changed, and only then."""

from pathlib import Path

from counterpoise.storage import Store
from counterpoise.storage.file_cache import FileCache


def counted() -> tuple[FileCache[str], list[str]]:
    read: list[str] = []

    def parse(text: str, *, where: str) -> str:
        read.append(text)
        return text.upper()

    return FileCache(parse, max_entries=2), read


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    cache, read = counted()
    store = Store(str(tmp_path))
    store.write_text("a.json", "one")
    assert [cache.of(store, "a.json") for _ in range(3)] == ["ONE"] * 3
    store.write_text("a.json", "three")
    assert cache.of(store, "a.json") == "THREE"
    assert read == ["one", "three"]


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    cache, _ = counted()
    store = Store(str(tmp_path))
    store.write_text("b.json", "x")
    assert cache.of_each(store, ["a.json", "b.json"]) == [None, "X"]


def test_the_same_path_of_another_store_is_another_file(tmp_path: Path) -> None:
    cache, _ = counted()
    for name in ("one", "two"):
        Store(str(tmp_path / name)).write_text("a.json", name)
    assert [cache.of(Store(str(tmp_path / name)), "a.json") for name in ("one", "two")] == [
        "ONE",
        "TWO",
    ]


def test_the_oldest_value_goes_first(tmp_path: Path) -> None:
    cache, read = counted()
    store = Store(str(tmp_path))
    for name in "abc":
        store.write_text(name, name)
        cache.of(store, name)
    cache.of(store, "c")
    cache.of(store, "a")
    assert read == ["a", "b", "c", "a"]

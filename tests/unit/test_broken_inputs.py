"""Broken inputs of every kind: one clear message each, never a traceback, nothing written, no
secret shown.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from counterpoise.archive import Archive
from counterpoise.audit.auditing import compare, find
from counterpoise.errors import CounterpoiseError, InputError
from counterpoise.model.document import from_document_text
from counterpoise.model.finding import from_json, to_json
from counterpoise.storage import Store
from tests.support.audits import facts, healthy
from tests.support.broken import arguments, documents, plans, settings
from tests.support.broken.case import SECRET, Broken
from tests.support.broken.histories import AUDITS, SNAPSHOT_ID, STORES, BrokenStore
from tests.support.command_line import CommandLine

CASES = (*documents.CASES, *plans.CASES, *settings.CASES, *arguments.CASES)
_LONGEST_MESSAGE = 6_000


def _names(case: Broken) -> str:
    return case.id


def _there(folder: Path) -> dict[str, bytes]:
    """Every file with what is in it. A ledger that was only looked into is no trace."""
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith("ledger.db")
    )
    return {str(path): path.read_bytes() for path in files}


def _is_plain(text: str) -> bool:
    return all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize("case", CASES, ids=_names)
def test_a_broken_input_gets_one_clear_message(
    case: Broken,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = CommandLine.in_folder(tmp_path, capsys)
    shell.environment.update(case.environment)
    monkeypatch.chdir(tmp_path)
    for name, content in case.files.items():
        (tmp_path / name).write_bytes(
            content.encode(errors="surrogatepass") if isinstance(content, str) else content
        )
    before = _there(tmp_path)
    typed = shell.type(*case.words)
    assert typed.code == case.code, typed.err or typed.out
    for said in case.says:
        assert said in typed.err
    told = typed.err.splitlines()
    assert sum(line.startswith(("counterpoise", "usage:")) for line in told) in (1, 2), (
        "one message"
    )
    assert "Traceback" not in typed.err
    assert SECRET not in typed.out + typed.err
    assert _is_plain(typed.err) and _is_plain(typed.out)
    assert len(typed.err) < _LONGEST_MESSAGE
    assert _there(tmp_path) == before, "nothing was written"


def test_the_corpus_is_large_and_each_case_has_a_name_of_its_own() -> None:
    assert len(CASES) >= 150
    assert len({case.id for case in CASES}) == len(CASES)


# -- the history, and audits in the store


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """With one snapshot, and one audit."""
    snapshot = replace(
        from_document_text(documents.TEXT),
        snapshot_id=SNAPSHOT_ID,
        observed_at=datetime(2026, 11, 21, 15, tzinfo=UTC),
    )
    archive = Archive(Store(str(tmp_path)))
    archive.write_snapshot(snapshot)
    return archive


def _read_all(archive: Archive) -> None:
    """As the jobs do: by its manifest, every byte of it looked at, then whole."""
    archive.read_snapshot("demo", SNAPSHOT_ID)
    (row,) = archive.manifests(["demo"]).to_pylist()
    archive.check_snapshot(row, whole=True)


def test_the_history_is_sound_before_it_is_broken(archive: Archive) -> None:
    _read_all(archive)


@pytest.mark.parametrize("case", STORES, ids=lambda case: case.id)
def test_a_broken_history_is_told_with_its_file(
    case: BrokenStore, archive: Archive, tmp_path: Path
) -> None:
    case.breaks(tmp_path)
    before = _there(tmp_path)
    with pytest.raises(CounterpoiseError) as caught:
        _read_all(archive)
    assert case.says in str(caught.value)
    assert _there(tmp_path) == before


@pytest.mark.parametrize("text", AUDITS.values(), ids=AUDITS)
def test_what_is_no_audit_is_told_and_passed_over(text: str, archive: Archive) -> None:
    with pytest.raises(InputError, match=r"^here\.json is no audit"):
        from_json(text, where="here.json")
    archive.store.write_text(f"audits/demo/{SNAPSHOT_ID}.json", text)
    assert archive.audit_before("demo", datetime(2027, 1, 1, tzinfo=UTC)) is None


def _audit() -> str:
    given = facts(healthy("orders-0: 1\npayments-0: 1 2 3"))
    return to_json(compare(None, find(given), given))


@pytest.mark.parametrize("key", [*json.loads(_audit())["findings"][0], *json.loads(_audit())])
@pytest.mark.parametrize("value", [5, [[]], "soon", {"a": None}])
def test_an_audit_with_a_wrong_value_is_no_traceback(key: str, value: object) -> None:
    document = json.loads(_audit())
    target = document["findings"][0] if key in document["findings"][0] else document
    target[key] = value
    try:
        read = from_json(json.dumps(document), where="here.json")
    except InputError as error:
        assert str(error).startswith("here.json is no audit")
    else:
        assert from_json(to_json(read), where="again").cluster == read.cluster

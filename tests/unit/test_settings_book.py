"""docs/settings.md is what the types of the settings say."""

from pathlib import Path

import pytest

from dev.settings_book import main, settings_book

BOOK = Path(__file__).parents[2] / "docs" / "settings.md"


def test_the_document_is_what_the_settings_say() -> None:
    assert BOOK.read_text() == settings_book(), "run `make docs-settings`"


def test_each_key_has_a_row_with_how_it_is_written_its_default_and_when_to_change_it() -> None:
    rows = [line for line in settings_book().splitlines() if line.startswith("| `")]
    assert any(
        row.startswith("| `movement.rate` | rate, like 20MB/s | 20.0 MB/s | What each broker may")
        for row in rows
    )
    assert any("`approval.automatic[].goal` | goal, like leaders | required" in row for row in rows)
    assert any("| `groups` |" in row for row in rows)
    assert all(len(row.split(" | ")) == 4 for row in rows)
    keys = [row.split(" | ")[0] for row in rows]
    assert len(keys) == len(set(keys))


def test_it_is_written_where_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "settings.md")]) == 0
    assert (tmp_path / "settings.md").read_text() == settings_book()
    assert main([]) == 2
    assert "name the file to write" in capsys.readouterr().err

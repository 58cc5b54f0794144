"""What docs/architecture.md names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "plugins" / "counterpoise"
MAP = ROOT / "docs" / "architecture.md"
# Folders of the store and names of Dags and tasks, which are no files of the project.
STORE = ("history/<", "history/snapshots", "results/", "views/", "aside/", "plans/", "audits/")


def named_paths() -> list[str]:
    words = re.findall(r"`([\w./<>-]+)`", MAP.read_text())
    paths = [word for word in words if "/" in word or word.endswith(".py")]
    return [path for path in paths if not path.startswith(STORE) and path != "reports/"]


def test_every_path_of_the_map_exists() -> None:
    missing = []
    for path in named_paths():
        folders = [ROOT, PACKAGE, *(PACKAGE / room for room in ("planning", "execution"))]
        if not any((folder / path).exists() for folder in folders):
            missing.append(path)
    assert len(named_paths()) > 40
    assert missing == []

"""What the demo prints for the command line leads to its own settings, store and cluster."""

import subprocess
from pathlib import Path

import pytest

from counterpoise.installation import open_installation
from demo.place import CLUSTER, ROOT, Place


def test_the_printed_command_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place.new(tmp_path / "a folder")
    variables = place.configure("127.0.0.1:1,127.0.0.1:2")
    assert place.command_line.endswith(f" {ROOT / '.venv/bin/counterpoise'}")
    script = f"{place.command_line.rpartition(' ')[0]} env"
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    typed = dict(line.split("=", 1) for line in shown.stdout.splitlines() if "=" in line)
    assert typed["COUNTERPOISE_HOME"] == variables["COUNTERPOISE_HOME"]
    own = {"COUNTERPOISE_HOME": typed["COUNTERPOISE_HOME"]}
    with open_installation(environment=own) as installation:
        listed = installation.connectivity_settings(CLUSTER).bootstrap_servers
        assert list(listed) == ["127.0.0.1:1", "127.0.0.1:2"]
        assert Path(installation.locations.store) == place.store

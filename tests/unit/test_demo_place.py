"""What the demo prints for the command line leads to its own settings, store and ledger."""

import subprocess
from pathlib import Path

from demo.place import ROOT, Place


def test_the_printed_lines_can_be_pasted(tmp_path: Path) -> None:
    place = Place.new(tmp_path / "a folder")
    place.configure("127.0.0.1:1")
    *exports, command = place.command_line_help
    assert command == f"{ROOT / '.venv/bin/counterpoise'} status"
    script = "\n".join([*exports, f"env | grep ^{'COUNTERPOISE_'}"])
    shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    variables = dict(line.split("=", 1) for line in shown.stdout.splitlines())
    assert place.command_line_variables.items() <= variables.items()
    assert len(place.command_line_variables) == 3

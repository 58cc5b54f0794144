"""Where settings, store and ledger are found, whatever the current directory is, and that no second
ledger is made by chance.
"""

from pathlib import Path

import pytest

from counterpoise import shipped_files
from counterpoise.errors import InputError
from counterpoise.settings import Locations, check_worker_variables
from tests.support.command_line import CommandLine

NAMED = {
    "COUNTERPOISE_CONFIG": "/x/clusters.yaml",
    "COUNTERPOISE_STORE": "/x/store",
    "COUNTERPOISE_LEDGER": "sqlite:////x/ledger.db",
}


@pytest.fixture
def shell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> CommandLine:
    """With COUNTERPOISE_HOME alone."""
    for name in NAMED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys, {"COUNTERPOISE_HOME": str(tmp_path / "home")})


def defaults(environment: dict[str, str]) -> tuple[str, str, str]:
    found = Locations.from_environment(environment)
    return str(found.config), found.store, found.ledger


def test_defaults_are_in_the_project_wherever_a_command_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Path(__file__).parents[2]
    expected = (
        str(project / "config" / "clusters.yaml"),
        str(project / "var" / "store"),
        f"sqlite:///{project / 'var' / 'ledger.db'}",
    )
    assert defaults({}) == expected
    monkeypatch.chdir(tmp_path)
    assert defaults({}) == expected


@pytest.mark.parametrize(
    ("environment", "config", "data"),
    [
        ({"COUNTERPOISE_HOME": "/srv/c"}, "/srv/c/config", "/srv/c/var"),
        (
            {"HOME": "/people/a"},
            "/people/a/.config/counterpoise",
            "/people/a/.local/share/counterpoise",
        ),
        (
            {"HOME": "/people/a", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d"},
            "/c/counterpoise",
            "/d/counterpoise",
        ),
        ({}, "/etc/counterpoise", "/var/lib/counterpoise"),
    ],
)
def test_an_installed_package_uses_the_folders_of_the_user(
    environment: dict[str, str], config: str, data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = Path("/usr/lib/python3/dist-packages/counterpoise")
    monkeypatch.setattr(shipped_files, "_PACKAGE", installed)
    assert defaults(environment) == (
        f"{config}/clusters.yaml",
        f"{data}/store",
        f"sqlite:///{data}/ledger.db",
    )


@pytest.mark.parametrize(
    "url",
    [
        *("sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite+pysqlite:///:memory:"),
        *("sqlite:///file::memory:?uri=true", "sqlite:///file:x?mode=memory&uri=true"),
    ],
)
def test_a_ledger_that_forgets_is_refused(url: str, shell: CommandLine) -> None:
    """A freeze that holds until the command ends would be worse than none."""
    shell.configure("127.0.0.1:1")
    config = {"COUNTERPOISE_CONFIG": str(shell.folder / "clusters.yaml")}
    shell.environment |= config | {"COUNTERPOISE_LEDGER": url}
    typed = shell.type("freeze", "demo", "--until", "8h", "--why", "release")
    assert typed.code == 2 and "COUNTERPOISE_LEDGER: this ledger is in memory" in typed.err


@pytest.mark.parametrize(
    "words",
    [
        ("status",),
        ("status", "--follow"),
        ("pause", "r1", "--why", "x"),
        ("settle", "r1"),
        ("undo", "r1", "--why", "x", "--out", "x.json"),
        ("unfreeze", "demo", "--why", "x"),
        ("watch", "--cluster", "demo"),
        ("ledger", "prune", "--cluster", "demo", "--before", "2026-01-01T00:00"),
    ],
    ids=" ".join,
)
def test_no_ledger_is_made_by_a_command_about_what_is_in_it(
    words: tuple[str, ...], shell: CommandLine, tmp_path: Path
) -> None:
    config = tmp_path / "home" / "config"
    config.mkdir(parents=True)
    (config / "clusters.yaml").write_text("clusters: {demo: {connection: kafka}}\n")
    typed = shell.type(*words)
    assert typed.code == 3, typed.err
    assert str(tmp_path / "home" / "var" / "ledger.db") in typed.err
    assert not (tmp_path / "home" / "var").exists()


def test_a_new_ledger_at_the_default_place_is_told(
    shell: CommandLine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert shell.type("ledger", "migrate").code == 0
    made = tmp_path / "home" / "var" / "ledger.db"
    assert f"a new ledger was made: {made}" in caplog.text and made.is_file()
    caplog.clear()
    assert shell.type("status").code == 0
    assert not caplog.text


@pytest.mark.parametrize("missing", NAMED)
def test_a_worker_without_its_variables_says_so(missing: str) -> None:
    check_worker_variables(NAMED)
    check_worker_variables({"COUNTERPOISE_HOME": "/srv/c"})
    others = {name: value for name, value in NAMED.items() if name != missing}
    check_worker_variables({**others, f"{missing}_FILE": "/run/secrets/x"})
    with pytest.raises(InputError, match=f"^{missing}: not set in this worker"):
        check_worker_variables(others)


@pytest.mark.parametrize("kind", ["file", "device"])
def test_a_store_that_is_no_folder_is_refused(
    kind: str, shell: CommandLine, tmp_path: Path
) -> None:
    shell.configure("127.0.0.1:1")
    (tmp_path / "file").touch()
    shell.environment |= {
        "COUNTERPOISE_CONFIG": str(tmp_path / "clusters.yaml"),
        "COUNTERPOISE_STORE": "/dev/null" if kind == "device" else str(tmp_path / "file"),
    }
    typed = shell.type("report", "--cluster", "demo")
    assert typed.code == 2 and "it is a file or a device, and no folder" in typed.err

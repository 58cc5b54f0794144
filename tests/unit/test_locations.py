"""Where store and ledger are, from a variable, a command or a file; and that nothing shows it."""

import sys
from datetime import timedelta
from pathlib import Path

import pytest

from counterpoise.errors import CounterpoiseError, InputError, LedgerError
from counterpoise.installation import now_utc, open_installation
from counterpoise.ledger import Ledger, database
from counterpoise.settings import Locations

URL = "postgresql+psycopg://me:hunter2@127.0.0.1:1/x?password=hunter3&sslmode=require"
SECRETS = ("hunter2", "hunter3")


def python(code: str) -> str:
    return f'{sys.executable} -c "{code}"'


def test_a_command_or_a_file_may_tell_it(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("s3://bucket/store\n\n")
    locations = Locations.from_environment(
        {
            "COUNTERPOISE_LEDGER_CMD": python(f"print(' {URL} ')"),
            "COUNTERPOISE_STORE_FILE": str(tmp_path / "store"),
        }
    )
    assert locations.ledger == URL
    assert locations.store == "s3://bucket/store"


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        (
            "LEDGER_CMD",
            python("import sys; print('hunter2'); sys.exit(7)"),
            "ended with exit code 7",
        ),
        ("LEDGER_CMD", python("import sys; print('hunter2', file=sys.stderr); 1/0"), "exit code 1"),
        ("LEDGER_CMD", python("print()"), "told nothing"),
        ("LEDGER_CMD", python("import sys; sys.stdout.buffer.write(b'\\xff')"), "cannot be used"),
        ("LEDGER_CMD", "no-such-command hunter2", "No such file"),
        ("LEDGER_CMD", "quoted 'hunter2", "cannot be read as words"),
        ("STORE_FILE", "/no/such/file", "/no/such/file: cannot be read"),
        ("STORE_FILE", "/dev/null", "told nothing"),
    ],
)
def test_what_cannot_be_told_is_one_clear_message(variable: str, value: str, says: str) -> None:
    locations = Locations.from_environment({f"COUNTERPOISE_{variable}": value})
    with pytest.raises(InputError, match=f"COUNTERPOISE_{variable}: ") as caught:
        _ = locations.store if "STORE" in variable else locations.ledger
    assert says in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_two_variables_for_one_place_are_refused() -> None:
    with pytest.raises(InputError, match="COUNTERPOISE_LEDGER and COUNTERPOISE_LEDGER_CMD are set"):
        Locations.from_environment(
            {"COUNTERPOISE_LEDGER": "sqlite:///x", "COUNTERPOISE_LEDGER_CMD": "echo hunter2"}
        )


def test_nothing_is_asked_before_it_is_needed() -> None:
    """So that an emergency stop works while the vault does not."""
    environment = {"COUNTERPOISE_LEDGER_CMD": "no-such-command", "COUNTERPOISE_STORE": "var/store"}
    with open_installation(environment=environment) as installation:
        assert installation.locations.store == "var/store"
        with pytest.raises(InputError, match="COUNTERPOISE_LEDGER_CMD"):
            _ = installation.ledger


def test_a_ledger_goes_by_the_clock_of_its_database(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = database.database_time
    monkeypatch.setattr(database, "database_time", lambda by: told(by) + 3600)
    with open_installation(environment={"COUNTERPOISE_LEDGER": ledger_url}) as installation:
        ahead = installation.ledger.now() - now_utc()
    assert timedelta(minutes=55) < ahead < timedelta(minutes=65)


@pytest.mark.parametrize(
    "url",
    [
        URL,
        "postgresql+psycopg://127.0.0.1:1/x?user=me&password=hunter2&passfile=hunter3",
        "postgresql+psycopg://127.0.0.1:1/x?no_such_option=hunter3",
        "postgresql+psycopg://127.0.0.1:hunter2/x",
        "postgresql+psycopg://127.0.0.1/x?port=1&options=-c%20hunter2",
        "sqlite:////no/such/hunter4/ledger.db?password=hunter2&key=hunter3",
        "nothing://me:hunter2@host/x?password=hunter3",
        "hunter2",
        "sqlite:///file:/no/such/file?uri=true&key=hunter2",
    ],
)
def test_no_message_shows_user_password_or_parameters(url: str) -> None:
    if "no/such" in url:
        url = url.replace("/no/such", "/dev/null")
    with pytest.raises(CounterpoiseError) as caught:
        Ledger.open(url, now_utc)
    for shown in (str(caught.value), repr(caught.value), str(caught.value.__cause__)):
        assert not any(secret in shown for secret in SECRETS), shown
        assert "//me" not in shown


def test_what_the_driver_says_is_stripped_of_the_login(postgres_with_password: str) -> None:
    wrong = postgres_with_password.replace("right-password", "wrong-password")
    with pytest.raises(LedgerError, match="password authentication failed") as caught:
        Ledger.open(wrong, now_utc)
    assert "somebody-secret" not in str(caught.value)
    assert "wrong-password" not in str(caught.value)


def test_files_of_a_ledger_are_for_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "var" / "deeper"
    ledger = Ledger.open(f"sqlite:///{folder}/ledger.db", now_utc)
    ledger.pin_cluster("demo", "id")
    modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert modes == dict.fromkeys(
        ("ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db-made"), 0o600
    )
    assert {path.stat().st_mode & 0o777 for path in (folder, folder.parent)} == {0o700}
    ledger.close()


def test_reading_makes_no_file_no_folder_and_no_tables(tmp_path: Path) -> None:
    for there in (False, True):
        path = tmp_path / "var" / "ledger.db"
        if there:
            path.parent.mkdir()
            path.touch()
        with pytest.raises(LedgerError, match="was not made yet; `counterpoise ledger migrate`"):
            Ledger.open(f"sqlite:///{path}", now_utc, migrate=False)
        assert path.exists() == there
        assert not there or path.stat().st_size == 0
    assert [found.name for found in path.parent.iterdir()] == ["ledger.db"]

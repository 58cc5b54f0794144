"""Where files, store and ledger are: environment variables say so, in containers too.

    Locations.from_environment().ledger        # "sqlite:////opt/counterpoise/var/ledger.db"

What no variable names is in COUNTERPOISE_HOME, else in the project whose code this is, else in the
user's own folders, whatever the current directory is: a ledger that depends on it would be made a
second time, and empty.

Store and ledger may be secrets. So a command or a file may tell them instead, as in Airflow:
COUNTERPOISE_LEDGER_CMD="vault read ...", COUNTERPOISE_LEDGER_FILE=/run/secrets/ledger. Both are
asked when the store or the ledger is used for the first time, not before.
"""

import atexit
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoise.errors import InputError
from counterpoise.input_files import ONE_LINE, read_input_text
from counterpoise.model.safe_text import is_broken_text
from counterpoise.model.spark_settings import reason_against
from counterpoise.shipped_files import project_folder, shipped_folder

_HOME: Final = "COUNTERPOISE_HOME"
_CONFIG: Final = "COUNTERPOISE_CONFIG"
_STORE: Final = "COUNTERPOISE_STORE"
_LEDGER: Final = "COUNTERPOISE_LEDGER"
_SQLITE: Final = "sqlite:///"
_IN_MEMORY: Final = re.compile(
    r"sqlite(\+\w+)?:(//)?/?((file:)?(:memory:)?(\?.*)?|.*[?&]mode=memory(&.*)?)"
)
_SPARK_CONF: Final = "COUNTERPOISE_SPARK_CONF"
_SPARK_ENVIRONMENT: Final = "COUNTERPOISE_SPARK_ENV"
_COMMAND, _FILE = "_CMD", "_FILE"  # what the name of a variable ends in
_COMMAND_SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Address:
    """A place that may be secret: written down, or told by a command or a file."""

    variable: str
    text: str = field(repr=False)
    is_default: bool = False  # no variable names it

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], variable: str, default: str
    ) -> "Address":
        """Raises InputError where more than one variable says it."""
        names = (variable, variable + _COMMAND, variable + _FILE)
        given = [name for name in names if environment.get(name)]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} are set: keep one of them, and unset the rest")
        if not given:
            return cls(variable, default, is_default=True)
        return cls(given[0], environment[given[0]])

    def read(self) -> str:
        """Return the place. Raises InputError; no message holds what the command wrote."""
        if self.variable.endswith(_COMMAND):
            told = self._told_by_command()
        elif self.variable.endswith(_FILE):
            told = self._told_by_file()
        else:
            return self.text
        if not told.strip():
            raise InputError(f"{self.variable}: what it names told nothing, where a URL was wanted")
        return told.strip()

    def _told_by_command(self) -> str:
        try:
            exit_code, output = _output_of(shlex.split(self.text))
            told = output.decode()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it cannot be read as words, or as text"
            raise InputError(f"{self.variable}: the command cannot be used ({reason})") from None
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{self.variable}: the command did not end within {_COMMAND_SECONDS} s"
            ) from None
        if exit_code:
            raise InputError(
                f"{self.variable}: the command ended with exit code {exit_code}; run it by "
                "hand to see why (its output may hold a secret, so it is not shown here)"
            )
        return told

    def _told_by_file(self) -> str:
        if "://" in self.text:
            raise InputError(
                f"{self.variable} wants the path of a file, and has a URL: that belongs in "
                f"{self.variable.removesuffix(_FILE)}"
            )
        return read_input_text(Path(self.text), f"{self.variable}:", ONE_LINE)


@dataclass(frozen=True, slots=True)
class DefaultPlaces:
    """Where things are that no variable names; `reason` says why there."""

    config: Path  # a folder
    data: Path  # a folder
    reason: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "DefaultPlaces":
        if home := environment.get(_HOME):
            folder = Path(home).absolute()
            return cls(folder / "config", folder / "var", f"{_HOME} is set")
        if project := project_folder():
            return cls(project / "config", project / "var", "the project of this code")
        if home := environment.get("HOME"):
            config = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
            data = environment.get("XDG_DATA_HOME") or f"{home}/.local/share"
            reason = "the user's folders"
        else:
            config, data, reason = "/etc", "/var/lib", "HOME is not set"
        return cls(Path(config) / "counterpoise", Path(data) / "counterpoise", reason)

    @property
    def clusters(self) -> Path:
        return self.config / "clusters.yaml"

    @property
    def store(self) -> Path:
        return self.data / "store"

    @property
    def ledger(self) -> Path:
        return self.data / "ledger.db"


def example_clusters() -> str:
    """Return a clusters.yaml with comments, of one cluster."""
    return Path(__file__).with_name("clusters.example.yaml").read_text()


@dataclass(frozen=True, slots=True)
class Locations:
    default: DefaultPlaces
    config: Path  # the file with the clusters
    is_default_config: bool
    connections: Path
    store_address: Address
    ledger_address: Address
    spark_master: str
    spark_jobs: Path
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold keys
    spark_environment: tuple[str, ...] = ()  # names of variables that the jobs get besides

    @property
    def new_default_ledger(self) -> Path | None:
        """Return where a ledger would be made that no variable names; None where there is one."""
        path = self.default.ledger
        return path if self.ledger_address.is_default and not path.exists() else None

    @property
    def store(self) -> str:
        """Return the store's directory or URI. Raises InputError where nothing tells it."""
        return self.store_address.read()

    @property
    def ledger(self) -> str:
        """Return the ledger's URL, secret. Raises InputError where nothing tells one that stays."""
        url = self.ledger_address.read()
        if _IN_MEMORY.fullmatch(url):
            raise InputError(
                f"{self.ledger_address.variable}: this ledger is in memory, and what is written "
                "into it is gone when the command ends; write it like sqlite:///var/ledger.db"
            )
        return url

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Locations":
        """Raises InputError for variables that cannot be used."""
        _check_text(environment)
        default = DefaultPlaces.from_environment(environment)
        given_config = environment.get(_CONFIG)
        config = Path(given_config) if given_config else default.clusters
        connections = environment.get("COUNTERPOISE_CONNECTIONS")
        store = Address.from_environment(environment, _STORE, str(default.store))
        ledger = Address.from_environment(environment, _LEDGER, f"{_SQLITE}{default.ledger}")
        return cls(
            default=default,
            config=config,
            is_default_config=not given_config,
            connections=Path(connections) if connections else config.with_name("connections.yaml"),
            store_address=store,
            ledger_address=ledger,
            spark_master=environment.get("COUNTERPOISE_SPARK_MASTER") or "local[2]",
            spark_jobs=Path(
                environment.get("COUNTERPOISE_SPARK_JOBS") or shipped_folder("spark_jobs")
            ),
            spark_conf=_spark_conf(environment.get(_SPARK_CONF) or ""),
            spark_environment=_spark_environment(environment.get(_SPARK_ENVIRONMENT) or ""),
        )


def check_worker_variables(environment: Mapping[str, str] = os.environ) -> None:
    """Raise InputError where a worker is not told which settings, store and ledger are meant.

    With defaults of its own it would begin a second ledger, beside the one that everybody uses.
    """
    if environment.get(_HOME):
        return
    missing = [
        variable
        for variable in (_CONFIG, _STORE, _LEDGER)
        if not any(environment.get(variable + ending) for ending in ("", _COMMAND, _FILE))
    ]
    if missing:
        raise InputError(
            f"{', '.join(missing)}: not set in this worker, which makes no store and no ledger of "
            f"its own; set the same values as for every other component, or {_HOME}"
        )


def _check_text(environment: Mapping[str, str]) -> None:
    for name, value in environment.items():
        if name.startswith("COUNTERPOISE_") and is_broken_text(value):
            raise InputError(f"{name}: is no text in UTF-8")


def _output_of(words: list[str]) -> tuple[int, bytes]:
    """Return exit code and output of a command.

    Raises OSError, and TimeoutExpired for one that goes on for too long.
    """
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    # For a process that ends while a thread of it still waits.
    atexit.register(child.kill)
    with child:
        try:
            output, _ = child.communicate(timeout=_COMMAND_SECONDS)
            return child.returncode, output
        finally:
            child.kill()
            atexit.unregister(child.kill)


def _spark_conf(words: str) -> dict[str, str]:
    """Return the pairs of `spark.driver.memory=8g spark.x=...`, quoted as in a shell.

    Raises InputError, without the words: they may hold keys.
    """
    try:
        pairs = [word.partition("=") for word in shlex.split(words)]
    except ValueError as error:
        raise InputError(
            f"{_SPARK_CONF}: {error}; write it like spark.driver.memory=8g, pairs apart by spaces"
        ) from None
    for position, (name, is_equal, _) in enumerate(pairs, start=1):
        if not is_equal or not name.startswith("spark."):
            raise InputError(
                f"{_SPARK_CONF}: word {position} of {len(pairs)} is no Spark setting; write it "
                "like spark.driver.memory=8g, and put a value with blanks in quotes"
            )
        if reason := reason_against(name):
            raise InputError(f"{_SPARK_CONF}: {name} {reason}")
    return {name: value for name, _, value in pairs}


def _spark_environment(words: str) -> tuple[str, ...]:
    """Return the names of environment variables, apart by commas or spaces. Raises InputError."""
    names = tuple(words.replace(",", " ").split())
    if any("=" in name for name in names):
        raise InputError(
            f"{_SPARK_ENVIRONMENT}: names of variables alone, like AWS_PROFILE,REQUESTS_CA_BUNDLE; "
            "their values come from the environment"
        )
    return names

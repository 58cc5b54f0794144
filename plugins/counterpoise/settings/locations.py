"""Where files, store and ledger are: environment variables say so, in containers too.

    Locations.from_environment().ledger        # "sqlite:///var/ledger.db"

Store and ledger may be secrets. So a command or a file may tell them instead, as in Airflow:
COUNTERPOISE_LEDGER_CMD="vault read ...", COUNTERPOISE_LEDGER_FILE=/run/secrets/ledger. Both are
asked when the store or the ledger is used for the first time, not before.
"""

import os
import select
import shlex
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from counterpoise.errors import InputError
from counterpoise.input_files import MAX_SETTINGS_BYTES, read_input_text
from counterpoise.units import format_bytes

_SPARK_CONF: Final = "COUNTERPOISE_SPARK_CONF"
_SPARK_ENVIRONMENT: Final = "COUNTERPOISE_SPARK_ENV"
_COMMAND, _FILE = "_CMD", "_FILE"  # what the name of a variable ends in
_COMMAND_SECONDS: Final = 60
_BLOCK_BYTES: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Address:
    """A place that may be secret: written down, or told by a command or a file."""

    variable: str
    text: str = field(repr=False)

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str], variable: str, default: str
    ) -> "Address":
        """Raises InputError where more than one variable says it."""
        names = (variable, variable + _COMMAND, variable + _FILE)
        given = [name for name in names if environment.get(name)]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} are set: keep one of them, and unset the rest")
        return cls(given[0], environment[given[0]]) if given else cls(variable, default)

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
            told = output.decode() if len(output) <= MAX_SETTINGS_BYTES else ""
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it cannot be read as words, or as text"
            raise InputError(f"{self.variable}: the command cannot be used ({reason})") from None
        except subprocess.TimeoutExpired:
            raise InputError(
                f"{self.variable}: the command did not end within {_COMMAND_SECONDS} s"
            ) from None
        if len(output) > MAX_SETTINGS_BYTES:
            raise InputError(
                f"{self.variable}: the command wrote more than "
                f"{format_bytes(MAX_SETTINGS_BYTES)}, where a URL was wanted"
            )
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
        return read_input_text(Path(self.text), f"{self.variable}:", MAX_SETTINGS_BYTES)


@dataclass(frozen=True, slots=True)
class Locations:
    config: Path
    connections: Path
    store_address: Address
    ledger_address: Address
    spark_master: str
    spark_jobs: Path
    spark_conf: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold keys
    spark_environment: tuple[str, ...] = ()  # names of variables that the jobs get besides

    @property
    def store(self) -> str:
        """Return the store's directory or URI. Raises InputError where nothing tells it."""
        return self.store_address.read()

    @property
    def ledger(self) -> str:
        """Return the ledger's URL, secret. Raises InputError where nothing tells it."""
        return self.ledger_address.read()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Locations":
        project = Path(__file__).resolve().parents[3]
        config = Path(environment.get("COUNTERPOISE_CONFIG") or "config/clusters.yaml")

        def address(variable: str, default: str) -> Address:
            return Address.from_environment(environment, variable, default)

        return cls(
            config=config,
            connections=Path(
                environment.get("COUNTERPOISE_CONNECTIONS") or config.with_name("connections.yaml")
            ),
            store_address=address("COUNTERPOISE_STORE", "var/store"),
            ledger_address=address("COUNTERPOISE_LEDGER", "sqlite:///var/ledger.db"),
            spark_master=environment.get("COUNTERPOISE_SPARK_MASTER") or "local[2]",
            spark_jobs=Path(environment.get("COUNTERPOISE_SPARK_JOBS") or project / "spark_jobs"),
            spark_conf=_spark_conf(environment.get(_SPARK_CONF) or ""),
            spark_environment=_spark_environment(environment.get(_SPARK_ENVIRONMENT) or ""),
        )


def _output_of(words: list[str]) -> tuple[int, bytearray]:
    """Return exit code and output of a command, which is ended where it writes without an end.

    Raises OSError, and TimeoutExpired for one that goes on for too long.
    """
    deadline = time.monotonic() + _COMMAND_SECONDS
    output = bytearray()
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None, "the child is started with a pipe"
    with child, child.stdout as stream:
        try:
            while len(output) <= MAX_SETTINGS_BYTES:
                seconds_left = max(0.0, deadline - time.monotonic())
                if not select.select([stream], [], [], seconds_left)[0]:
                    raise subprocess.TimeoutExpired(words[0], _COMMAND_SECONDS)
                if not (block := os.read(stream.fileno(), _BLOCK_BYTES)):
                    return child.wait(max(0.0, deadline - time.monotonic())), output
                output += block
        finally:
            child.kill()
    return child.returncode, output


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

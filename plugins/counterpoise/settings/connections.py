"""Connections of the command line: librdkafka's settings under an id, from environment or file.

    FileConnections(Path("config/connections.yaml")).settings_for("kafka_orders_eu")

No message repeats what a connection holds, since it may be secret.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from counterpoise.errors import InputError, MissingConnectionError
from counterpoise.input_files import CONNECTIONS, read_input_text
from counterpoise.kafka_admin.connection import holds_secret
from counterpoise.model.safe_text import safe_logger
from counterpoise.settings.yaml_document import compose

_LOGGER = safe_logger(__name__)
_OTHERS_MAY_READ = 0o004

# Of an id: the settings that Airflow has, None where no Airflow answers. Raises InputError.
InAirflow = Callable[[str], Mapping[str, object] | None]


def _no_airflow(_connection_id: str) -> None:
    return None


@dataclass(frozen=True)
class FileConnections:
    """A connection is the environment variable AIRFLOW_CONN_<ID>, in Airflow's JSON form, or else
    an entry `id: {librdkafka settings}` of a YAML file, or else what the Airflow here has.
    """

    path: Path
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    in_airflow: InAirflow = _no_airflow

    def settings_for(self, connection_id: str) -> Mapping[str, object]:
        """Return librdkafka settings. Raises InputError where they are missing or malformed."""
        variable = f"AIRFLOW_CONN_{connection_id.upper()}"
        if text := self.environment.get(variable):
            return _extra_of(text, variable)
        listed = self._listed()
        if connection_id not in listed:
            return self._in_airflow(connection_id, variable)
        settings = listed[connection_id]
        if not isinstance(settings, dict):
            raise InputError(
                f"{self.path}: {connection_id} must be a mapping of librdkafka settings"
            )
        self._warn_of_readers(settings)
        return settings

    def _in_airflow(self, connection_id: str, variable: str) -> Mapping[str, object]:
        in_airflow = ""
        try:
            if found := self.in_airflow(connection_id):
                return found
        except MissingConnectionError:
            in_airflow = " nor in Airflow"
        raise MissingConnectionError(
            f"connection {connection_id!r} is neither in {self.path} nor in the environment "
            f"variable {variable}{in_airflow}; "
            'give it like {"bootstrap.servers": "kafka-1:9092,kafka-2:9092"}'
        )

    def _listed(self) -> Mapping[object, object]:
        try:
            self.path.stat()
        except FileNotFoundError:
            return {}
        except OSError:
            pass  # reading it says why
        content = read_input_text(self.path, "", CONNECTIONS)
        node = compose(content, where=str(self.path))
        try:
            listed = yaml.SafeLoader("").construct_document(node) if node else {}
        except (ValueError, OverflowError, RecursionError, yaml.YAMLError) as error:
            # Its own message would show the value.
            mark = getattr(error, "problem_mark", None)
            line = f" (line {mark.line + 1})" if mark else ""
            raise InputError(
                f"{self.path} cannot be read as YAML{line}: a value is no number, date or key; "
                "put texts in quotes"
            ) from None
        if not isinstance(listed, dict):
            raise InputError(f"{self.path}: must map connection ids to librdkafka settings")
        return listed

    def _warn_of_readers(self, settings: Mapping[object, object]) -> None:
        if holds_secret(settings) and self.path.stat().st_mode & _OTHERS_MAY_READ:
            _LOGGER.warning(
                "%s holds passwords and can be read by every user of this machine: chmod 600 %s",
                self.path,
                self.path,
            )


def _extra_of(text: str, variable: str) -> Mapping[str, object]:
    try:
        document = json.loads(text)
        extra = document["extra"]
        extra = json.loads(extra) if isinstance(extra, str) else extra
    except (ValueError, KeyError, TypeError, RecursionError):
        extra = None
    if not isinstance(extra, dict):
        raise InputError(
            f'{variable} must be JSON like {{"conn_type": "kafka", '
            f'"extra": {{"bootstrap.servers": "..."}}}}'
        )
    return extra

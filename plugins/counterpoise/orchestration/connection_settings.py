"""The settings of one of Airflow's Kafka connections, for the command line, which knows no Airflow.

    python -m counterpoise.orchestration.connection_settings answer.json <id.json

Looked up where tasks look: environment, secrets backend, Airflow's database. Writes
{"settings": {...}}, or why there are none: {"problem": "...", "is_missing": true}.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path


def main(arguments: Sequence[str]) -> int:
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"  # with Airflow's database
    from counterpoise.errors import InputError, MissingConnectionError
    from counterpoise.orchestration.installation import AirflowConnections

    answer: dict[str, object]
    try:
        answer = {"settings": dict(AirflowConnections().settings_for(json.load(sys.stdin)))}
    except InputError as error:
        answer = {"problem": str(error), "is_missing": isinstance(error, MissingConnectionError)}
    Path(arguments[0]).write_text(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

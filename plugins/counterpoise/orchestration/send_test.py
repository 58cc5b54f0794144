"""Sends a test message to each target, for `counterpoise notify --test`.

    python -m counterpoise.orchestration.send_test answers.json <targets.json

Runs as a process of its own, since the command line knows no Airflow. Connections are looked up
where the scheduler looks: environment, secrets backend, Airflow's database. Writes why each message
was not sent, "" where it was, after each of them.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from counterpoise.model.notification import Channel, Target

TITLE = "Counterpoise: a test message"


def main(arguments: Sequence[str]) -> int:
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"  # with Airflow's database
    from counterpoise.orchestration.delivery import link_to, post
    from counterpoise.services.notifications import DeliveryError

    answers: list[str] = []
    for asked in json.load(sys.stdin):
        target = Target(Channel(asked["channel"]), asked["name"], asked["connection_id"])
        try:
            post(target, TITLE, asked["lines"], link_to("counterpoise/fleet"))
            answers.append("")
        except DeliveryError as error:
            answers.append(str(error))
        Path(arguments[0]).write_text(json.dumps(answers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

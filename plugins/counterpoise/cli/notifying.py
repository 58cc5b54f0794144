"""`notify --test`: whether messages reach whom the settings name."""

import argparse

from rich.console import Console

from counterpoise.cli import common
from counterpoise.cli.common import Commands, add_json_argument, print_json
from counterpoise.installation import open_installation
from counterpoise.services import notifications

_TIMEOUT_SECONDS = 120.0
_NOT_SENT = 3  # exit code


def add_commands(commands: Commands) -> None:
    parser = commands.add_parser(
        "notify",
        description="Sends a test message to each webhook and mail address below `notify` in "
        "clusters.yaml, and says of each whether it was sent. Connections are those of Airflow: "
        "type it where tasks run, with their environment.",
        epilog="exit codes: 0 all were sent; 2 usage, or nobody is named; 3 one was not sent",
    )
    parser.add_argument("--test", action="store_true", required=True, help="send a test message")
    parser.add_argument(
        "--cluster", metavar="NAME", help="whom this cluster notifies; without it all clusters"
    )
    add_json_argument(parser)
    parser.set_defaults(run=_notify)


def _notify(arguments: argparse.Namespace, console: Console) -> int:
    with open_installation(may_migrate_ledger=False) as installation:
        targets = notifications.notify_targets(installation, arguments.cluster)
    reasons = notifications.send_test(
        targets, common.system_user_name(), timeout_seconds=_TIMEOUT_SECONDS
    )
    failures = [target for target, why in reasons.items() if why]
    if arguments.json:
        rows = [
            {"target": str(target), "clusters": targets[target], "sent": not why, "why": why}
            for target, why in reasons.items()
        ]
        print_json({"targets": rows})
        return _NOT_SENT if failures else 0
    for target, why in reasons.items():
        console.print(f"{target}: {f'not sent: {why}' if why else 'sent'}")
    if failures:
        ids = ", ".join(dict.fromkeys(target.connection_id for target in failures))
        console.print(f"Look at the connection in Airflow (Admin > Connections): {ids}.")
    return _NOT_SENT if failures else 0

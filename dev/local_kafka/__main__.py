"""Starts a cluster and keeps it until Ctrl-C.

    python -m dev.local_kafka --brokers 3 --directory var/kafka

Limits: the directory must be new or empty; its contents cannot be started again.
"""

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from counterpoise.errors import CounterpoiseError
from dev.local_kafka.cluster import DEFAULT_HEAP, running
from dev.local_kafka.jars import KAFKA_VERSION


def main() -> int:
    """Run the command line; return 0 after Ctrl-C or SIGTERM, 3 when the cluster cannot start."""
    parser = argparse.ArgumentParser(
        prog="python -m dev.local_kafka", description="A real Kafka cluster on this machine."
    )
    parser.add_argument("--brokers", type=int, default=3, help="how many, each in its own rack (3)")
    parser.add_argument(
        "--directory",
        type=Path,
        help="for data and logs, new or empty (a temporary one, removed at the end)",
    )
    parser.add_argument("--heap", default=DEFAULT_HEAP, help=f"of each broker ({DEFAULT_HEAP})")
    parser.add_argument("--kafka-version", default=KAFKA_VERSION, help=f"({KAFKA_VERSION})")
    arguments = parser.parse_args()
    if arguments.directory and arguments.directory.exists() and any(arguments.directory.iterdir()):
        parser.error(f"--directory {arguments.directory}: is not empty")
    # Also SIGINT: a shell's background jobs start with it ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="kafka-") as temporary:
            directory = (arguments.directory or Path(temporary)).resolve()
            with running(
                directory, arguments.brokers, heap=arguments.heap, version=arguments.kafka_version
            ) as kafka:
                sys.stdout.write(
                    f"bootstrap: {kafka.bootstrap_string}\n"
                    f"logs: {directory}/broker-*/server.log\n"
                    "Ctrl-C ends it\n"
                )
                sys.stdout.flush()
                while True:
                    signal.pause()
    except KeyboardInterrupt:
        return 0
    except CounterpoiseError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

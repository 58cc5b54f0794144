"""How good and how fast plans are: one table, and every target held against it.

    .venv/bin/python benchmarks/planning.py [NAME ...] [--without-huge] [--without-kafka]

For each cluster a row for our planner and one for Kafka's own `kafka-reassign-partitions
--generate`; then the targets, one line each; exit code 1 when one is missed. docs/benchmarks.md
says what the columns mean. All clusters take a quarter of an hour and 5 GB, most of it for the one
of 1,000,000 partitions; the others take some minutes.

The clusters come from `make_cluster.py`, the verdicts from `judge.py`, which knows nothing of any
planner. Every step runs in a process of its own: see `child.py`.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(
        0, str(Path(__file__).resolve().parents[1])
    )  # a script's own folder is there, the project's is not
    from benchmarks.comparison import main

    sys.exit(main())

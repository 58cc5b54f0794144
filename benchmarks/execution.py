"""How fast approved plans run under their throttle, and how little they add to it: one table, every
target beside it.

    .venv/bin/python benchmarks/execution.py [--rate 10MB/s] [--seconds 120] [--airflow]
    .venv/bin/python benchmarks/execution.py --without-brokers

On real local brokers: a plan that copies to a new broker for two minutes, carried out by
`counterpoise execute`, taken back, and carried out again by `kafka-reassign-partitions --execute`
under the same throttle; with `--airflow` taken back once more, and carried out by the Dag
`kafka_rebalance` of a local Airflow. On 68 simulated brokers with 50 ms per call: what a run adds
before the first byte and after the last. Exit code 1 when a target is missed. It takes about seven
minutes (with Airflow eleven), 8 GB of disk and two cores; nothing else should run meanwhile.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(
        0, str(Path(__file__).resolve().parents[1])
    )  # a script's own folder is there, the project's is not
    from benchmarks.running import main

    sys.exit(main())

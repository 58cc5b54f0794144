"""One step of the analysis benchmark, run by spark-submit: starts Spark, and says how long the work
itself took.

    spark-submit benchmarks/analysis_child.py TASK STORE ROUND SNAPSHOTS SPARK_JOBS

TASK is a job, or `broker_balance`, that one table alone. Prints a line of JSON: seconds without the
start of the session, CPU seconds of the driver's JVM meanwhile (other work on the machine hardly
changes them), and the most memory that it has had.
"""

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    task, store, name, listed, jobs = sys.argv[1:]
    sys.path.insert(0, jobs)
    from analysis_round import write_analysis
    from leader_balance import broker_tables, write_leader_balance
    from partition_load import write_partition_load
    from rounds import Round, load_manifests, open_round

    def write_broker_balance(round_: Round) -> None:
        round_.write(broker_tables(round_))

    tasks = {
        "analysis_round": write_analysis,
        "leader_balance": write_leader_balance,
        "partition_load": write_partition_load,
        "broker_balance": write_broker_balance,
    }
    one = open_round(task, f"file://{store}", name, load_manifests(Path(listed)))
    one.spark.range(1).count()  # the session is up when it has done something
    began, cpu_before = time.monotonic(), _cpu_seconds_of_jvm()
    tasks[task](one)
    told = {
        "seconds": time.monotonic() - began,
        "cpu_seconds": _cpu_seconds_of_jvm() - cpu_before,
        "peak_bytes": _peak_of_jvm(),
    }
    print(json.dumps(told))


def _cpu_seconds_of_jvm() -> float:
    """Return what the JVM's threads have used; in client mode it is our parent. 0 without /proc."""
    status = Path(f"/proc/{os.getppid()}/stat")
    if not status.exists():
        return 0.0
    after_name = status.read_text().rpartition(")")[2].split()
    ticks = int(after_name[11]) + int(after_name[12])  # utime and stime, proc(5)
    return ticks / os.sysconf("SC_CLK_TCK")


def _peak_of_jvm() -> int | None:
    """In client mode our parent is the JVM. None where there is no /proc to tell."""
    status = Path(f"/proc/{os.getppid()}/status")
    if not status.exists():
        return None
    return (
        int(
            next(
                line for line in status.read_text().splitlines() if line.startswith("VmHWM")
            ).split()[1]
        )
        * 1024
    )


if __name__ == "__main__":
    main()

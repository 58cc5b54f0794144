"""Spark job `analysis_round`: the jobs `leader_balance` and `partition_load` in one session.

    spark-submit spark_jobs/analysis_round.py --store file:///var/lib/counterpoise \\
        --round 2026-11-21T15 --snapshots snapshots.json

The arguments are explained in rounds.py, the tables in the two jobs. The history is read and
compared once for both.
"""

import sys
from collections.abc import Sequence

from leader_balance import (
    CHANGE_COLUMNS,
    CHANGE_INPUTS,
    broker_tables,
    build_topic_leaders,
    only_changes,
    topic_tables,
    with_change,
)
from pairs import read_pairs
from partition_load import LOAD_COLUMNS, LOAD_INPUTS, load_tables, log_dir_tables, with_load
from rounds import Round, run_job

_INPUTS = tuple(dict.fromkeys((*CHANGE_INPUTS, *LOAD_INPUTS)))
_COLUMNS = tuple(dict.fromkeys((*CHANGE_COLUMNS, *LOAD_COLUMNS)))


def write_analysis(round_: Round) -> None:
    """Write every table of RESULT_TABLES."""
    brokers = round_.read("brokers", round_.new)
    compared = round_.keep(
        read_pairs(round_, _INPUTS)
        .transform(with_change, brokers)
        .transform(with_load, round_.snapshots)
        .select(*_COLUMNS)
    )
    topic_leaders = round_.keep(build_topic_leaders(brokers, compared))
    round_.write(
        load_tables(round_, compared)
        | topic_tables(round_, topic_leaders, only_changes(compared))
        | broker_tables(round_)
        | log_dir_tables(round_)
    )


def main(argv: Sequence[str]) -> int:
    """Analyse one round; see `run_job` for the exit status."""
    return run_job("analysis_round", __doc__, argv, write_analysis)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Spark job `analysis_round`: the jobs `leader_balance` and `partition_load` in one session, all their tables.

    spark-submit spark_jobs/analysis_round.py --store file:///var/lib/counterpoise --round 2026-11-21T15 \\
        --snapshots snapshots.json

The arguments are explained in rounds.py, the tables in the two jobs. The history is read and compared once for both.
"""

import sys
from collections.abc import Sequence

from leader_balance import COMPARED_COLUMNS, build_balance_tables, with_change
from pairs import read_held, read_pairs
from partition_load import LOAD_COLUMNS, build_load_tables, with_load
from rounds import Round, run_job

_COLUMNS = tuple(dict.fromkeys((*COMPARED_COLUMNS, *LOAD_COLUMNS)))


def write_analysis(round_: Round) -> None:
    """Every table of RESULT_TABLES."""
    pairs, brokers = read_pairs(round_), round_.read("brokers")
    compared = with_load(with_change(pairs, brokers), round_.snapshots).select(*_COLUMNS).persist()
    held = read_held(round_).persist()
    try:
        compared.count()  # kept before the tables are made of it, several at once
        round_.write(build_balance_tables(round_, compared, held) | build_load_tables(round_, compared, held))
    finally:
        compared.unpersist()
        held.unpersist()


def main(argv: Sequence[str]) -> int:
    """Analyse one round; see `run_job` for the exit status."""
    return run_job("analysis_round", __doc__, argv, write_analysis)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

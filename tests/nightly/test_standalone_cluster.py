"""Both jobs on a real standalone Spark, a master and two workers: the same tables as on `local[2]`,
by the analysis benchmark at its smallest.
"""

import pytest

from benchmarks.analysing import main


def test_a_standalone_cluster_makes_the_same_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--partitions", "1000", "--snapshots", "2", "--only", "on_a_cluster"]) == 0
    told = capsys.readouterr().out
    assert "pass  standalone cluster: 0 of 8 tables differ" in told
    assert "pass  standalone cluster: 0 of its ports still open afterwards" in told
    assert "2 of 2 targets met" in told

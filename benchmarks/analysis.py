"""How fast the Spark jobs are, how they grow, and what pandas needs for the same: a table, and
every target against it.

    .venv/bin/python benchmarks/analysis.py [--partitions 1000000] [--snapshots 24] [--runs 1]

The exit code is 1 when a target is missed; targets for times hold at full size only. Full size
takes 10 to 20 minutes on 2 free cores, 7 GB of memory and 8 GB of disk (in `--folder`, else the
temporary directory).
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(
        0, str(Path(__file__).resolve().parents[1])
    )  # a script's own folder is there, the project's is not
    from benchmarks.analysing import main

    sys.exit(main())

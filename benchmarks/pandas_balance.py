"""The table broker_balance in pandas, as one would write it for one snapshot. In a process of its
own, for its memory.

    python -m benchmarks.pandas_balance STORE SNAPSHOTS

Reads only the columns that it counts. Prints a line of JSON: seconds, peak memory, and sums to
compare.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.machine import peak_bytes

COLUMNS = ["broker_id", "position", "is_leader", "size_bytes"]


def main() -> None:
    store, listed = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    began = time.monotonic()
    balance = broker_balance(store, [row for row in listed if not row.get("is_context")])
    seconds = time.monotonic() - began
    sums = [
        int(balance[name].sum())
        for name in ("leaders", "leaders_not_preferred", "replicas", "bytes")
    ]
    print(
        json.dumps(
            {"seconds": seconds, "peak_bytes": peak_bytes(), "rows": len(balance), "sums": sums}
        )
    )


def broker_balance(store: Path, manifests: list[dict[str, Any]]) -> pd.DataFrame:
    frames = []
    for number, row in enumerate(manifests):
        path = next(file["path"] for file in row["files"] if file["table"] == "replicas")
        frames.append(
            pd.read_parquet(store / path, columns=COLUMNS, partitioning=None).assign(
                snapshot=number
            )
        )
    replicas = pd.concat(frames, ignore_index=True)
    del frames
    first = replicas["position"] == 0
    replicas = replicas.assign(first=first, elsewhere=replicas["is_leader"] & ~first)
    grouped = replicas.groupby(["snapshot", "broker_id"])
    return grouped.agg(
        leaders=("is_leader", "sum"),
        preferred_leaders=("first", "sum"),
        leaders_not_preferred=("elsewhere", "sum"),
        replicas=("position", "size"),
        bytes=("size_bytes", "sum"),
    )


if __name__ == "__main__":
    main()

"""How long `counterpoise report` takes once Spark has nothing to do: a cluster of three brokers,
one snapshot.

    seconds = report_seconds(Path("/tmp/x"), runs=3)   # the best of them; in all three forms

Limits: the start of Python and the imports are in it; the Spark job, which runs before, is not.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from counterpoise import history
from counterpoise.archive import Archive
from counterpoise.model.document import from_document_text
from counterpoise.storage import Store

BROKERS: Final = 3
PARTITIONS: Final = 60
_CLUSTER: Final = "small"
_AT: Final = datetime(2026, 1, 31, tzinfo=UTC)


def report_seconds(folder: Path, runs: int) -> float:
    """Raises subprocess.CalledProcessError when the command fails."""
    (folder / "clusters.yaml").write_text(f"clusters:\n  {_CLUSTER}:\n    connection: none\n")
    taken = from_document_text(json.dumps(_document()))
    snapshot_id = history.snapshot_id_for(_CLUSTER, _AT)
    Archive(Store(str(folder / "store"))).write_snapshot(
        replace(
            taken,
            cluster=_CLUSTER,
            cluster_id="of-the-benchmark",
            observed_at=_AT,
            snapshot_id=snapshot_id,
        )
    )
    _report(folder)  # with the Spark job
    return min(_report(folder) for _ in range(runs))


def _report(folder: Path) -> float:
    environment = os.environ | {
        "COUNTERPOISE_CONFIG": str(folder / "clusters.yaml"),
        "COUNTERPOISE_STORE": str(folder / "store"),
        "COUNTERPOISE_LEDGER": f"sqlite:///{folder / 'ledger.db'}",
    }
    command = [str(Path(sys.executable).with_name("counterpoise")), "report", "--cluster", _CLUSTER]
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


def _document() -> dict[str, Any]:
    brokers = [{"id": n + 1, "rack": f"rack-{n}"} for n in range(BROKERS)]
    partitions = [
        [
            "orders",
            n,
            [(n + step) % BROKERS + 1 for step in range(BROKERS)],
            n % BROKERS + 1,
            10**9 + n,
            None,
        ]
        for n in range(PARTITIONS)
    ]
    return {"brokers": brokers, "partitions": partitions}

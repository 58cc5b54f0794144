"""Four clusters of 36 brokers that were analysed and audited, for pages that show a fleet.

f"clusters:\\n{SETTINGS}"          # in clusters.yaml
write_fleet(installation)
"""

from datetime import timedelta
from typing import Final

from benchmarks.pages import balance_of, write_audits, write_reports
from counterpoise.installation import Installation

ANALYSED: Final = ("orders-eu", "orders-us", "billing", "clicks")  # the first has a page of balance
SETTINGS: Final = "".join(f"  {name}: {{connection: kafka_demo}}\n" for name in ANALYSED)
SNAPSHOTS: Final = 60


def write_fleet(installation: Installation) -> None:
    """Write what an analysis and an audit have left, twenty minutes after a snapshot."""
    now = installation.clock()
    write_reports(installation, now, ANALYSED, balance_of(ANALYSED[0], SNAPSHOTS))
    for name in ANALYSED:
        write_audits(installation, now, name, 1)
        installation.ledger.pin_cluster(name, f"id-of-{name}")
        installation.ledger.record_snapshot(name, f"{name}-x", now - timedelta(minutes=20))

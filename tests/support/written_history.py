"""A history that was analysed, without Spark: for pages that show weeks of a cluster.

write_history(installation, story(brokers=9, snapshots=200, cluster="orders-eu"))
"""

import pyarrow as pa
import pyarrow.compute as pc

from counterpoise.installation import Installation
from counterpoise.model.tables import RESULT_TABLES
from counterpoise.services import reports
from tests.support.loads import loads_of
from tests.support.series import Story


def write_history(installation: Installation, told: Story) -> None:
    """Write what the Spark jobs would have made of a story, and the report of its cluster."""
    cluster = told.cluster
    series, topics, partitions, log_dirs = map(_scheduled, loads_of(told))
    results, store = installation.results, installation.archive.store
    for view, rows in (("series", series), ("log_dirs", log_dirs)):
        results.view_files(cluster, view).add(rows, "all-rounds")
    newest = series["snapshot_id"][-1].as_py()
    of_newest = {"topic_load": topics, "partition_load": partitions, "topic_balance": None}
    for name, rows in of_newest.items():
        shown = RESULT_TABLES[name].empty_table()
        if rows is not None:
            shown = rows.filter(pc.equal(rows["snapshot_id"], newest))
        store.write_table(f"results/{name}/round={newest}/part.parquet", shown)
    row = {"cluster": cluster, "snapshot_id": newest, "previous_snapshot_id": None}
    results.finish_round(newest, installation.clock(), [row])
    reports.report_balance(installation, cluster)


def _scheduled(rows: pa.Table) -> pa.Table:
    """Return rows whose snapshots have ids of the history."""
    times = pc.strftime(rows["observed_at"], format="%Y%m%dT%H%M%SZ")
    ids = pc.binary_join_element_wise(rows["cluster"].cast(pa.string()), times, "-")
    at = rows.schema.get_field_index("snapshot_id")
    field = rows.schema.field(at)
    return rows.set_column(at, field, ids.cast(field.type))

"""Sums over a period, of tables that are read one after the other: of each day one.

    folded(tables, {"topic": TEXT, "seconds": FLOAT64}, keys=("topic",), how={"seconds": "sum"})

Example: days with orders 60 s, orders 30 s and clicks 5 s become orders 90 s and clicks 5 s. No
more than the sums and one table are in memory.
"""

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa


def folded(
    tables: Iterable[pa.Table], schema: pa.Schema, keys: Sequence[str], how: Mapping[str, str]
) -> pa.Table:
    """Return one row for each value of `keys`; `how` says what becomes of each other column: `sum`
    or `max`.
    """
    total = schema.empty_table()
    for table in tables:
        rows = pa.concat_tables([total, table.select(schema.names).cast(schema)])
        sums = rows.group_by(list(keys)).aggregate(list(how.items()))
        names = {f"{name}_{function}": name for name, function in how.items()}
        renamed = sums.rename_columns([names.get(name, name) for name in sums.column_names])
        total = renamed.select(schema.names).cast(schema)
    return total

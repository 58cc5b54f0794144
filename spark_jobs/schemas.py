"""Spark's schemas of our Arrow schemas.

spark_schema(BROKERS)["broker_id"].dataType == IntegerType()
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - what every Spark program calls it


def spark_schema(schema: pa.Schema) -> T.StructType:
    """Return the Spark schema of one of our Arrow schemas."""
    return T.StructType(
        [T.StructField(field.name, _spark_type(field.type), field.nullable) for field in schema]
    )


def _spark_type(arrow: pa.DataType) -> T.DataType:
    if pa.types.is_list(arrow):
        return T.ArrayType(_spark_type(arrow.value_type), arrow.value_field.nullable)
    return _SPARK_TYPES[arrow]


_SPARK_TYPES: Final[Mapping[pa.DataType, T.DataType]] = {
    pa.string(): T.StringType(),
    pa.bool_(): T.BooleanType(),
    pa.int32(): T.IntegerType(),
    pa.int64(): T.LongType(),
    pa.float64(): T.DoubleType(),
    pa.date32(): T.DateType(),
    pa.timestamp("us", tz="UTC"): T.TimestampType(),
}

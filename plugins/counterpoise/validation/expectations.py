"""Data tests with Great Expectations: is what the plan was made from, and the plan itself, sound data?

    check = validate_data(snapshot, plan)
    check.failures[0]     # DataFailure(table="partitions", expectation="leader_is_a_replica is true", ...)

Importing Great Expectations takes 10 to 17 seconds, so it happens inside the functions, and `validate_data` does
everything with one context. It sends no usage statistics and prints no progress. Tables are checked in memory, as
pandas frames; 200,000 rows take well under a second.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from counterpoise.model.cluster import ClusterSnapshot
from counterpoise.model.plan import RebalancePlan
from counterpoise.validation.data import DataCheck, DataFailure

if TYPE_CHECKING:
    import pandas as pd

_MOST_EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class Expectations:
    """What is expected of one table. `key` names a row, in examples too."""

    key: tuple[str, ...]
    not_null: tuple[str, ...] = ()
    not_negative: tuple[str, ...] = ()
    is_true: tuple[str, ...] = field(default=())


SNAPSHOT_EXPECTATIONS: Final[Mapping[str, Expectations]] = {
    "brokers": Expectations(
        key=("broker_id",), not_null=("is_fenced",), not_negative=("broker_id",), is_true=("rack_is_named_or_absent",)
    ),
    "topics": Expectations(
        key=("topic",),
        not_negative=("partition_count", "min_insync_replicas"),
        is_true=("partition_count_agrees",),
    ),
    "partitions": Expectations(
        key=("topic", "partition"),
        not_null=("topic", "partition"),
        not_negative=("partition", "size_bytes"),
        is_true=(
            "topic_is_known",
            "has_replicas",
            "names_each_broker_once",
            "brokers_are_registered",
            "leader_is_a_replica",
            "leader_is_live",
            "isr_is_within_replicas",
        ),
    ),
    "replicas": Expectations(
        key=("topic", "partition", "broker_id"),
        not_negative=("position", "size_bytes"),
        is_true=("broker_is_registered",),
    ),
    "log_dirs": Expectations(
        key=("broker_id", "log_dir"),
        not_null=("log_dir",),
        not_negative=("total_bytes", "usable_bytes"),
        is_true=("broker_is_registered", "usable_is_within_total"),
    ),
}

PLAN_EXPECTATIONS: Final[Mapping[str, Expectations]] = {
    "moves": Expectations(
        key=("topic", "partition"),
        not_null=("topic",),
        not_negative=("partition", "size_bytes"),
        is_true=(
            "has_replicas",
            "names_each_broker_once",
            "keeps_or_nears_replication_factor",
            "keeps_an_old_replica_or_leader_can_copy",
        ),
    ),
    "figures": Expectations(
        key=("broker_id",),
        not_negative=("leaders_after", "replicas_after", "bytes_after"),
        is_true=("leads_no_more_than_it_holds", "peaks_no_lower_than_it_ends"),
    ),
}


def check_snapshot_data(snapshot: ClusterSnapshot) -> DataCheck:
    """Keys unique, leaders and ISR within replicas, sizes not negative, brokers and topics known, counts agree."""
    from counterpoise.validation.frames import snapshot_frames  # pandas is slow to import, and planning needs none

    return _check(snapshot_frames(snapshot), SNAPSHOT_EXPECTATIONS)


def check_plan_data(plan: RebalancePlan) -> DataCheck:
    """Moves unique, no broker twice, as many replicas as wanted, sizes and figures not negative."""
    from counterpoise.validation.frames import plan_frames

    return _check(plan_frames(plan), PLAN_EXPECTATIONS)


def validate_data(snapshot: ClusterSnapshot, plan: RebalancePlan) -> DataCheck:
    """Both of the above, with one import and one context."""
    from counterpoise.validation.frames import plan_frames, snapshot_frames

    frames = {**snapshot_frames(snapshot), **plan_frames(plan)}
    return _check(frames, {**SNAPSHOT_EXPECTATIONS, **PLAN_EXPECTATIONS})


def _check(frames: "Mapping[str, pd.DataFrame]", expectations: Mapping[str, Expectations]) -> DataCheck:
    source = _new_source()
    check = DataCheck(success=True, failures=())
    for table, frame in frames.items():
        if len(frame):  # of an empty table everything holds
            check = check.and_also(_check_table(source, table, frame, expectations[table]))
    return check


def _new_source() -> Any:
    """A pandas data source in a context that keeps nothing and tells nobody."""
    os.environ["GX_ANALYTICS_ENABLED"] = "False"
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False, metric_calculations=False)
    return context.data_sources.add_pandas("counterpoise")


def _check_table(source: Any, table: str, frame: "pd.DataFrame", expected: Expectations) -> DataCheck:
    import great_expectations as gx

    suite = gx.ExpectationSuite(name=table, expectations=_suite(expected))
    batch = (
        source.add_dataframe_asset(table).add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    )
    shown = {"result_format": "COMPLETE", "unexpected_index_column_names": list(expected.key)}
    result = batch.validate(suite, result_format=shown)
    failures = tuple(_failure(table, expected.key, outcome) for outcome in result.results if not outcome.success)
    return DataCheck(bool(result.success), failures, len(result.results) - len(failures))


def _suite(expected: Expectations) -> list[Any]:
    # Taken as Any: the package has types, but does not declare these names as its own.
    gxe: Any = importlib.import_module("great_expectations.expectations")
    unique = (
        gxe.ExpectColumnValuesToBeUnique(column=expected.key[0])
        if len(expected.key) == 1
        else gxe.ExpectCompoundColumnsToBeUnique(column_list=list(expected.key))
    )
    return [
        unique,
        *(gxe.ExpectColumnValuesToNotBeNull(column=column) for column in expected.not_null),
        *(gxe.ExpectColumnValuesToBeBetween(column=column, min_value=0) for column in expected.not_negative),
        *(gxe.ExpectColumnValuesToBeInSet(column=column, value_set=[True]) for column in expected.is_true),
    ]


def _failure(table: str, key: Sequence[str], outcome: Any) -> DataFailure:
    arguments = outcome.expectation_config.kwargs
    column = str(arguments.get("column") or ", ".join(arguments.get("column_list", ())))
    rows = outcome.result.get("unexpected_index_list") or []
    examples = tuple(_example(row, key) for row in rows[:_MOST_EXAMPLES])
    # An expectation that could not be computed is no success, but it raises nothing either: it says so here.
    broken = () if rows else (str(outcome.exception_info),)
    return DataFailure(
        table=table,
        expectation=f"{column} {_wording(outcome.expectation_config.type)}",
        column=column,
        unexpected_count=int(outcome.result.get("unexpected_count") or 0),
        examples=examples or broken,
    )


def _wording(expectation: str) -> str:
    return {
        "expect_column_values_to_be_unique": "is unique",
        "expect_compound_columns_to_be_unique": "are unique together",
        "expect_column_values_to_not_be_null": "is known",
        "expect_column_values_to_be_between": "is not negative",
        "expect_column_values_to_be_in_set": "is true",
    }[expectation]


def _example(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """`orders-3` or `orders-3: size_bytes=-1`, from numpy scalars."""
    values = {name: getattr(value, "item", lambda value=value: value)() for name, value in row.items()}
    name = "-".join(str(values[part]) for part in key if part in values)
    facts = ", ".join(f"{part}={value}" for part, value in values.items() if part not in key)
    return f"{name}: {facts}" if facts else name

"""The form with which a person starts `kafka_rebalance`: the cluster, and the few fields of a
request that people use.

    @dag(params=rebalance_form())

`model/request.py` checks them again when the run starts, and knows more fields: those may be in the
configuration of the Dag run, as over REST. An empty field means everything, or that the cluster's
policy chooses.

Airflow's page marks a field as required, and refuses an empty one, where its schema does not allow
null; so all that may be left empty allows it. Airflow checks each field by itself before a run is
created: types, ranges, patterns, choices. What depends on two fields is said by the task `plan`.

Limits: the clusters are those of the settings as the Dag processor read them last; where it cannot
read any, the cluster is typed, and `plan` checks it.
"""

import os
from typing import Any, Final

from airflow.sdk import Param

from counterpoise.errors import CounterpoiseError
from counterpoise.model.policy import PERCENT
from counterpoise.model.request import (
    CLUSTER_FIELD,
    CLUSTER_TITLE,
    FORM_TITLES,
    KINDS,
    MAX_REPLICATION_FACTOR,
    MAX_WHY,
    PLANNED_GOALS,
    REASON_FIELD,
    REASON_TITLE,
    UNDO_FIELD,
    UNDO_TITLE,
)
from counterpoise.model.safe_text import safe_logger
from counterpoise.model.setting import TOPIC_PATTERN

_LOGGER = safe_logger(__name__)
_SETTINGS_VARIABLES: Final = ("COUNTERPOISE_CONFIG", "COUNTERPOISE_HOME")
_MAX_BROKER_ID: Final = 2**31 - 1
_BROKER: Final = r"[0-9]{1,10}\s*(=\s*[0-9]{1,10}\s*)?"
_BROKER_IDS: Final = rf"^\s*({_BROKER}(,\s*{_BROKER})*)?$"
_NUMBER: Final = r"\s*[0-9]+(\.[0-9]+)?\s*"
_BYTES: Final = rf"^{_NUMBER}([kKmMgGtT]i?)?[bB]\s*$"


def rebalance_form() -> dict[str, Any]:
    """Return the fields, made anew for each Dag: Airflow writes what was filled in into them."""
    return {
        CLUSTER_FIELD: _cluster(),
        "goal": Param(
            "rebalance",
            type="string",
            enum=[str(goal) for goal in PLANNED_GOALS],
            values_display={str(goal): f"{goal}: {KINDS[goal].text}" for goal in PLANNED_GOALS},
            title=FORM_TITLES["goal"],
        ),
        "broker_ids": Param(  # `7, 8` as text, and [7, 8] by REST
            None,
            type=["null", "array", "string"],
            items={"type": "integer", "minimum": 0, "maximum": _MAX_BROKER_ID},
            pattern=_BROKER_IDS,
            title=FORM_TITLES["broker_ids"],
            description="to add, to remove or to demote, like 7, 8; to replace, like 3=9, 4=10; "
            "empty for all other goals",
        ),
        "topics": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "pattern": rf"^\s*({TOPIC_PATTERN}\s*)?$"},
            title=FORM_TITLES["topics"],
            description="all if empty: names or patterns like orders-*; one a line",
        ),
        "replication_factor": Param(
            None,
            type=["null", "integer"],
            minimum=1,
            maximum=MAX_REPLICATION_FACTOR,
            title=FORM_TITLES["replication_factor"],
            description="for the goal of that name: how many replicas each partition shall have",
        ),
        "below_percent": Param(
            None,
            type=["null", "integer"],
            minimum=PERCENT.lowest,
            maximum=PERCENT.highest,
            title=FORM_TITLES["below_percent"],
            description="for the goal relief: how full disks may be, in percent",
        ),
        "max_bytes": Param(
            None,
            type=["null", "string"],
            pattern=_BYTES,
            title=FORM_TITLES["max_bytes"],
            description="copied, with the unit: 500GB. The plan holds the moves that help most; "
            "the others are only counted",
        ),
        REASON_FIELD: Param(
            None,
            type=["null", "string"],
            maxLength=MAX_WHY,
            title=REASON_TITLE,
            description="why; whoever approves the plan reads it, with your name",
        ),
        UNDO_FIELD: Param(
            None,
            type=["null", "string"],
            title=UNDO_TITLE,
            description="its id: the plan takes back what the run moved. All other fields but the "
            "cluster stay as they are",
        ),
    }


def listed_clusters() -> tuple[str, ...]:
    """Return the names of the clusters in the settings; none where they cannot be read here, or
    where no variable names them: a file at the default place may be another one than the workers'.
    """
    if not any(os.environ.get(variable) for variable in _SETTINGS_VARIABLES):
        return ()
    from counterpoise.installation import open_installation

    try:
        with open_installation() as installation:  # it opens neither store nor ledger
            return tuple(sorted(installation.settings.clusters))
    except CounterpoiseError as error:
        _LOGGER.info("the form has no list of clusters: %s", error)
        return ()


def _cluster() -> Param:
    """Return the field of the cluster.

    One cluster is filled in. Of several one has to be chosen: "" stands for no choice, which
    Airflow's page refuses; a run by REST or of an asset event may name its cluster by partition
    key alone.
    """
    names = listed_clusters()
    description = "by its name in the settings, like orders-eu"
    if not names:
        return Param("", type="string", title=CLUSTER_TITLE, description=description)
    return Param(
        names[0] if len(names) == 1 else "",
        type="string",
        enum=["", *names],
        values_display={"": "choose a cluster"},
        title=CLUSTER_TITLE,
        description=description,
    )

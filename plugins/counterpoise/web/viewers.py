"""Who asks for a page, and what it reads from.

An account of Airflow that may read the runs of `kafka_rebalance` may open the pages, and sees the
clusters whose policy does not name others (`access: view`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any, Final

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends, Request

from counterpoise.errors import RefusedError
from counterpoise.services.viewers import Viewer

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.base_auth_manager import ResourceMethod

    from counterpoise.installation import Installation

OpenInstallation = Callable[[], AbstractContextManager["Installation"]]

DAG_ID: Final = "kafka_rebalance"

may_read = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id=DAG_ID)


def may_in_airflow(
    user: Any, method: "ResourceMethod", entity: DagAccessEntity | None, dag_id: str = DAG_ID
) -> bool:
    """Return whether Airflow lets an account do something with a Dag, or with a part of it."""
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method,
            access_entity=entity,
            details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
            user=user,
        )
    )


def may_change_runs(user: Annotated[Any, Depends(get_user)]) -> bool:
    """Return whether Airflow lets the account change runs of `kafka_rebalance`."""
    return may_in_airflow(user, "PUT", DagAccessEntity.RUN)


MayChange = Annotated[bool, Depends(may_change_runs)]


def may_answer_in_airflow(user: Annotated[Any, Depends(get_user)]) -> bool:
    """Return whether Airflow lets the account answer required actions of `kafka_rebalance`."""
    return may_in_airflow(user, "PUT", DagAccessEntity.HITL_DETAIL)


MayAnswer = Annotated[bool, Depends(may_answer_in_airflow)]


def _viewer(
    request: Request,
    user: Annotated[Any, Depends(get_user)],
    may_change: MayChange,
    may_answer: MayAnswer,
) -> Viewer:
    """Return who asks: the SimpleAuthManager's users have one role, those of FAB several. The top
    bar of every page names them.
    """
    found = getattr(user, "roles", None) or [getattr(user, "role", None)]
    roles = tuple(str(getattr(role, "name", role)) for role in found if role)
    viewer = Viewer(str(user.get_name()), roles, may_change, may_answer)
    request.state.viewer = viewer
    return viewer


CurrentViewer = Annotated[Viewer, Depends(_viewer)]


def check_may_change(viewer: CurrentViewer) -> None:
    """Raise RefusedError for an account that Airflow lets read alone: whoever the policy names,
    and where it names nobody, what a page records is a change.
    """
    if not viewer.may_change:
        raise RefusedError(
            f"Airflow lets {viewer.user_name} read runs of {DAG_ID}, and not "
            "change them, so nothing was changed; ask an administrator of Airflow for another role"
        )


def check_may_answer(viewer: CurrentViewer) -> None:
    """Raise RefusedError for an account that Airflow does not let answer required actions; whom the
    policy lets approve is checked then.
    """
    if not viewer.may_answer:
        raise RefusedError(
            f"Airflow does not let {viewer.user_name} answer questions of "
            f"{DAG_ID} (required actions), so nothing was recorded; ask an administrator of "
            "Airflow for a role that may"
        )

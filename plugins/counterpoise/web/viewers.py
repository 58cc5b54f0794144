"""Who asks for a page, and what it reads from.

An account of Airflow that may read the runs of `kafka_rebalance` may open the pages, and sees the
clusters whose policy does not name others (`access: view`).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends

from counterpoise.queries import Viewer

if TYPE_CHECKING:
    from counterpoise.installation import Installation

OpenInstallation = Callable[[], AbstractContextManager["Installation"]]

may_read = requires_access_dag("GET", DagAccessEntity.RUN, param_dag_id="kafka_rebalance")


def _viewer(user: Annotated[Any, Depends(get_user)]) -> Viewer:
    """Return who asks: the SimpleAuthManager's users have one role, those of FAB several."""
    found = getattr(user, "roles", None) or [getattr(user, "role", None)]
    roles = tuple(str(getattr(role, "name", role)) for role in found if role)
    return Viewer(str(user.get_id()), str(user.get_name()), roles)


CurrentViewer = Annotated[Viewer, Depends(_viewer)]

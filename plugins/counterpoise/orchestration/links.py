"""Links from tasks to our pages, as Airflow shows them on a task ("Extra Links").

    planned = with_links(plan(), RUN, REPORT)   # in the Dag
    show_page(ti, RUN, "runs/run-7")             # in the task, as soon as the page is known
    page_url("reports/fleet.html")               # http://airflow.example/airflow/counterpoise/...

Airflow asks a link for its address when the task has ended or waits; for a mapped task it does not,
so the address is written at once. A task that knows no page has no link.

Limits: addresses are XComs, as those of all links of Airflow: whoever may write XComs may change
them.
"""

from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from airflow.sdk.bases.operatorlink import BaseOperatorLink
from airflow.sdk.configuration import conf

_PAGES: Final = "_counterpoise_pages"  # of the operator in the task's process: address by XCom key


class PageLink(BaseOperatorLink):
    """One of our pages, under the name on the button."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def xcom_key(self) -> str:
        return f"_link_counterpoise_{self._name.lower()}"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address that the task has told; "" for none."""
        del ti_key
        pages: dict[str, str] = getattr(operator, _PAGES, {})
        return pages.get(self.xcom_key, "")


RUN: Final = PageLink("Run")
CLUSTER: Final = PageLink("Cluster")
REPORT: Final = PageLink("Report")


def page_url(path: str) -> str:
    """Return the address of one of our pages, with the prefix that Airflow itself has."""
    base_url = conf.get("api", "base_url", fallback=None) or ""
    return f"{base_url.rstrip('/')}/counterpoise/{quote(path)}"


def with_links(task: Any, *links: PageLink) -> Any:
    """Return the task of a Dag (what calling it returns), with these links."""
    task.operator.operator_extra_links = links
    return task


def show_page(ti: Any, link: PageLink, path: str) -> str:
    """Have the running task show a page; return its address."""
    url = page_url(path)
    operator = getattr(ti, "task", None)
    if operator is not None:
        pages = {**getattr(operator, _PAGES, {}), link.xcom_key: url}
        object.__setattr__(operator, _PAGES, pages)
    if getattr(ti, "map_index", -1) >= 0:
        ti.xcom_push(key=link.xcom_key, value=url)
    return url


def show_run(ti: Any, run_id: str) -> None:
    """Have the running task show a run."""
    show_page(ti, RUN, f"runs/{run_id}")


def show_cluster(ti: Any, cluster: str) -> None:
    """Have the running task show a cluster."""
    show_page(ti, CLUSTER, f"clusters/{cluster}")


def show_audit(ti: Any, cluster: str) -> str:
    """Have the running task show a cluster and its newest audit; return the audit's address."""
    from counterpoise.archive import audit_report_name

    show_cluster(ti, cluster)
    return show_page(ti, REPORT, f"reports/{audit_report_name(cluster)}")


def show_balances(ti: Any, clusters: Sequence[str]) -> None:
    """Have the running task show a cluster and its newest balance report; the report over all
    clusters, where it is about several.
    """
    from counterpoise.archive import balance_report_name

    if len(clusters) > 1:
        show_fleet(ti)
        return
    show_cluster(ti, clusters[0])
    show_page(ti, REPORT, f"reports/{balance_report_name(clusters[0])}")


def show_fleet(ti: Any) -> None:
    """Have the running task show the report over all clusters."""
    from counterpoise.archive import fleet_report_name

    show_page(ti, REPORT, f"reports/{fleet_report_name()}")

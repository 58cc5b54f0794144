"""Where the links of tasks lead."""

from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.configuration import conf

from counterpoise.orchestration.links import page_url

ROOT = Path(__file__).parents[2]
LINKS = {
    ("kafka_rebalance", "plan"): ["Run", "Report", "Cluster"],
    ("kafka_rebalance", "approve"): ["Run"],
    ("kafka_rebalance", "execute"): ["Run"],
    ("kafka_rebalance", "report"): ["Run"],
    ("kafka_audit", "audit"): ["Report", "Cluster"],
    ("kafka_leader_balance", "report_balance"): ["Report", "Cluster"],
    ("kafka_leader_balance", "report_fleet"): ["Report"],
}


@pytest.mark.parametrize(
    ("base_url", "start"),
    [
        ("http://airflow.example:8080", "http://airflow.example:8080/counterpoise/"),
        ("https://example.org/airflow/", "https://example.org/airflow/counterpoise/"),
        (None, "/counterpoise/"),
    ],
)
def test_links_have_the_prefix_of_airflow_itself(
    monkeypatch: pytest.MonkeyPatch, base_url: str | None, start: str
) -> None:
    monkeypatch.setattr(conf, "get", lambda *_, **__: base_url)
    assert page_url("reports/a b/audit.html") == f"{start}reports/a%20b/audit.html"


def test_tasks_link_to_the_pages_about_what_they_do() -> None:
    bag = DagBag(dag_folder=ROOT / "dags")

    def names(dag_id: str, task_id: str) -> list[str]:
        task: Any = bag.dags[dag_id].get_task(task_id)
        return [link.name for link in task.operator_extra_links]

    assert {key: names(*key) for key in LINKS} == LINKS

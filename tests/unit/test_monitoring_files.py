"""The alert rules and the dashboard name metrics, labels and values that the endpoint has."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from counterpoise.model.metric import METRICS
from counterpoise.model.run import RunState
from counterpoise.model.severity import Severity

FOLDER = Path(__file__).parents[2] / "docs/monitoring"
DOCUMENT = FOLDER.parent / "api.md"
RULES = yaml.safe_load((FOLDER / "prometheus-rules.yaml").read_text())["groups"]
ALERTS = [rule for group in RULES for rule in group["rules"]]
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
VALUES = {
    "measure": {"leaders", "replicas", "bytes", "bytes_in"},
    "severity": set(map(str, Severity)),
    "state": set(map(str, RunState)),
}


def expressions() -> list[str]:
    queries = [one["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    annotations = [one["expr"] for one in DASHBOARD["annotations"]["list"]]
    return [rule["expr"] for rule in ALERTS] + panels + queries + annotations


def names_in(text: str) -> set[str]:
    return set(re.findall(r"counterpoise_\w+", text))


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_label_and_value_is_one_of_the_endpoint(expression: str) -> None:
    names = names_in(expression)
    assert names and names <= METRICS.keys()
    for name, selectors in re.findall(r"(counterpoise_\w+)\{([^}]*)\}", expression):
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selectors):
            assert label in METRICS[name].labels
            if label in VALUES:
                assert set(value.split("|")) <= VALUES[label]
    for label in re.findall(r"\b(?:by|on) \((\w+)\)", expression):
        assert all(label in METRICS[name].labels for name in names)


def test_every_metric_is_on_the_dashboard_and_in_the_document() -> None:
    shown = set().union(*(names_in(expression) for expression in expressions()))
    assert shown == METRICS.keys()
    assert names_in(DOCUMENT.read_text()) == METRICS.keys()


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_every_alert_says_what_is_wrong_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert rule["annotations"].keys() == {"summary", "action", "runbook_url"}
    assert all(len(rule["annotations"][name]) > 20 for name in ("summary", "action"))
    assert rule["labels"]["severity"] in ("critical", "warning")
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    labels = set().union(*(METRICS[name].labels for name in names_in(rule["expr"])))
    assert used <= labels


def test_alerts_and_panels_have_names_of_their_own() -> None:
    alerts = [rule["alert"] for rule in ALERTS]
    panels = [panel["title"] for panel in DASHBOARD["panels"]]
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert all(len(set(names)) == len(names) for names in (alerts, panels, ids))


PAGES = re.compile(
    r"\$\{airflow\}/counterpoise/(fleet|clusters/\$\{__field\.labels\.cluster\}(/\w+)?)"
)


@pytest.mark.parametrize(
    "panel", DASHBOARD["panels"], ids=[p["title"] for p in DASHBOARD["panels"]]
)
def test_every_panel_leads_to_a_page(panel: dict[str, Any]) -> None:
    (link,) = panel["fieldConfig"]["defaults"]["links"]
    assert PAGES.fullmatch(link["url"])


def test_runs_are_annotations_and_what_alerts_has_a_threshold() -> None:
    (runs,) = DASHBOARD["annotations"]["list"]
    assert names_in(runs["expr"]) == {"counterpoise_run_state"}
    with_thresholds = {
        name
        for panel in DASHBOARD["panels"]
        if "thresholds" in panel["fieldConfig"]["defaults"]
        for target in panel["targets"]
        for name in names_in(target["expr"])
    }
    for name in ("snapshot_age_seconds", "first_disk_full_days", "run_observed_age_seconds"):
        assert f"counterpoise_{name}" in with_thresholds

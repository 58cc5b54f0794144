"""Pages and documents of audits, fleets and balances, with the most hostile text in every name.

`tests/simulation/test_hostile_text.py` has the same for all that comes from a run.
"""

import base64
import logging
from dataclasses import replace
from hashlib import sha256
from html import unescape

import pytest

from counterpoise.model.balance import Flapping, FlappingPartition
from counterpoise.model.fleet_document import fleet_json
from counterpoise.model.safe_text import SafeLogger, safe_logger
from counterpoise.reporting.leader_balance import leader_balance_report
from counterpoise.views.audit import AuditView, audit_html, audit_json
from counterpoise.views.balance import leader_balance_json
from counterpoise.views.pages import fleet_copy
from tests.support import hostile
from tests.support.hostile import HOSTILE, MARK
from tests.unit import test_audit_page, test_load_pages, test_reporting


@pytest.fixture(autouse=True)
def hostile_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the makers of pages in other tests use this text."""
    monkeypatch.setattr(test_audit_page, "BREAKOUT", HOSTILE)
    monkeypatch.setattr(test_load_pages, "BREAKOUT", HOSTILE)
    monkeypatch.setattr(test_reporting, "BREAKOUT", HOSTILE)
    monkeypatch.setattr(test_reporting, "SCRIPT", HOSTILE)


def test_pages_of_plans_runs_and_balances() -> None:
    for html in test_reporting.hostile_pages():
        hostile.check_html(html)
        assert MARK in html
        style = html.partition("<style>")[2].partition("</style>")[0]
        allowed = base64.b64encode(sha256(style.encode()).digest()).decode()
        policy = f"default-src 'none'; style-src 'sha256-{allowed}'; img-src data:"
        assert policy in unescape(html)


def test_documents_of_a_balance() -> None:
    balance = test_reporting.balance(rack=HOSTILE, topic=HOSTILE, cluster=HOSTILE)
    flapping = Flapping((FlappingPartition(HOSTILE, 3, 12),), 1, ((HOSTILE, 1),), 24, 10)
    balance = replace(balance, flapping=flapping)
    hostile.check_html(leader_balance_report(balance))
    hostile.check_json(leader_balance_json(balance))


def test_an_audit_in_every_form() -> None:
    report = test_audit_page.hostile()
    for in_store in (False, True):
        html = audit_html(AuditView.of(report, test_audit_page.TEXTS), in_store=in_store)
        hostile.check_html(html)
    hostile.check_json(audit_json(AuditView.of(report, test_audit_page.TEXTS)))
    assert MARK in html


def test_a_fleet_in_every_form() -> None:
    bad = test_load_pages.state(HOSTILE)
    assert bad.load is not None
    load = test_load_pages.hostile(bad.load)
    fleet = test_load_pages.fleet_of(bad)
    hostile.check_html(fleet_copy(fleet))
    hostile.check_json(fleet_json(fleet))
    hostile.check_html(test_load_pages.section(load))


def test_a_line_of_the_log_stays_one(caplog: pytest.LogCaptureFixture) -> None:
    logger: SafeLogger = safe_logger("counterpoise.hostile")
    with caplog.at_level(logging.INFO):
        logger.info("rack %s of %d, %.1f %%: %r", HOSTILE, 3, 0.5, HOSTILE)
        logger.info(HOSTILE.partition("\n")[0])
        logger.warning("%s", ValueError(HOSTILE))
    hostile.check_log(caplog.records)
    assert "of 3, 0.5 %" in caplog.text

"""Reporting: values in, text out. Self-contained HTML pages with inline pictures, and the same figures as text.

    html = leader_balance_report(balance, wanted=wanted_goal(balance, policy))

Every word that comes from a cluster (racks, topics, reasons) is taken for hostile and escaped, in pictures too; the
pages hold no script, and a Content-Security-Policy that would stop one. Same values, same text: no clock is read.

Limits: drawing uses matplotlib's global settings for the moment of one picture, so draw from one thread at a time.
"""

from counterpoise.reporting.audit_page import audit_json, audit_markdown, audit_report
from counterpoise.reporting.balance_text import (
    brokers_csv,
    leader_balance_csv,
    leader_balance_json,
    leader_balance_markdown,
)
from counterpoise.reporting.blocks import plan_picture
from counterpoise.reporting.fleet_page import fleet_csv, fleet_json, fleet_markdown, fleet_report
from counterpoise.reporting.leader_balance import leader_balance_report
from counterpoise.reporting.plan_page import plan_report
from counterpoise.reporting.run_page import run_report
from counterpoise.reporting.text import plan_markdown, progress_line

__all__ = [
    "audit_json",
    "audit_markdown",
    "audit_report",
    "brokers_csv",
    "fleet_csv",
    "fleet_json",
    "fleet_markdown",
    "fleet_report",
    "leader_balance_csv",
    "leader_balance_json",
    "leader_balance_markdown",
    "leader_balance_report",
    "plan_markdown",
    "plan_picture",
    "plan_report",
    "progress_line",
    "run_report",
]

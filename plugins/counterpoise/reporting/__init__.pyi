from .audit_page import audit_json, audit_markdown, audit_report
from .balance_text import leader_balance_csv, leader_balance_json, leader_balance_markdown
from .fleet_page import fleet_csv, fleet_json, fleet_markdown, fleet_report
from .leader_balance import leader_balance_report
from .plan_page import plan_pictures, plan_report, plan_tiles
from .plan_text import plan_csv, plan_markdown, plan_picture
from .run_page import run_report

__all__ = [
    "audit_json",
    "audit_markdown",
    "audit_report",
    "fleet_csv",
    "fleet_json",
    "fleet_markdown",
    "fleet_report",
    "leader_balance_csv",
    "leader_balance_json",
    "leader_balance_markdown",
    "leader_balance_report",
    "plan_csv",
    "plan_markdown",
    "plan_picture",
    "plan_pictures",
    "plan_report",
    "plan_tiles",
    "run_report",
]

from .audit_page import audit_json, audit_report
from .balance_document import leader_balance_json
from .fleet_page import fleet_json, fleet_report
from .leader_balance import leader_balance_report
from .plan_page import plan_pictures, plan_report, plan_tiles
from .plan_text import plan_markdown, plan_picture
from .run_page import run_report

__all__ = [
    "audit_json",
    "audit_report",
    "fleet_json",
    "fleet_report",
    "leader_balance_json",
    "leader_balance_report",
    "plan_markdown",
    "plan_picture",
    "plan_pictures",
    "plan_report",
    "plan_tiles",
    "run_report",
]

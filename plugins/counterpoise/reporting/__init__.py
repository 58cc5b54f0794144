"""Reporting: values in, text out. Self-contained HTML pages with inline pictures for
people, and the same figures as JSON for programs.

    html = leader_balance_report(balance, wanted=analysed.wanted)

Every word that comes from a cluster (racks, topics, reasons) is taken for hostile and escaped, in
pictures too; the pages hold no script, and a Content-Security-Policy that would stop one. Same
values, same text: no clock is read.
"""

from counterpoise.reporting.leader_balance import leader_balance_report

__all__ = [
    "leader_balance_report",
]

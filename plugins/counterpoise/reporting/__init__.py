"""Reporting: values in, text out. Self-contained HTML pages with inline pictures for
people, and the same figures as JSON for programs.

    html = leader_balance_report(balance, wanted=analysed.wanted)

Every word that comes from a cluster (racks, topics, reasons) is taken for hostile and escaped, in
pictures too; the pages hold no script, and a Content-Security-Policy that would stop one. Same
values, same text: no clock is read.

Limits: drawing uses matplotlib's global settings for the moment of one picture, so pictures are
drawn one after another, whichever thread asks.

What is here, and in which module, is told by `__init__.pyi`; modules are imported when first used.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)

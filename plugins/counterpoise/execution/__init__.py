"""Carrying out an approved plan: look at the cluster, decide, write the intent, apply, look again.

`decide` and what it asks (`beat`, `halting`, `batching`, `throttles`) are pure; `look` reads, `hands` change one thing,
`driver` holds them together. Restarting is the same as going on.
"""

from counterpoise.execution.break_glass import keys_to_restore
from counterpoise.execution.debts import is_owed, late_moves, pay_debts
from counterpoise.execution.driver import Driver, Orders

__all__ = ["Driver", "Orders", "is_owed", "keys_to_restore", "late_moves", "pay_debts"]

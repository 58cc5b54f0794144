"""Carrying out an approved plan: look at the cluster, decide, write the intent, apply, look again.

`decide` and `throttles` are pure; `driver` does the I/O. Restarting is the same as going on.
"""

from counterpoise.execution.driver import Driver, Orders

__all__ = ["Driver", "Orders"]

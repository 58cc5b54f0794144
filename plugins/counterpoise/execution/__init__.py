"""Carrying out an approved plan: look at the cluster, decide, write the intent, apply, look again.

`decide` and what it asks (`beat`, `halting`, `batching`, `throttles`) are pure; `look` reads,
`hands` change one thing, `driver` holds them together. Restarting is the same as going on.
"""

from counterpoise.execution.driver import Driver, ExecutionOptions
from counterpoise.execution.emergency_stop import keys_to_restore
from counterpoise.execution.pending_restores import is_pending_restore, late_moves, restore_pending

__all__ = [
    "Driver",
    "ExecutionOptions",
    "is_pending_restore",
    "keys_to_restore",
    "late_moves",
    "restore_pending",
]

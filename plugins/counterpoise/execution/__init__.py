"""Carries out an approved plan: observe, decide, record the intent, change one thing, and again.

`decide` and what it uses (`progress_update`, `batching`, `throttling`) are pure; `observe` reads,
`command_executor` changes one thing, `driver` holds them together. Restarting is the same as going
on.
"""

from counterpoise.execution.driver import Driver, ExecutionOptions
from counterpoise.execution.observation import moves_in_flight
from counterpoise.execution.throttling.pending_restores import restore_pending
from counterpoise.execution.throttling.restore import keys_to_restore

__all__ = [
    "Driver",
    "ExecutionOptions",
    "keys_to_restore",
    "moves_in_flight",
    "restore_pending",
]

"""Files: the store for history, results, plans and reports."""

from counterpoise.storage.store import Store

__all__ = ["Store"]

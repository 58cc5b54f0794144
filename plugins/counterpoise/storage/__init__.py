"""The store for history, results, plans and reports, and the directory that Spark jobs use."""

from counterpoise.storage.opening import shown_uri
from counterpoise.storage.staging import PACKED, WorkingCopy, working_copy, working_root
from counterpoise.storage.store import Store

__all__ = ["PACKED", "Store", "WorkingCopy", "shown_uri", "working_copy", "working_root"]

"""Files: the store for history, results, plans and reports, and where Spark finds them."""

from counterpoise.storage.staging import working_root
from counterpoise.storage.store import Store

__all__ = ["Store", "working_root"]

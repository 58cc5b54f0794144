"""Intent, permission and progress, in a database of its own: what must survive every crash."""

from counterpoise.ledger.journal import Journal, StepLock
from counterpoise.ledger.ledger import Ledger

__all__ = ["Journal", "Ledger", "StepLock"]

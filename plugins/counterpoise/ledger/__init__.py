"""Intent, permission and progress, in a database of its own: what must survive every crash."""

from counterpoise.ledger.database import is_made, shown_address
from counterpoise.ledger.ledger import Journal, Ledger, LedgerState
from counterpoise.ledger.step import Step

__all__ = ["Journal", "Ledger", "LedgerState", "Step", "is_made", "shown_address"]

"""Intent, permission and progress, in a database of its own: what must survive every crash."""

from counterpoise.ledger.database import shown_address
from counterpoise.ledger.journal import Journal
from counterpoise.ledger.ledger import Ledger
from counterpoise.ledger.step import Step

__all__ = ["Journal", "Ledger", "Step", "shown_address"]

"""What a check of the ledger's hash chains finds: `ledger/chain.py` makes these values.

report = ledger.chain().verify()
report.is_intact, report.states[0].head, report.breaks[0].in_words
"""

from dataclasses import dataclass

from counterpoise.model.words import pluralize


@dataclass(frozen=True, slots=True)
class ChainState:
    """The chain of one cluster, as it is now."""

    cluster: str
    first_sequence: int  # above 1 after a checkpoint; 0 where nothing is chained
    last_sequence: int
    head: str  # the hash of the last entry, "" where nothing is chained
    rows_waiting: int  # that the next writer chains

    @property
    def in_words(self) -> str:
        """Return `demo: 3 entries, 1 to 3, head 9f86...`, and how many rows wait."""
        count = self.last_sequence - self.first_sequence + 1 if self.last_sequence else 0
        entries = (
            f"{pluralize(count, 'entry', 'entries')}, {self.first_sequence} to {self.last_sequence}"
        )
        chained = f"{entries}, head {self.head}" if count else "nothing is chained"
        waiting = f"; {self.rows_waiting} not chained yet" if self.rows_waiting else ""
        return f"{self.cluster}: {chained}{waiting}"


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """A row, or an entry of the chain, that is not what was written."""

    cluster: str
    table: str
    row_id: int
    at: str  # UTC, as stored
    what: str

    @property
    def in_words(self) -> str:
        return f"cluster {self.cluster}: {self.table} {self.row_id} ({self.at}) {self.what}"


@dataclass(frozen=True, slots=True)
class ChainReport:
    states: tuple[ChainState, ...]
    breaks: tuple[ChainBreak, ...]
    missing_heads: tuple[str, ...] = ()  # heads noted earlier that no chain has any more

    @property
    def is_intact(self) -> bool:
        return not self.breaks and not self.missing_heads

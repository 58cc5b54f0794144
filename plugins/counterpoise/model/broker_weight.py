"""How much of all replicas and bytes each broker is to hold, beside the others.

    BrokerWeight().weights_of([1, 2], [10 * TB, 40 * TB])    # [10 TB, 40 TB]: shares by disk
    BrokerWeight().weights_of([1, 2], [10 * TB, 11 * TB])    # [1, 1]: the same for both

By disk, a broker's share is as large a part of all replicas and bytes as its disks are of all
disks. That is where the largest has more than 1.1 times the disks of the smallest, and the size of
each is known: else, and by policy (`equal`), all shares are the same. A policy may also name
weights: {7: 2} is twice the share of any other broker for broker 7.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np

from counterpoise.errors import InputError
from counterpoise.model.columns import Ints
from counterpoise.model.setting import Written, whole

_SAME_UP_TO_PERCENT: Final = 110  # of the smallest disks
_BROKER_ID: Final = whole(0, 2**31 - 1)
_WEIGHT: Final = whole(1, 1000)


class Weighing(StrEnum):
    EQUAL = "equal"
    DISK = "disk"


class BrokerWeight(NamedTuple):
    by: Weighing = Weighing.DISK
    named: tuple[tuple[int, int], ...] = ()  # broker id and weight; any other broker has 1

    def weights_of(self, broker_ids: Sequence[int], disk_bytes: Sequence[int]) -> Ints:
        """Return the weight of each broker: all 1 where shares are the same.

        `disk_bytes` are 0 where they are not known.
        """
        if self.named:
            by_broker = dict(self.named)
            return np.array([by_broker.get(one, 1) for one in broker_ids], dtype=np.int64)
        smallest, largest = min(disk_bytes, default=0), max(disk_bytes, default=0)
        is_different = largest * 100 > smallest * _SAME_UP_TO_PERCENT
        if self.by is Weighing.EQUAL or not smallest or not is_different:
            return np.ones(len(broker_ids), dtype=np.int64)
        return np.array(disk_bytes, dtype=np.int64)


class _WrittenWeight(Written):
    """A word, or a mapping of weights."""

    def read(self, value: object) -> object:
        if not isinstance(value, Mapping):
            return super().read(value)
        try:
            pairs = [(_BROKER_ID.parse(broker), _WEIGHT.parse(of)) for broker, of in value.items()]
        except (InputError, AttributeError):
            raise ValueError(
                "must name brokers by id, with whole weights from 1 to 1000, like {7: 2}"
            ) from None
        return BrokerWeight(named=tuple(sorted(pairs)))


def _parse(text: str) -> BrokerWeight:
    if text not in tuple(Weighing):
        raise InputError(f"{text!r} is none of equal, disk; or name weights, like {{7: 2}}")
    return BrokerWeight(Weighing(text))


def _show(weight: BrokerWeight) -> str:
    return "; ".join(f"{broker}: {of}" for broker, of in weight.named) or weight.by


BY_DISK: Final = BrokerWeight()
WEIGHT_WRITTEN: Final = _WrittenWeight("`equal`, `disk`, or weights, like {7: 2}", _parse, _show)

"""Clients that give the brokers of a busy machine more time.

    with patient_clients():
        ...     # a broker that takes three seconds to answer is not taken for a frozen one

The product waits 2 s for what a broker alone can tell, and then leaves it out. Beside other suites
a live broker has taken longer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from counterpoise.kafka_admin import broker_client, configs, reading

PATIENCE_SECONDS: Final = 5.0


@contextmanager
def patient_clients() -> Iterator[None]:
    """Wait PATIENCE_SECONDS for a broker, or as long as a client waits for any answer."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (broker_client, configs, reading):
            patch.setattr(module, "UNRESPONSIVE_AFTER_SECONDS", PATIENCE_SECONDS)
        yield

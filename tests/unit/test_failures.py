"""What does not work with a cluster now is known at once, and only for as long as it is so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from counterpoise.errors import ClusterUnreachableError
from counterpoise.installation import Installation
from counterpoise.model.cluster_failure import FailureKind
from counterpoise.services import snapshots
from tests.support.pages import Pages


class Unreachable:
    """A client of a cluster whose brokers do not answer."""

    def describe_cluster(self) -> None:
        raise ClusterUnreachableError((("kafka-1:9092", "refused"), ("kafka-2:9092", "refused")))

    def close(self) -> None:
        pass


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    pages = Pages.in_folder(tmp_path, "clusters: {demo: {connection: kafka}}")
    (tmp_path / "connections.yaml").write_text("kafka: {bootstrap.servers: 'kafka-1:9092'}\n")
    with pages.installation() as made:
        made.connect_to = lambda _settings: Unreachable()  # type: ignore[assignment,return-value]
        yield made


def test_a_cluster_whose_brokers_do_not_answer_is_known_until_one_does(
    installation: Installation,
) -> None:
    with pytest.raises(ClusterUnreachableError), installation.reader("demo"):
        pass
    failure = installation.ledger.failures()["demo"]
    assert failure.kind is FailureKind.NOT_ANSWERING
    assert failure.text == "no bootstrap address answered: kafka-1:9092: refused"
    installation.ledger.end_failure("demo", FailureKind.NOT_ANSWERING)
    assert installation.ledger.failures() == {}


def test_a_snapshot_that_failed_is_known_until_one_is_kept(installation: Installation) -> None:
    with pytest.raises(ClusterUnreachableError):
        snapshots.make(installation, "demo", installation.clock())
    installation.ledger.end_failure("demo", FailureKind.NOT_ANSWERING)
    failure = installation.ledger.failures()["demo"]
    assert failure.kind is FailureKind.SNAPSHOT
    assert failure.text == "no bootstrap address answered: kafka-1:9092: refused"


def test_another_reason_is_told_and_the_time_stays(installation: Installation) -> None:
    """Somebody mends one thing, and the next one shows."""
    ledger = installation.ledger
    ledger.record_failure("demo", FailureKind.SNAPSHOT, "no connection")
    before = ledger.failures()["demo"]
    ledger.record_failure("demo", FailureKind.SNAPSHOT, "refused")
    now = ledger.failures()["demo"]
    assert (now.text, now.since) == ("refused", before.since)

"""A producer and a consumer that write down how long each record takes, until they are stopped.

    python -m benchmarks.latency_clients BOOTSTRAP TOPIC OUT

One record after the other goes to each partition in turn, with acks=all. OUT has one line for each
value. Kinds are `produced`, the seconds from the send to the answer; `consumed`, from the send
until the consumer has it; `failed`; `led`, how many partitions have another leader than 0.1 s
before. In between is when it was sent, by time.monotonic(), which all processes of a machine share:

    produced 81234.412 0.0041

It prints `ready` once the consumer has a record. At SIGTERM it waits for what is in flight.
"""

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

RECORDS_PER_SECOND: Final = 200
RECORD_BYTES: Final = 1_000
LEADERS_EVERY_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.5
_TIMEOUT_SECONDS: Final = 30.0

Rows = list[tuple[str, float, float]]  # kind, time.monotonic(), value


class Clients:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.ending = threading.Event()
        self._common: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
        }
        self._admin = AdminClient(self._common)
        self._rows: Rows = []  # list.append is atomic
        self._leaders = self._read_leaders()
        self._is_ready = threading.Event()

    def run(self) -> Rows:
        """Return what was written down until `ending` was set."""
        threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._produce, self._consume, self._watch_leaders)
        ]
        for thread in threads:
            thread.start()
        self._is_ready.wait()
        print("ready", flush=True)
        for thread in threads:
            thread.join()
        return self._rows

    def _read_leaders(self) -> dict[int, int]:
        partitions = self._admin.list_topics(self.topic, timeout=_TIMEOUT_SECONDS).topics
        return {number: p.leader for number, p in partitions[self.topic].partitions.items()}

    def _watch_leaders(self) -> None:
        while not self.ending.wait(LEADERS_EVERY_SECONDS):
            leaders = self._read_leaders()
            changed = sum(leaders[number] != self._leaders[number] for number in leaders)
            if changed:
                self._rows.append(("led", time.monotonic(), changed))
            self._leaders = leaders

    def _produce(self) -> None:
        producer = Producer({**self._common, "acks": "all", "linger.ms": 0})
        began = time.monotonic()
        sent = 0
        while not self.ending.is_set():
            producer.poll(max(0.0, began + sent / RECORDS_PER_SECOND - time.monotonic()))
            if time.monotonic() < began + sent / RECORDS_PER_SECOND:
                continue  # it was woken by an answer
            sent_at = time.monotonic()
            value = repr(sent_at).encode().ljust(RECORD_BYTES)
            partition = sent % len(self._leaders)
            producer.produce(self.topic, value, partition=partition, on_delivery=self._answered)
            sent += 1
        producer.flush(_TIMEOUT_SECONDS)

    def _answered(self, error: KafkaError | None, message: Message) -> None:
        sent_at = float(message.value() or b"")
        kind = "produced" if error is None else "failed"
        # The client's own clock: answers are handed over when this thread polls.
        self._rows.append((kind, sent_at, message.latency() or 0.0))

    def _consume(self) -> None:
        consumer = Consumer({**self._common, "group.id": "latency", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self.topic, n, OFFSET_END) for n in self._leaders])
        while not self.ending.is_set():
            message = consumer.poll(_POLL_SECONDS)
            if message is None or message.error():
                continue
            sent_at = float(message.value() or b"")
            self._rows.append(("consumed", sent_at, time.monotonic() - sent_at))
            self._is_ready.set()
        consumer.close()


def main(bootstrap: str, topic: str, out: str) -> None:
    clients = Clients(bootstrap, topic)
    signal.signal(signal.SIGTERM, lambda *_: clients.ending.set())
    rows = clients.run()
    Path(out).write_text("".join(f"{kind} {at!r} {value!r}\n" for kind, at, value in rows))


if __name__ == "__main__":
    main(*sys.argv[1:])

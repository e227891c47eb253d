"""From the start of a worker's process until its first record: heeler and Java Kafka Connect on one broker.

    python -m tests.benchmarks.bench_cold_start [--reps 5]

Each worker has one connector, which exists already and has a record to deliver when the process starts: a line in the
file of a FileStreamSource (measured until a consumer has it), or a record in the topic of a FileStreamSink (until its
line is in the file). Prints for each the median, and the least and the greatest. Also from a POST to a worker that has
just started and has had no connector yet until that connector's first record.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.benchmarks.harness import arguments, heeler, load

PORT = 29750
WITHIN_S = 60.0
LOOK_S = 0.001
FILE = "org.apache.kafka.connect.file.FileStream{}Connector"


class Stream:
    """A connector's records on both of its ends: `send` one, and `wait` until it has been delivered."""

    def __init__(self, rig: Any, name: str) -> None:
        self.name, self.file, self.topic = name, rig.run / f"{name}.txt", name
        self.file.touch()
        admin = AdminClient({"bootstrap.servers": rig.bootstrap})
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        self._servers = rig.bootstrap
        self._number = 0

    def text(self) -> str:
        self._number += 1
        return f"{self.name} {self._number}"

    def until(self, there: Callable[[], bool]) -> float:
        """The time (perf_counter) at which it was there."""
        deadline = time.perf_counter() + WITHIN_S
        while not there():
            if time.perf_counter() > deadline:
                raise TimeoutError(f"{self.name}: no record within {WITHIN_S:.0f} s")
        return time.perf_counter()


class Source(Stream):
    def __init__(self, rig: Any, name: str) -> None:
        super().__init__(rig, name)
        self.config = {"connector.class": FILE.format("Source"), "file": str(self.file), "topic": self.topic}
        self._consumer = Consumer({"bootstrap.servers": self._servers, "group.id": name, "fetch.wait.max.ms": 10,
                                   "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(self.topic, 0, 0)])

    def send(self) -> str:
        text = self.text()
        with self.file.open("a") as out:
            out.write(f"{text}\n")
        return text

    def wait(self, text: str) -> float:
        def there() -> bool:
            message = self._consumer.poll(0.1)
            return message is not None and message.error() is None and message.value() == text.encode()

        return self.until(there)

    def close(self) -> None:
        self._consumer.close()


class Sink(Stream):
    def __init__(self, rig: Any, name: str) -> None:
        super().__init__(rig, name)
        self.config = {"connector.class": FILE.format("Sink"), "file": str(self.file), "topics": self.topic}
        self._producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 0})

    def send(self) -> str:
        text = self.text()
        self._producer.produce(self.topic, text)
        self._producer.flush(30)
        return text

    def wait(self, text: str) -> float:
        def there() -> bool:
            if self.file.read_text().endswith(f"{text}\n"):
                return True
            time.sleep(LOOK_S)
            return False

        return self.until(there)

    def close(self) -> None:
        """Nothing is open."""


@contextmanager
def started(rig: Any, system: Any, group: str) -> Iterator[Any]:
    worker = rig.worker(system, group).start()
    try:
        yield worker
    finally:
        rig.stop_workers()


def measured(rig: Any, system: Any, kind: type[Source | Sink], reps: int, quiet: float) -> tuple[list[float], float]:
    """The seconds of each start, and those of the first connector of a worker."""
    group = rig.new_group()
    stream = kind(rig, f"{group}-{kind.__name__.lower()}")
    config = {**stream.config, "name": stream.name, "tasks.max": "1"}
    with started(rig, system, group) as worker:
        worker.wait_ready()
        text, begun = stream.send(), time.perf_counter()
        worker.rest.call("POST", "/connectors", {"name": stream.name, "config": config})
        posted = stream.wait(text) - begun
    found = []
    for _ in range(reps):
        rig.wait_quiet(quiet)
        text = stream.send()
        with started(rig, system, group) as worker:
            found.append(stream.wait(text) - worker.process.started)
    stream.close()
    return found, posted


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__, PORT)
    parser.add_argument("--reps", type=int, default=5)
    asked = parser.parse_args()
    rigs, _, rig = load(asked)
    rig.start_broker()
    try:
        for kind in (Source, Sink):
            for system in (heeler(rigs), rig.java_system()):
                found, posted = measured(rig, system, kind, asked.reps, asked.quiet)
                spread = f"{statistics.median(found):.2f} s ({min(found):.2f}..{max(found):.2f})"
                print(f"{kind.__name__}, {system.label}: first record {spread} after the start of the process, "  # noqa: T201
                      f"{posted:.2f} s after the POST to a new worker", flush=True)
    finally:
        rig.stop(keep=False)


if __name__ == "__main__":
    main()

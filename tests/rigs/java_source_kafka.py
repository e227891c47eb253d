"""Kafka in memory, as the tasks of Java sources use it."""

from __future__ import annotations

import threading

import numpy as np

from spark_tasks.errors import RetriableError
from spark_tasks.kafka.errors import KafkaUnavailableError
from spark_tasks.sources.delivery import Lane


class Kafka:
    """What was appended and committed; a Delivery and an OffsetStore at once."""

    boundary = None
    due_ms = None

    def __init__(self):
        self.appended, self.committed, self.aborts, self.final = [], [], 0, True
        self.signals = []
        self.suspended = False
        self.leads = True
        self.waits = threading.Event()  # for a leader

    def start(self): ...
    def cancel(self): ...
    def close(self): ...
    def close_soon(self): ...
    def written(self, sequences): ...

    def recover(self):
        self.suspended = False

    def check(self):
        if self.suspended:
            raise RetriableError("this process was suspended")

    def lanes(self, count):
        return [Lane(None)] * count

    def commit(self, offsets, signal):
        self.committed.append((len(self.appended), offsets))
        self.signals.append(signal)
        return self.final

    def settle(self, *, finish):
        return finish and not self.final

    def abort(self):
        self.aborts += 1

    def failure(self, error):
        return error

    def read(self):
        return [({"of": "count"}, {"next": 9007199254740993})]


class Appender:
    """Appends to such a Kafka."""

    def __init__(self, kafka):
        self._kafka = kafka
        self.sequences, self._batch, self._closed = {}, [], threading.Event()

    def append(self, topic, _partitions, raw, landed):
        start = len(self._kafka.appended) + len(self._batch)
        self._batch += [(topic, value) for value in raw.column("value").to_pylist()]
        if landed is not None:
            landed(1, np.arange(min(2, len(raw)))[::-1], start)
            landed(4, np.arange(2, len(raw)), -1)

    def flush(self):
        if not self._kafka.leads:
            self._kafka.waits.set()
            self._closed.wait(10)
            raise KafkaUnavailableError("the appender was closed")
        self._kafka.appended += self._batch
        self._batch = []

    def close(self):
        self._closed.set()

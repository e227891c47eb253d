"""A record batch on its way to Kafka, and who is told what becomes of its records."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import TopicPartition

Rows = np.ndarray[Any, Any]
OnAppend = Callable[[int, Rows, int], None]
OnRefusal = Callable[[int, ConnectError], None]


@dataclass(slots=True)
class PendingBatch:
    """A record batch that is not acknowledged yet. `where`: its partition; `count`: its records; `sequence`: its first
    sequence number, -1 without an identity; `number`: orders the batches of a partition; `since`: when it was added
    (time.monotonic).
    """

    where: TopicPartition
    data: bytes | memoryview
    count: int
    sequence: int
    number: tuple[int, ...]
    since: float = field(default_factory=time.monotonic)
    listener: AppendListener | None = None


@dataclass(frozen=True, slots=True)
class AppendListener:
    """Functions to call on the IO thread. `rows`: the caller's numbers of a batch's records. `appended` is called with
    the partition, the rows, and the offset of the first, when the batch is acknowledged; `refused` with the row and the
    error of each record that a broker refuses because of what it is. Such a record is left out; without `refused`, it
    is an error of the sender.
    """

    rows: Rows
    appended: OnAppend | None = None
    refused: OnRefusal | None = None

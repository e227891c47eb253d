"""Decides when a transaction of an exactly-once source task ends (transaction.boundary, KIP-618)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from spark_tasks.config.connector_keys import TRANSACTION_KEYS
from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.plugins.api import TransactionSignal

DEFAULT_INTERVAL_MS: Final = 60_000  # Kafka Connect's offset.flush.interval.ms
# The coordinator aborts a transaction at its timeout and fences its producer, so the interval is at most this fraction.
_MAX_TIMEOUT_FRACTION: Final = 2 / 3


class BoundaryKind(Enum):
    """The values of transaction.boundary."""

    POLL = "poll"  # after each batch
    INTERVAL = "interval"
    CONNECTOR = "connector"  # decided by the reader


@dataclass(frozen=True, slots=True)
class Boundary:
    """When transactions end. `interval_ms` applies only to INTERVAL."""

    kind: BoundaryKind
    interval_ms: int = DEFAULT_INTERVAL_MS

    @classmethod
    def configured(cls, connector: Mapping[str, str], usual_ms: int, transaction_timeout_ms: int) -> Boundary:
        """Parses the connector's configuration. `usual_ms`: the default interval. Raises ConfigError."""
        values = TRANSACTION_KEYS.parse(connector)
        interval = values["transaction.boundary.interval.ms"]
        longest = int(transaction_timeout_ms * _MAX_TIMEOUT_FRACTION)
        return cls(BoundaryKind(values["transaction.boundary"].lower()),
                   min(usual_ms if interval is None else interval, longest))

    def ends(self, open_ms: float, signal: TransactionSignal) -> bool:
        """Returns whether a transaction ends after a batch. `open_ms`: for how long it has been open; `signal`: the
        reader's signal for the batch.
        """
        if self.kind is BoundaryKind.CONNECTOR:
            return signal != "continue"
        return self.kind is BoundaryKind.POLL or open_ms >= self.interval_ms

    def due_ms(self, open_ms: float) -> float | None:
        """Returns how long an open transaction may wait for another batch, in milliseconds; None means no limit."""
        if self.kind is BoundaryKind.CONNECTOR:
            return None
        return 0.0 if self.kind is BoundaryKind.POLL else max(0.0, self.interval_ms - open_ms)

    @property
    def ends_with_the_task(self) -> bool:
        """Whether a task that pauses or stops commits its open transaction. If not, it rereads the records later."""
        return self.kind is not BoundaryKind.CONNECTOR


def signal_of(reader: Any, kind: BoundaryKind, start: Mapping[str, Any], end: Mapping[str, Any]) -> TransactionSignal:
    """Returns the signal for a batch from `start` to `end`: that of a reader with TransactionBoundaries for CONNECTOR,
    otherwise "commit". Raises ConfigError, ConnectError.
    """
    if kind is not BoundaryKind.CONNECTOR:
        return "commit"
    if not hasattr(reader, "transaction"):
        raise ConfigError(
            "transaction.boundary is connector, but the connector's reader does not define transactions; set it to "
            "poll or interval"
        )
    signal: TransactionSignal = reader.transaction(dict(start), dict(end))
    if signal not in ("commit", "abort", "continue"):
        raise ConnectError(f"the reader's transaction() returned {signal!r}: expected commit, abort or continue")
    return signal

"""When a transaction of an exactly-once source task ends (KIP-618's transaction.boundary). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from spark_tasks.errors import ConfigError, ConnectError
from spark_tasks.kafka.task_clients import number
from spark_tasks.plugins.api import TransactionSignal

DEFAULT_INTERVAL_MS: Final = 60_000  # Kafka Connect's offset.flush.interval.ms
# The coordinator aborts a transaction at its timeout and fences its producer. Ending it earlier is always allowed.
_LONGEST_SHARE: Final = 2 / 3


class BoundaryKind(Enum):
    """transaction.boundary."""

    POLL = "poll"  # with each batch
    INTERVAL = "interval"
    CONNECTOR = "connector"  # where the reader decides


@dataclass(frozen=True, slots=True)
class Boundary:
    """When transactions end. `interval_ms` applies to INTERVAL only."""

    kind: BoundaryKind
    interval_ms: int = DEFAULT_INTERVAL_MS

    @classmethod
    def configured(cls, connector: Mapping[str, str], usual_ms: int, transaction_timeout_ms: int) -> Boundary:
        """The boundary in the connector's configuration; `usual_ms`: the default interval. Raises ConfigError."""
        text = connector.get("transaction.boundary", "").strip().lower() or BoundaryKind.POLL.value
        try:
            kind = BoundaryKind(text)
        except ValueError:
            allowed = ", ".join(k.value for k in BoundaryKind)
            raise ConfigError(
                f"Invalid value {text} for configuration transaction.boundary: expected one of {allowed}"
            ) from None
        interval = number(connector, "transaction.boundary.interval.ms", usual_ms)
        return cls(kind, min(interval, int(transaction_timeout_ms * _LONGEST_SHARE)))

    def ends(self, open_ms: float, signal: TransactionSignal) -> bool:
        """Whether a transaction that has been open for this long ends after a batch with this signal of the reader."""
        if self.kind is BoundaryKind.CONNECTOR:
            return signal != "continue"
        return self.kind is BoundaryKind.POLL or open_ms >= self.interval_ms

    def due_ms(self, open_ms: float) -> float | None:
        """How long an open transaction may wait for another batch; None for no limit."""
        if self.kind is BoundaryKind.CONNECTOR:
            return None
        return 0.0 if self.kind is BoundaryKind.POLL else max(0.0, self.interval_ms - open_ms)

    @property
    def ends_with_the_task(self) -> bool:
        """Whether a task that pauses or stops commits its open transaction; otherwise its records are read again."""
        return self.kind is not BoundaryKind.CONNECTOR


def signal_of(reader: Any, kind: BoundaryKind, start: Mapping[str, Any], end: Mapping[str, Any]) -> TransactionSignal:
    """The signal for a batch from a reader with TransactionBoundaries; "commit" if the reader does not decide."""
    if kind is not BoundaryKind.CONNECTOR:
        return "commit"
    if not hasattr(reader, "transaction"):
        raise ConfigError(
            "transaction.boundary is connector, and the connector's reader does not define transactions; set it to "
            "poll or interval"
        )
    found: TransactionSignal = reader.transaction(dict(start), dict(end))
    if found not in ("commit", "abort", "continue"):
        raise ConnectError(f"the reader's transaction() returned {found!r}: expected commit, abort or continue")
    return found

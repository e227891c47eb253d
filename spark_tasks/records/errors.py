"""What the record batch codec refuses, as types."""

from __future__ import annotations

from spark_tasks.errors import ConnectError


class CorruptRecordsError(ConnectError):
    """The bytes are no valid record batch: a wrong checksum, an impossible length, data that does not decompress.
    `position` is the byte at which the damaged batch starts.
    """

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(f"corrupt record batch at byte {position}: {reason}")
        self.reason = reason
        self.position = position

    def __reduce__(self) -> tuple[type[CorruptRecordsError], tuple[str, int]]:
        return type(self), (self.reason, self.position)


class UnsupportedFormatError(ConnectError):
    """Records in message format v0 or v1 (brokers before 0.11), or compressed by a codec unknown here."""


class RecordTooLargeError(ConnectError):
    """One record does not fit into a batch of the allowed size. `row` is its place in the batch given to `encode`,
    `size` its bytes as a batch of its own, `limit` the bytes allowed, `topic` the topic where it is known.
    """

    def __init__(self, row: int, size: int, limit: int, topic: str | None = None) -> None:
        where = "" if topic is None else f" for topic {topic!r}"
        super().__init__(
            f"record {row}{where} is {size} bytes in a batch of its own, more than the {limit} allowed; "
            "raise max.request.size and the topic's max.message.bytes, or make the record smaller",
        )
        self.row = row
        self.size = size
        self.limit = limit
        self.topic = topic

    def __reduce__(self) -> tuple[type[RecordTooLargeError], tuple[int, int, int, str | None]]:
        return type(self), (self.row, self.size, self.limit, self.topic)

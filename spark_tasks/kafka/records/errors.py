"""The errors of the record batch codec."""

from __future__ import annotations

from typing import Any

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.record_limit import MAX_RECORD_KEY


class CorruptRecordsError(ConnectError):
    """The bytes are not a valid record batch: a wrong checksum, an impossible length, data that does not decompress.
    `position`: the byte at which the damaged batch starts; `offset`: its first offset, if its header is readable;
    `where`: topic and partition, if known.
    """

    def __init__(
        self, reason: str, position: int, offset: int | None = None, where: tuple[str, int] | None = None
    ) -> None:
        if where is None:
            text = f"corrupt record batch at byte {position}: {reason}"
        else:
            text = (
                f"the records of {where[0]}-{where[1]} at offset {offset} cannot be read: their batch is corrupt: "
                f"{reason}. Look for the cause on the broker's disk or in the producer of the batch; to continue after "
                "it, stop the connector and give it a later offset of the partition (PATCH /connectors/NAME/offsets)"
            )
        super().__init__(text)
        self.reason = reason
        self.position = position
        self.offset = offset
        self.where = where

    def at(self, topic: str, partition: int, position: int) -> CorruptRecordsError:
        """The same error with topic and partition. `position`: the offset that was to be read next."""
        offset = position if self.offset is None else max(self.offset, position)
        return type(self)(self.reason, self.position, offset, (topic, partition))

    def __reduce__(self) -> tuple[type[CorruptRecordsError], tuple[Any, ...]]:
        return type(self), (self.reason, self.position, self.offset, self.where)


class OversizedRecordError(ConnectError):
    """A record to be read is larger than heeler.max.record.bytes: `size` and `limit` in bytes, uncompressed, with key,
    value and headers. `offset`: the record's; `where`: topic and partition, if known. `what`: the thing that is too
    large, if it is not a record but something else that cannot be read in pieces.
    """

    def __init__(
        self, size: int, limit: int, offset: int, what: str = "the record", where: tuple[str, int] | None = None
    ) -> None:
        place = "" if where is None else f" of {where[0]}-{where[1]}"
        super().__init__(
            f"{what}{place} at offset {offset} has {size} bytes uncompressed, more than the {limit} that "
            f"{MAX_RECORD_KEY} allows. Raise it in the properties of all workers (a task needs several times "
            "its bytes of memory), or stop the connector and give it the next offset (PATCH /connectors/NAME/offsets)",
        )
        self.size = size
        self.limit = limit
        self.offset = offset
        self.what = what
        self.where = where

    def at(self, topic: str, partition: int) -> OversizedRecordError:
        """The same error with topic and partition."""
        return type(self)(self.size, self.limit, self.offset, self.what, (topic, partition))

    def __reduce__(self) -> tuple[type[OversizedRecordError], tuple[Any, ...]]:
        return type(self), (self.size, self.limit, self.offset, self.what, self.where)


class UnsupportedFormatError(ConnectError):
    """Records in message format v0 or v1 (brokers before 0.11), or compressed by a codec unknown here."""


class RecordTooLargeError(ConnectError):
    """One record does not fit into a batch of the allowed size. `row`: its row in the batch given to `encode`; `size`:
    its bytes as a batch of one record; `topic`: the topic, if known. `limit`: max.request.size of the producer, which
    did not send it; None if a broker refused it because of its own limit, which brokers do not tell.
    """

    java_class = "org.apache.kafka.common.errors.RecordTooLargeException"

    def __init__(self, row: int, size: int, limit: int | None, topic: str | None = None) -> None:
        where = "" if topic is None else f" for topic {topic!r}"
        if limit is None:
            text = (
                f"a broker refused a record{where} of {size} bytes in a batch of its own. What decides is "
                "max.message.bytes of the topic or, where the topic does not set it, message.max.bytes of the brokers; "
                "the producer's max.request.size allows the record. Raise max.message.bytes of the topic, or make the "
                "record smaller"
            )
        else:
            text = (
                f"record {row}{where} is {size} bytes in a batch of its own, more than the {limit} of the producer's "
                "max.request.size. Raise it with producer.override.max.request.size in the connector's configuration "
                "or producer.max.request.size in the properties of the workers (max.message.bytes of the topic has to "
                "allow as much), or make the record smaller"
            )
        super().__init__(text)
        self.row = row
        self.size = size
        self.limit = limit
        self.topic = topic

    def __reduce__(self) -> tuple[type[RecordTooLargeError], tuple[Any, ...]]:
        return type(self), (self.row, self.size, self.limit, self.topic)

"""The errors of the record batch codec."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from spark_tasks.config.record_limit import MAX_RECORD_KEY
from spark_tasks.errors import ConnectError


class CorruptRecordsError(ConnectError):
    """The bytes are not a valid record batch: a wrong checksum, an invalid length, or data that cannot be decompressed.
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
                f"{reason}. Look for the cause on the broker's disk or in the producer of the batch. To skip it, "
                "stop the connector and set a later offset of the partition (PATCH /connectors/NAME/offsets)"
            )
        super().__init__(text)
        self.reason = reason
        self.position = position
        self.offset = offset
        self.where = where

    def at(self, topic: str, partition: int, position: int) -> CorruptRecordsError:
        """Returns the same error with topic and partition. `position`: the next offset to read."""
        offset = position if self.offset is None else max(self.offset, position)
        return type(self)(self.reason, self.position, offset, (topic, partition))

    @override
    def __reduce__(self) -> tuple[type[CorruptRecordsError], tuple[Any, ...]]:
        return type(self), (self.reason, self.position, self.offset, self.where)


class OversizedRecordError(ConnectError):
    """A record is larger than heeler.max.record.bytes. `size` and `limit`: its size and the limit in bytes,
    uncompressed, with key, value and headers. `offset`: the record's offset; `where`: topic and partition, if known.
    `what`: what is too large, if it is not a record but, for example, a compressed block.
    """

    def __init__(
        self, size: int, limit: int, offset: int, what: str = "the record", where: tuple[str, int] | None = None
    ) -> None:
        place = "" if where is None else f" of {where[0]}-{where[1]}"
        super().__init__(
            f"{what}{place} at offset {offset} has {size} bytes uncompressed, more than the {limit} that "
            f"{MAX_RECORD_KEY} allows. Raise it in the properties of all workers (a task needs several times as "
            "much memory), or stop the connector and set the next offset (PATCH /connectors/NAME/offsets)",
        )
        self.size = size
        self.limit = limit
        self.offset = offset
        self.what = what
        self.where = where

    def at(self, topic: str, partition: int) -> OversizedRecordError:
        """Returns the same error with topic and partition."""
        return type(self)(self.size, self.limit, self.offset, self.what, (topic, partition))

    @override
    def __reduce__(self) -> tuple[type[OversizedRecordError], tuple[Any, ...]]:
        return type(self), (self.size, self.limit, self.offset, self.what, self.where)


class UnsupportedFormatError(ConnectError):
    """Records have message format v0 or v1 (from before Kafka 0.11), or an unknown compression codec."""


class RecordTooLargeError(ConnectError):
    """One record does not fit into a batch of the allowed size. `row`: its row in the batch given to `encode`; `size`:
    its size in bytes as a batch of one record; `topic`: the topic, if known. `limit`: the producer's max.request.size,
    because of which it did not send the record; None if a broker rejected it, as brokers do not return their limit.
    """

    java_class = "org.apache.kafka.common.errors.RecordTooLargeException"

    def __init__(self, row: int, size: int, limit: int | None, topic: str | None = None) -> None:
        location = "" if topic is None else f" for topic {topic!r}"
        if limit is None:
            text = (
                f"a broker rejected a record{location} of {size} bytes in a batch of its own. The limit is "
                "max.message.bytes of the topic or, if the topic does not set it, message.max.bytes of the brokers; "
                "the producer's max.request.size allows the record. Raise max.message.bytes of the topic, or make the "
                "record smaller"
            )
        else:
            text = (
                f"record {row}{location} is {size} bytes in a batch of its own, more than the {limit} of the "
                "producer's max.request.size. Raise it with producer.override.max.request.size in the connector's "
                "configuration or producer.max.request.size in the properties of the workers (max.message.bytes of "
                "the topic has to allow as much), or make the record smaller"
            )
        super().__init__(text)
        self.row = row
        self.size = size
        self.limit = limit
        self.topic = topic

    @override
    def __reduce__(self) -> tuple[type[RecordTooLargeError], tuple[Any, ...]]:
        return type(self), (self.row, self.size, self.limit, self.topic)

"""Converts Kafka record batches (v2) to and from Arrow batches of columns.RAW_SCHEMA."""

from spark_tasks.kafka.records.decode import Decoded, decode, decode_pieces
from spark_tasks.kafka.records.encode import EncodedBatch, encode, next_sequence
from spark_tasks.kafka.records.errors import (
    CorruptRecordsError,
    OversizedRecordError,
    RecordTooLargeError,
    UnsupportedFormatError,
)

__all__ = [
    "CorruptRecordsError",
    "Decoded",
    "EncodedBatch",
    "OversizedRecordError",
    "RecordTooLargeError",
    "UnsupportedFormatError",
    "decode",
    "decode_pieces",
    "encode",
    "next_sequence",
]

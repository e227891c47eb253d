"""What the response to a ProduceRequest says about each of its batches."""

from __future__ import annotations

from typing import Any, Final

import kafka.errors as protocol

from spark_tasks.errors import ConnectError
from spark_tasks.kafka.cluster import TopicPartition
from spark_tasks.kafka.errors import RecordRefusedError
from spark_tasks.kafka.pending_batch import PendingBatch
from spark_tasks.kafka.records.errors import RecordTooLargeError

_TOO_LARGE: Final = (protocol.MessageSizeTooLargeError, protocol.RecordListTooLargeError)
_OF_RECORDS: Final = (*_TOO_LARGE, protocol.InvalidRecordError, protocol.InvalidTimestampError)


class RecordsError(Exception):
    """A broker refuses a batch because of some of its records. `bad`: the reasons by record, empty if it does not name
    them.
    """

    def __init__(self, error: protocol.KafkaError, bad: dict[int, str]) -> None:
        super().__init__(str(error))
        self.error = error
        self.bad = bad

    @property
    def too_large(self) -> bool:
        """Whether the batch, or one of its records, is larger than the topic allows."""
        return isinstance(self.error, _TOO_LARGE)


def results_of(response: Any) -> dict[TopicPartition, Exception | int]:
    """Returns for each partition its error or the offset of the batch's first record. Empty for acks=0."""
    found: dict[TopicPartition, Exception | int] = {}
    for topic in response.responses if response is not None else ():
        for item in topic.partition_responses:
            kind = protocol.for_code(item.error_code)
            result: Exception | int = item.base_offset
            if kind is not protocol.NoError:
                result = kind(item.error_message or f"{topic.name}-{item.index}")
            if isinstance(result, _OF_RECORDS):
                bad = {one.batch_index: one.batch_index_error_message or str(result)
                       for one in item.record_errors or ()}
                result = RecordsError(result, bad)
            found[topic.name, item.index] = result
    return found


def error_of_record(batch: PendingBatch, refusal: RecordsError, row: int, why: str) -> ConnectError:
    """Returns the error of a refused record. `row`: its row, as the caller numbers it; `why`: the broker's reason."""
    if refusal.too_large:
        return RecordTooLargeError(row, len(batch.data), None, batch.where[0])
    code = int(refusal.error.errno)
    return RecordRefusedError(f"a broker refuses a record for {batch.where[0]}-{batch.where[1]}: {why}", code)

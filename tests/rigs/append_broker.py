"""A broker to which an Appender appends: it goes wrong as the test wants."""

from __future__ import annotations

from collections import defaultdict

import kafka.errors as protocol
import pyarrow as pa
from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse
from kafka.protocol.producer import ProduceResponse

from spark_tasks.data.columns import RAW_SCHEMA
from spark_tasks.kafka.identity import ProducerIdentity
from spark_tasks.kafka.records import decode
from spark_tasks.kafka.records.layout import SUFFIX

ME = ProducerIdentity(7, 0)


class Broker:
    """Logs by partition; `faults` are taken one a request: what happens before or after the append. Values that begin
    with one of `forbidden` are refused, by name if `naming`.
    """

    def __init__(self, faults=(), largest=10**9, forbidden=(), *, naming=True):
        self.forbidden = tuple(forbidden)
        self.naming = naming
        self.logs = defaultdict(list)
        self.expected = {}
        self.recent = defaultdict(list)
        self.faults = list(faults)
        self.largest = largest
        self.epoch = 0
        self.requests = 0
        self.describe_faults = []

    async def answer(self, request):
        if isinstance(request, DescribeProducersRequest):
            return self.describe(request)
        self.requests += 1
        fault = self.faults.pop(0) if self.faults else None
        if fault == "defect":
            raise ValueError("no such field")
        if fault == "lost request":
            raise protocol.KafkaConnectionError("lost")
        if fault == "no result":
            return ProduceResponse(responses=[])
        responses = []
        for topic in request.topic_data:
            kind = ProduceResponse.TopicProduceResponse.PartitionProduceResponse
            parts = []
            for part in topic.partition_data:
                code = self.append((topic.name, part.index), bytes(part.records), fault)
                parts.append(kind(index=part.index, error_code=code, record_errors=[]))
                if code == protocol.InvalidRecordError.errno and self.naming:
                    parts[-1].record_errors = [
                        kind.BatchIndexAndErrorMessage(batch_index=row, batch_index_error_message=f"row {row} is bad")
                        for row in self.bad(bytes(part.records))]
            responses.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=parts))
        if fault == "restart":  # as Kafka's, it then knows only the last batch of each producer
            self.recent = defaultdict(list, {where: batches[-1:] for where, batches in self.recent.items()})
        if fault == "narrowed":
            self.largest = 600
        if fault in ("lost response", "restart", "narrowed"):
            raise protocol.RequestTimedOutError("lost")
        return ProduceResponse(responses=responses)

    def describe(self, request):
        described = DescribeProducersResponse.TopicResponse
        partition = described.PartitionResponse
        error = self.describe_faults.pop(0) if self.describe_faults else 0
        return DescribeProducersResponse(topics=[described(name=topic.name, partitions=[
            partition(partition_index=index, error_code=error, active_producers=[
                partition.ProducerState(producer_id=ME.producer_id, producer_epoch=ME.epoch,
                                        last_sequence=self.expected[topic.name, index] - 1),
            ] if not error and (topic.name, index) in self.expected else [])
            for index in topic.partition_indexes]) for topic in request.topics])

    def bad(self, data):
        """The rows of a batch that are refused."""
        values = decode(data).records.column("value").to_pylist() if self.forbidden else []
        return [row for row, value in enumerate(values) if value.startswith(self.forbidden)]

    def append(self, where, data, fault):
        if isinstance(fault, int):
            return fault
        if len(data) > self.largest:
            return protocol.MessageSizeTooLargeError.errno
        if self.bad(data):
            return protocol.InvalidRecordError.errno
        _, _, _, _, producer, epoch, sequence, count = SUFFIX.unpack_from(data, 21)
        if producer >= 0:
            if epoch < self.epoch:
                return protocol.InvalidProducerEpochError.errno
            if (sequence, count) in self.recent[where][-5:]:
                return 0 if sequence % 2 else protocol.DuplicateSequenceNumberError.errno
            # As Kafka's: of a producer that it knows nothing of, a partition takes any sequence number.
            if sequence != self.expected.get(where, sequence):
                return protocol.OutOfOrderSequenceNumberError.errno
            self.expected[where] = sequence + count
            self.recent[where].append((sequence, count))
        self.logs[where] += decode(data).records.column("value").to_pylist()
        return 0


def raw(values):
    rows = [{"offset": 0, "timestamp": 1, "key": None, "value": value, "headers": None} for value in values]
    return pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA)


def numbers(first, count):
    return [b"%05d" % number * 10 for number in range(first, first + count)]

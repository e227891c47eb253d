"""The offsets of a sink in requests (KIP-875)."""

from __future__ import annotations

import pytest

from actors.errors import BadRequestError
from actors.stores.offset_requests import sink_offset
from spark_tasks.errors import ConnectError

PLACE = {"kafka_topic": "t", "kafka_partition": 3}
FAILED = "Failed to parse the following Kafka {0} value in the provided offsets: '{1}'. {2} values for sink connectors"


def test_numbers_in_sink_offsets_may_be_strings():
    assert sink_offset(PLACE, {"kafka_offset": 5}) == (("t", 3), 5)
    assert sink_offset({"kafka_topic": "t", "kafka_partition": "3"}, {"kafka_offset": "5"}) == (("t", 3), 5)
    assert sink_offset(PLACE, None) == (("t", 3), None)


@pytest.mark.parametrize(("partition", "offset", "text"), [
    (None, None, "The partition for a sink connector offset cannot be null or missing"),
    ({}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
    ({"kafka_topic": "t"}, None, "must contain the keys 'kafka_topic' and 'kafka_partition'"),
    ({**PLACE, "kafka_topic": None}, None, "Kafka topic names must be valid strings and may not be null"),
    ({**PLACE, "kafka_partition": None}, None, "Kafka partitions must be valid numbers and may not be null"),
    *(({**PLACE, "kafka_partition": wrong}, None, FAILED.format("partition", wrong, "Partition"))
      for wrong in ("x", "", " 1", "1_0", 1.5, 2**31)),
    (PLACE, {}, "The offset for a sink connector should either be null or contain the key 'kafka_offset'"),
    (PLACE, {"kafka_offset": None}, FAILED.format("offset", "null", "Offset")),
    (PLACE, {"kafka_offset": 2**63}, FAILED.format("offset", 2**63, "Offset")),
])
def test_invalid_sink_offsets_are_refused(partition, offset, text):
    with pytest.raises(BadRequestError) as error:
        sink_offset(partition, offset)
    assert text in str(error.value)


def test_negative_sink_offsets_are_refused():
    with pytest.raises(ConnectError, match="Invalid negative offset -1 of t-3: nothing was altered"):
        sink_offset(PLACE, {"kafka_offset": -1})

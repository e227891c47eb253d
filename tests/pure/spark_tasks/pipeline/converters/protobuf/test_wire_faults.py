"""Bytes that are no message. What is valid and what is not is what Java's parser (protobuf-java 4.31.1) has said."""

import pyarrow as pa
import pytest

from spark_tasks.pipeline.converters.base import BadRowsError
from spark_tasks.pipeline.converters.protobuf.codec import ProtobufCodec
from spark_tasks.pipeline.converters.protobuf.tree import Message, ProtobufField
from spark_tasks.pipeline.converters.protobuf.wire_faults import WireFaults

INNER = Message("I", "I", (ProtobufField("a", 1, "int32"), ProtobufField("s", 2, "string")))
MESSAGE = Message("M", "M", (
    ProtobufField("i", 1, "int32"), ProtobufField("s", 2, "string"),
    ProtobufField("m", 6, "message", presence=True, message=INNER),
    ProtobufField("v", 7, "int32", repeated=True, packed=True),
    ProtobufField("m2", 8, "message", repeated=True, message=INNER),
    ProtobufField("e", 15, "fixed64", repeated=True, packed=True),
    ProtobufField("f", 16, "float", repeated=True, packed=True)))
GOOD = {  # what there is in it
    "": "nothing", "0805": "a number", "08ffffffffffffffffff01": "ten bytes", "0a01ff": "a text for a number",
    "32020805": "a message", "3a0105": "a packed number", "3805": "a number not packed", "3a00": "none packed",
    "7a080102030405060708": "eight bytes packed", "82010401020304": "four bytes packed", "9b019c01": "a group",
    "9b0108059c01": "a group with a field", "9b010a01ff9c01": "a group with what looks like a message",
    "0b0b0c0c": "groups within groups", "d204027878": "an unknown text", "8880808000" "05": "a tag of five bytes",
    "6b" * 100 + "6c" * 100: "a hundred levels",
}
BAD = {
    "08": "no value", "08ff": "a cut varint", "08" + "ff" * 11: "a varint of eleven bytes", "12": "no length",
    "120561": "a text that is cut off", "0001": "field number zero", "80808080100000": "zero in the lowest 32 bits",
    "0e": "wire type six", "0f": "wire type seven", "0d000000": "three of four bytes", "0900": "one of eight bytes",
    "7a01ff": "a packed list that ends within a number", "8201050102030405": "five bytes of fours",
    "3a0180": "a packed varint that is cut off", "320108": "a nested message that is cut off",
    "320508": "a nested message that is longer than its surroundings", "4203080500": "a nested field number zero",
    "9b01": "a group without an end", "9c01": "an end without a group", "0b14": "the end of another group",
    "320153": "a group without an end in a message", "0b3201050c0c": "the end twice",
    "12ffffffff0f61": "a negative length",
    "128080808010": "a length beyond 32 bits", "6b" * 101 + "6c" * 101: "a hundred and one levels",
    "6b" * 100_000: "groups that would end the process",
}


@pytest.mark.parametrize("payload", GOOD, ids=GOOD.values())
def test_valid_messages_have_no_fault(payload):
    assert not len(WireFaults(MESSAGE).rows(pa.array([bytes.fromhex(payload)], pa.binary())))


@pytest.mark.parametrize("payload", BAD, ids=BAD.values())
def test_invalid_messages_are_the_only_bad_records(payload):
    payloads = pa.array([b"ignored", b"\x08\x05", bytes.fromhex(payload), b"", b"\x12\x01x"], pa.binary())[1:]
    assert WireFaults(MESSAGE).rows(payloads).tolist() == [1]
    codec = ProtobufCodec(MESSAGE)
    with pytest.raises(BadRowsError, match="not a valid message") as bad:
        codec.decode(payloads)
    assert [row for row, _ in bad.value.bad] == [1]
    assert [one["f1"] for one in codec.decode(payloads.take(pa.array([0, 2, 3]))).to_pylist()] == [5, 0, 0]

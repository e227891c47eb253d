"""The record batch format v2 (KIP-98): the positions of the header's fields. The checksum covers the bytes from
ATTRIBUTES_AT.
"""

from __future__ import annotations

import struct

HEADER_BYTES = 61
LOG_OVERHEAD = 12  # the bytes of base offset and batch length; the length is that of the bytes after them
MAGIC = 2

BATCH_LENGTH_AT = 8
MAGIC_AT = 16
CRC_AT = 17
ATTRIBUTES_AT = 21
LAST_OFFSET_DELTA_AT = 23
BASE_TIMESTAMP_AT = 27
MAX_TIMESTAMP_AT = 35
PRODUCER_ID_AT = 43
SEQUENCE_AT = 53
COUNT_AT = 57

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

NO_TIMESTAMP = -1
SMALLEST_RECORD = 7  # one byte for each of length, attributes, two deltas, two lengths and the header count
ABORT_MARKER = 0  # the type in a control record's key

# base offset, batch length, leader epoch, magic, crc
PREFIX = struct.Struct(">qiibI")
# attributes, last offset delta, base timestamp, max timestamp, producer id, producer epoch, base sequence, count
SUFFIX = struct.Struct(">hiqqqhii")

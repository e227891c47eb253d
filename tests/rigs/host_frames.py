"""Frames of records as the Java plugin host packs them."""

from __future__ import annotations

import json
import struct


def padded(data):
    return data + bytes(-len(data) % 8)


def strings(values):
    ends, data, bits = [0], b"", bytearray((len(values) + 7) // 8)
    for n, value in enumerate(values):
        data += value or b""
        ends.append(len(data))
        if value is not None:
            bits[n >> 3] |= 1 << (n & 7)
    return [struct.pack(f"<{len(ends)}i", *ends) if values else b"", data, bytes(bits) if None in values else b""]


def packed(records, offsets=(), more=False, wanted=False, signal=None, schemas=None, **reported):
    """`schemas`: of each record's key and value the text, or None."""
    topics = list(dict.fromkeys(r[0] for r in records))
    flat = [h for r in records for h in r[5]]
    ends = [0]
    for r in records:
        ends.append(ends[-1] + len(r[5]))
    sections = [
        struct.pack(f"<{len(records)}i", *(topics.index(r[0]) for r in records)),
        struct.pack(f"<{len(records)}i", *(r[1] for r in records)),
        struct.pack(f"<{len(records)}q", *(r[2] for r in records)),
        *strings([r[3] for r in records]), *strings([r[4] for r in records]),
        struct.pack(f"<{len(ends)}i", *ends) if flat else b"",
        *strings([h[0].encode("utf-8", "replace") for h in flat]), *strings([h[1] for h in flat]),
    ]
    texts = list(dict.fromkeys(text for pair in schemas or () for text in pair if text is not None))
    for column in zip(*schemas, strict=True) if schemas else ((), ()) if schemas is not None else ():
        sections += [struct.pack(f"<{len(column)}i", *(-1 if text is None else texts.index(text) for text in column))]
    meta = json.dumps({"topics": topics, "offsets": offsets, "more": more, "wanted": wanted, "signal": signal,
                       "schemas": texts, **reported}).encode()
    head = struct.pack(f"<iiii{len(sections)}q", len(records), len(meta), len(sections), 0, *map(len, sections))
    return memoryview(head + padded(meta) + b"".join(map(padded, sections)))

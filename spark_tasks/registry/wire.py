"""How serialized records identify their schema: with a magic byte and an id before the payload, or with a header."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_tasks.arrays.buffers import frozen, texts
from spark_tasks.arrays.concatenation import concatenated
from spark_tasks.arrays.jit import kernel

SchemaId = int | str  # an id, or a GUID as a string

_SIZE = 5
_MIN_ID, _NO_ID = -(2**31), -(2**63)
_HEADERS = {True: "__key_schema_id", False: "__value_schema_id"}


@dataclass(frozen=True, slots=True)
class Framed:
    """Values with their schema ids. `codes`: for each row the index into `ids`, -1 for a null value, -2 for a value
    without a valid schema id, for which `bad` has the reason by row.
    """

    ids: list[SchemaId]
    codes: np.ndarray[Any, Any]
    payloads: list[bytes]  # of the values with a schema id, in order
    skip: int  # the number of bytes (magic byte and id) before each payload that are not part of it
    bad: dict[int, str]


def unframed(array: pa.Array, headers: pa.Array | None, *, is_key: bool) -> Framed:
    """Splits values (binary) into schema ids and payloads. `headers` (columns.HEADERS_TYPE): None to read only the ids
    before payloads.
    """
    named = {} if headers is None else _named(headers, _HEADERS[is_key])
    size = len(array)
    ids: dict[SchemaId, int] = {}
    codes = np.full(size, -1, np.int64)
    bad: dict[int, str] = {}
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    schema_ids = np.empty(size, np.int64)
    values_of = texts(array)
    _read_ids(frozen(values_of.data), frozen(values_of.offsets), valid, schema_ids)
    schema_ids[list(named)] = _NO_ID
    good = schema_ids >= _MIN_ID
    for schema_id in _distinct(schema_ids[good]):
        codes[schema_ids == schema_id] = ids.setdefault(schema_id, len(ids))
    values = array.to_pylist()
    special: dict[int, bytes] = {}
    for row in np.flatnonzero(valid & ~good).tolist():
        try:
            one_id, special[row] = _identified(values[row], named.get(row))
            codes[row] = ids.setdefault(one_id, len(ids))
        except ValueError as error:
            codes[row], bad[row] = -2, str(error)
    if special or bad:
        known = np.flatnonzero(codes >= 0).tolist()
        payloads = [special[row] if row in special else values[row][_SIZE:] for row in known]
        return Framed(list(ids), codes, payloads, 0, bad)
    payloads = values if valid.all() else [value for value in values if value is not None]
    return Framed(list(ids), codes, payloads, _SIZE, bad)


def framed(schema_id: int, payloads: pa.Array, index: bytes = b"") -> pa.Array:
    """Returns the payloads (binary; nulls stay null) after a magic byte, the schema id, and the bytes `index`."""
    prefix = struct.pack(">bi", 0, schema_id) + index
    if payloads.null_count:
        return pc.binary_join_element_wise(pa.scalar(prefix, payloads.type), payloads, pa.scalar(b"", payloads.type))
    return concatenated([prefix, payloads], len(payloads), payloads.type)


def with_header(headers: pa.Array, rows: np.ndarray[Any, Any], guid: str, index: bytes = b"", *, is_key: bool
                ) -> pa.Array:
    """Appends a header to `rows` of `headers` (columns.HEADERS_TYPE): a magic byte, the schema's GUID and `index`. A
    row whose last header of this name has the same value, such as a copied record, remains as it is.
    """
    size, value = len(headers), b"\x01" + uuid.UUID(guid).bytes + index
    chosen = np.zeros(size, np.bool_)
    chosen[rows] = True
    chosen[[row for row, last in _named(headers, _HEADERS[is_key]).items() if last == value]] = False
    lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths + chosen)
    flat = headers.flatten()
    new = pa.array([{"key": _HEADERS[is_key], "value": value}], flat.type)
    places = np.full(int(ends[-1]) if size else 0, -1, np.int64)
    places[ends[chosen] - 1] = len(flat)
    places[places < 0] = np.arange(len(flat))
    pairs = pa.concat_arrays([flat, new]).take(pa.array(places))
    kept = headers.is_valid().to_numpy(zero_copy_only=False) | chosen
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32(), mask=np.concatenate([~kept, [False]]))
    return pa.ListArray.from_arrays(offsets, pairs, type=headers.type)


@kernel
def _read_ids(data: Any, offsets: Any, valid: Any, out: Any) -> None:
    """The schema id of each value, _NO_ID where there is none before it."""
    for row in range(len(out)):
        at = offsets[row]
        out[row] = _NO_ID
        if valid[row] and offsets[row + 1] - at >= _SIZE and data[at] == 0:
            schema_id = np.int32(0)
            for byte in range(1, _SIZE):
                schema_id = np.int32(schema_id << 8) | np.int32(data[at + byte])
            out[row] = schema_id


def _distinct(ids: np.ndarray[Any, Any]) -> list[int]:
    """In order. (Nearly always there is only one, which is found much faster than numpy sorts.)"""
    if not len(ids):
        return []
    return [int(ids[0])] if (ids == ids[0]).all() else np.unique(ids).tolist()


def _named(headers: pa.Array, name: str) -> dict[int, bytes]:
    """Returns for each row with a header of that name its value; the last one counts."""
    if headers.null_count == len(headers) or not len(headers):
        return {}
    flat = headers.flatten()
    if not len(flat) or not pc.any(pc.equal(flat.field("key"), name)).as_py():
        return {}
    value_by_row = {}
    for row, pairs in enumerate(headers.to_pylist()):
        for pair in pairs or ():
            if pair["key"] == name and pair["value"] is not None:
                value_by_row[row] = pair["value"]
    return value_by_row


def _identified(whole: bytes, header: bytes | None) -> tuple[SchemaId, bytes]:
    """Returns the schema id of a value and its payload. Raises ValueError if the id is invalid."""
    id_bytes = whole if header is None else header
    if id_bytes[:1] == b"\x00" and len(id_bytes) >= _SIZE:
        schema_id: SchemaId = int.from_bytes(id_bytes[1:_SIZE], "big", signed=True)
        rest = id_bytes[_SIZE:]
    elif id_bytes[:1] == b"\x01" and len(id_bytes) >= 17:
        schema_id, rest = str(uuid.UUID(bytes=id_bytes[1:17])), id_bytes[17:]
    elif not id_bytes or id_bytes[0] > 1:
        raise ValueError("Unknown magic byte!")
    else:
        raise ValueError(f"Error deserializing schema ID: only {len(id_bytes)} bytes")
    # A Protobuf header has the message index after the id. Without headers it is before the payload: move it there.
    return schema_id, rest if header is None else rest + whole

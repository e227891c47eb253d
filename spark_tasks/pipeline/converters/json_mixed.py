"""Writes FORM_JSON columns. The values of each kind form a column: numbers, texts, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from spark_tasks.data.columns import Metadata, is_json
from spark_tasks.pipeline.converters import json_text
from spark_tasks.pipeline.converters.json_columns import build, read_tape
from spark_tasks.pipeline.converters.json_tape import ARRAY, ESCAPED, FALSE, FLOAT, INT, NULL, OBJECT, STRING, TRUE

# groups of kinds that can be in one column; a group's index is its number
_GROUPS = ((NULL,), (FALSE, TRUE), (INT,), (FLOAT,), (STRING, ESCAPED), (OBJECT,), (ARRAY,))
_GROUP_OF = np.empty(16, np.int8)
for _number, _kinds in enumerate(_GROUPS):
    _GROUP_OF[list(_kinds)] = _number
_NULLS, _MISSING = 0, -1


def write_mixed(
    array: pa.Array, column: Callable[[pa.Array, Metadata], pa.Array], single: Callable[[Any], str]
) -> pa.Array:
    """Returns the texts of FORM_JSON values. `column` writes a column of one group, `single` a value that does not fit
    into a column.
    """
    tape = read_tape(array.cast(pa.binary()))
    there = tape.roots >= 0
    groups = np.full(len(there), _MISSING, np.int8)
    groups[there] = _GROUP_OF[tape.kinds[tape.roots[there]]]
    pieces, rows = [], []
    for group in np.unique(groups[there]):
        mine = np.flatnonzero(groups == group)
        tokens = tape.roots[mine]
        rows.append(mine)
        if group == _NULLS:
            pieces.append(pa.array(["null"], pa.string()).take(pa.array(np.zeros(len(mine), np.int32))))
            continue
        values, metadata = build(tape, tokens)
        if is_json(metadata):  # maps with too many keys for columns
            pieces.append(_one_by_one(values, single))
        else:
            pieces.append(column(values, metadata))
    order = np.zeros(len(there), np.int64)
    if rows:
        order[np.concatenate(rows)] = np.arange(int(there.sum()))
    texts = pa.concat_arrays(pieces) if pieces else pa.array([], pa.string())
    return texts.take(pa.array(order, mask=~there))


def _one_by_one(array: pa.Array, single: Callable[[Any], str]) -> pa.Array:
    parsed = (None if text is None else single(json_text.parse(text.encode())) for text in array.to_pylist())
    return pa.array(list(parsed), pa.string())

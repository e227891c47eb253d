"""The tokens of texts that are not JSON have room, too."""

import os
import subprocess
import sys

PROGRAM = """
import numpy as np
from spark_tasks.pipeline.converters.json_tape import tokenize
for text in (b"[" * 100, b"[" * 101, b"[" * 99 + b"]", b"[" * 50 + b"1,1,1", b"{" * 50, b"[[]," * 60):
    for rows in ([text], [text] * 3, [b"1", text, b"[1,1]"]):
        ends = np.cumsum([len(row) for row in rows]).astype(np.int32)
        begins = np.concatenate([[0], ends[:-1]]).astype(np.int32)
        tape = tokenize(np.frombuffer(b"".join(rows), np.uint8), begins, ends, np.ones(len(rows), np.bool_))
        assert len(tape.unusual) == sum(row == text for row in rows), rows
"""


def test_opening_brackets_have_room():
    """They were written beyond the end of the arrays, which corrupted the memory of the process. Here Python, which
    checks indexes, runs what is compiled elsewhere.
    """
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120,
                          env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    assert done.returncode == 0, done.stderr[-1000:]

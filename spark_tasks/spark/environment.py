"""Environment variables of the Python workers and of the daemon that forks them."""

from __future__ import annotations

from collections.abc import Mapping

# Read by the libraries when they are imported: none of them may start a thread in a process that forks.
ENVIRONMENT: Mapping[str, str] = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}

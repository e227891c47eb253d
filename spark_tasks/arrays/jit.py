"""numba's settings: kernels run without the GIL, machine code is cached on disk, and helpers are inlined."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic

from spark_tasks.process.private_files import private_folder

F = TypeVar("F", bound=Callable[..., Any])

_LOG = logging.getLogger(__name__)


def kernel(function: F) -> F:
    """Compiles a function on its first call. The machine code is cached next to the source file; if that folder is
    read-only, in the user's cache folder; if there is no home folder either (containers), in a temporary folder.

    Kernels create no arrays, so they are compiled without numba's reference counts (`_nrt`). Those are atomic, and each
    array that is passed to an inlined helper costs two updates. With them, encoding records took five times as long.
    """
    try:
        compiled: F = numba.njit(nogil=True, cache=True, _nrt=False)(function)
    except RuntimeError:  # numba has found no folder that is writable
        folder = private_folder("numba")  # other users cannot put code there
        _LOG.info("numba's cache is in %s: neither the installation nor the home folder is writable", folder)
        numba.config.CACHE_DIR = str(folder)
        compiled = numba.njit(nogil=True, cache=True, _nrt=False)(function)
    return compiled


def inlined(function: F) -> F:
    """Compiles a helper of kernels in the same file. (numba's cache does not detect changes in other files.)"""
    helper: F = numba.njit(nogil=True, inline="always", _nrt=False)(function)
    return helper


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(_context: Any, target: Any, _target_at: Any, source: Any, _source_at: Any, _count: Any) -> Any:
    """Copies `_count` bytes between uint8 arrays (memcpy). Checks no bounds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target_type, _, source_type, _, _ = signature.args
        into, into_at, source_value, source_at, count = arguments
        to = context.make_array(target_type)(context, builder, into).data
        of = context.make_array(source_type)(context, builder, source_value).data
        to = builder.gep(to, [into_at])
        of = builder.gep(of, [source_at])
        cgutils.raw_memcpy(builder, to, of, count, 1)
        return context.get_dummy_value()

    return types.none(target, types.int64, source, types.int64, types.int64), generate

"""numba's settings: kernels run without the GIL, machine code is cached on disk, and helpers are inlined.

numba is imported when the first kernel is called. The worker itself calls none, and numba would be a sixth of its
memory: only executor processes have it.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from spark_tasks.process.private_files import private_folder

F = TypeVar("F", bound=Callable[..., Any])

_logger = logging.getLogger(__name__)
_making = threading.RLock()
# Kernels create no arrays, so they are compiled without numba's reference counts (`_nrt`). Those are atomic, and each
# array that is passed to an inlined helper costs two updates. With them, encoding records took five times as long.
_OPTIONS: Final[Mapping[str, Any]] = {"nogil": True, "_nrt": False}


class _Later:
    """Lets numba process a function when it, or a kernel that calls it, is first called."""

    def __init__(self, function: Callable[..., Any], make: Callable[[Callable[..., Any]], Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._make = make

    def __call__(self, *arguments: Any) -> Any:
        return self.made(*arguments)

    @functools.cached_property
    def made(self) -> Any:
        """The object that numba has made of the function. It replaces the function in its module, since later callers
        look it up by name. Kernels that the function calls are replaced first: numba looks up their names when it
        compiles the function.
        """
        with _making:
            names = self._function.__globals__
            for name in self._function.__code__.co_names:
                called = names.get(name)
                if isinstance(called, _Later) and called is not self:
                    names[name] = called.made
            made = self._make(self._function)
            if names.get(self._function.__name__) is self:
                names[self._function.__name__] = made
            return made


def kernel(function: F) -> F:
    """Compiles a function on its first call. The machine code is cached next to the source file; if that folder is
    read-only, in the user's cache folder; if there is no home folder either (containers), in a temporary folder.
    """
    later: Any = _Later(function, _compiled)
    return later  # type: ignore[no-any-return]


def _compiled(function: Callable[..., Any]) -> Any:
    import numba  # noqa: PLC0415 - see above

    try:
        return numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # numba has found no folder that is writable
        folder = private_folder("numba")  # other users cannot put code there
        _logger.info("Numba's cache is in %s: neither the installation nor the home folder is writable", folder)
        numba.config.CACHE_DIR = str(folder)
        return numba.njit(cache=True, **_OPTIONS)(function)


def inlined(function: F) -> F:
    """Compiles a helper of kernels in the same file. (numba's cache does not detect changes in other files.)"""
    later: Any = _Later(function, _inlined)
    return later  # type: ignore[no-any-return]


def _inlined(function: Callable[..., Any]) -> Any:
    import numba  # noqa: PLC0415 - see above

    return numba.njit(inline="always", **_OPTIONS)(function)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Makes a function that only kernels can call, without its first parameter (numba's context). It returns the
    signature and the code generator.
    """
    return _Later(function, _intrinsic)


def _intrinsic(function: Callable[..., Any]) -> Any:
    from numba.extending import intrinsic  # noqa: PLC0415 - see above

    return intrinsic(function)

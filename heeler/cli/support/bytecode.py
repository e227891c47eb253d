"""Compiles modules for later processes, for `heeler warm`. Python does that when it imports them, but not if
PYTHONDONTWRITEBYTECODE is set, as in many container images: then each start would compile a worker's modules again.
"""

from __future__ import annotations

import compileall
import logging
import sys
from types import ModuleType

from spark_tasks.errors import counted

_logger = logging.getLogger(__name__)


def compile_imported() -> None:
    """Compiles all imported modules that are not compiled yet. A folder that cannot be written to is left out."""
    sources = [source for module in list(sys.modules.values()) if (source := _source(module)) is not None]
    failed = [source for source in sources if not compileall.compile_file(source, quiet=2)]
    if failed:
        _logger.warning("%s could not be compiled, so starts take longer; the first: %s",
                        counted(len(failed), "module"), failed[0])


def _source(module: ModuleType) -> str | None:
    """Returns the path of a module's source if Python would keep its compiled form beside it."""
    spec = getattr(module, "__spec__", None)
    return spec.origin if spec is not None and spec.has_location and spec.cached is not None else None

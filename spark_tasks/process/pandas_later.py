"""Keeps PyArrow from importing pandas before some other code does.

`pa.array([1])` imports pandas to find out whether a value is of one of its types. That would cost each process of a
worker 0.3 s of CPU and 20 MiB for a library that few plugins use.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from typing_extensions import override


def hold_back_pandas() -> None:
    """From now on PyArrow uses pandas only once other code has imported it."""
    import pyarrow as pa  # noqa: PLC0415 - where this is imported, the environment may not be set yet

    if "pandas" in sys.modules:
        return
    later = _Later()
    sys.meta_path.insert(0, later)
    pa.array([0])  # it tries once, and remembers the result
    later.refused = None


class _Later(MetaPathFinder):
    """An import hook that initialises PyArrow's pandas support when pandas is imported. No other import of pandas
    fails, in any thread.
    """

    def __init__(self) -> None:
        self.refused: int | None = threading.get_ident()

    @override
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "pandas":
            return None
        if self.refused == threading.get_ident():
            raise ModuleNotFoundError("pandas is not needed yet", name=name)
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, others), None)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            tell_pyarrow()

        loader.exec_module = exec_module
        return spec


def tell_pyarrow() -> None:
    """Make PyArrow look for pandas again, which a conversion to pandas does."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    pa.nulls(0).to_pandas()

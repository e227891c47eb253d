"""Keeps PyArrow from importing pandas before other code does.

`pa.array([1])` imports pandas to check whether a value has one of its types. That would cost each process of a worker
0.3 s of CPU time and 20 MiB of memory for a library that few plugins use.
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


def defer_pandas() -> None:
    """Makes PyArrow use pandas only after other code has imported it. May be repeated, also after a fork."""
    import pyarrow as pa  # noqa: PLC0415 - the environment may not be set yet when this module is imported

    if "pandas" in sys.modules or any(isinstance(finder, _PandasHook) for finder in sys.meta_path):
        return
    hook = _PandasHook()
    sys.meta_path.insert(0, hook)
    pa.array([0])  # PyArrow tries to import pandas only once
    hook.blocked_thread = None


class _PandasHook(MetaPathFinder):
    """An import hook that enables PyArrow's pandas support when pandas is imported. It makes imports of pandas fail
    only in `blocked_thread`, so that other threads can import pandas in the meantime.
    """

    def __init__(self) -> None:
        self.blocked_thread: int | None = threading.get_ident()

    @override
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "pandas":
            return None
        if self.blocked_thread == threading.get_ident():
            raise ModuleNotFoundError("pandas is not needed yet", name=name)
        others = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, others), None)
        if spec is None or spec.loader is None:
            return None
        loader: Any = spec.loader
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            _enable_pandas_support()

        loader.exec_module = exec_module
        return spec


def _enable_pandas_support() -> None:
    """Makes PyArrow import pandas again: any conversion to pandas does."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    pa.nulls(0).to_pandas()

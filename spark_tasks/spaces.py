"""Module spaces: the modules of each plugin folder (or wheel) are in a separate package (ADR 0014).

`/opt/connectors/utils.py` is the module `spark_tasks.spaces./opt/connectors.utils`. Its name contains its folder, so
any process that has this package and the folder can unpickle the module's classes and functions without any setup. Code
in the folder imports the module by its plain name, `utils`: an import statement or `importlib.import_module` there
searches the folder first. Modules that are not in the folder, and those that a process can load only once
(`Space.unused`), are imported as usual.
"""

from __future__ import annotations

import builtins
import importlib.util
import logging
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.abc import Loader
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from urllib.parse import quote, unquote

from typing_extensions import override

_logger = logging.getLogger(__name__)
__path__: list[str] = []  # makes this module a package, whose submodules _Finder finds

_PREFIX = f"{__name__}."
_IN_TEXT = re.compile(re.escape(_PREFIX) + r"[^.\s'\"]*\.")
_MACHINERY = ("importlib", "pkgutil", __name__)  # modules that import on behalf of their caller

# heeler and plugins exchange objects of these packages, so both need the same classes.
COMMON = frozenset({"heeler", "spark_tasks", "pyspark", "py4j", "kafka"})


class Space:
    """The modules of one folder or wheel. `place` is its absolute path. Use `of`, which returns one space per place."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.name = _PREFIX + quote(place, safe="/").replace(".", "%2E")
        self.builtins = {**vars(builtins), "__import__": self.import_}
        self._owned: dict[str, str] = {}  # top-level name -> name in sys.modules, for the modules in the place

    def import_(self, name: str, globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of __import__
                locals: Mapping[str, Any] | None = None,  # noqa: A002
                fromlist: Sequence[str] | None = (), level: int = 0) -> ModuleType:
        """`__import__` for the modules of this space."""
        real = name if level else self.real_name(name)
        if real == name:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        try:
            module = builtins.__import__(real, globals, locals, fromlist or (), 0)
        except ModuleNotFoundError as error:
            error.msg, error.name = with_plain_names(error.msg), with_plain_names(error.name or "")
            raise
        return module if fromlist else sys.modules[self.real_name(name.partition(".")[0])]

    def real_name(self, name: str) -> str:
        """Returns the name in `sys.modules` of the module that code in the place imports as `name`."""
        top, dot, rest = name.partition(".")
        if top not in self._owned:
            real = self._find(top)
            if real is None:
                return name  # not cached: the file may appear later
            self._owned[top] = real
        return self._owned[top] + dot + rest

    def name_of_plugin(self, module: str) -> str:
        """Returns the real name of a module in which a plugin was found, even if a standard module has its name."""
        own = Path(self.place, f"{module.partition('.')[0]}.py").is_file()
        return f"{self.name}.{module}" if own else self.real_name(module)

    def _find(self, top: str) -> str | None:
        """Returns the real name of top-level module `top`: in this space, or `top` itself if another place or an
        installed package provides it. Returns None if it is not in the place.
        """
        spec = None if _once_in_a_process(top) else PathFinder.find_spec(top, [self.place])
        if spec is None:
            return None
        elsewhere = PathFinder.find_spec(top)
        if spec.origin is None and elsewhere is not None and elsewhere.origin is not None:
            return None  # as everywhere in Python, a folder without __init__.py comes after a package
        if not self._compiled(top, spec) and (spec.origin is not None or elsewhere is None):
            return f"{self.name}.{top}"
        if elsewhere is None or elsewhere.origin is None:
            owner = package_owners.setdefault(top, self)
            if owner.place != self.place:
                _logger.warning("%s of %s is used, not that of %s: a process can load a compiled package only once",
                                top, owner.place, self.place)
        return top

    def _compiled(self, top: str, spec: ModuleSpec) -> bool:
        files = Path(self.place, top).rglob("*.*") if spec.submodule_search_locations else ()
        return isinstance(spec.loader, ExtensionFileLoader) or any(
            file.name.endswith(tuple(EXTENSION_SUFFIXES)) for file in files)

    def unused(self) -> list[str]:
        """Returns modules that are in the place but imported from elsewhere, as a process can load them only once."""
        place = Path(self.place)
        if not place.is_dir():
            return []
        tops = {entry.name.partition(".")[0] for entry in place.iterdir()}
        return sorted(top for top in tops if top.isidentifier() and not top.startswith("__") and self._unused(top))

    def _unused(self, top: str) -> bool:
        spec = PathFinder.find_spec(top, [self.place])
        if spec is None or spec.origin is None:
            return False
        return _once_in_a_process(top) or (PathFinder.find_spec(top) is not None and self._compiled(top, spec))

    def new_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns an empty module whose import statements use this space."""
        module = ModuleType(spec.name)
        vars(module)["__builtins__"] = self.builtins
        return module

    def spec(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Returns the spec of a module of this space, by its real name. Raises ModuleNotFoundError."""
        if name == self.name:
            if not Path(self.place).exists():
                raise ModuleNotFoundError(
                    f"the plugin folder {self.place} is missing on this machine; on a Spark cluster the folders of "
                    "plugin.path have to be at the same place on every machine", name=name)
            root = ModuleSpec(name, None, is_package=True)
            root.submodule_search_locations = [self.place]
            return root
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None and not isinstance(spec.loader, ExtensionFileLoader):
            vars(spec.loader)["create_module"] = self.new_module
        return spec


# Packages that keep their plain names in sys.modules because they are compiled or namespace packages, and for each the
# space that imported it first.
package_owners: dict[str, Space] = {}


@cache
def of(place: str) -> Space:
    """Returns the space of a place, an absolute path."""
    return Space(place)


def is_in_a_space(module: str) -> bool:
    """Returns whether a module, by its name in sys.modules, belongs to a folder or wheel of plugins."""
    return module.startswith(_PREFIX)


def with_plain_names(text: str) -> str:
    """Returns a message or traceback with the plain names of modules instead of their real names."""
    return _IN_TEXT.sub("", text)


def _once_in_a_process(top: str) -> bool:
    return top in COMMON or top in sys.stdlib_module_names


def _importing_space() -> Space | None:
    """Returns the space of the code that is importing, whichever import function it uses; None outside of spaces."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - as the logging module does
    while frame is not None:
        importer = frame.f_builtins.get("__import__")
        owner = getattr(importer, "__self__", None)
        if isinstance(owner, Space):
            return owner
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(_PREFIX):  # a function that was pickled by value does not have the space's builtins
            return of(_place(name))
        if not name.startswith(_MACHINERY):
            return None
        frame = frame.f_back
    return None


def _place(name: str) -> str:
    return unquote(name.removeprefix(_PREFIX).partition(".")[0])


_ALL = DistributionFinder.Context()


class _Finder(DistributionFinder):
    """Finds the modules of spaces and, for code in a space, the distributions in its place."""

    @override
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith(_PREFIX):
            return of(_place(name)).spec(name, path)
        return None

    @override
    def find_distributions(self, context: Any = _ALL) -> Iterable[Distribution]:
        space = _importing_space() if context.path is sys.path else None
        if space is None:
            return ()
        return MetadataPathFinder.find_distributions(DistributionFinder.Context(name=context.name, path=[space.place]))


class _LastFinder:
    """The last finder on `sys.meta_path`. It finds packages that keep their plain names, and imports by compiled code
    and by calls of `find_spec` in a space, which do not use the space's `__import__`.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:  # noqa: ARG004
        top, *inner = name.split(".")
        owner = package_owners.get(top)
        if owner is not None:
            return owner.spec(name, [str(Path(owner.place, top, *inner[:-1])) if inner else owner.place])
        space = None if inner else _importing_space()
        real = name if space is None else space.real_name(name)
        found = None if real == name else importlib.util.find_spec(real)
        return None if found is None else ModuleSpec(real, _Loaded(), origin=found.origin)


class _Loaded(Loader):
    """A loader that imports the module by its real name."""

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = _python_import_module(spec.name)
        self._spec = module.__spec__
        return module

    @override
    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _import_module(name: str, package: str | None = None) -> ModuleType:
    """`importlib.import_module` that searches the place of the calling code's space first."""
    space = _importing_space()
    if space is None:
        return _python_import_module(name, package)
    if name.startswith("."):
        return _python_import_module(name, package and space.real_name(package))
    return _python_import_module(space.real_name(name))


_python_import_module = importlib.import_module
importlib.import_module = _import_module
sys.meta_path.insert(0, _Finder())
sys.meta_path.append(_LastFinder())

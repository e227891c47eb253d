"""Module spaces: plugin folders with modules of the same names, or of names that other packages have."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import logging
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import traceback
import typing
import zipfile
from importlib import metadata
from pathlib import Path

import crc32c
import pytest
from pyspark import cloudpickle

from spark_tasks import spaces
from spark_tasks.plugins import Kind, PluginNotFoundError, Plugins

ROOT = Path(__file__).parents[3]
FIRST, SECOND = "first", "second"
CONNECTOR = """
    from heeler import ConfigDef, SourceConnector
    import {module}
    from {module} import WHO

    class {name}(SourceConnector):
        config_def = ConfigDef()
        who = WHO, {module}.WHO

        @classmethod
        def data_source(cls, options):
            import {module} as later
            return later.WHO
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text))
    return folder


def space_of(folder: Path) -> spaces.Space:
    return spaces.of(str(folder))


def load(folder: Path, module: str) -> typing.Any:
    return importlib.import_module(space_of(folder).name_of_plugin(module))


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """What was loaded goes; outside of spaces, nothing else came than what is compiled."""
    before, path = dict(sys.modules), list(sys.path)
    monkeypatch.setattr(spaces, "package_owners", {})
    yield
    for name in set(sys.modules) - set(before):
        if name.startswith(("spark_tasks.spaces.", "acmecompiled", "acmespread")):
            del sys.modules[name]
    own = ("utils", "storage", "rest", "pack", "lib", "conn", "acmelib", "mine", "secret")
    assert {name for name in set(sys.modules) - set(before) if name.partition(".")[0] in own} == set()
    assert sys.path == path


@pytest.mark.parametrize("module", [
    "utils", "storage", "rest", "actors", "tests", "heeler_helpers", "flask", "conftest", "click", "mypy"])
def test_each_folder_has_its_own_modules_whatever_they_are_called(tmp_path, module):
    for who in (FIRST, SECOND):
        text = textwrap.dedent(CONNECTOR).format(module=module, name=f"{who.title()}Connector")
        write(tmp_path / who, {f"{module}.py": f"WHO = {who!r}\n", "conn.py": text})
    plugins = Plugins([str(tmp_path)], installed=())
    assert plugins.names(Kind.CONNECTOR) == ["conn.FirstConnector", "conn.SecondConnector"]
    for who in (FIRST, SECOND):
        connector = plugins.connector(who.title())
        assert connector.who == (who, who)
        assert connector.data_source({}) == who
        assert plugins.find(Kind.CONNECTOR, who.title()).info.class_name == f"conn.{who.title()}Connector"
    assert getattr(sys.modules.get(module), "WHO", None) is None


IMPORTS = {
    "pack/__init__.py": "", "pack/sub/__init__.py": "from . import near\n", "pack/sub/near.py": "X = 1\n",
    "pack/sub/deep.py": "from ..top import Y\nfrom .near import X\n", "pack/top.py": "Y = 2\n",
    "lib.py": "__all__ = ['a']\na, b = 1, 2\n",
    "ring_a.py": "import ring_b\nX = 1\n", "ring_b.py": "import ring_a\ndef x():\n    return ring_a.X\n",
    "all.py": """
        import importlib, json, sys
        import pack.sub.deep
        import pack.sub.near as near
        from pack import top
        from pack.sub import deep
        from lib import *
        import lib as again
        import ring_a
        named = importlib.import_module("lib"), importlib.import_module("pack.sub.deep"), __import__("lib")
        relative = importlib.import_module(".near", "pack.sub")
        named += importlib.import_module(".near", pack.sub.__name__),
        found = importlib.util.find_spec("lib"), importlib.util.find_spec("no_such_module")
    """,
}


def test_every_form_of_import_is_supported(tmp_path):
    everything = load(write(tmp_path, IMPORTS), "all")
    assert (everything.pack.sub.deep.X, everything.deep.Y, everything.near.X, everything.top.Y) == (1, 2, 1, 2)
    assert everything.a == 1
    assert not hasattr(everything, "b")
    assert everything.named == (everything.again, everything.deep, everything.again, everything.near)
    assert everything.relative is everything.near
    assert everything.found[0] is not None
    assert everything.found[1] is None
    assert sys.modules[everything.__name__] is everything
    assert everything.json is sys.modules["json"]
    assert load(tmp_path, "ring_b").x() == 1


def test_the_error_for_a_missing_module_has_its_plain_name(tmp_path):
    write(tmp_path, {"one.py": "import lib.more\n", "two.py": "import nowhere\n", "lib.py": ""})
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'lib\.more'; 'lib' is not a package") as caught:
        load(tmp_path, "one")
    assert caught.value.name == "lib.more"
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere'"):
        load(tmp_path, "two")


TYPES = {
    "kinds.py": """
        from __future__ import annotations
        import dataclasses, typing, enum
        from shapes import Shape
        class Error(ValueError):
            pass
        class Color(enum.Enum):
            RED = 1
        @dataclasses.dataclass
        class Point:
            x: int
            shape: Shape
            kind: typing.ClassVar[str] = "point"
            def far(self, by: Shape) -> Point:
                import shapes
                return Point(self.x + by.size, shapes.Shape(self.x))
        def fails():
            raise Error("no luck")
        def closure(n):
            def add(x):
                return Shape(x + n)
            return add
    """,
    "shapes.py": "import dataclasses\n@dataclasses.dataclass\nclass Shape:\n    size: int\n",
}


def test_introspection_finds_modules_of_a_space(tmp_path):
    kinds = load(write(tmp_path, TYPES), "kinds")
    shape = kinds.Shape(3)
    assert [f.name for f in dataclasses.fields(kinds.Point)] == ["x", "shape"]
    assert typing.get_type_hints(kinds.Point.far) == {"by": kinds.Shape, "return": kinds.Point}
    assert inspect.getsource(kinds.fails) == 'def fails():\n    raise Error("no luck")\n'
    assert "class Color" in inspect.getsource(kinds.Color)
    assert kinds.Point(1, shape).far(shape) == kinds.Point(4, kinds.Shape(1))
    try:
        kinds.fails()
    except ValueError as error:
        trace = "".join(traceback.format_exception(error))
    assert 'raise Error("no luck")' in trace
    assert f'File "{tmp_path}/kinds.py"' in trace
    assert spaces.with_plain_names(trace).endswith("\nkinds.Error: no luck\n")


READ = """
import pickle, sys
for line in sys.stdin.buffer.read().split(b"|"):
    found = pickle.loads(bytes.fromhex(line.decode()))
    print(repr(found(4) if callable(found) else found))
"""


@pytest.mark.integration  # processes of their own
def test_pickled_objects_can_be_read_in_another_process(tmp_path):
    """The process has only heeler's packages on its path; two folders with unusual names, every pickle protocol."""
    pickles, expected = [], []
    for field, folder in ((FIRST, tmp_path / "a folder.d"), (SECOND, tmp_path / "ünï-%41|'code")):
        shapes_py = f"import dataclasses\n@dataclasses.dataclass\nclass Shape:\n    {field}: int\n"
        kinds = load(write(folder, {**TYPES, "shapes.py": shapes_py}), "kinds")
        things = kinds.Point(1, kinds.Shape(2)), kinds.Color.RED, kinds.Error("x")
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            pickles += [*(pickle.dumps(x, protocol) for x in things), cloudpickle.dumps(kinds.closure(5), protocol)]
            expected += [f"Point(x=1, shape=Shape({field}=2))", "<Color.RED: 1>", "Error('x')", f"Shape({field}=9)"]
    done = subprocess.run(
        [sys.executable, "-c", READ], input=b"|".join(p.hex().encode() for p in pickles),
        capture_output=True, check=False, timeout=60, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().splitlines() == expected


def test_a_folder_that_another_machine_does_not_have(tmp_path):
    kinds = load(write(tmp_path / "here", TYPES), "kinds")
    pickled = pickle.dumps(kinds.Color.RED).hex()
    shutil.rmtree(tmp_path / "here")
    done = subprocess.run([sys.executable, "-c", READ], input=pickled.encode(), capture_output=True, check=False,
                          timeout=60, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert f"the plugin folder {tmp_path}/here is missing on this machine" in done.stderr.decode()


WORKERS = """
    import multiprocessing
    import utils
    def double(n):
        import utils
        return utils.times_two(n)
    def run(method):
        with multiprocessing.get_context(method).Pool(1) as pool:
            return pool.map(double, [1, 2]) + pool.map(utils.times_two, [3])
"""


@pytest.mark.integration  # processes of their own
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_works_in_a_module_space(tmp_path, method):
    write(tmp_path, {"workers.py": WORKERS, "utils.py": "def times_two(n):\n    return 2 * n\n"})
    name = f"{space_of(tmp_path).name}.workers"
    code = f"from importlib import import_module; print(import_module({name!r}).run({method!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert done.stdout == "[2, 4, 6]\n", done.stderr


def install(folder: Path, name: str, version: str, compiled: bool = False) -> None:
    """What pip install --target leaves of a package; a compiled one has a real extension module."""
    write(folder, {
        f"{name}/__init__.py": f"""
            from importlib.metadata import version
            from importlib.resources import files
            from {name} import inner
            __version__ = version("{name}")
            data = files("{name}").joinpath("data.txt").read_text()
            more = files("{name}.inner").joinpath("__init__.py").is_file()
        """,
        f"{name}/inner/__init__.py": "import importlib.util\nhas_lib = importlib.util.find_spec('lib') is not None\n",
        f"{name}/data.txt": f"data of {version}",
        f"{name}-{version}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
    })
    if compiled:
        library = next(Path(crc32c.__file__).parent.glob("_crc32c*.so"))
        shutil.copy(library, folder / name / library.name)
        with (folder / name / "__init__.py").open("a") as init:
            init.write(f"from {name}._crc32c import crc32c\n")


def test_packages_that_pip_installed_into_folders(tmp_path):
    for version, folder in (("1.0", FIRST), ("2.0", SECOND)):
        install(tmp_path / folder, "acmelib", version)
        install(tmp_path / folder, "marshmallow", version)  # heeler's own is another one
        write(tmp_path / folder, {"conn.py": "import acmelib\nimport marshmallow\n"})
        for found in (load(tmp_path / folder, "conn").acmelib, load(tmp_path / folder, "conn").marshmallow):
            assert (found.__version__, found.data, found.more) == (version, f"data of {version}", True)
            assert not found.inner.has_lib
    with pytest.raises(metadata.PackageNotFoundError):
        metadata.version("acmelib")
    assert metadata.version("marshmallow") not in ("1.0", "2.0")


def test_a_wheel_has_a_module_space_of_its_own(tmp_path):
    install(tmp_path / FIRST, "acmewheel", "1.0")
    for name, text in (("one", "ONE"), ("two", "TWO")):
        with zipfile.ZipFile(tmp_path / f"{name}.whl", "w") as wheel:
            wheel.writestr("conn.py", "from pack import sub\ndef who():\n    return sub.WHO\n")
            wheel.writestr("pack/__init__.py", "")
            wheel.writestr("pack/sub.py", f"WHO = {text!r}\n")
    one, two = (load(tmp_path / f"{name}.whl", "conn") for name in ("one", "two"))
    assert (one.who(), two.who()) == ("ONE", "TWO")
    assert inspect.getsource(one.who) == "def who():\n    return sub.WHO\n"


def test_a_compiled_package_is_loaded_once_under_its_own_name(tmp_path, caplog):
    """Compiled code knows the packages it imports by their own names, and mostly bears to be loaded only once."""
    for version, folder in (("1.0", FIRST), ("2.0", SECOND)):
        install(tmp_path / folder, "acmecompiled", version, compiled=True)
        write(tmp_path / folder, {"conn.py": "import acmecompiled, acmecompiled.inner\n"})
    first, second = load(tmp_path / FIRST, "conn").acmecompiled, load(tmp_path / SECOND, "conn").acmecompiled
    assert first is second is sys.modules["acmecompiled"]
    assert (first.__version__, first.crc32c(b"123456789")) == ("1.0", 0xE3069283)
    assert f"acmecompiled of {tmp_path}/first is used, not that of {tmp_path}/second" in caplog.text
    assert importlib.util.find_spec("acmecompiled") is not None


def test_namespace_packages_may_span_folders(tmp_path, monkeypatch):
    """Like google.cloud: one part is installed with heeler, the other is in the plugin folder."""
    write(tmp_path / "site", {"acmespread/installed.py": "WHERE = 'installed'\n"})
    both = "import acmespread.own, acmespread.installed\nfound = acmespread.own.WHERE, acmespread.installed.WHERE\n"
    write(tmp_path / "place", {"acmespread/own.py": "import near\nWHERE = near.WHERE\n", "near.py": "WHERE = 'own'\n",
                               "conn.py": both, "acmealone/own.py": "", "alone.py": "import acmealone.own\n"})
    with monkeypatch.context() as installed:
        installed.syspath_prepend(tmp_path / "site")
        assert load(tmp_path / "place", "conn").found == ("own", "installed")
    assert load(tmp_path / "place", "alone").acmealone.__name__.startswith("spark_tasks.spaces.")


def test_libraries_that_heeler_uses_are_neither_loaded_twice_nor_replaced(tmp_path, caplog):
    import numpy as np
    import pyspark

    caplog.set_level(logging.INFO)
    write(tmp_path, {f"{name}/__init__.py": "FAKE = True\n" for name in ("numpy", "pyspark", "kafka", "heeler")})
    library = next(Path(crc32c.__file__).parent.glob("_crc32c*.so"))
    shutil.copy(library, tmp_path / "numpy" / library.name)
    write(tmp_path, {"random.py": "FAKE = True\n", "mine.py": "FAKE = True\n", "conn.py": """
        import heeler, kafka, numpy, pyspark, random
        import mine
    """})
    conn = load(tmp_path, "conn")
    assert (conn.numpy, conn.pyspark) == (np, pyspark)
    assert not any(hasattr(module, "FAKE") for module in (conn.heeler, conn.kafka, conn.random))
    assert conn.mine.FAKE
    Plugins([str(tmp_path)], installed=())
    [line] = [r.getMessage() for r in caplog.records if "can load only once" in r.getMessage()]
    assert line.startswith(f"plugin.path: {tmp_path} has modules")
    assert line.endswith("heeler, kafka, numpy, pyspark, random")


@pytest.mark.parametrize("name", ["csv", "kafka", "queue", "heeler"])
def test_a_plugins_file_may_have_any_name(tmp_path, name):
    write(tmp_path, {f"{name}.py": """
        from heeler import source
        import csv, kafka, queue

        @source("n bigint")
        def Ticks(options, start):
            return [(len(csv.QUOTE_ALL.__class__.__name__),)], {"n": 1}
    """})
    plugin = Plugins([str(tmp_path)], installed=()).find(Kind.CONNECTOR, "Ticks")
    assert plugin.name == f"{name}.Ticks"
    assert hasattr(plugin.cls, "data_source")


def test_the_modules_of_a_place_are_not_visible_elsewhere(tmp_path):
    load(write(tmp_path, {"hidden.py": "import secret\n", "secret.py": ""}), "hidden")
    for name in ("hidden", "secret"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)
    with pytest.raises(PluginNotFoundError):
        Plugins(installed=()).connector("hidden.Anything")

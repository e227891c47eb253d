"""What `make wheel` builds is installed into a fresh environment: it runs a worker, and plugins can be type-checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from heeler.cli.client.rest_client import RestClient
from heeler.embedded_kafka.guard import GuardedProcess
from heeler.embedded_kafka.ports import free_port
from tests.rigs.support import wait_until

pytestmark = pytest.mark.integration  # processes of their own
ROOT = Path(__file__).parents[3]
PACKAGES = ("actors", "heeler", "rest", "spark_tasks", "storage")
# Run in another process, where the folder comes before this checkout.
LOAD = """
from importlib.metadata import distribution
import sys, heeler
assert heeler.__file__.startswith(sys.argv[1]), heeler.__file__
for point in distribution("heeler").entry_points:
    assert point.load(), point
    print(point.group, point.name)
"""


def run(*command: object, cwd: Path = ROOT, **more: str) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=150, check=False, cwd=cwd,
                          env={**os.environ, **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: a build leaves folders beside the sources."""
    folder = tmp_path_factory.mktemp("package")
    for name in ("pyproject.toml", "constraints.txt", "Makefile", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = Path(sys.prefix)  # this one, which is as it should be
    said = run("make", "--no-print-directory", "-o", environment / ".heeler-installed", "wheel", f"VENV={environment}",
               cwd=folder)
    [built] = (folder / "dist").iterdir()
    assert said == f"dist/{built.name}\n"
    assert not (folder / "build").exists()
    return built


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """Of a fresh environment with the wheel; what it depends on is taken from this one, to spare the network."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    found = folder / "bin" / "python"
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # .pth files in there are not read
    run(sys.executable, "-m", "pip", "--python", found, "install", "--no-deps", "--no-index", "--no-compile", "--quiet",
        "--ignore-installed", wheel)
    return found


def test_the_wheel_contains_our_files_and_nothing_else(wheel):
    ours = {str(f.relative_to(ROOT)) for name in PACKAGES for f in (ROOT / name).rglob("*")
            if f.is_file() and "__pycache__" not in f.parts}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licenses = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    assert (packed ^ ours, len(licenses)) == (set(), 1)
    assert {f"{name}/py.typed" for name in PACKAGES} <= packed


def test_the_installed_package_has_its_commands_and_plugins(python, tmp_path):
    heeler = python.with_name("heeler")
    assert run(heeler, "--version", cwd=tmp_path) == "heeler, version 0.1.0\n"
    assert "Kafka Connect for Python and Spark" in run(heeler, "--help", cwd=tmp_path)
    points = run(python, "-P", "-c", LOAD, python.parents[1], cwd=tmp_path).splitlines()
    assert {point.split()[0] for point in points} == {"console_scripts", *(f"heeler.{kind}" for kind in (
        "connectors", "converters", "header_converters", "transforms", "predicates", "config_providers"))}


def test_the_installed_package_runs_a_worker(broker, python, worker_properties, tmp_path):
    port = free_port()
    file = tmp_path / "worker.properties"
    properties = {**worker_properties, "listeners": f"http://127.0.0.1:{port}"}
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    rest, log = RestClient("127.0.0.1", port), tmp_path / "worker.log"
    process = GuardedProcess([str(python.with_name("heeler")), "worker", str(file)], log)
    try:
        wait_until(lambda: process.exit_code() is not None or rest.ready(), 100, "the worker")
        assert process.exit_code() is None, log.read_text()
        found = {plugin["class"] for plugin in rest.call("GET", "/connector-plugins")}
        assert "spark_tasks.connectors.parquet.connector.ParquetSinkConnector" in found
    finally:
        process.close(15)


PLUGIN = """
from heeler import ConfigDef, ConfigKey, SourceConnector, Type, source

KEYS = ConfigDef(ConfigKey("rows", Type.INT, default=5, doc="How many."))


@source("second bigint, text string")
def Ticks(options, start):  # type: ignore[no-untyped-def]
    return [], {}


class Numbers(SourceConnector):
    version = "1"

    def tasks(self) -> int:
        name: str = self.version
        return len(name)
"""


def test_a_plugin_can_be_type_checked(python, tmp_path):
    """py.typed: without it mypy takes all of heeler for Any, and finds nothing wrong anywhere."""
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", tmp_path / "cache")
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(PLUGIN)
    run(*check, good, cwd=tmp_path)
    bad.write_text(PLUGIN.replace("default=5", "defalt=5").replace("name: str = self", "name: int = self"))
    done = subprocess.run([str(c) for c in (*check, bad)], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert 'Unexpected keyword argument "defalt" for "ConfigKey"' in done.stdout
    assert 'expression has type "str", variable has type "int"' in done.stdout

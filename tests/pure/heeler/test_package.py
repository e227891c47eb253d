"""What `pip install heeler` installs: the wheel is built from the sources, and used from a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in (*PACKAGES, "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-c", "from setuptools.build_meta import build_wheel; build_wheel('wheels')", cwd=folder)
    [built] = (folder / "wheels").iterdir()
    return built


def test_the_wheel_has_all_that_is_ours_and_no_more(wheel):
    ours = {str(f.relative_to(ROOT)) for name in PACKAGES for f in (ROOT / name).rglob("*")
            if f.is_file() and "__pycache__" not in f.parts}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
        licence = [name for name in archive.namelist() if name.endswith("/LICENSE")]
    assert (packed ^ ours, len(licence)) == (set(), 1)


def test_what_is_installed_works(wheel, tmp_path):
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--no-compile", "--quiet", "--target",
        tmp_path, wheel)
    there = {"PYTHONPATH": str(tmp_path)}
    assert "Kafka Connect for Python and Spark" in run(tmp_path / "bin" / "heeler", "--help", **there)
    points = run(sys.executable, "-P", "-c", LOAD, tmp_path, **there).splitlines()
    assert {point.split()[0] for point in points} == {"console_scripts", *(f"heeler.{kind}" for kind in (
        "connectors", "converters", "header_converters", "transforms", "config_providers"))}

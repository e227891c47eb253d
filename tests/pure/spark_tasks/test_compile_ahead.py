"""Compilation ahead of time: every part works; a failure would be visible only in the log."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from spark_tasks.compile_ahead import compile_rest

ROOT = Path(__file__).parents[3]


def test_nothing_fails(caplog: pytest.LogCaptureFixture) -> None:
    compile_rest()
    assert caplog.text == ""


def kernels() -> list[tuple[str, str]]:
    """The modules and names of the functions that numba compiles, but for those that others of them call: the machine
    code of these is in that of their callers.
    """
    found = []
    for file in sorted((ROOT / "spark_tasks").rglob("*.py")):
        if "arrays.jit" not in (text := file.read_text()):
            continue
        functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        made = [(one, {ast.unparse(by) for by in one.decorator_list} & {"jit", "kernel", "inlined"})
                for one in functions]
        called = {node.id for one, by in made if by for node in ast.walk(one) if isinstance(node, ast.Name)}
        names = {one.name for one, by in made if by & {"jit", "kernel"}} - called
        found += [(".".join(file.relative_to(ROOT).with_suffix("").parts), name) for name in sorted(names)]
    return found


def uncompiled() -> list[tuple[str, str]]:
    """The kernels without machine code."""
    return [one for one in kernels() if not getattr(getattr(import_module(one[0]), one[1]), "signatures", ())]


@pytest.mark.integration  # it starts a process, as tests before it have compiled kernels in this one
def test_all_kernels_are_compiled_ahead_of_time() -> None:
    """Each process that uses one that is not would compile it: `heeler warm` may be all that can write the cache."""
    code = (f"import {__name__} as me; from spark_tasks.spark.warm import warm_up; warm_up(); me.compile_rest(); "
            "print(len(me.kernels()), me.uncompiled())")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    count, _, rest = done.stdout.partition(" ")
    assert (int(count) > 40, rest) == (True, "[]\n")

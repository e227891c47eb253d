"""`heeler warm` compiles what a worker imports, also where Python is told not to."""

import importlib
import importlib.util
import sys
from pathlib import Path

from heeler.cli.support.bytecode import compile_imported


def test_imported_modules_are_compiled_although_python_does_not(tmp_path, monkeypatch):
    source = tmp_path / "never_compiled.py"
    source.write_text("VALUE = 1\n")
    compiled = Path(importlib.util.cache_from_source(str(source)))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("never_compiled")
    assert not compiled.exists()
    compile_imported()
    del sys.modules["never_compiled"]
    assert compiled.exists()


def test_a_module_that_cannot_be_compiled_is_named(tmp_path, monkeypatch, caplog):
    source = tmp_path / "soon_broken.py"
    source.write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    importlib.import_module("soon_broken")
    source.write_text("1 +\n")
    compile_imported()
    del sys.modules["soon_broken"]
    assert caplog.messages == [f"1 module could not be compiled, so starts take longer; the first: {source}"]

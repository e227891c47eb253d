"""heeler's own files and what Python parses from them, once for all tests that inspect them."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("actors", "rest", "storage", "spark_tasks", "heeler")
FILES = sorted(p.relative_to(ROOT) for package in PACKAGES for p in (ROOT / package).rglob("*.py"))


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    """All nodes of the syntax tree of a file, named as in FILES."""
    found = tuple(ast.walk(ast.parse((ROOT / file).read_text(), str(file))))
    gc.freeze()  # they live until the end; otherwise half a million of them are visited again and again
    return found

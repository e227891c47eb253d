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
    found: list[ast.AST] = [ast.parse((ROOT / file).read_text(), str(file))]
    for node in found:  # as ast.walk does, in a third of the time
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    gc.freeze()  # they live until the end; otherwise half a million of them are visited again and again
    return tuple(found)

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


@cache
def imports(file: Path) -> frozenset[str]:
    """Every module that a file imports, those inside functions too; `from a import b` counts as a and as a.b."""
    found: set[str] = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def module(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(f): f for f in FILES}


@cache
def ours(file: Path) -> frozenset[str]:
    """The modules of ours that a file imports; `from a import b` means a.b where that is a module, else a."""
    found: set[str] = set()
    for node in nodes(file):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else str(node.module) for name in named}
    return frozenset(found & MODULES.keys())

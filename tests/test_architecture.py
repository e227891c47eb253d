"""What the layout promises (docs/architecture.md): who may import whom, pure cores, small files, no waiting actors."""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("actors", "rest", "storage", "spark_tasks", "heeler")
FILES = sorted(p.relative_to(ROOT) for package in PACKAGES for p in (ROOT / package).rglob("*.py"))

# package -> what it may import of ours, by module or package; itself is always allowed
ARROWS = {
    "spark_tasks": (),
    "storage": (
        "spark_tasks.errors", "spark_tasks.java_double", "spark_tasks.limits", "spark_tasks.kafka",
        "spark_tasks.pulse", "spark_tasks.records",
    ),
    "rest": (
        "actors.messages", "actors.errors", "actors.assignment.protocol", "storage.ids", "storage.config_state",
        "storage.status", "spark_tasks.errors", "spark_tasks.config_def", "spark_tasks.limits",
        "spark_tasks.key_stores", "spark_tasks.masking", "spark_tasks.unsupported",
    ),
    "actors": ("storage", "spark_tasks"),
    "heeler": ("actors", "storage", "spark_tasks"),
}
ARROW_EXCEPTIONS = {
    "actors/worker.py": ("rest",),  # the one place that starts the REST front end
    "actors/worker_keys.py": ("rest.keys",),  # REST's keys stand in a worker's file with all others
}

# library -> the only places that may import it
CONFINED = {
    "pykka": ("actors", "rest"),  # rest waits for futures
    "flask": ("rest",),
    "cheroot": ("rest",),
    "pyspark": ("spark_tasks",),
    # private API of kafka-python: one file for the worker group, one for the sinks' consumer groups
    "kafka.coordinator": ("actors/group_coordinator.py", "spark_tasks/running/group_consumer.py"),
    "click": ("heeler",),
    "rich": ("heeler",),
}

# Pure: values in, values out. Time, chance, threads, files, sockets and settings come in as values.
SHELLS = {"actors/herder/actor.py"}
PURE = [
    f for f in FILES
    if (str(f.parent) in ("actors/herder", "actors/assignment") and str(f) not in SHELLS)
    or (f.parent.name == "storage" and f.stem.endswith("_fold"))
    or f.name in ("task_state.py", "ids.py", "messages.py")
]
IMPURE = {
    "asyncio", "concurrent", "datetime", "flask", "kafka", "multiprocessing", "os", "pathlib", "pykka", "queue",
    "random", "secrets", "socket", "subprocess", "tempfile", "threading", "time", "uuid",
}

MAX_LINES = 400
LONG_FILES = {"actors/messages.py": "only data: every message that crosses an actor boundary, in one place"}


@cache
def nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse((ROOT / file).read_text(), str(file))))


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


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def test_the_packages_are_found():
    assert {f.parts[0] for f in FILES} == set(PACKAGES)
    assert len(PURE) > 10


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package):
    wrong = []
    for file in (f for f in FILES if f.parts[0] == package):
        allowed = (package, *ARROWS[package], *ARROW_EXCEPTIONS.get(str(file), ()))
        ours = {m for m in imports(file) if m.split(".")[0] in PACKAGES}
        # `from storage import ids` names the package and the module; the module decides
        ours -= {m for m in ours if m in PACKAGES and any(other.startswith(f"{m}.") for other in ours)}
        wrong += [f"{file} imports {m}" for m in sorted(ours) if not within(m, allowed)]
    assert wrong == []


def test_plugins_know_nothing_of_what_runs_them():
    """Connectors, converters, transforms and the plugin author's API stand below spark_tasks.running."""
    below = [f for f in FILES if f.parts[0] == "spark_tasks" and f.parts[1] != "running" and f.name != "daemon.py"]
    assert [str(f) for f in below if any(within(m, ("spark_tasks.running",)) for m in imports(f))] == []


@pytest.mark.parametrize("library", CONFINED)
def test_libraries_stay_in_their_place(library):
    places = CONFINED[library]
    wrong = [str(f) for f in FILES if any(within(m, (library,)) for m in imports(f)) and not in_places(f, places)]
    assert wrong == []


def in_places(file: Path, places: tuple[str, ...]) -> bool:
    return any(str(file) == place or file.parts[0] == place for place in places)


@pytest.mark.parametrize("file", PURE, ids=str)
def test_pure_cores_have_no_clock_chance_thread_or_io(file):
    wrong = sorted(m for m in imports(file) if m.split(".")[0] in IMPURE)
    wrong += [f"{name}()" for name in called_names(file) if name in ("open", "input", "print", "exec", "eval")]
    assert wrong == []


def called_names(file: Path) -> set[str]:
    calls = (n.func for n in nodes(file) if isinstance(n, ast.Call))
    return {f.id for f in calls if isinstance(f, ast.Name)}


MAY_WAIT = {
    "actors/worker.py": "starts and stops the actors and is none itself",
    "actors/offset_requests.py": "waits, for a limited time, for the offset store below it; nobody waits for it",
}


def test_actors_do_not_wait_for_each_other():
    """An actor tells; a mutual ask is a deadlock."""
    wrong = []
    for file in (f for f in FILES if f.parts[0] == "actors" and str(f) not in MAY_WAIT):
        if "pykka" not in imports(file):
            continue
        for node in nodes(file):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            future = node.func.attr == "get" and not node.args and {k.arg for k in node.keywords} <= {"timeout"}
            if node.func.attr in ("ask", "proxy") or future:
                wrong.append(f"{file}:{node.lineno} .{node.func.attr}()")
    assert wrong == []


def test_files_are_small():
    lines = {str(f): len((ROOT / f).read_text().splitlines()) for f in FILES}
    assert {f: n for f, n in lines.items() if n > MAX_LINES and f not in LONG_FILES} == {}
    assert [f for f in LONG_FILES if lines.get(f, 0) <= MAX_LINES] == [], "no longer an exception"


def test_functions_are_short():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = {
        f"{f}:{n.lineno} {n.name}": n.end_lineno - n.lineno + 1
        for f in FILES for n in nodes(f) if isinstance(n, kinds)
    }
    assert {name: n for name, n in lengths.items() if n > 100} == {}
    assert statistics.quantiles(lengths.values(), n=20)[-1] <= 40


def test_no_test_is_left_out():
    """`make test` finds the tests of these folders by their marks alone."""
    files = [f for folder in ("integration", "interop") for f in (ROOT / "tests" / folder).glob("test_*.py")]
    mark = re.compile(r"^pytestmark = .*pytest\.mark\.(integration|interop)\b", re.MULTILINE)
    assert [f.name for f in files if not mark.search(f.read_text())] == []


def test_nothing_prints():
    """Lines go through logging, the command line through click and rich."""
    assert [str(f) for f in FILES if "print" in called_names(f)] == []


def test_every_dependency_is_pinned_within_its_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(d for extra in project["optional-dependencies"].values() for d in extra)]
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x and not x.startswith("#")]
    assert [x for x in lines if not re.fullmatch(r"[a-z0-9.-]+==[0-9][\w.]*", x)] == [], "names and versions only"
    pinned = dict(x.split("==") for x in lines)
    requirements = [r for r in map(Requirement, wanted) if r.name != project["name"]]
    wrong = [str(r) for r in requirements if not r.specifier.contains(pinned.get(canonicalize_name(r.name), "0"))]
    assert wrong == []

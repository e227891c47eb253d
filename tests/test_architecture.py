"""The rules of docs/architecture.md: pure cores, small files, no waiting actors; and those of the tests. test_rooms.py
has the imports between rooms.
"""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rigs.sources import FILES, MODULES, PACKAGES, ROOT, imports, nodes, ours

# Pure: values in, values out, and lines of the log (records that are skipped, members without work), in themselves and
# in all of ours that they import. Time, chance, threads, files, sockets and settings come in as values.
SAYS_PURE = re.compile(r'"""(?:(?!""").)*\b[Pp]ure\b', re.DOTALL)  # in the docstring of the module
SHELLS = {"actors/herder/actor.py"}
PURE = [
    f for f in FILES
    if (f.parts[0] == "actors" and f.parts[1] in ("herder", "assignment", "messages") and str(f) not in SHELLS)
    or f.name in ("fold.py", "ids.py", "task_state.py", "connector_state.py")
    or SAYS_PURE.match((ROOT / f).read_text())
]
IMPURE = {
    "asyncio", "concurrent", "datetime", "flask", "kafka", "multiprocessing", "os", "pathlib", "pykka", "queue",
    "random", "secrets", "socket", "subprocess", "tempfile", "threading", "time", "uuid",
}

MAX_LINES = 400
FORBIDDEN = ("open", "input", "print", "exec", "eval")


def test_the_packages_are_found():
    assert {f.parts[0] for f in FILES} == set(PACKAGES)
    assert len(PURE) > 10


def reach(file: Path) -> set[Path]:
    """The file and all of ours that importing it imports."""
    found, ahead = set(), {file}
    while ahead:
        found |= ahead
        ahead = {MODULES[m] for f in ahead for m in ours(f)} - found
    return found


def test_pure_cores_have_no_clock_randomness_threads_or_io():
    reached = set().union(*map(reach, PURE))
    wrong = {f"{f} imports {m}" for f in reached for m in imports(f) if m.split(".")[0] in IMPURE}
    wrong |= {f"{f}: {name}()" for f in reached for name in called_names(f) if name in FORBIDDEN}
    assert sorted(wrong) == []


def called_names(file: Path) -> set[str]:
    calls = (n.func for n in nodes(file) if isinstance(n, ast.Call))
    return {f.id for f in calls if isinstance(f, ast.Name)}


MAY_WAIT = {
    "heeler/worker/process.py": "starts and stops the actors and is not an actor itself",
    "actors/stores/offset_requests.py": "waits, for a limited time, for the offset store below it; nobody waits for it",
}


def test_actors_do_not_wait_for_each_other():
    """Actors only send messages: two that ask each other deadlock."""
    wrong = []
    for file in (f for f in FILES if f.parts[0] == "actors" and str(f) not in MAY_WAIT):
        if "pykka" not in imports(file):
            continue
        for node in nodes(file):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            future = node.func.attr == "get" and not node.args and {k.arg for k in node.keywords} <= {"timeout"}
            if ast.unparse(node.func.value) == "self.actor_inbox":  # its own, which is not a future
                continue
            if node.func.attr in ("ask", "proxy") or future:
                wrong.append(f"{file}:{node.lineno} .{node.func.attr}()")
    assert wrong == []


def test_files_are_small():
    lines = {str(f): len((ROOT / f).read_text().splitlines()) for f in FILES}
    assert {f: n for f, n in lines.items() if n > MAX_LINES} == {}


SAME_NAMES = {
    "Type": "ConfigDef.Type and Schema.Type are Kafka's and Connect's own names, and each is used beside its class",
    "Record": "what a function of @transform gets, a name for plugin authors, and the same record in Java's classes",
}


def test_class_names_are_unique():
    """A public class can be told by its name alone. Private ones and those of tests are read beside their use."""
    found: dict[str, list[str]] = {}
    for file in FILES:
        for node in nodes(file):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(file))
    twice = {name: files for name, files in found.items() if len(files) > 1}
    assert {name: files for name, files in twice.items() if name not in SAME_NAMES} == {}
    assert [name for name in SAME_NAMES if name not in twice] == [], "no longer an exception"


def test_functions_are_short():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    lengths = {
        f"{f}:{n.lineno} {n.name}": n.end_lineno - n.lineno + 1
        for f in FILES for n in nodes(f) if isinstance(n, kinds)
    }
    assert {name: n for name, n in lengths.items() if n > 100} == {}
    assert statistics.quantiles(lengths.values(), n=20)[-1] <= 40


OF_NO_MODULE = {
    "actors/herder/test_histories.py": "the herder as a whole, in random histories of simulated clusters",
    "actors/herder/test_hostile_group.py": "the herder as a whole, in a group with a member that makes false claims",
    "actors/herder/test_trouble.py": "the herder as a whole: defects that random histories have found",
    "heeler/test_package.py": "the wheel that `make wheel` builds",
    "spark_tasks/kafka/records/test_kernels.py": "a rule for the kernels of several modules",
}


def test_pure_tests_mirror_the_tree():
    """tests/pure/a/b/test_c.py tests a/b/c.py, test_b.py in it several modules of a/b, and test_golden.py holds them
    beside what Java did (tests/golden).
    """
    pure = ROOT / "tests" / "pure"
    tests = [file.relative_to(pure) for file in sorted(pure.rglob("test_*.py"))]
    assert len(tests) > 100
    beside: dict[Path, set[str]] = {}
    for file in FILES:
        beside.setdefault(file.parent, {"golden", file.parent.name}).add(file.stem)
    astray = [str(t) for t in tests if t.stem.removeprefix("test_") not in beside.get(t.parent, ())]
    assert [test for test in astray if test not in OF_NO_MODULE] == []
    assert [test for test in OF_NO_MODULE if test not in astray] == [], "no longer an exception"


OTHER_THAN_TESTS = {"rigs", "golden", "chaos", "benchmarks", "examples"}


def test_rigs_and_fakes_are_in_one_folder():
    """All other folders of tests contain tests and fixtures alone."""
    files = [file.relative_to(ROOT / "tests") for file in (ROOT / "tests").rglob("*") if file.is_file()]
    found = [file for file in files if file.parts[0] not in OTHER_THAN_TESTS and "__pycache__" not in file.parts]
    assert len(found) > 100
    tests = re.compile(r"test_\w+\.py|conftest\.py|__init__\.py")
    assert [str(file) for file in found if not tests.fullmatch(file.name)] == []


def test_no_file_of_tests_is_imported():
    """What several of them use is a rig or a fixture."""
    imported = re.compile(r"^\s*(from|import) tests\.[\w.]*\btest_", re.MULTILINE)
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert [str(file.relative_to(ROOT)) for file in files if imported.search(file.read_text())] == []


def test_no_test_is_left_out():
    """`make test` finds the tests of these folders by their marks alone."""
    files = [f for folder in ("integration", "interop") for f in (ROOT / "tests" / folder).rglob("test_*.py")]
    mark = re.compile(r"^pytestmark = .*pytest\.mark\.(integration|interop)\b", re.MULTILINE)
    assert [f.name for f in files if not mark.search(f.read_text())] == []


def test_tests_reach_no_private_name_by_a_string_or_an_import():
    """Finds what ruff's SLF001, which checks only `x._name`, misses."""
    by_string, by_import = r"""attr\([^"'\n]*["']([\w.]*\.)?_[a-zA-Z]""", r"^\s*from .* import .*\b_[a-zA-Z]"
    reach = re.compile(rf"{by_string}|{by_import}|^    _[a-zA-Z]\w*,$", re.MULTILINE)
    texts = {file.relative_to(ROOT): file.read_text() for file in sorted((ROOT / "tests").rglob("*.py"))}
    assert [f"{file}: {found[0]}" for file, text in texts.items() for found in reach.finditer(text)] == []


def test_no_module_prints():
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

"""The rules of docs/architecture.md: imports between rooms, pure cores, small files, no waiting actors."""

from __future__ import annotations

import ast
import re
import statistics
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rigs.sources import FILES, PACKAGES, ROOT, nodes

# room (a folder, or a file beside the folders) -> the rooms that it may import, beside BASE; a name that ends in a dot
# stands for all rooms of its package
_EVERYWHERE = (
    "spark_tasks.errors", "spark_tasks.limits", "spark_tasks.futures", "spark_tasks.backoff",
)
BASE = {
    "actors": ("storage.ids", *_EVERYWHERE),
    "heeler": ("storage.ids", *_EVERYWHERE),
    "rest": ("storage.ids", *_EVERYWHERE),
    "storage": ("storage.ids", "storage.errors", *_EVERYWHERE),
    "spark_tasks": _EVERYWHERE,
}
ROOMS = {
    # what runs on executors: nothing of the rooms above it
    "spark_tasks": (),
    "spark_tasks.errors": (),
    "spark_tasks.futures": (),
    "spark_tasks.backoff": (),
    "spark_tasks.limits": (),
    "spark_tasks.spaces": (),
    "spark_tasks.metrics": (),
    "spark_tasks.task": ("spark_tasks.metrics",),
    "spark_tasks.process": (),
    "spark_tasks.arrays": ("spark_tasks.process",),
    "spark_tasks.java": ("spark_tasks.arrays",),
    "spark_tasks.data": ("spark_tasks.java",),
    "spark_tasks.config": ("spark_tasks.java",),
    "spark_tasks.plugins": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.metrics", "spark_tasks.process", "spark_tasks.spaces",
        "spark_tasks.task",
    ),
    "spark_tasks.validation": ("spark_tasks.config", "spark_tasks.java", "spark_tasks.kafka", "spark_tasks.plugins"),
    "spark_tasks.kafka": (
        "spark_tasks.arrays", "spark_tasks.config", "spark_tasks.data", "spark_tasks.java", "spark_tasks.metrics",
        "spark_tasks.process",
    ),
    # what travels between the Java plugin host and the worker or its executors
    "spark_tasks.host_frames": ("spark_tasks.data", "spark_tasks.plugins"),
    "spark_tasks.registry": ("spark_tasks.arrays", "spark_tasks.config", "spark_tasks.kafka"),
    "spark_tasks.pipeline": (
        "spark_tasks.arrays", "spark_tasks.config", "spark_tasks.data", "spark_tasks.java", "spark_tasks.metrics",
        "spark_tasks.host_frames", "spark_tasks.plugins", "spark_tasks.process", "spark_tasks.registry",
    ),
    "spark_tasks.dead_letters": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.kafka", "spark_tasks.metrics", "spark_tasks.pipeline",
        "spark_tasks.process", "spark_tasks.task",
    ),
    "spark_tasks.connectors": (
        "spark_tasks.arrays", "spark_tasks.config", "spark_tasks.data", "spark_tasks.java", "spark_tasks.pipeline",
        "spark_tasks.plugins", "spark_tasks.process",
    ),
    "spark_tasks.spark": (
        "spark_tasks", "spark_tasks.config", "spark_tasks.connectors", "spark_tasks.data", "spark_tasks.kafka",
        "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.process", "spark_tasks.task",
    ),
    "spark_tasks.tasks": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugins",
        "spark_tasks.spark", "spark_tasks.task",
    ),
    "spark_tasks.sources": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.dead_letters", "spark_tasks.kafka",
        "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugins", "spark_tasks.process",
        "spark_tasks.task", "spark_tasks.tasks",
    ),
    "spark_tasks.sinks": (
        "spark_tasks.arrays", "spark_tasks.config", "spark_tasks.data", "spark_tasks.dead_letters", "spark_tasks.kafka",
        "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugins", "spark_tasks.spark", "spark_tasks.task",
        "spark_tasks.tasks",
    ),
    "spark_tasks.engines": ("spark_tasks.spark",),
    "spark_tasks.runners": (
        "spark_tasks.engines", "spark_tasks.kafka", "spark_tasks.pipeline", "spark_tasks.plugins", "spark_tasks.sinks",
        "spark_tasks.sources", "spark_tasks.spark", "spark_tasks.task", "spark_tasks.tasks",
    ),
    "spark_tasks.foreground": (
        "spark_tasks.data", "spark_tasks.pipeline", "spark_tasks.plugins", "spark_tasks.sinks", "spark_tasks.sources",
        "spark_tasks.tasks", "spark_tasks.trial",
    ),
    "spark_tasks.trial": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.metrics", "spark_tasks.pipeline",
        "spark_tasks.plugins", "spark_tasks.sinks", "spark_tasks.sources", "spark_tasks.tasks",
    ),
    # the internal topics
    "storage": (),
    "storage.ids": (),
    "storage.errors": (),
    "storage.daemon_pool": (),
    "storage.log": (
        "storage.daemon_pool", "spark_tasks.java", "spark_tasks.kafka", "spark_tasks.process",
    ),
    "storage.config": ("storage.log",),
    "storage.status": ("storage.config", "storage.log"),
    "storage.offsets": ("storage.log", "spark_tasks.kafka"),
    # the control plane
    "actors": (),
    "actors.errors": (),
    "actors.ticker": (),
    "actors.assignment": ("storage.config", "storage.log"),
    "actors.messages": ("actors.assignment", "storage.config", "storage.offsets", "storage.status"),
    "actors.group": ("actors.assignment", "actors.messages", "spark_tasks.kafka", "storage.config", "storage.log"),
    "actors.herder": (
        "actors.assignment", "actors.errors", "actors.messages", "actors.ticker", "spark_tasks.config",
        "spark_tasks.process", "storage.config", "storage.errors", "storage.log", "storage.status",
    ),
    "actors.instances": (
        "actors.errors", "actors.herder", "actors.messages", "spark_tasks.config",
        "spark_tasks.metrics", "spark_tasks.plugins", "spark_tasks.spaces", "spark_tasks.task", "spark_tasks.tasks",
        "spark_tasks.validation",
    ),
    "actors.peers": (
        "actors.errors", "actors.herder", "actors.messages", "actors.ticker", "spark_tasks.kafka",
        "spark_tasks.process", "spark_tasks.task", "storage.config", "storage.daemon_pool",
    ),
    "actors.stores": (
        "actors.errors", "actors.herder", "actors.messages", "actors.peers", "actors.ticker",
        "spark_tasks.dead_letters", "spark_tasks.kafka", "spark_tasks.plugins", "spark_tasks.process", "storage.",
    ),
    "actors.system": (
        "actors.errors", "actors.instances", "actors.messages", "spark_tasks.config", "spark_tasks.plugins",
        "spark_tasks.validation",
    ),
    # REST knows messages, ids and errors of the control plane, and how settings are described
    "rest": (),
    "rest.json_text": (),
    "rest.errors": ("rest.json_text", "actors.errors", "spark_tasks.config"),
    "rest.forwarding": ("rest.errors", "rest.json_text", "spark_tasks.process"),
    "rest.wire": (
        "rest.errors", "rest.forwarding", "rest.json_text", "actors.errors", "actors.messages", "spark_tasks.config",
        "storage.config", "storage.status",
    ),
    "rest.server": (
        "rest.errors", "rest.wire", "spark_tasks.config", "spark_tasks.kafka", "spark_tasks.process",
    ),
    "rest.herder_client": (
        "rest.errors", "rest.forwarding", "rest.server", "rest.wire", "actors.errors", "actors.messages",
        "spark_tasks.process",
    ),
    "rest.openapi": ("spark_tasks.process",),
    "rest.resources": (
        "rest.", "actors.errors", "actors.messages", "spark_tasks.config", "spark_tasks.process", "storage.config",
    ),
    "rest.app": ("rest.",),
    # what people start
    # the names that plugin authors import
    "heeler": ("spark_tasks.config", "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugins"),
    "heeler.errors": (),
    "heeler.embedded_kafka": ("heeler.errors", "spark_tasks.process", "spark_tasks.spark"),
    # a worker's Java plugins: the host, and what makes them look like Python's
    "heeler.java_host": (
        "heeler.embedded_kafka", "heeler.errors", "spark_tasks.config", "spark_tasks.data", "spark_tasks.dead_letters",
        "spark_tasks.host_frames", "spark_tasks.kafka", "spark_tasks.metrics", "spark_tasks.plugins",
        "spark_tasks.process", "spark_tasks.sinks", "spark_tasks.sources", "spark_tasks.spark", "spark_tasks.task",
        "spark_tasks.tasks", "storage.log",
    ),
    "heeler.worker": ("actors.", "heeler.java_host", "rest.", "storage.", "spark_tasks."),  # the composition root
    "heeler.doctor": (
        "heeler.embedded_kafka", "heeler.errors", "heeler.worker", "rest.server", "spark_tasks.kafka",
        "spark_tasks.plugins", "spark_tasks.spark", "storage.log",
    ),
    "heeler.cli": (
        "heeler.", "spark_tasks.config", "spark_tasks.foreground", "spark_tasks.kafka",
        "spark_tasks.plugins", "spark_tasks.process", "spark_tasks.spark", "spark_tasks.trial",
    ),
    "heeler.__main__": ("heeler.cli",),
}

# library -> the only places that may import it
CONFINED = {
    "pykka": ("actors", "rest", "heeler/worker/process.py"),  # rest waits for futures
    "flask": ("rest",),
    "cheroot": ("rest",),
    "pyspark": ("spark_tasks",),
    "click": ("heeler",),
    "rich": ("heeler",),
    "urllib3": ("spark_tasks/process/worker_requests.py", "heeler/cli/cluster/session.py"),
    "http.client": (),
    "apispec": ("rest/openapi/document.py",),
    "kafka": ("spark_tasks/kafka",),  # its errors are translated at the edge of the room
    "confluent_kafka": ("spark_tasks/registry",),
    "httpx2": ("spark_tasks/registry",),  # the client's errors are of it
    "prometheus_client": ("heeler/worker/metrics/registry.py",),
}

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


def module(file: Path) -> str:
    parts = file.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module(f): f for f in FILES}


def room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def part_of(name: str, package: str) -> str:
    """The folder within a package that a module is in; the package itself if it is beside its folders; "" elsewhere."""
    parent = MODULES[name].parts[:-1]
    depth = package.count(".") + 1
    return ".".join(parent[: depth + 1]) if ".".join(parent[:depth]) == package else ""


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


def allows(permission: str, target: str) -> bool:
    return target == permission or (permission.endswith(".") and target.startswith(permission))


def may_import(source: str, target: str) -> bool:
    allowed = (*ROOMS[source], *BASE[source.split(".", maxsplit=1)[0]])
    return source == target or any(allows(permission, target) for permission in allowed)


def test_every_room_has_a_list_of_imports():
    assert {room(m) for m in MODULES} == set(ROOMS)


def test_the_map_in_the_documentation_shows_every_room():
    """All folders of two levels, each in the part of its package, and all files beside the rooms."""
    text = (ROOT / "docs" / "architecture.md").read_text().partition("## Rooms")[2].split("```")[1]
    parts = re.split(r"^(\w+)/ ", text, flags=re.MULTILINE)[1:]  # a package, its lines, the next package …
    shown = {package: set(re.findall(r"\w+/(?=[ ,:;\n])|\w+\.py", lines))
             for package, lines in zip(parts[::2], parts[1::2], strict=True)}
    for package in PACKAGES:
        inner = [file.relative_to(package) for file in FILES if file.parts[0] == package]
        rooms = {f"{part}/" for file in inner for part in file.parts[:-1][:2]}
        beside = {str(file) for file in inner if len(file.parts) == 1 and file.stem != "__init__"}
        assert (rooms | beside) - shown[package] == set(), package
        folders = {f"{folder.name}/" for folder in (ROOT / package).rglob("*") if folder.is_dir()}
        assert shown[package] - beside - folders <= {"__init__.py"}, package


def test_imports_stay_within_what_their_room_may():
    """A single test, since every process that runs some of them parses all files."""
    wrong = {n: [m for m in sorted(ours(f)) if not may_import(room(n), room(m))] for n, f in MODULES.items()}
    assert {name: found for name, found in wrong.items() if found} == {}
    used: dict[str, set[str]] = {}
    for name, file in MODULES.items():
        used.setdefault(room(name), set()).update(map(room, ours(file)))
    unused = {source: [p for p in allowed if not any(allows(p, target) for target in used[source] - {source})]
              for source, allowed in ROOMS.items()}
    assert {source: found for source, found in unused.items() if found} == {}, "permissions that nothing uses"


def circles(arrows: dict[str, set[str]]) -> list[str]:
    """What remains when everything that imports nothing of the rest has been taken away, again and again."""
    left = {name: set(targets) for name, targets in arrows.items()}
    while free := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in free}
    return sorted(left)


def arrows(modules: dict[str, set[str]], part: Callable[[str], str]) -> dict[str, set[str]]:
    """Which parts import which other ones. `modules`: what each module imports; `part`: "" for one that has none."""
    found: dict[str, set[str]] = {}
    for name, targets in modules.items():
        if here := part(name):
            found.setdefault(here, set()).update(set(map(part, targets)) - {here, ""})
    return found


def test_there_are_no_circular_imports():
    """Between files, between rooms, and in each package between its folders and the files beside them, which are one
    part; imports inside functions count.
    """
    files = {name: set(ours(file)) - {name} for name, file in MODULES.items()}
    assert circles(files) == []
    assert circles(arrows(files, room)) == []
    packages = {".".join(file.parts[:depth]) for file in FILES for depth in range(2, len(file.parts))}
    found = {package: circles(arrows(files, lambda name, package=package: part_of(name, package)))
             for package in sorted(packages)}
    assert {package: parts for package, parts in found.items() if parts} == {}
    assert {"spark_tasks.pipeline", "spark_tasks.pipeline.converters"} <= packages


def test_libraries_are_used_only_in_their_rooms():
    wrong = [
        f"{f} imports {library}" for library, places in CONFINED.items() for f in FILES
        if any(within(m, (library,)) for m in imports(f)) and not in_places(f, places)
    ]
    assert wrong == []


def test_the_workers_group_uses_only_what_its_member_declares():
    """GroupCoordinator is a subclass of the Kafka room's GroupMember; what that inherits is kafka-python's own."""
    member, coordinator, driver = (
        Path(name) for name in ("spark_tasks/kafka/group_member.py", "actors/group/coordinator.py",
                                "actors/group/driver.py"))

    def attributes(file: Path, *owners: str) -> Iterator[ast.Attribute]:
        return (node for node in nodes(file) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in owners)

    declared = {node.name for file in (member, coordinator) for node in nodes(file)
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    declared |= {node.attr for file in (member, coordinator) for node in attributes(file, "self")
                 if isinstance(node.ctx, ast.Store)}
    used = {node.attr for node in attributes(coordinator, "self")}
    used |= {node.attr for node in attributes(driver, "coordinator", "self._coordinator")}
    assert used - declared == set()


def in_places(file: Path, places: tuple[str, ...]) -> bool:
    return any(f"{file}/".startswith(f"{place}/") for place in places)


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

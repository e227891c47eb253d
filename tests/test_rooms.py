"""What each room may import, without circles, and which libraries it may use: the map in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.rigs.sources import FILES, MODULES, PACKAGES, ROOT, imports, nodes, ours

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
    "spark_tasks.task": ("spark_tasks.config", "spark_tasks.metrics"),
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
    # third parties' code that does not work on batches
    "spark_tasks.plugin_processes": (
        "spark_tasks.metrics", "spark_tasks.plugins", "spark_tasks.process", "spark_tasks.spark", "spark_tasks.task",
    ),
    "spark_tasks.tasks": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugins",
        "spark_tasks.spark", "spark_tasks.task",
    ),
    "spark_tasks.sources": (
        "spark_tasks.config", "spark_tasks.data", "spark_tasks.dead_letters", "spark_tasks.kafka",
        "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugin_processes", "spark_tasks.plugins",
        "spark_tasks.process", "spark_tasks.task", "spark_tasks.tasks",
    ),
    "spark_tasks.sinks": (
        "spark_tasks.arrays", "spark_tasks.config", "spark_tasks.data", "spark_tasks.dead_letters", "spark_tasks.kafka",
        "spark_tasks.metrics", "spark_tasks.pipeline", "spark_tasks.plugin_processes", "spark_tasks.plugins",
        "spark_tasks.spark", "spark_tasks.task", "spark_tasks.tasks",
    ),
    "spark_tasks.engines": ("spark_tasks.spark",),
    "spark_tasks.compile_ahead": (
        "spark_tasks.arrays", "spark_tasks.connectors", "spark_tasks.kafka", "spark_tasks.pipeline",
        "spark_tasks.registry", "spark_tasks.sinks", "spark_tasks.spark",
    ),
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
    "storage.offsets": ("storage.log", "spark_tasks.config", "spark_tasks.kafka"),
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
        "actors.errors", "actors.herder", "actors.messages", "actors.ticker", "spark_tasks.config", "spark_tasks.kafka",
        "spark_tasks.process", "spark_tasks.task", "storage.config", "storage.daemon_pool",
    ),
    "actors.stores": (
        "actors.errors", "actors.herder", "actors.messages", "actors.peers", "actors.ticker",
        "spark_tasks.config", "spark_tasks.dead_letters", "spark_tasks.kafka", "spark_tasks.plugins",
        "spark_tasks.process", "storage.",
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
        "heeler.", "spark_tasks.compile_ahead", "spark_tasks.config", "spark_tasks.foreground", "spark_tasks.kafka",
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
    "urllib3": ("spark_tasks/process/worker_requests.py", "heeler/cli/client/session.py"),
    "http.client": (),
    "apispec": ("rest/openapi/document.py",),
    "kafka": ("spark_tasks/kafka",),  # its errors are translated at the edge of the room
    "confluent_kafka": ("spark_tasks/registry",),
    "httpx2": ("spark_tasks/registry",),  # the client's errors are of it
    "prometheus_client": ("heeler/worker/metrics/registry.py",),
}


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def room(name: str) -> str:
    return ".".join(name.split(".")[:2])


def part_of(name: str, package: str) -> str:
    """The folder within a package that a module is in; the package itself if it is beside its folders; "" elsewhere."""
    parent = MODULES[name].parts[:-1]
    depth = package.count(".") + 1
    return ".".join(parent[: depth + 1]) if ".".join(parent[:depth]) == package else ""


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

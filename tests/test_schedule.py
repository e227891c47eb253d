"""tests/rigs/schedule.py names existing files, and runs those that share a worker or a registry together; variants run
nightly.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

from tests.rigs.schedule import UNITS, UnitScheduling, place

HERE = Path(__file__).parent
FIXTURES = {"rig", "warm_worker"}  # of tests/integration/conftest.py


def uses_the_shared_worker(file: Path) -> bool:
    functions = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)]
    wants = {argument.arg for f in functions if f.name.startswith("test_") for argument in f.args.args}
    return bool(FIXTURES & wants - {f.name for f in functions})


def test_each_file_exists_and_is_listed_once():
    named = [file for unit in UNITS for file in unit]
    assert [file for file in named if not (HERE / file).is_file()] == []
    assert len(named) == len(set(named))


def test_files_that_share_a_worker_or_the_registry_are_one_unit():
    found = {str(file.relative_to(HERE)) for file in (HERE / "integration").rglob("test_*.py")
             if uses_the_shared_worker(file) or file.parent.name == "schema_registry"}
    assert found == set(UNITS[0])


def test_the_longest_units_run_first():
    nodes = ["tests/pure/test_x.py::test_a", f"tests/{UNITS[1][0]}::test_b[c]", f"tests/{UNITS[0][1]}::test_d",
             f"tests/{UNITS[0][0]}::test_e"]
    assert sorted(nodes, key=place) == nodes[::-1]


class Process:
    """What xdist has of a process that runs tests."""

    def __init__(self):
        self.gateway = SimpleNamespace(id="gw")
        self.shutting_down = False
        self.given = []

    def send_runtest_some(self, indices):
        self.given.append(indices)

    def shutdown(self):
        self.shutting_down = True


def test_a_unit_goes_to_one_process(pytestconfig, monkeypatch):
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", True)
    monkeypatch.setattr(pytestconfig.option, "tx", ["2*popen"])
    scheduling, processes = UnitScheduling(pytestconfig), [Process(), Process()]
    alone = [f"tests/pure/test_alone.py::test_{n}" for n in range(9)]  # the most of one file
    together = [f"tests/{file}::test_{n}" for file in UNITS[0] for n in range(2)]
    nodes = [*together, f"tests/{UNITS[1][0]}::test_x", *alone]
    for process in processes:
        scheduling.add_node(process)
        scheduling.add_node_collection(process, nodes)
    scheduling.schedule()
    first = len(together)
    assert processes[0].given == [list(range(first))]
    assert processes[1].given == [[first], list(range(first + 1, len(nodes)))]


def test_variants_are_not_in_make_test_but_in_make_nightly():
    makefile = (HERE.parent / "Makefile").read_text()
    chosen = re.findall(r"-m '(.*\bintegration\b.*)'", makefile)
    assert len(chosen) == 2
    assert [selection for selection in chosen if not selection.endswith(" and not nightly")] == []
    (command,) = re.findall(r"^([\w-]+): .*\n(?:\t.*\n)*?\t.*-m nightly ", makefile, re.MULTILINE)
    assert command in re.findall(r"^NIGHTLY := (.+)$", makefile, re.MULTILINE)[0].split()

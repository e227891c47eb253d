"""The generated parts of docs/herder.md, from the herder's table and code; `make herder-doc` writes them.

The effects that a handler can emit, and the phases that it can lead to, are derived from the code: what it constructs,
and what the functions construct that it mentions. This is never too little; test_table.py compares it with what happens
in histories.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import get_args

from actors.herder.effects import Effect, Timer
from actors.herder.standing import Phase, Standing
from actors.herder.table import EVENTS, OPS, Kind, ignored, impossible

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs" / "herder.md"
HERDER = ROOT / "actors" / "herder"
TABLE = {**EVENTS, **OPS}
EFFECTS = {effect.__name__ for effect in get_args(Effect)}
STANDINGS = {standing.__name__: standing.phase for standing in get_args(Standing)}
METHODS = "turn"  # what is called on a Turn is in turn.py
Handler = Callable[..., None]


# ---------------------------------------------------------------- what the code says
@cache
def _parts() -> dict[str, list[ast.AST]]:
    """The bodies of functions, methods of Turn, and tables of functions, by module and name."""
    found: dict[str, list[ast.AST]] = {}
    for file in HERDER.glob("*.py"):
        for node in ast.parse(file.read_text()).body:
            members = node.body if isinstance(node, ast.ClassDef) else [node]
            for member in members:
                if isinstance(member, ast.FunctionDef):
                    found[f"{file.stem}.{member.name}"] = list(member.body)
                elif isinstance(member, ast.AnnAssign) and member.value and isinstance(member.target, ast.Name):
                    found[f"{file.stem}.{member.target.id}"] = [member.value]
    return found


@cache
def _reached(name: str) -> frozenset[str]:
    """The names of all parts that a part mentions, itself, and those that they mention."""
    found: set[str] = set()
    ahead = {name}
    while ahead:
        found |= ahead
        ahead = {m for part in ahead for m in _mentioned(part)} - found
    return frozenset(found)


@cache
def _mentioned(name: str) -> frozenset[str]:
    module, names = name.partition(".")[0], set()
    for node in (n for body in _parts()[name] for n in ast.walk(body)):
        if isinstance(node, ast.Name):
            names.add(f"{module}.{node.id}")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            names.add(f"{METHODS if node.value.id in ('turn', 'self') else node.value.id}.{node.attr}")
    return frozenset(names & _parts().keys())


def _constructed(name: str) -> set[str]:
    return {made for part in _reached(name) for made in _called(part)}


@cache
def _called(name: str) -> frozenset[str]:
    """The names of everything that a part calls."""
    calls = (n.func for body in _parts()[name] for n in ast.walk(body) if isinstance(n, ast.Call))
    return frozenset(f.id if isinstance(f, ast.Name) else f.attr for f in calls
                     if isinstance(f, ast.Name | ast.Attribute))


def name_of(handler: Handler) -> str:
    """As `rebalance.on_joined`."""
    return f"{handler.__module__.rpartition('.')[2]}.{handler.__name__}"


def effects_of(name: str) -> set[str]:
    """The effects that a function of the herder can emit."""
    return _constructed(name) & EFFECTS


def phases_of(name: str) -> set[Phase]:
    """The phases that a function of the herder can lead to."""
    return {STANDINGS[found] for found in _constructed(name) & STANDINGS.keys()}


# ---------------------------------------------------------------- how it is shown
def label(kind: Kind) -> str:
    """An event or handler as shown in the table."""
    if isinstance(kind, Timer):
        return f"timer {kind.value}"
    return f"end: {kind.__name__}" if kind in OPS else kind.__name__


def _handled(kind: Kind) -> dict[Phase, str]:
    return {phase: name_of(handler) for phase, handler in TABLE[kind].items() if handler not in (ignored, impossible)}


def diagram() -> str:
    """The phases and the events that lead from one to another."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for kind in TABLE:
        for phase, name in _handled(kind).items():
            for other in phases_of(name) - {phase}:
                arrows.setdefault((phase, other), []).append(label(kind).removeprefix("end: "))
    arrows.setdefault((Phase.RESOLVED, Phase.JOINING), []).append("changed configs")
    lines = [f"  {a.value} --> {b.value}: {', '.join(sorted(arrows[a, b]))}"
             for a in Phase for b in Phase if (a, b) in arrows]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"  [*] --> {Phase.LOADING.value}", *lines,
                      f"  {Phase.HALTED.value} --> [*]", "```"])


def table() -> str:
    """A row for each kind of event, a column for each phase."""
    rows = [["event", *(phase.value for phase in Phase)], ["---"] * (len(Phase) + 1)]
    rows += [[label(kind), *(_cell(handler) for _, handler in sorted(
        row.items(), key=lambda cell: list(Phase).index(cell[0])))] for kind, row in TABLE.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(handler: Handler) -> str:
    return handler.__name__ if handler in (ignored, impossible) else f"`{name_of(handler)}`"


def wanted() -> str:
    """The effects and phases that each event can lead to."""
    rows = [["event", "phases afterwards, where they change", "effects"], ["---"] * 3]
    for kind in TABLE:
        names = sorted(set(_handled(kind).values()))
        rows.append([label(kind), *_outcome(names)] if names else [label(kind), "", "never happens"])
    rows.append(["afterwards, while resolved (`core.advance`)", *_outcome(["core.advance"])])
    rows.append(["afterwards, unless resolved (`request_timeouts.check`)", *_outcome(["request_timeouts.check"])])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _outcome(names: Iterable[str]) -> list[str]:
    names = list(names)
    phases = {phase for name in names for phase in phases_of(name)}
    return [", ".join(phase.value for phase in Phase if phase in phases),
            ", ".join(sorted({effect for name in names for effect in effects_of(name)}))]


def document(text: str) -> str:
    """The document with its generated parts."""
    for name, made in (("diagram", diagram()), ("table", table()), ("effects", wanted())):
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        text = re.sub(f"{begin}.*?{end}", lambda _, new=f"{begin}\n{made}\n{end}": new, text, flags=re.DOTALL)
    return text


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text()))

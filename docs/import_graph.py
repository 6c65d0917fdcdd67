"""Draw which room of the package imports which, from the imports as they are.

``python docs/import_graph.py`` puts the drawing into ``docs/architecture.md``, between two markers;
with ``--check`` it only says whether the drawing there is up to date.
"""

from __future__ import annotations

import argparse
import graphlib
import sys
from collections.abc import Mapping
from pathlib import Path

import grimp

__all__ = ["drawing", "main", "room_imports", "with_drawing", "without_shortcuts"]

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- import graph: begin -->", "<!-- import graph: end -->"

MODULES_OF_THE_ROOT = {
    "values": ("errors", "arrays", "showing", "budget", "mixture", "covariance_structures"),
    "release": ("results", "releases", "compile_kernels"),
    "doors": ("estimator", "cli"),
}
"""Modules in the package's root are drawn as these rooms; every other folder is a room itself."""

NOT_DRAWN = ("__main__",)


def _room(module: str) -> str | None:
    """Find the room of a module; None for the package's root, which only collects public names."""
    _, _, inside = module.partition(".")
    top = inside.partition(".")[0]
    if not top or top in NOT_DRAWN:
        return None
    return next((room for room, names in MODULES_OF_THE_ROOT.items() if top in names), top)


def room_imports(graph: grimp.ImportGraph) -> dict[str, set[str]]:
    """List for every room the other rooms that its modules import directly."""
    found: dict[str, set[str]] = {}
    for module in graph.modules:
        room = _room(module)
        if room is None:
            continue
        others = {_room(name) for name in graph.find_modules_directly_imported_by(module)}
        found.setdefault(room, set()).update(other for other in others if other is not None)
    return {room: others - {room} for room, others in found.items()}


def without_shortcuts(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Remove arrows that follow from others (transitive reduction)."""
    try:
        order = list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as problem:
        raise SystemExit(f"rooms import each other: {' -> '.join(problem.args[1])}") from problem
    reach: dict[str, set[str]] = {}
    for room in order:
        reach[room] = graph[room].union(*(reach[below] for below in graph[room]))
    return {
        room: {below for below in graph[room] if not any(below in reach[o] for o in graph[room])}
        for room in graph
    }


def drawing(graph: Mapping[str, set[str]]) -> str:
    """Write the graph as Mermaid text, the highest rooms first."""
    arrows = without_shortcuts(graph)
    levels: dict[str, int] = {}
    for room in graphlib.TopologicalSorter(arrows).static_order():
        levels[room] = 1 + max((levels[below] for below in arrows[room]), default=-1)
    rooms = sorted(arrows, key=lambda room: (-levels[room], room))
    lines = ["```mermaid", "flowchart TD"]
    for room in rooms:
        inside = MODULES_OF_THE_ROOT.get(room)
        lines.append(f'    {room}["{room if inside is None else ", ".join(inside)}"]')
    lines += [f"    {room} --> {below}" for room in rooms for below in sorted(arrows[room])]
    return "\n".join([*lines, "```"])


def with_drawing(page: str, drawn: str) -> str:
    """Put a drawing between the markers of the page."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE.name} must have the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{drawn}\n{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Write the drawing, or check it."""
    parser = argparse.ArgumentParser(description="Draw which room imports which.")
    parser.add_argument("--check", action="store_true", help="change nothing, only compare")
    check = parser.parse_args(arguments).check
    sys.path.insert(0, str(ROOT))
    graph = grimp.build_graph("privgmm", cache_dir=None)
    old = PAGE.read_text(encoding="utf-8")
    new = with_drawing(old, drawing(room_imports(graph)))
    if old == new:
        return 0
    if check:
        print(f"{PAGE.name} is out of date: run python docs/import_graph.py", file=sys.stderr)
        return 1
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

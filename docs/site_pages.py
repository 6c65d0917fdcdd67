"""Make the generated parts of the site from the code, when `make docs` runs.

MkDocs calls the functions whose names begin with ``on_``. The reference of a room lists what the
room exports. The reference of the command line is the help that the commands print. The page on
receipts is made from the schema that receipts are checked by. The drawing of rooms becomes a
picture without a script from another host.
"""

from __future__ import annotations

import contextlib
import html
import importlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from privgmm.cli.main import main
from privgmm.records.receipt import receipt_schema

__all__ = [
    "commands",
    "drawn",
    "entries",
    "help_of",
    "on_config",
    "on_page_content",
    "on_page_markdown",
    "schema_rows",
]

COMMANDS = "<!-- commands -->"
SCHEMA = "<!-- receipt schema -->"
NAMES = re.compile(r"<!-- names of ([\w.]+) -->")
_WIDTH = 88
"""Columns of the help text, by convention: fewer than a line of code may have."""
_FENCE = re.compile(r"```mermaid\n(flowchart TD\n.*?)```", re.DOTALL)

OPTIONAL = {
    "scale.md": ("Explanation", "How it scales"),
}
"""Pages that join the navigation where they exist: their section, and their name there."""


def on_config(config: Any) -> Any:
    """Add the optional pages that exist."""
    for name, (section, title) in OPTIONAL.items():
        if (Path(config["docs_dir"]) / name).is_file():
            (part,) = [entry[section] for entry in config["nav"] if section in entry]
            part.append({title: name})
    return config


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marks of a page by its generated parts."""
    if COMMANDS in markdown:
        markdown = markdown.replace(COMMANDS, _command_line())
    if SCHEMA in markdown:
        markdown = markdown.replace(SCHEMA, _schema_table())
    markdown = NAMES.sub(lambda match: entries(match.group(1)), markdown)
    return _FENCE.sub(lambda match: drawn(match.group(1)), markdown)


def on_page_content(content: str, **_: Any) -> str:
    """Let names in tables break after a dot, a slash or an underscore, and nowhere else."""

    def breakable(code: re.Match[str]) -> str:
        return re.sub(r"(?<=\w)([./_])(?=\w)", r"\1<wbr>", code.group())

    return re.sub(
        r"<td>.*?</td>",
        lambda cell: re.sub(r"<code>[^<]*</code>", breakable, cell.group()),
        content,
        flags=re.DOTALL,
    )


# ---------------------------------------------------------------------------- names of a room


def entries(room: str) -> str:
    """List the public names of a room for mkdocstrings, but for those that a page names itself."""
    pages = (Path(__file__).parent / "reference").glob("*.md")
    named = {
        entry
        for page in pages
        for entry in re.findall(r"^::: (\S+)$", page.read_text("utf-8"), re.MULTILINE)
    }
    root = _exported("privgmm")
    return "\n\n".join(
        f"::: {room}.{name}"
        for name in _exported(room)
        if name not in root and f"{room}.{name}" not in named
    )


def _exported(module: str) -> list[str]:
    """List what a module exports: stubs of lazy modules do not declare `__all__`."""
    names: list[str] = vars(importlib.import_module(module))["__all__"]
    return names


# ------------------------------------------------------------------------------ command line


def help_of(*command: str) -> str:
    """Return what ``privgmm COMMAND --help`` prints."""
    said = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(_WIDTH)
    try:
        with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
            main([*command, "--help"])
    finally:
        if before is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = before
    return said.getvalue().rstrip()


def commands() -> list[str]:
    """List the names of all commands, in the order of the help."""
    return re.findall(r"^    (\w+)(?:  |$)", help_of().split("COMMAND\n", 1)[1], re.MULTILINE)


def _command_line() -> str:
    parts = [f"```text\n{help_of()}\n```"]
    parts += [f"## privgmm {name}\n\n```text\n{help_of(name)}\n```" for name in commands()]
    return "\n\n".join(parts)


# ------------------------------------------------------------------------------- the receipt


def schema_rows(
    schema: Mapping[str, Any] | None = None, before: str = ""
) -> Iterator[tuple[str, str, str]]:
    """Yield path, kind and meaning of every field of a receipt, objects before their fields."""
    root = receipt_schema()
    node = root if schema is None else schema
    for name, given in node.get("properties", {}).items():
        part = _followed(given, root)
        path = f"{before}{name}"
        yield path, _kind(part, root), given.get("description") or part.get("description", "")
        inner = next((one for one in _choices(part, root) if "properties" in one), part)
        yield from schema_rows(inner, f"{path}.")


def _followed(part: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" in part:
        found = root
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        return dict(found)
    return dict(part)


def _choices(part: Mapping[str, Any], root: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_followed(one, root) for one in part.get("oneOf", part.get("anyOf", []))]


def _kind(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """Say in words what a value may be."""
    choices = _choices(part, root)
    if choices:
        return " or ".join(dict.fromkeys(_kind(one, root) for one in choices))
    if "const" in part:
        return f"`{part['const']}`"
    if "enum" in part:
        return " or ".join(f"`{value}`" for value in part["enum"])
    kinds = part.get("type", "any")
    words = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if words == "array" and isinstance(part.get("items"), dict):
        return f"array of {_kind(_followed(part['items'], root), root)}"
    return words


def _schema_table() -> str:
    lines = ["| field | what it is | meaning |", "|---|---|---|"]
    lines += [f"| `{path}` | {kind} | {words} |" for path, kind, words in schema_rows()]
    return "\n".join(lines)


# --------------------------------------------------------------------------- drawing of rooms

_BOX, _GAP, _LETTER = 34, 26, 7.4
"""Height of a box, space between boxes, and width of a letter as `site.css` sets it, in pixels."""


def drawn(flowchart: str) -> str:
    """Draw a flowchart as an SVG picture: boxes in layers, each below all that point to it."""
    labels = dict(re.findall(r'^ +(\w+)\["(.+)"\]$', flowchart, re.MULTILINE))
    arrows = re.findall(r"^ +(\w+) --> (\w+)$", flowchart, re.MULTILINE)
    depth = dict.fromkeys(labels, 0)
    for _ in labels:
        for start, end in arrows:
            depth[end] = max(depth[end], depth[start] + 1)
    layers = [[n for n in labels if depth[n] == level] for level in range(max(depth.values()) + 1)]
    width = {name: _LETTER * len(label) + 24 for name, label in labels.items()}
    wide = max(sum(width[name] + _GAP for name in layer) for layer in layers)
    place: dict[str, tuple[float, float]] = {}
    for level, layer in enumerate(layers):
        x = (wide - sum(width[name] + _GAP for name in layer) + _GAP) / 2
        for name in layer:
            place[name] = x + width[name] / 2, level * (_BOX + _GAP) + _BOX / 2
            x += width[name] + _GAP
    high = len(layers) * (_BOX + _GAP) - _GAP
    parts = []
    for start, end in arrows:
        (x1, y1), (x2, y2) = place[start], place[end]
        parts.append(
            f'<path d="M{x1:.0f} {y1 + _BOX / 2:.0f} L{x2:.0f} {y2 - _BOX / 2 - 3:.0f}" '
            'class="arrow" marker-end="url(#tip)"/>'
        )
    for name, label in labels.items():
        x, y = place[name]
        parts.append(
            f'<rect x="{x - width[name] / 2:.0f}" y="{y - _BOX / 2:.0f}" rx="6" '
            f'width="{width[name]:.0f}" height="{_BOX}"/>'
            f'<text x="{x:.0f}" y="{y + 5:.0f}">{html.escape(label)}</text>'
        )
    said = "; ".join(f"{labels[start]} imports {labels[end]}" for start, end in arrows)
    return (
        f'<svg class="rooms" viewBox="-4 -4 {wide + 8:.0f} {high + 8:.0f}" role="img" '
        f'aria-label="{html.escape(said)}"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" '
        'refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 L8 4 L0 8 z"/>'
        f"</marker></defs>{''.join(parts)}</svg>"
    )

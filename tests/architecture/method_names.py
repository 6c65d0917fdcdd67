"""Finds code that decides by a method's name, or by the kind of a method's parts.

What a method means is asked of the method. Code that compares the name instead, or looks at which
space or test a plan holds, treats every method it has not heard of like one of those it has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

METHOD_NAMES = frozenset({"paper", "tight", "lifted", "sketch"})
PARTS = frozenset({"LiftedSpace", "PaperSpace", "PopulousTest", "AgreementTest"})
FAMILY = "Agreement"
"""Its subclasses are parts too; whether a stage is an agreement at all may be asked."""


def part_types(trees: Iterable[ast.Module]) -> frozenset[str]:
    """The names of `PARTS`, and of the classes here that descend from one of them or `FAMILY`."""
    bases = {
        node.name: {_last_name(base) for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = set(PARTS)
    while more := {name for name in bases.keys() - found if bases[name] & (found | {FAMILY})}:
        found |= more
    return frozenset(found)


def offending_lines(tree: ast.Module, types: frozenset[str] = PARTS) -> list[int]:
    """Lines that compare a method's name or ask for one of `types`, in order.

    Counted are ``==``, ``!=``, ``in`` and ``not in`` with one of `METHOD_NAMES` on either side
    (bare, in a tuple, set or list, or under a name that the module gives to one of these),
    ``match`` cases of such a name or such a type, ``isinstance``, ``issubclass`` and
    ``type(...) is``.
    """
    aliases = frozenset(_aliases(tree))
    return sorted(
        {
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.Compare | ast.Call | ast.MatchValue | ast.MatchClass)
            and _offends(node, types, aliases)
        }
    )


def _offends(
    node: ast.Compare | ast.Call | ast.MatchValue | ast.MatchClass,
    types: frozenset[str],
    aliases: frozenset[str],
) -> bool:
    match node:
        case ast.Compare():
            sides = [node.left, *node.comparators]
            by_name = any(
                isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops
            )
            if by_name and any(_names_a_method(side, aliases) for side in sides):
                return True
            return any(_is_type_call(side) for side in sides) and any(
                _mentions(side, types) for side in sides
            )
        case ast.Call():
            return (
                _last_name(node.func) in {"isinstance", "issubclass"}
                and len(node.args) == 2
                and _mentions(node.args[1], types)
            )
        case ast.MatchValue():
            return _names_a_method(node.value, aliases)
        case ast.MatchClass():
            return _last_name(node.cls) in types


def _names_a_method(node: ast.expr, aliases: frozenset[str]) -> bool:
    match node:
        case ast.Constant(value=str(text)):
            return text in METHOD_NAMES
        case ast.Tuple() | ast.List() | ast.Set():
            return any(_names_a_method(part, aliases) for part in node.elts)
        case ast.Call(func=ast.Name(id="set" | "frozenset" | "tuple" | "list"), args=[inside]):
            return _names_a_method(inside, aliases)
        case ast.Name():
            return node.id in aliases
    return False


def _aliases(tree: ast.Module) -> Iterator[str]:
    """Names that the module gives to a method's name or to a collection of them."""
    for node in tree.body:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            continue
        if _names_a_method(value, frozenset()):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_type_call(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _last_name(node.func) == "type"


def _mentions(node: ast.expr, types: frozenset[str]) -> bool:
    """Whether one of the types is named here: alone, in a tuple or in a union."""
    return any(
        _last_name(part) in types
        for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute)
    )


def _last_name(node: ast.expr) -> str:
    """``b`` of ``a.b``, ``A`` of ``A[int]``; empty for anything without a name."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript():
            return _last_name(node.value)
    return ""

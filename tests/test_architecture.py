"""The shape of the package: imports go one way, modules stay small, public names are pinned."""

from __future__ import annotations

import ast
import functools
import graphlib
import importlib
from pathlib import Path

import pytest

import privgmm

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "privgmm"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors",),
    ("arrays", "display"),
    ("budget", "mixture"),
    (
        "contour",
        "total_variation",
        "bounds",
        "matching",
        "distances",
        "learnable",
        "pairwise",
        "pairwise_kernels",
        "line_integrals",
        "mixture_variation",
    ),
    ("spaces",),
    ("noise", "renyi", "agreement", "populous", "refinement", "landscape"),
    (
        "constants",
        "accuracy",
        "wide_spread",
        "spread",
        "plan",
        "calibration",
        "outlook",
        "forecast",
        "planner",
        "prospects",
    ),
    ("blocks", "jitter", "learners", "hints"),
    ("composition", "ledger", "results", "release", "audit", "baselines"),
)
"""Lowest first. Whatever is not named is a front door above them; the dashboard is above all."""

FRONT_DOORS, DASHBOARD = len(LAYERS), len(LAYERS) + 1
MOST_LINES = 400


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}
MODULES = [name for name in FILES if name != "privgmm"]


def layer(module: str) -> int:
    top = module.split(".")[1]
    if top == "dashboard":
        return DASHBOARD
    return next((i for i, names in enumerate(LAYERS) if top in names), FRONT_DOORS)


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


def imported(module: str) -> set[str]:
    """Everything a module imports, ``from package import submodule`` resolved to the submodule."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            base = node.module or ""
            inner = {f"{base}.{alias.name}" for alias in node.names}
            found |= (inner & FILES.keys()) or {base}
    return found


def ours(module: str) -> set[str]:
    return {name for name in imported(module) if name in FILES}


def test_the_walk_sees_the_package() -> None:
    assert "privgmm.release" in FILES
    assert "privgmm.stages.agreement.paper_space" in FILES
    assert "privgmm.stages.agreement.lemmas" in ours("privgmm.methods.plan")
    assert "privgmm.privacy.noise" in ours("privgmm.stages.agreement.votes")
    missing = [name for names in LAYERS[:8] for name in names if f"privgmm.{name}" not in FILES]
    assert missing == []


@pytest.mark.parametrize("module", MODULES)
def test_imports_go_downwards(module: str) -> None:
    above = {name for name in ours(module) if name == "privgmm" or layer(name) > layer(module)}
    # front doors may use the package by its public names
    if layer(module) >= FRONT_DOORS:
        above.discard("privgmm")
    assert above == set(), f"{module} imports from above"


def test_imports_have_no_circle() -> None:
    graph = {module: ours(module) - {"privgmm"} for module in MODULES}
    order = tuple(graphlib.TopologicalSorter(graph).static_order())
    assert len(order) == len(MODULES)


def test_only_the_dashboard_knows_streamlit() -> None:
    users = {
        module
        for module in FILES
        if any(name.split(".")[0] == "streamlit" for name in imported(module))
    }
    assert users
    assert all(module.startswith("privgmm.dashboard") for module in users)


def test_only_figures_and_the_dashboard_know_plotly() -> None:
    users = {
        module
        for module in FILES
        if any(name.split(".")[0] == "plotly" for name in imported(module))
    }
    assert all(
        module == "privgmm.figures.mixtures"
        or module.endswith("_figures")
        or module.startswith("privgmm.dashboard")
        for module in users
    ), users


@pytest.mark.parametrize("module", FILES)
def test_every_module_says_what_it_is(module: str) -> None:
    text = ast.get_docstring(tree(module))
    assert text is not None
    assert len(text.splitlines()[0]) > 10


def defined_names(module: str) -> set[str]:
    names: set[str] = set()
    for node in tree(module).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {
                part.id
                for target in node.targets
                for part in (target.elts if isinstance(target, ast.Tuple) else [target])
                if isinstance(part, ast.Name)
            }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def public_names(module: str) -> list[str] | None:
    for node in tree(module).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            value = ast.literal_eval(node.value)
            assert isinstance(value, list)
            return value
    return None


def is_empty_package(module: str) -> bool:
    """A folder's ``__init__`` that holds a docstring and nothing else."""
    return FILES[module].name == "__init__.py" and len(tree(module).body) == 1


@pytest.mark.parametrize("module", [name for name in FILES if not is_empty_package(name)])
def test_every_module_names_what_is_public(module: str) -> None:
    names = public_names(module)
    assert names is not None, f"{module} has no __all__"
    assert len(names) == len(set(names))
    assert set(names) <= defined_names(module)


@pytest.mark.parametrize("module", FILES)
def test_no_module_is_long(module: str) -> None:
    lines = FILES[module].read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES, f"{module} has {lines} lines: split it by noun"


@pytest.mark.parametrize("module", FILES)
def test_no_assert_guards_user_input(module: str) -> None:
    """Asserts vanish under ``python -O``; errors have types here."""
    assert not [node.lineno for node in ast.walk(tree(module)) if isinstance(node, ast.Assert)]


@pytest.mark.parametrize("module", FILES)
def test_no_hidden_state_of_randomness(module: str) -> None:
    """Generators are passed in: nobody draws from NumPy's global one or from ``random``."""
    allowed = {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "BitGenerator"}
    used = {
        node.attr
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "random"
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id in {"np", "numpy"}
    }
    assert used <= allowed
    assert "random" not in imported(module)


# ------------------------------------------------------------------------- public names


def rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_public_names_are_sorted_and_there() -> None:
    names = privgmm.__all__
    assert names == sorted(names, key=rank)
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(privgmm, name) is not None


PROMISED = [
    "Budget",
    "CuratorView",
    "EM",
    "Mixture",
    "Moments",
    "MixtureBatch",
    "Outcome",
    "Plan",
    "Refusal",
    "Release",
    "TruncatedLaplace",
    "best_plan",
    "bottleneck_matching",
    "calibrate",
    "dist_comp",
    "dist_gmm",
    "dist_param",
    "gaussian_tv",
    "mixture_tv",
    "private_populous_estimator",
    "release",
    "theorem_1_8",
]


@pytest.mark.parametrize("name", PROMISED)
def test_what_the_documentation_promises_is_public(name: str) -> None:
    assert name in privgmm.__all__


@pytest.mark.parametrize("name", ["FromEstimator", "PrivateGaussianMixture"])
def test_what_needs_scikit_learn_is_public_too(name: str) -> None:
    assert getattr(privgmm, name).__name__ == name
    assert getattr(privgmm, name) is getattr(
        importlib.import_module(privgmm._ON_DEMAND[name]), name
    )


def test_public_things_are_documented() -> None:
    for name in privgmm.__all__:
        thing = getattr(privgmm, name)
        if callable(thing):
            assert (thing.__doc__ or "").strip(), name
            # and defined where it says, so that it can be found and pickled
            assert hasattr(importlib.import_module(thing.__module__), thing.__name__)

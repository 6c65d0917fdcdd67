"""Write a run as a Python script or a notebook that reproduces it.

A `Run` says where the rows come from and what is promised; `script` and `notebook` write it as
calls of the public API. They hold code only: no rows, no results and nothing else confidential.
With a seed the run repeats exactly; without one the noise is fresh each time.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import pprint
import textwrap
from collections.abc import Sequence
from typing import Any, TypeAlias

from privgmm.data.datasets import (
    GENERATORS,
    Dataset,
    generate,
    load_sample,
    load_table,
    random_mixture,
)
from privgmm.data.tables import Layout
from privgmm.errors import InvalidInput
from privgmm.learners.registry import OFFERED
from privgmm.methods import registry
from privgmm.methods.plan import Plan
from privgmm.methods.planner import best_plan, plan_for
from privgmm.methods.request import PlanRequest
from privgmm.stages.sketch.choice import MOST_OFFERED

__all__ = [
    "DEFAULT_LEARNER",
    "FileRows",
    "GeneratedRows",
    "Rows",
    "Run",
    "SampleRows",
    "as_notebook",
    "notebook",
    "script",
]

_WIDTH = 96
"""Columns of wrapped lines: a comment sign and a space fit into the 100 of the code style."""

_SELDOM_SET = (
    "unit",
    "alpha",
    "mask_accuracy",
    "n_blocks",
    "beta",
    "smallest_weight",
    "separation",
    "covariance_type",
)
"""Fields of a request that are written only where they were set."""

DEFAULT_LEARNER = next(iter(OFFERED))
"""Name of the learner that `release` takes if it is given none."""


@dataclasses.dataclass(frozen=True, slots=True)
class GeneratedRows:
    """Rows drawn from a random mixture.

    Parameters
    ----------
    kind : str or None
        A name in `privgmm.data.datasets.GENERATORS`; None to choose the separation.
    n_components, n_features, n_rows : int
    seed : int
        Draws the mixture; ``seed + 1`` draws the rows.
    separation : float
        Smallest distance between two means in units of their spread; used where `kind` is None.
    """

    kind: str | None
    n_components: int
    n_features: int
    n_rows: int
    seed: int
    separation: float = 4.0

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in GENERATORS:
            raise InvalidInput(f"kind must be one of {', '.join(GENERATORS)}, got {self.kind!r}")

    @property
    def _condition(self) -> float:
        return 4.0 if self.n_features > 1 else 1.0

    def load(self) -> Dataset:
        """Draw the rows."""
        if self.kind is None:
            truth = random_mixture(
                self.n_components,
                self.n_features,
                separation=self.separation,
                condition=self._condition,
                rng=self.seed,
            )
        else:
            truth = GENERATORS[self.kind](self.n_components, self.n_features, rng=self.seed)
        return generate(truth, self.n_rows, rng=self.seed + 1)

    def code(self) -> str:
        """Return source code that loads these rows."""
        sizes = f"{self.n_components}, {self.n_features}"
        if self.kind is None:
            maker = "random_mixture"
            draw = (
                f"random_mixture({sizes}, separation={self.separation!r}, "
                f"condition={self._condition!r}, rng={self.seed})"
            )
        else:
            maker, draw = self.kind, f"{self.kind}({sizes}, rng={self.seed})"
        names = ", ".join(sorted(["generate", maker]))
        return (
            f"from privgmm.data.datasets import {names}\n\n"
            f"truth = {draw}\n"
            f"data = generate(truth, {self.n_rows:_}, rng={self.seed + 1})"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SampleRows:
    """Rows of a data set that comes with the package."""

    name: str

    def load(self) -> Dataset:
        """Read the rows."""
        return load_sample(self.name)

    def code(self) -> str:
        """Return source code that loads these rows."""
        return f"from privgmm import load_sample\n\ndata = load_sample({self.name!r})"


@dataclasses.dataclass(frozen=True, slots=True)
class FileRows:
    """Rows of a CSV or Parquet file, in some of its columns.

    Parameters
    ----------
    path : str
    columns : tuple of str
    jitter : tuple of (str, float)
        Columns recorded on a grid, each with its public step.
    layout : Layout
        How a CSV file is written.
    seed : int or None
        Seed of the noise that undoes rounding; None for fresh noise.
    drop_gaps : bool
        Whether rows with missing values are dropped.
    persons : str or None
        The column that names the person of each row; None where every row is a person.
    """

    path: str
    columns: tuple[str, ...]
    jitter: tuple[tuple[str, float], ...] = ()
    layout: Layout = dataclasses.field(default_factory=Layout)
    seed: int | None = None
    drop_gaps: bool = False
    persons: str | None = None

    def load(self) -> Dataset:
        """Read the rows."""
        return load_table(
            self.path,
            columns=self.columns,
            drop_gaps=self.drop_gaps,
            jitter=dict(self.jitter),
            rng=self.seed,
            **self.layout.said,
        )

    def code(self) -> str:
        """Return source code that loads these rows."""
        columns = pprint.pformat(list(self.columns), width=_WIDTH - 10)
        steps = pprint.pformat(dict(self.jitter), width=_WIDTH - 9, sort_dicts=False)
        jitter = f"jitter = {steps}  # public steps of columns on a grid\n" if self.jitter else ""
        more = ", drop_gaps=True" if self.drop_gaps else ""
        more += "".join(f", {name}={value!r}" for name, value in self.layout.said.items())
        if self.jitter:
            more += ", jitter=jitter" + ("" if self.seed is None else f", rng={self.seed}")
        told = "".join(f", {name}={value!r}" for name, value in self.layout.said.items())
        labels = (
            ""
            if self.persons is None
            else (
                "\n\nfrom privgmm.data.tables import Layout, read_labels\n\n"
                f"persons = read_labels(path, {self.persons!r}, layout=Layout({told[2:]}))\n"
                "n_persons = len(set(persons.tolist()))"
            )
        )
        return (
            "from privgmm import load_table\n\n"
            f"path = {self.path!r}  # where you keep the file\n"
            f"columns = {columns}\n"
            f"{jitter}data = load_table(path, columns=columns{more}){labels}"
        )


Rows: TypeAlias = GeneratedRows | SampleRows | FileRows


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One release: where its rows come from, what was asked, and how.

    Parameters
    ----------
    rows : GeneratedRows, SampleRows or FileRows
    request : PlanRequest
        What the plan was asked for.
    seed : int or None
        None for cryptographic noise.
    learner : str
        A name in `privgmm.learners.registry.LEARNERS`.
    """

    rows: Rows
    request: PlanRequest
    seed: int | None = None
    learner: str = DEFAULT_LEARNER

    @property
    def _persons(self) -> str | None:
        return self.rows.persons if isinstance(self.rows, FileRows) else None

    def plan(self) -> Plan:
        """Make the plan."""
        return plan_for(self.request).plan

    def rows_code(self) -> str:
        """Return source code that loads the rows; only a seeded run repeats the noise on them."""
        if self.seed is None and isinstance(self.rows, FileRows):
            return dataclasses.replace(self.rows, seed=None).code()
        return self.rows.code()

    def plan_code(self) -> str:
        """Return source code that makes the plan, as short as the request allows."""
        asked = self.request
        counted = "data.n_rows" if self._persons is None else "n_persons"
        bare = PlanRequest(n_components=asked.n_components, n_features=asked.n_features)
        said = {
            "method": repr(asked.method),
            "epsilon": repr(asked.epsilon),
            "delta": repr(asked.delta),
            "n_components": repr(asked.n_components),
            "n_features": "data.n_features",
        }
        set_too = {
            name: repr(getattr(asked, name))
            for name in _SELDOM_SET
            if getattr(asked, name) != getattr(bare, name)
        }
        short = asked.automatic and set_too.keys() <= inspect.signature(best_plan).parameters.keys()
        if asked.choose_components and short:
            said |= {"n_components": '"auto"', "max_components": repr(asked.n_components)}
        elif asked.choose_components:
            said["choose_components"] = "True"
        settings = "".join(f"    {name}={value},\n" for name, value in (said | set_too).items())
        if short:
            return (
                f"from privgmm import best_plan\n\nplan = best_plan(\n    {counted},\n{settings})"
            )
        return (
            "from privgmm import PlanRequest\n"
            "from privgmm.methods.planner import plan_for\n\n"
            f"request = PlanRequest(\n    n_rows={counted},\n{settings})\n"
            "plan = plan_for(request).plan"
        )

    def release_code(self) -> str:
        """Return source code of the release, from ``data`` and ``plan``."""
        seed = "" if self.seed is None else f", rng={self.seed}"
        seed += "" if self._persons is None else ", groups=persons"
        if self.learner == DEFAULT_LEARNER or self.request.choose_components:
            return f"from privgmm import release\n\noutcome = release(data.rows, plan{seed})"
        return (
            "from privgmm import release\n"
            "from privgmm.learners.registry import make_learner\n\n"
            f"learner = make_learner({self.learner!r}, plan.n_components)\n"
            f"outcome = release(data.rows, plan, learner=learner{seed})"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    """Words, code, and how to show its result: in a notebook and on a terminal."""

    words: str
    code: str
    look: str = ""
    say: str = ""


def _steps(run: Run) -> list[_Step]:
    noise = (
        "No seed is given, so the noise is cryptographic and fresh: running this again spends "
        "the budget again and gives another release."
        if run.seed is None
        else f"The noise comes from the seed {run.seed}, so this run repeats exactly. Anyone who "
        "knows the seed can remove the noise: for teaching, not for real people's data."
    )
    return [
        _Step("The rows: one per person, no bounds on their values.", run.rows_code()),
        _Step(
            "The plan: every number the release will use, chosen without looking at a row.",
            run.plan_code(),
            look="plan",
            say="print(plan.explain())",
        ),
        _Step(
            f"The release. {noise}",
            run.release_code(),
            look="outcome.result",
            say=(
                'print("released" if outcome.released else outcome.result.reason)\n'
                "if outcome.released:\n"
                "    print(outcome.result.mixture)"
            ),
        ),
        _Step(
            "To compare, and confidential: the fit without privacy, and how far each lies from "
            "the truth where that is known (dist_GMM: 0 is perfect, 1 as wrong as can be).",
            "from privgmm import dist_gmm\n\n"
            "private = outcome.result.mixture if outcome.released else None\n"
            "nonprivate = outcome.curator.nonprivate()\n"
            "if data.truth is not None and data.truth.n_components == nonprivate.n_components:\n"
            '    print("error without privacy:", dist_gmm(nonprivate, data.truth))\n'
            "    if private is not None:\n"
            '        print("error with privacy:", dist_gmm(private, data.truth))',
        ),
    ]


def script(run: Run) -> str:
    """Write the run as a Python script."""
    parts = ['"""A Gaussian mixture learned with differential privacy, by privgmm."""']
    for step in _steps(run):
        comment = "\n".join(f"# {line}" for line in textwrap.wrap(step.words, _WIDTH))
        parts.append(f"{comment}\n{step.code}" + (f"\n{step.say}" if step.say else ""))
    return "\n\n".join(parts) + "\n"


def notebook(run: Run) -> str:
    """Write the run as a Jupyter notebook (nbformat 4.5), ready to be executed."""
    cells = [
        (
            "markdown",
            "# A Gaussian mixture with differential privacy\n\nMade with `privgmm`. This notebook "
            "holds code only: "
            "no rows and no results until you run it.",
        )
    ]
    for step in _steps(run):
        cells.append(("markdown", step.words))
        cells.append(("code", f"{step.code}\n{step.look}" if step.look else step.code))
    cells.append(("markdown", "The picture shows rows, so it is confidential too."))
    cells.append(
        (
            "code",
            "from privgmm.figures.mixtures import mixtures_figure\n\n"
            "errors = None if private is None else outcome.result.standard_errors\n"
            "mixtures_figure(\n    data.rows,\n    true=data.truth,\n    nonprivate=nonprivate,\n"
            "    private=private,\n    errors=errors,\n"
            "    columns=data.columns,\n)",
        )
    )
    return as_notebook(cells + _looks(run))


def _looks(run: Run) -> list[tuple[str, str]]:
    """Write cells that read the published sketch again, where the method may publish one."""
    if not registry.get(run.request.method).publishes_sketch:
        return []
    d = run.request.n_features
    picture = (
        "curve_figure(sketch.curve(0), mixture=private)"
        if d == 1
        else "image_figure(sketch.image((0, 1)), mixture=private, errors=errors)"
    )
    name = picture.split("(", 1)[0]
    choice = (
        "outcome.result.choice"
        if run.request.choose_components
        else f"sketch.choice({min(run.request.n_components + 1, MOST_OFFERED)})"
    )
    cells = [
        (
            "markdown",
            "From here on everything is free, and public like the release. If the method "
            "published its noisy sketch, that was paid for once: other fits are computed from it "
            "alone. First: does the mixture explain the rows, and how far may its numbers be "
            "off (standard errors: sampling of the rows and privacy noise together)?",
        ),
        (
            "code",
            "sketch = outcome.result.sketch if outcome.released else None\n"
            "if sketch is None:\n"
            '    print("no sketch was published: there is nothing to look at again")\n'
            "else:\n"
            "    sketch = sketch.with_columns(data.columns)\n"
            "    print(outcome.result.verdict)\n"
            "if errors is not None:\n"
            "    for weight, off in zip(private.weights, errors.weights, strict=True):\n"
            '        print(f"weight {weight:.4f} ± {off:.2g}")',
        ),
        (
            "markdown",
            "Other numbers of components, and which of them to choose: the least criterion wins. "
            "Components that share one covariance, as another fit to the same sketch.",
        ),
        (
            "code",
            "if sketch is not None:\n"
            f"    print({choice})\n"
            '    tied = sketch.fit(private.n_components, "tied")\n'
            "    print(tied.verdict)",
        ),
        ("markdown", "The density as the sketch shows it: a picture that may be published."),
        (
            "code",
            f"from privgmm.figures.picture import {name}\n\n"
            f"figure = None\nif sketch is not None:\n    figure = {picture}\nfigure",
        ),
    ]
    if d > 1:
        cells += [
            (
                "markdown",
                "What the mixture says of the other columns, once the first is known to have its "
                "mean value.",
            ),
            (
                "code",
                "given = None\nif private is not None:\n"
                "    middle = float(private.weights @ private.means[:, 0])\n"
                "    given = private.condition({0: middle})\ngiven",
            ),
        ]
    return cells


def as_notebook(cells: Sequence[tuple[str, str]]) -> str:
    """Write cells, each a kind ("markdown" or "code") and a text, as a Jupyter notebook."""
    document = {
        "cells": [_cell(number, kind, text) for number, (kind, text) in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell

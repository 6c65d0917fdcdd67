"""The search for a bad neighbour: planted, random and climbing.

Every plan is attacked with the constructions of `neighbours` and with hill climbing from them,
each climb trying to push one of the strains of `cores` above its limit.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from privgmm.arrays import BoolArray
from privgmm.audit.cores import Mechanism, Strain, strain
from privgmm.audit.neighbours import (
    Fits,
    Neighbours,
    bridge,
    cloud,
    edge,
    extremes,
    fan,
    flattened,
    moved_far,
    swapped,
    with_change,
)
from privgmm.budget import Budget
from privgmm.methods.calibration import lifted_plan
from privgmm.methods.plan import Plan
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import AgreementTest

__all__ = ["attack", "climb", "planted", "small_plan"]

_OFFSETS = (1e6, 1e9, 1e12, 1e14, 1e15)
_CONDITIONS = (1e3, 1e6)


def small_plan(
    n_blocks: int,
    member: int,
    full: int,
    core: int,
    *,
    n_components: int,
    n_features: int,
    radius: float = 0.3,
) -> Plan:
    """A lifted plan of a given shape: the geometry of its core is attacked, not its price."""
    test = AgreementTest(n_blocks, 1.0, 1.0, 3, member, full, core)
    return lifted_plan(
        Budget(2.0, 1e-2), 1.0, 0.1, n_components, n_features, None, test, None, radius=radius
    )


def planted(mechanism: Mechanism, rng: np.random.Generator, *, clouds: int = 4) -> list[Neighbours]:
    """All constructions that fit the plan, near and far from the origin, labels shuffled."""
    plan = mechanism.plan

    def distance(fits: Fits) -> float:
        return float(mechanism.distances(fits.batch())[0, 1])

    pairs = [bridge(plan), bridge(plan, share=0.25)]
    wide = [extremes(plan), extremes(plan, changed=plan.n_blocks - 1)]
    pairs += wide
    for kind in ("near", "far", "failed", "weightless"):
        for width in np.geomspace(0.02, 0.3, clouds):
            pairs.append(cloud(plan, float(width), rng, kind=kind))
    pairs += edge(plan, distance, rng)
    if plan.n_components == 2 and plan.n_features >= 2:
        for gap, share in itertools.product((1.2, 2.0, 3.05, 3.5, 4.5, 5.05, 5.5, 7.0), (1, 0.3)):
            # the widest turn at which the outermost fits are still friends of the middle
            turn = share * 2 * math.asin(min(1.0, 0.95 / gap))
            pairs.append(fan(plan, gap * plan.tau, turn, rng, to=turn))
    if plan.n_components > 1:
        for times, width in itertools.product((1.02, 1.2, 1.6), (0.02, 0.08)):
            gap = times * max(plan.separation, 1.0) * plan.tau
            pairs.append(cloud(plan, width, rng, gap=gap))
    pairs += [moved_far(pairs[int(rng.integers(len(pairs)))], offset) for offset in _OFFSETS]
    for offset in _OFFSETS:
        pairs += [moved_far(wide[0], offset), moved_far(cloud(plan, 0.1, rng), offset)]
    if plan.n_features > 1:
        pairs += [flattened(cloud(plan, 0.1, rng), c) for c in _CONDITIONS]
    if plan.n_components > 1:
        pairs += [swapped(pair, rng) for pair in pairs]
    return pairs


def climb(
    mechanism: Mechanism,
    start: Neighbours,
    goal: str,
    steps: int,
    rng: np.random.Generator,
) -> tuple[Strain, str]:
    """Greedy search from `start`: keep every random change of the fits that raises `goal`.

    A step moves a few fits at random, moves the changed fit on either side, or copies one fit
    over another. Labels and cores may change on the way; what counts is the strain at the end.
    """
    plan = mechanism.plan
    t = plan.n_blocks
    best, fits = strain(mechanism, start), start.first
    other = Fits(*(part[[start.changed]] for part in dataclasses.astuple(start.second)))
    size = 0.3 * plan.tau
    for _ in range(steps):
        trial, moved = fits, other
        kind = rng.integers(4)
        if kind == 0:
            moved = other.jittered(np.array([size]), rng)
        elif kind == 1:
            a, b = rng.integers(t, size=2)
            trial = fits.with_fit(int(a), fits, int(b))
        else:
            touched = rng.random(t) < 2 / t
            trial = _moved(fits, fits.jittered(np.where(touched, size, 0.0), rng), touched)
        pair = with_change(trial, moved, start.name, start.changed)
        found = strain(mechanism, pair)
        if getattr(found, goal) > getattr(best, goal):
            best, fits, other = found, trial, moved
        else:
            size = max(0.97 * size, 1e-4 * plan.tau)
    return best, f"climb on {goal} from {start.name}"


def _moved(old: Fits, new: Fits, touched: BoolArray) -> Fits:
    """`new` where touched, bit for bit `old` elsewhere."""
    parts = []
    for a, b in zip(dataclasses.astuple(old), dataclasses.astuple(new), strict=True):
        part = a.copy()
        part[touched] = b[touched]
        parts.append(part)
    return Fits(*parts)


def attack(
    mechanism: Mechanism, *, clouds: int, climbs: int, steps: int, rng: np.random.Generator
) -> list[tuple[Strain, str]]:
    """All planted pairs, then climbs from the worst of them."""
    pairs = planted(mechanism, rng, clouds=clouds)
    found = [(strain(mechanism, pair), pair) for pair in pairs]
    results = [(s, pair.name) for s, pair in found]
    goals = (
        ("move",)
        if isinstance(mechanism.plan.space, PaperSpace)
        else (
            ("move", "diameter", "doubt")
            if mechanism.plan.n_components > 1
            else ("move", "diameter")
        )
    )
    for goal in goals:
        ranked = sorted(
            (
                item
                for item in found
                if item[0].both and item[1].first.ok.all() and item[1].second.ok.all()
            ),
            key=lambda item: -float(getattr(item[0], goal)),
        )
        for _, pair in ranked[:climbs]:
            results.append(climb(mechanism, pair, goal, steps, rng))
    return results

"""Search for a bad neighbour: constructed, random, and by hill climbing.

Every stage is attacked with the constructions of `neighbours`, and with hill climbing from them.
Each climb tries to push one of the strains of `cores` above its limit.
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
    edge,
    extremes,
    fan,
    flattened,
    moved_far,
    random_fits,
    swapped,
    with_change,
)

__all__ = ["attack", "climb_from", "planted"]

_OFFSETS = (1e6, 1e9, 1e12, 1e14, 1e15)
"""Distances from the origin, in standard deviations; at 1e15 floats resolve an eighth of one."""
_CONDITIONS = (1e3, 1e6)
"""Condition numbers of the data: moderately flat, and nearly too flat to be compared."""
_GAPS = (1.2, 2.0, 3.05, 3.5, 4.5, 5.05, 5.5, 7.0)
"""Gaps between turned components, in tau: around 3 and 5, which `required_separation` asks for."""
_GOALS = ("move", "diameter", "doubt")
"""Guarantees that a climb can push at: the others change by whole numbers."""


def planted(mechanism: Mechanism, rng: np.random.Generator, *, clouds: int = 4) -> list[Neighbours]:
    """Make all constructions that fit the stage, near and far from the origin, labels shuffled."""
    stage = mechanism.stage

    def distance(fits: Fits) -> float:
        return float(stage.space.distances(fits.batch())[0, 1])

    pairs = [bridge(stage), bridge(stage, share=0.25)]
    wide = [extremes(stage), extremes(stage, changed=stage.n_blocks - 1)]
    pairs += wide
    for kind in ("near", "far", "failed", "weightless"):
        for width in np.geomspace(0.02, 0.3, clouds):
            pairs.append(random_fits(stage, float(width), rng, kind=kind))
    pairs += edge(stage, distance, rng)
    if stage.n_components == 2 and stage.n_features >= 2:
        for gap, share in itertools.product(_GAPS, (1, 0.3)):
            # the widest turn at which the outermost fits are still friends of the middle
            turn = share * 2 * math.asin(min(1.0, 0.95 / gap))
            pairs.append(fan(stage, gap * stage.tau, turn, rng, to=turn))
    if stage.n_components > 1:
        for times, width in itertools.product((1.02, 1.2, 1.6), (0.02, 0.08)):
            gap = times * max(stage.separation, 1.0) * stage.tau
            pairs.append(random_fits(stage, width, rng, gap=gap))
    pairs += [moved_far(pairs[int(rng.integers(len(pairs)))], offset) for offset in _OFFSETS]
    for offset in _OFFSETS:
        pairs += [moved_far(wide[0], offset), moved_far(random_fits(stage, 0.1, rng), offset)]
    if stage.n_features > 1:
        pairs += [flattened(random_fits(stage, 0.1, rng), c) for c in _CONDITIONS]
    if stage.n_components > 1:
        pairs += [swapped(pair, rng) for pair in pairs]
    return pairs


def climb_from(
    mechanism: Mechanism,
    start: Neighbours,
    goal: str,
    steps: int,
    rng: np.random.Generator,
) -> tuple[Strain, str]:
    """Climb from `start`: keep every random change of the fits that raises `goal`.

    A step moves a few fits at random, moves the changed fit on either side, or copies one fit
    over another. Labels and cores may change on the way; the strain at the end is reported.
    """
    stage = mechanism.stage
    t = stage.n_blocks
    best, fits = strain(mechanism, start), start.first
    other = Fits(*(part[[start.changed]] for part in dataclasses.astuple(start.second)))
    size = 0.3 * stage.tau
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
            size = max(0.97 * size, 1e-4 * stage.tau)
    return best, f"climb on {goal} from {start.name}"


def _moved(old: Fits, new: Fits, touched: BoolArray) -> Fits:
    """Combine `new` where touched with `old`, bit for bit, elsewhere."""
    parts = []
    for a, b in zip(dataclasses.astuple(old), dataclasses.astuple(new), strict=True):
        part = a.copy()
        part[touched] = b[touched]
        parts.append(part)
    return Fits(*parts)


def attack(
    mechanism: Mechanism, *, clouds: int, climbs: int, steps: int, rng: np.random.Generator
) -> list[tuple[Strain, str]]:
    """Measure all constructed pairs, then climb from the worst of them."""
    pairs = planted(mechanism, rng, clouds=clouds)
    found = [(strain(mechanism, pair), pair) for pair in pairs]
    results = [(s, pair.name) for s, pair in found]
    for goal in (key for key in _GOALS if key in mechanism.stage.guarantees):
        ranked = sorted(
            (
                item
                for item in found
                if item[0].both and item[1].first.ok.all() and item[1].second.ok.all()
            ),
            key=lambda item: -float(getattr(item[0], goal)),
        )
        for _, pair in ranked[:climbs]:
            results.append(climb_from(mechanism, pair, goal, steps, rng))
    return results

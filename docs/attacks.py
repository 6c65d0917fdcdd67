"""Repeat the attacks whose figures `docs/threats.md` quotes: ``python docs/attacks.py``.

It takes some minutes. Results without a seed differ a little from run to run; the page quotes one.
`python -m privgmm.audit` attacks more, and says whether every claim holds.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

from privgmm import Mixture, Plan, Release, best_plan, release
from privgmm.arrays import Array
from privgmm.audit.endtoend import (
    boundary,
    empirical_epsilon,
    opposite,
    refused_neighbour,
    tiny_stage,
)
from privgmm.audit.guessing import at_worst_count, attack_on, ceiling_finding, duel_between
from privgmm.audit.sketch_releases import cases, many_sketches, whole_releases
from privgmm.budget import Budget, percent_at_most
from privgmm.errors import PrivacyWarning
from privgmm.methods import registry
from privgmm.privacy.composition import told_apart, total
from privgmm.results import Refusal
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.stage import Sketch

__all__ = ["main"]

TRUTH = Mixture([0.4, 0.6], [[-4.0, 0.0], [4.0, 0.0]], [np.eye(2), np.eye(2)])
"""Two components eight standard deviations apart, which every method but `paper` can release."""
FAR = 1e9
"""How far a row is moved: beyond any bound that one could have set on the rows."""


def planned(n_rows: int, method: str, epsilon: float) -> Plan:
    """Plan for two components in two columns, delta 1e-6."""
    return best_plan(
        n_rows,
        method=method,
        epsilon=epsilon,
        delta=1e-6,
        n_components=2,
        n_features=2,
    )


def neighbours(n_rows: int, moved: float) -> tuple[Array, Array]:
    """Draw rows, and copy them with one row moved by `moved`."""
    rows = TRUTH.sample(n_rows, rng=5)
    other = rows.copy()
    other[0] += moved
    return rows, other


def ceilings() -> None:
    """Print what is promised, by method and epsilon; and for ten releases together."""
    for epsilon in (0.3, 1.0, 2.0, 4.0, 8.0):
        each = [
            percent_at_most(planned(10**6, method, epsilon).ceiling)
            for method in ("tight", "lifted", "sketch")
        ]
        print(epsilon, *each, percent_at_most(Budget(epsilon, 1e-6).guess_ceiling))
    print("paper", percent_at_most(planned(10**6, "paper", 1.0).ceiling))
    ten = [planned(40_000, "sketch", 1.0).price()] * 10
    print("ten of sketch", total(ten), percent_at_most(told_apart(ten).ceiling))


def seeds() -> None:
    """Repeat a release with a known seed from both tables, and compare."""
    plan, sides = planned(2_000, "sketch", 1.0), neighbours(2_000, 0.5)
    right, coin = 0, np.random.default_rng(0)
    for seed in range(20):
        truth = int(coin.integers(2))
        seen, *tried = (
            release(rows, plan, rng=seed).result for rows in (sides[truth], sides[0], sides[1])
        )
        same = [_numbers(one).tolist() == _numbers(seen).tolist() for one in tried]
        right += same.index(True) == truth and sum(same) == 1
    print("known seed:", right, "of 20")


def _numbers(result: Release | Refusal) -> Array:
    """Return the numbers of a released mixture, in an order that undoes its shuffling."""
    if not isinstance(result, Release):
        return np.full(14, np.nan)
    order = np.argsort(result.mixture.means[:, 0])
    found = result.mixture.permuted(order)
    parts = (found.weights, found.means, found.covariances)
    return np.concatenate([part.ravel() for part in parts])


def fresh(n_rows: int, method: str, runs: int = 100) -> None:
    """Attack releases from A and from B, where a row was moved far away; and their run times.

    Releases from A and B alternate, so that a busy machine slows both.
    """
    plan, sides = planned(n_rows, method, 1.0), neighbours(n_rows, FAR)
    seen, times = np.empty((2, runs, 14)), np.empty((2, runs, 1))
    for rows in sides:
        release(rows, plan)
    for i in range(runs):
        for side, rows in enumerate(sides):
            start = time.process_time()
            result = release(rows, plan).result
            times[side, i] = time.process_time() - start
            seen[side, i] = _numbers(result)
    guesses, clock = attack_on(*seen), attack_on(*times)
    print(
        f"{method}, {n_rows:,} rows, a row moves by {FAR:g}: {guesses.success:.0%} right, at least "
        f"{guesses.proved_success():.0%}, ceiling {percent_at_most(plan.ceiling)}; by the clock "
        f"{clock.success:.0%} (medians {np.median(times[0]):.3f} and {np.median(times[1]):.3f} s)"
    )


def refusals(runs: int = 400) -> None:
    """Compare the run times of refusals and releases, and of refusals of A and of B.

    Of a table that is hardly ever released; one row of B was moved to 10¹².
    """
    case = cases()[1]
    for rows in (case.first, case.second):
        release(rows, case.plan)
    ended: dict[bool, list[list[float]]] = {True: [[], []], False: [[], []]}
    for _ in range(runs):
        for side, rows in enumerate((case.first, case.second)):
            start = time.process_time()
            released = release(rows, case.plan).released
            ended[released][side].append(time.process_time() - start)
    for released, sides in ended.items():
        least = min(map(len, sides))
        clock = attack_on(*(np.array(one[:least])[:, None] for one in sides))
        print(
            "released" if released else "refused",
            f"{len(sides[0])} and {len(sides[1])} times; medians "
            f"{1e3 * np.median(sides[0]):.2f} and {1e3 * np.median(sides[1]):.2f} ms; by the clock "
            f"{clock.success:.0%} right of {2 * least}",
        )


def shown_too_much() -> None:
    """Attack what a mask draws before it is squared and shuffled, exactly and by simulation."""
    rng = np.random.default_rng(0)
    for epsilon in (1.0, 8.0):
        refining = planned(40_000, "lifted", epsilon)
        plan = refining.but(refining.stages[0])
        rows, aside = neighbours(40_000, 1.0)
        first = release(rows, plan, rng=1)
        stage = plan.stage(Agreement)
        worst = stage.worst_pair()
        duels = {
            "a row moves by 1": duel_between(first, release(aside, plan, rng=1)),
            "a row moves by 10⁶": duel_between(
                first, release(neighbours(40_000, 1e6)[1], plan, rng=1)
            ),
            "the worst that the proof allows": at_worst_count(worst, stage.price().chances),
        }
        for name, duel in duels.items():
            played = duel.play(200_000, rng=rng)
            print(
                f"{name}, {epsilon:g}: best {duel.best_success:.2%}, simulated {played.share:.2%}, "
                f"ceiling {percent_at_most(plan.ceiling)}, "
                f"alone {percent_at_most(plan.spent().guess_ceiling)}"
            )


def at_the_worst(draws: int = 4_000_000) -> None:
    """Move all noise of a plan by as much as its price allows."""
    rng = np.random.default_rng(0)
    plans = [
        registry.get("tight").audited_plans(thorough=False)[0],
        planned(40_000, "lifted", 1.0),
        planned(100_000, "sketch", 1.0),
        planned(2_000, "sketch", 1.0),
    ]
    for plan in plans:
        print(ceiling_finding(plan, draws=draws, rng=rng))


def from_rows_to_mixture() -> None:
    """Print the epsilon that an attacker proves against whole releases."""
    rng = np.random.default_rng(0)
    for case in cases()[:2]:
        print(whole_releases(case, runs=60, rng=rng))
    for k in (1, 2):
        print(empirical_epsilon(opposite(tiny_stage(k)), runs=100_000, rng=rng))
        print(refused_neighbour(boundary(tiny_stage(k)), runs=100_000, rng=rng))
    print(many_sketches(Sketch(SketchShape.default(1), 1.0, 50, 1), draws=4_000, rng=rng))


def main(names: list[str]) -> None:
    """Run all attacks, or those named."""
    warnings.simplefilter("ignore", PrivacyWarning)
    attacks: dict[str, Callable[[], None]] = {
        "ceilings": ceilings,
        "seeds": seeds,
        "shown_too_much": shown_too_much,
        "at_the_worst": at_the_worst,
        "from_rows_to_mixture": from_rows_to_mixture,
        "fresh_sketch": lambda: fresh(2_000, "sketch"),
        "fresh_lifted": lambda: fresh(40_000, "lifted"),
        "refusals": refusals,
    }
    for name in names or attacks:
        start = time.process_time()
        attacks[name]()
        print(f"[{name}: {time.process_time() - start:.0f} s]", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

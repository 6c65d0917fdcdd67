"""What a changed block does to the agreeing core: four guarantees, measured.

For a pair of neighbouring sets of fits the real distances, test and representative are run on
both sides, and compared: does the statistic move by at most one, do unchanged fits stay friends,
are equally labelled components of both cores within 2 tau, does the mean move by at most gamma.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.audit.neighbours import Neighbours
from privgmm.distances.all_pairs import component_tables
from privgmm.distances.matching import bottleneck_matchings
from privgmm.distances.parameters import dist_param, forward_substitution
from privgmm.errors import InvalidInput
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture, MixtureBatch
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.lifted_space import Anchored, LiftedSpace, geometry_of
from privgmm.stages.agreement.paper_space import PaperSpace
from privgmm.stages.agreement.votes import AgreementTest, friend_counts, h_index

__all__ = ["GUARANTEES", "Mechanism", "Strain", "findings_of", "strain"]

_ROUNDING = 1e-9


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """What is attacked: a plan, and the pieces that are run in its name.

    Parameters
    ----------
    plan : Plan
        Says what is promised.
    space : LiftedSpace or PaperSpace, optional
        What is run; the plan's own unless a broken one is tried.
    settled : bool
        Whether pairs near the radius are computed by themselves, as Algorithm 1 does here.
    """

    plan: Plan
    space: LiftedSpace | PaperSpace | None = None
    settled: bool = True

    @property
    def running(self) -> LiftedSpace | PaperSpace:
        """The space that is run."""
        return self.plan.space if self.space is None else self.space

    def distances(self, items: MixtureBatch) -> Array:
        """The distances that votes are counted from."""
        if self.settled:
            return settled_distances(items, self.running, self.plan.tau)
        return self.running.distances(items)


@dataclasses.dataclass(frozen=True)
class Strain:
    """How hard one pair pulls at each guarantee: measured over allowed, so at most one.

    Parameters
    ----------
    statistic : float
        Change of h (or of Q, in units of 2/t).
    flips : int
        Unchanged pairs of fits whose friendship changed; none is allowed.
    diameter : float
        Largest distance of equally labelled components of both cores, over 2 tau.
    move : float
        Distance between the two representatives over gamma.
    doubt : float
        2 tau over the smallest distance of a member's component to one of the reference's that
        does not match it.
    both : bool
        Whether both sides have a core at all; the last three are zero otherwise.
    """

    statistic: float
    flips: int
    diameter: float = 0.0
    move: float = 0.0
    doubt: float = 0.0
    both: bool = False


GUARANTEES = {
    "statistic": "the test's statistic moves by at most 1 unit",
    "flips": "no friendship of unchanged fits changes",
    "diameter": "equally labelled components of both cores / 2 tau <= 1",
    "move": "distance of the representatives / gamma <= 1",
    "doubt": "2 tau / nearest component that does not match < 1",
}


def strain(mechanism: Mechanism, pair: Neighbours) -> Strain:
    """Run both sides of a pair and compare."""
    plan = mechanism.plan
    batches = (pair.first.batch(), pair.second.batch())
    tables = [mechanism.distances(batch) for batch in batches]
    same = np.arange(plan.n_blocks) != pair.changed
    friends = [(table <= plan.tau)[np.ix_(same, same)] for table in tables]
    flips = int(np.count_nonzero(friends[0] != friends[1]))
    counts = [friend_counts(table, plan.tau) for table in tables]
    if not isinstance(plan.test, AgreementTest):
        return _populous_strain(mechanism, batches, counts, flips)
    test = plan.test
    h = [h_index(count, test.full, test.core) for count in counts]
    found = Strain(abs(h[0] - h[1]), flips)
    if min(h) < 0:
        return found
    references = [int(np.argmax(count >= test.full)) for count in counts]
    weights = [test.ramp_weights(count) for count in counts]
    shown = [
        mechanism.running.representative(batch, weight, reference)
        for batch, weight, reference in zip(batches, weights, references, strict=True)
    ]
    if isinstance(plan.space, PaperSpace):
        gamma = math.expm1(2 * math.log1p(plan.tau))
        move = _picked_distance(shown[0], shown[1]) / gamma
        return dataclasses.replace(found, move=move, both=True)
    members = [np.flatnonzero(weight > 0) for weight in weights]
    diameter, doubt = _labels(plan, batches, members, references)
    return dataclasses.replace(
        found,
        diameter=diameter,
        move=_anchored_distance(shown[0], shown[1]) / plan.gamma,
        doubt=doubt,
        both=True,
    )


def _populous_strain(
    mechanism: Mechanism,
    batches: tuple[MixtureBatch, MixtureBatch],
    counts: list[IntArray],
    flips: int,
) -> Strain:
    """The paper's own test: Q moves by less than 2/t, and picks are within gamma = 3 tau."""
    plan = mechanism.plan
    t = plan.n_blocks
    q = [int(count.sum()) / t**2 for count in counts]
    found = Strain(abs(q[0] - q[1]) * t / 2, flips)
    if min(q) < 0.8:
        return found
    picks = [
        mechanism.running.representative(batch, count / t, int(np.argmax(count / t > 0.6)))
        for batch, count in zip(batches, counts, strict=True)
    ]
    move = _picked_distance(picks[0], picks[1]) / plan.gamma
    return dataclasses.replace(found, move=move, both=True)


def _picked_distance(first: Mixture | Anchored, second: Mixture | Anchored) -> float:
    if isinstance(first, Anchored) or isinstance(second, Anchored):
        raise InvalidInput("a picked fit is a mixture")
    return dist_param(first, second)


def _anchored_distance(first: Mixture | Anchored, second: Mixture | Anchored) -> float:
    """Lifted distance of two representatives, components under the best common order.

    ``N = R_1^-1 (U_1^-1 U_2) R_2``, where the roots R are relative to references U; between
    references the difference of means is taken first.
    """
    if isinstance(first, Mixture) or isinstance(second, Mixture):
        raise InvalidInput("a representative of the lifted space is relative to a fit")
    k, p, _ = first.roots.shape
    table = np.empty((k, k))
    for a, b in itertools.product(range(k), range(k)):
        right = np.concatenate(
            [second.cholesky[b], (second.means[b] - first.means[a])[:, None]], axis=1
        )
        between = np.eye(p)
        between[: p - 1] = forward_substitution(first.cholesky[a], right)
        between *= math.sqrt(second.weights[b] / first.weights[a])
        N = np.linalg.solve(first.roots[a], between @ second.roots[b])
        table[a, b] = 2 * np.linalg.norm(np.log(np.linalg.svd(N, compute_uv=False)))
    return float(bottleneck_matchings(table[None]).values[0])


def _labels(
    plan: Plan,
    batches: tuple[MixtureBatch, MixtureBatch],
    members: list[IntArray],
    references: list[int],
) -> tuple[float, float]:
    """Diameter of both cores under the best common order of labels, and the doubt about them."""
    k, t = plan.n_components, plan.n_blocks
    geometry = geometry_of(MixtureBatch.concatenate(batches))
    labels, doubt = [], 0.0
    for side, (who, reference) in enumerate(zip(members, references, strict=True)):
        table = component_tables(geometry, np.full(who.size, side * t + reference), side * t + who)
        order = bottleneck_matchings(table).permutations
        labels.append(order)
        if k > 1:
            unmatched = table.copy()
            np.put_along_axis(unmatched, order[:, :, None], np.inf, axis=2)
            doubt = max(doubt, 2 * plan.tau / max(float(unmatched.min()), 1e-300))
    everyone = np.concatenate([members[0], t + members[1]])
    order = np.concatenate(labels)
    i, j = (index.astype(np.int64) for index in np.triu_indices(everyone.size, 1))
    table = component_tables(geometry, everyone[i], everyone[j])
    # components in the order of their labels
    table = np.take_along_axis(table, order[i][:, :, None], axis=1)
    table = np.take_along_axis(table, order[j][:, None, :], axis=2)
    across = (i < members[0].size) & (j >= members[0].size)
    inside = np.einsum("nkk->nk", table[~across]).max(initial=0.0)
    best = min(
        float(table[across][:, np.arange(k), list(common)].max(initial=0.0))
        for common in itertools.permutations(range(k))
    )
    return max(float(inside), best) / (2 * plan.tau), doubt


def findings_of(
    label: str, strains: list[tuple[Strain, str]], *, only: tuple[str, ...] = tuple(GUARANTEES)
) -> list[Finding]:
    """One finding per guarantee: the worst of many strains, and which construction reached it."""
    cores = sum(found.both for found, _ in strains)
    findings = []
    for key in only:
        worst, where = max(((float(getattr(s, key)), n) for s, n in strains), key=lambda x: x[0])
        if key == "flips":
            limit = 0.0
        elif key == "doubt":
            limit = 1 - _ROUNDING
        else:
            limit = 1 + _ROUNDING
        findings.append(
            within(
                f"core, {label}: {key}",
                GUARANTEES[key],
                worst,
                limit,
                f"{len(strains)} pairs, {cores} with two cores; worst: {where}",
            )
        )
    return findings

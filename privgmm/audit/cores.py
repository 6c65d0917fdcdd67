"""Strains: what one changed block does to the agreeing core, over what is guaranteed.

For a pair of neighbouring sets of fits the real distances, test and representative are run on
both sides and compared. Does the statistic move by at most its sensitivity? Do unchanged fits
stay friends? Does what is masked move by at most gamma? Where the mean of a core is masked: are
equally labelled components of both cores within 2 tau, and are labels unambiguous? A stage says
itself which of these it guarantees (`Agreement.guarantees`).
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from privgmm.arrays import Array, IntArray
from privgmm.audit.findings import Finding, within
from privgmm.audit.neighbours import Neighbours
from privgmm.distances.matching import bottleneck_matchings
from privgmm.mixture import MixtureBatch
from privgmm.stages.agreement.algorithm_1 import settled_distances
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.agreement.votes import friend_counts

__all__ = ["GUARANTEES", "Mechanism", "Strain", "findings_of", "strain"]

_ROUNDING = 1e-9
"""Relative error of computed distances, as `PickedAgreement.gamma` counts it."""


@dataclasses.dataclass(frozen=True)
class Mechanism:
    """A stage under attack: it states what is promised and holds what is run."""

    stage: Agreement

    def distances(self, items: MixtureBatch) -> Array:
        """Compute the distances that votes are counted from."""
        return settled_distances(items, self.stage.space, self.stage.tau)


@dataclasses.dataclass(frozen=True)
class Strain:
    """What one pair of neighbours does to each guarantee: measured over allowed, so at most one.

    Parameters
    ----------
    statistic : float
        Change of the test's statistic, in units of its sensitivity.
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
        Whether both sides may pass at all. If not, diameter, move and doubt are zero; diameter and
        doubt are also zero for a stage that does not guarantee them.
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
_LIMITS = {"flips": 0.0, "doubt": 1 - _ROUNDING}
"""Limits that are not one: no friendship may change, and labels must be unambiguous."""


def strain(mechanism: Mechanism, pair: Neighbours) -> Strain:
    """Run both sides of a pair and compare them."""
    stage = mechanism.stage
    test, space = stage.test, stage.space
    batches = (pair.first.batch(), pair.second.batch())
    tables = [mechanism.distances(batch) for batch in batches]
    same = np.arange(stage.n_blocks) != pair.changed
    friends = [(table <= stage.tau)[np.ix_(same, same)] for table in tables]
    flips = int(np.count_nonzero(friends[0] != friends[1]))
    one, two = sides = [test.standing(friend_counts(table, stage.tau)) for table in tables]
    found = Strain(abs(one.statistic - two.statistic) / test.sensitivity, flips)
    # where one side must refuse, nothing is masked there: the threshold covers such pairs
    if not (one.may_pass and two.may_pass):
        return found
    shown = [
        space.representative(batch, side.weights, side.reference)
        for batch, side in zip(batches, sides, strict=True)
    ]
    move = space.distance(*shown) / stage.gamma
    found = dataclasses.replace(found, move=move, both=True)
    if "diameter" not in stage.guarantees:
        return found
    members = [np.flatnonzero(side.weights > 0) for side in sides]
    diameter, doubt = _labels(stage, batches, members, [side.reference for side in sides])
    return dataclasses.replace(found, diameter=diameter, doubt=doubt)


def _labels(
    stage: Agreement,
    batches: tuple[MixtureBatch, MixtureBatch],
    members: list[IntArray],
    references: list[int],
) -> tuple[float, float]:
    """Measure the diameter of both cores under the best common labels, and the doubt about them."""
    k, t = stage.n_components, stage.n_blocks
    fits = MixtureBatch.concatenate(batches)
    labels, doubt = [], 0.0
    for side, (who, reference) in enumerate(zip(members, references, strict=True)):
        table = stage.space.tables(fits, np.full(who.size, side * t + reference), side * t + who)
        order = bottleneck_matchings(table).permutations
        labels.append(order)
        if k > 1:
            unmatched = table.copy()
            np.put_along_axis(unmatched, order[:, :, None], np.inf, axis=2)
            doubt = max(doubt, 2 * stage.tau / max(float(unmatched.min()), 1e-300))
    everyone = np.concatenate([members[0], t + members[1]])
    order = np.concatenate(labels)
    i, j = (index.astype(np.int64) for index in np.triu_indices(everyone.size, 1))
    # every member of either core against every other
    table = stage.space.tables(fits, everyone[i], everyone[j])
    # components in the order of their labels
    table = np.take_along_axis(table, order[i][:, :, None], axis=1)
    table = np.take_along_axis(table, order[j][:, None, :], axis=2)
    across = (i < members[0].size) & (j >= members[0].size)
    inside = np.einsum("nkk->nk", table[~across]).max(initial=0.0)
    # the labels of the two cores are chosen apart, so they may differ by one permutation
    best = min(
        float(table[across][:, np.arange(k), list(common)].max(initial=0.0))
        for common in itertools.permutations(range(k))
    )
    return max(float(inside), best) / (2 * stage.tau), doubt


def findings_of(
    label: str, strains: list[tuple[Strain, str]], *, only: tuple[str, ...] = tuple(GUARANTEES)
) -> list[Finding]:
    """Report each guarantee with the worst of many strains, and which construction reached it."""
    cores = sum(found.both for found, _ in strains)
    findings = []
    for key in only:
        worst, where = max(((float(getattr(s, key)), n) for s, n in strains), key=lambda x: x[0])
        findings.append(
            within(
                f"core, {label}: {key}",
                GUARANTEES[key],
                worst,
                _LIMITS.get(key, 1 + _ROUNDING),
                f"{len(strains)} pairs, {cores} with two cores; worst: {where}",
            )
        )
    return findings

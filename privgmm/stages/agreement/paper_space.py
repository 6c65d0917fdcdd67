"""Compare and mask mixtures as the paper does: dist_Param (Section 5), Algorithm 2."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.distances.all_pairs import ParamGeometry, component_tables, pairwise_dist_param
from privgmm.distances.matching import bottleneck_matching, bottleneck_matchings
from privgmm.distances.parameters import dist_param
from privgmm.mixture import Component, Mixture, MixtureBatch
from privgmm.privacy.curves import RenyiCurve, paper_mask_curve
from privgmm.privacy.gaussian_pairs import Closeness, GaussianPair, PricedPair, directions
from privgmm.privacy.noise import Randomness
from privgmm.stages.agreement import lemmas
from privgmm.stages.agreement.flatness import nearly_flat
from privgmm.stages.agreement.public_grid import (
    GriddedShapes,
    means_on_grid,
    misrounding_chance,
    noise_bits,
    shapes_on_grid,
    weights_on_grid,
)
from privgmm.stages.agreement.reading import Number
from privgmm.stages.agreement.space import ChosenWords, SpaceWords
from privgmm.stages.agreement.votes import Verdict
from privgmm.stages.form import Form

__all__ = ["PaperSpace"]


@dataclasses.dataclass(frozen=True)
class PaperSpace:
    """Gaussian mixtures under dist_Param, masked component by component (Algorithm 2).

    Parameters
    ----------
    eta_weight, eta_mean, eta_cov : float
        Noise levels, each relative: of the weight itself, of the mean in units of the
        component's own spread, of the covariance in units of itself.

    Notes
    -----
    ``eta_weight`` is eta_W, ``eta_mean`` eta_Mean, ``eta_cov`` eta_Cov of Appendix F.
    """

    eta_weight: float
    eta_mean: float
    eta_cov: float

    lifted: ClassVar[bool] = False
    averages: ClassVar[bool] = False
    words: ClassVar[SpaceWords] = SpaceWords(
        distance="τ stands for r/2z.",
        chosen_label="Pick",
        chosen_title="Pick one",
        chosen="",
        mask="",
        noise="Relative noise of the mask: of weight, mean and covariance",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, positive(getattr(self, field.name), field.name))

    @classmethod
    def from_form(cls, form: Form) -> PaperSpace:
        """Read the noise levels back from a plan."""
        return cls(*(form.number(field.name) for field in dataclasses.fields(cls)))

    def noise(self) -> dict[str, float]:
        """Return the three noise levels by name."""
        return dataclasses.asdict(self)

    def mask_curve(self, gamma: float, n_features: int) -> RenyiCurve:
        """Compute the Rényi price of masking one component that can move by gamma."""
        return paper_mask_curve(gamma, self.eta_weight, self.eta_mean, self.eta_cov, n_features)

    def lemma_price(
        self, gamma: float, delta: float, n_components: int, n_features: int
    ) -> lemmas.MaskPrice:
        """Price the mask of a mixture by Lemmas F.1, F.2, F.6 and 3.5, at a delta in all."""
        part = delta / (6 * n_components)
        dearest = max(self._lemma_epsilons(gamma, part, n_features))
        return lemmas.mixture_price(lemmas.MaskPrice(dearest, part), n_components)

    def _lemma_epsilons(self, gamma: float, part: float, d: int) -> tuple[float, float, float]:
        """Price R_W, R_Mean and R_Cov at a delta of `part` each."""
        return (
            lemmas.epsilon_weight(gamma, self.eta_weight, part),
            lemmas.epsilon_mean(gamma, self.eta_mean, part),
            lemmas.epsilon_covariance(gamma, self.eta_cov, part, d),
        )

    def distance(self, first: Mixture, second: Mixture) -> float:
        """Compute ``dist_Param`` of two mixtures."""
        return dist_param(first, second)

    def distances(self, items: MixtureBatch) -> Array:
        """Compute ``dist_Param`` of all pairs (t, t).

        Infinite, diagonal included, for fits that failed or are too nearly flat to compute with.
        """
        distances = pairwise_dist_param(items)
        flat = nearly_flat(items)
        distances[flat], distances[:, flat] = np.inf, np.inf
        return distances

    def scattered(self, items: MixtureBatch, factor: float) -> Array:
        """Compute distances of fits that scatter `factor` times as widely as these."""
        return np.asarray(factor * self.distances(items), dtype=np.float64)

    def between(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Compute ``dist_Param`` of pairs (first, second), each from its two fits alone."""
        return bottleneck_matchings(self.tables(items, first, second)).values

    def tables(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """Compute ``dist_Comp`` (m, k, k) of all components of pairs (first, second)."""
        geometry = ParamGeometry(items.weights, items.means, items.cholesky)
        return component_tables(geometry, first, second)

    def representative(
        self,
        items: MixtureBatch,
        weights: Array,  # noqa: ARG002 - one block is picked
        reference: int,
    ) -> Mixture:
        """Return the picked fit itself (Algorithm 1, line 8)."""
        return items[reference]

    def describe_chosen(self, verdict: Verdict) -> ChosenWords:
        """Describe the block that was picked, and its friends. CONFIDENTIAL."""
        block = verdict.reference
        return ChosenWords(
            f"The first block with enough friends, block **{block + 1}**, speaks for all. "
            "Whichever block is picked after one row changes has a friend in common with it, so "
            "the two lie near each other.",
            "the picked fit",
            (
                Number("Picked", f"block {block + 1}", "The first with enough friends"),
                Number(
                    "Its friends",
                    f"{verdict.counts[block]} of {verdict.counts.size}",
                    "Blocks that agree with it, itself included",
                ),
            ),
        )

    def misrounding(self, n_components: int, n_features: int) -> float:
        """Bound the chance that a number is rounded otherwise than in real numbers."""
        return misrounding_chance(n_components, n_features)

    def mask_variances(self, weights: Array, n_features: int) -> Array:
        """Compute what weights, means and roots get, each at its own level."""
        d = n_features
        shape = np.full((len(weights), d + d * (d + 1) // 2), 4 * self.eta_cov**2)
        shape[:, :d] = self.eta_mean**2
        return np.column_stack([(self.eta_weight / weights) ** 2, shape])

    def _bits(self, n_features: int) -> int:
        """Compute how fine the noise must be; a fit itself is masked, so the reach is zero."""
        levels = self.eta_weight, self.eta_mean, self.eta_cov
        return noise_bits(min(levels), max(levels), n_features, 0.0)

    def mask_weight(self, weights: Array, n_features: int, *, rng: Randomness) -> Array:
        """Draw R_W (Algorithm 2, line 2) of each weight: ``max(0, w + eta_W g)``, on a grid."""
        bits = self._bits(n_features)
        return weights_on_grid(weights, eta=self.eta_weight, bits=bits, rng=rng)

    def mask_covariance(self, cholesky: Array, *, rng: Randomness) -> GriddedShapes:
        """Draw R_Cov (Algorithm 2, lines 8-9) of each ``L L^T``: a factor of it, on a grid.

        The law of ``A (I + eta G)(I + eta G)^T A^T`` is the same for every root A of Sigma,
        because G is rotation invariant; the Cholesky factor serves as ``Sigma^(1/2)``.
        """
        bits = self._bits(cholesky.shape[-1])
        return shapes_on_grid(cholesky, eta=self.eta_cov, bits=bits, rng=rng)

    def mask_mean(
        self, means: Array, cholesky: Array, shapes: GriddedShapes, *, rng: Randomness
    ) -> Array:
        """Draw R_Mean (Algorithm 2, line 5) of each mean: ``mu + eta_Mean g``, g ~ N(0, Sigma).

        Published on the grid of `shapes`, which are public already.
        """
        bits = self._bits(means.shape[-1])
        return means_on_grid(means, cholesky, shapes, eta=self.eta_mean, bits=bits, rng=rng)

    def mask_component(self, component: Component, *, rng: Randomness) -> Component:
        """Draw B_Comp (Algorithm 2, line 12); the weight is not yet normalised."""
        factor = np.asarray(np.linalg.cholesky(component.covariance))[None]
        (weight,) = self.mask_weight(
            np.array([component.weight]), component.mean.size, rng=rng
        ).tolist()
        shapes = self.mask_covariance(factor, rng=rng)
        (mean,) = self.mask_mean(component.mean[None], factor, shapes, rng=rng)
        return Component(weight, mean, shapes.factors[0] @ shapes.factors[0].T)

    def mask(self, item: Mixture, *, rng: Randomness) -> Mixture:
        """Draw B_GMM (Algorithm 2, lines 14-19): mask every component, shuffle, normalise.

        Should every noisy weight be zero, the released weights are equal: a rule applied to
        noisy numbers alone, so it costs no privacy.
        """
        order = rng.permutation(item.n_components)
        means, cholesky = item.means[order], item.cholesky[order]
        weights = self.mask_weight(item.weights[order], item.n_features, rng=rng)
        shapes = self.mask_covariance(cholesky, rng=rng)
        total = weights.sum()
        shares = weights / total if total > 0 else np.full_like(weights, 1 / len(weights))
        return Mixture.from_roots(
            shares, self.mask_mean(means, cholesky, shapes, rng=rng), shapes.factors
        )

    # ----------------------------------------------------------------- what can be attacked

    def scaling(self, radius: float, n_features: int) -> float:
        """Return ``sqrt d ln(1 + radius / sqrt d)``: dist_Param takes the larger Frobenius norm."""
        root = math.sqrt(n_features)
        return root * math.log1p(radius / root)

    def gaussian_pair(self, item_a: Mixture, item_b: Mixture) -> GaussianPair:
        """Describe weights, means and roots as Algorithm 2 draws them for either mixture."""
        k = item_a.n_components
        table = np.array(
            [
                [dist_param(_single(item_a, i), _single(item_b, j)) for j in range(k)]
                for i in range(k)
            ]
        )
        twin = item_b.permuted(bottleneck_matching(table)[1])
        parts = []
        for j in range(k):
            ratios = np.linalg.svd(
                np.linalg.solve(item_a.cholesky[j], twin.cholesky[j]), compute_uv=False
            )
            parts += [
                GaussianPair.of_number(item_a.weights[j], twin.weights[j], self.eta_weight),
                GaussianPair(
                    item_a.means[j],
                    self.eta_mean * item_a.cholesky[j],
                    twin.means[j],
                    self.eta_mean * twin.cholesky[j],
                ),
                GaussianPair.of_matrix(ratios**2, self.eta_cov),
            ]
        return GaussianPair.joined(parts)

    def worst_pair(self, gamma: float, n_components: int, n_features: int) -> GaussianPair:
        """Describe the largest moves: of weight, mean, and one covariance ratio, 1 / (1 + gamma).

        The price (`privacy.curves.paper_mask_curve`) adds the three although they share one gamma.
        """
        ratios, shift = np.ones(n_features), np.zeros(n_features)
        ratios[0] = 1 / (1 + gamma)
        shift[0] = gamma * math.sqrt(ratios[0])
        return GaussianPair.joined(self._component_parts(gamma, shift, ratios) * n_components)

    def hardest_pairs(
        self, gamma: float, n_features: int, *, rng: np.random.Generator
    ) -> list[GaussianPair]:
        """List draws of B_Comp at dist_Comp gamma: weight, mean and covariance all move."""
        pairs = []
        for u in directions(n_features, rng=rng):
            lam = np.where(u > 0, 1 + gamma * u, 1 / (1 - gamma * u))
            worst = max(np.linalg.norm(lam - 1), np.linalg.norm(1 / lam - 1))
            lam = 1 + (lam - 1) * min(1.0, gamma / float(worst))
            for v in directions(n_features, rng=rng)[:2]:
                # the shift must be within gamma in the norms of both covariances
                shift = gamma * v / max(1.0, float(np.linalg.norm(v / np.sqrt(lam))))
                pairs.append(GaussianPair.joined(self._component_parts(gamma, shift, lam)))
        return pairs

    def lemma_pairs(
        self, gamma: float, delta: float, n_components: int, n_features: int
    ) -> tuple[PricedPair, ...]:
        """List R_W, R_Mean and R_Cov at distance gamma, both ways, as `lemma_price` prices them.

        Each must be (epsilon', delta')-close for the epsilon' that its lemma (F.1, F.2 or F.6)
        states at ``delta' = delta / (6 k)``.
        """
        part = delta / (6 * n_components)
        ratios, shift = np.ones(n_features), np.zeros(n_features)
        ratios[0] = 1 / (1 + gamma)
        shift[-1] = gamma * (math.sqrt(ratios[0]) if n_features == 1 else 1.0)
        return tuple(
            PricedPair(one, Closeness(epsilon, part))
            for epsilon, pair in zip(
                self._lemma_epsilons(gamma, part, n_features),
                self._component_parts(gamma, shift, ratios),
                strict=True,
            )
            for one in (pair, pair.swapped())
        )

    def _component_parts(self, gamma: float, shift: Array, ratios: Array) -> list[GaussianPair]:
        """List R_W, R_Mean and R_Cov where a weight moves by gamma, a mean by `shift`."""
        d = ratios.size
        mean = GaussianPair(
            np.zeros(d),
            self.eta_mean * np.eye(d),
            shift,
            self.eta_mean * np.diag(np.sqrt(ratios)),
        )
        return [
            GaussianPair.of_number(0.0, gamma, self.eta_weight),
            mean,
            GaussianPair.of_matrix(ratios, self.eta_cov),
        ]

    def equal_components(self, n: int, n_features: int) -> Mixture:
        """Make n equal components, at the origin and of unit covariance."""
        d = n_features
        return Mixture(np.full(n, 1 / n), np.zeros((n, d)), np.broadcast_to(np.eye(d), (n, d, d)))

    def formula(self, n: int, n_features: int, *, rng: np.random.Generator) -> Array:
        """Draw ``max(0, w + eta_W g)``, ``eta_Mean g`` and ``(I + eta_Cov G)(I + eta_Cov G)^T``."""
        weights = np.maximum(1 / n + self.eta_weight * rng.standard_normal(n), 0.0)
        means = self.eta_mean * rng.standard_normal(n)
        rows = np.eye(n_features)[0] + self.eta_cov * rng.standard_normal((n, n_features))
        return np.stack([weights, means, np.einsum("nj,nj->n", rows, rows)])


def _single(mixture: Mixture, j: int) -> Mixture:
    return Mixture.from_roots([1.0], mixture.means[j : j + 1], mixture.cholesky[j : j + 1])

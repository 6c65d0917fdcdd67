"""The paper's space: dist_Param (Section 5) and the mask of Algorithm 2."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from privgmm.arrays import Array, IntArray, positive
from privgmm.distances.all_pairs import ParamGeometry, component_tables, pairwise_dist_param
from privgmm.distances.matching import bottleneck_matchings
from privgmm.distances.parameters import dist_param
from privgmm.mixture import Component, Mixture, MixtureBatch
from privgmm.privacy.curves import RenyiCurve, paper_mask_curve
from privgmm.privacy.noise import Randomness
from privgmm.stages.agreement import lemmas
from privgmm.stages.agreement.flatness import nearly_flat
from privgmm.stages.agreement.space import SpaceWords
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
        mask="",
        noise="Relative noise of the mask: of weight, mean and covariance",
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, positive(getattr(self, field.name), field.name))

    @classmethod
    def from_form(cls, form: Form) -> PaperSpace:
        """Read the noise levels back."""
        return cls(*(form.number(field.name) for field in dataclasses.fields(cls)))

    def noise(self) -> dict[str, float]:
        """The three noise levels."""
        return dataclasses.asdict(self)

    def mask_curve(self, gamma: float, n_features: int) -> RenyiCurve:
        """The Rényi price of masking one component that can move by gamma."""
        return paper_mask_curve(gamma, self.eta_weight, self.eta_mean, self.eta_cov, n_features)

    def lemma_price(
        self, gamma: float, delta: float, n_components: int, n_features: int
    ) -> lemmas.MaskPrice:
        """The price of masking a mixture by Lemmas F.1, F.2, F.6 and 3.5, at a delta in all."""
        part = delta / (6 * n_components)
        dearest = max(
            lemmas.epsilon_weight(gamma, self.eta_weight, part),
            lemmas.epsilon_mean(gamma, self.eta_mean, part),
            lemmas.epsilon_covariance(gamma, self.eta_cov, part, n_features),
        )
        return lemmas.mixture_price(lemmas.MaskPrice(dearest, part), n_components)

    def distance(self, first: Mixture, second: Mixture) -> float:
        """``dist_Param`` of two mixtures."""
        return dist_param(first, second)

    def distances(self, items: MixtureBatch) -> Array:
        """``dist_Param`` of all pairs (t, t).

        Infinite, diagonal included, for fits that failed or are too nearly flat to compute with.
        """
        distances = pairwise_dist_param(items)
        flat = nearly_flat(items)
        distances[flat], distances[:, flat] = np.inf, np.inf
        return distances

    def between(self, items: MixtureBatch, first: IntArray, second: IntArray) -> Array:
        """``dist_Param`` of the pairs (first, second), each from its two fits alone."""
        geometry = ParamGeometry(items.weights, items.means, items.cholesky)
        return bottleneck_matchings(component_tables(geometry, first, second)).values

    def representative(
        self,
        items: MixtureBatch,
        weights: Array,  # noqa: ARG002 - one block is picked, whatever the others weigh
        reference: int,
    ) -> Mixture:
        """The picked fit itself (Algorithm 1, line 8)."""
        return items[reference]

    def mask_weight(self, weight: float, *, rng: Randomness) -> float:
        """R_W (Algorithm 2, line 2): ``max(0, w + eta_W g)``."""
        return max(0.0, weight + self.eta_weight * float(rng.normal(1)[0]))

    def mask_mean(self, mean: Array, cholesky: Array, *, rng: Randomness) -> Array:
        """R_Mean (Algorithm 2, line 5): ``mu + eta_Mean g`` with ``g ~ N(0, Sigma)``."""
        return mean + self.eta_mean * (cholesky @ rng.normal(mean.shape[0]))

    def mask_root(self, cholesky: Array, *, rng: Randomness) -> Array:
        """R_Cov (Algorithm 2, lines 8-9), as a square root ``L (I + eta_Cov G)`` of its result.

        The law of ``A (I + eta G)(I + eta G)^T A^T`` is the same for every root A of Sigma,
        because G is rotation invariant; the Cholesky factor serves as ``Sigma^(1/2)``.
        """
        d = cholesky.shape[0]
        return cholesky @ (np.eye(d) + self.eta_cov * rng.normal((d, d)))

    def mask_covariance(self, covariance: Array, *, rng: Randomness) -> Array:
        """R_Cov of a covariance matrix."""
        root = self.mask_root(np.asarray(np.linalg.cholesky(covariance)), rng=rng)
        return root @ root.T

    def mask_component(self, component: Component, *, rng: Randomness) -> Component:
        """B_Comp (Algorithm 2, line 12); the weight is not yet normalised."""
        factor = np.asarray(np.linalg.cholesky(component.covariance))
        weight = self.mask_weight(component.weight, rng=rng)
        mean = self.mask_mean(component.mean, factor, rng=rng)
        root = self.mask_root(factor, rng=rng)
        return Component(weight, mean, root @ root.T)

    def mask(self, item: Mixture, *, rng: Randomness) -> Mixture:
        """B_GMM (Algorithm 2, lines 14-19): mask every component, shuffle, normalise.

        Should every noisy weight be zero, the released weights are equal: a rule applied to
        noisy numbers alone, so it costs no privacy.
        """
        order = rng.permutation(item.n_components)
        weights = np.array([self.mask_weight(w, rng=rng) for w in item.weights[order]])
        means = np.stack([self.mask_mean(item.means[j], item.cholesky[j], rng=rng) for j in order])
        roots = np.stack([self.mask_root(item.cholesky[j], rng=rng) for j in order])
        total = weights.sum()
        shares = weights / total if total > 0 else np.full_like(weights, 1 / len(weights))
        return Mixture.from_roots(shares, means, roots)

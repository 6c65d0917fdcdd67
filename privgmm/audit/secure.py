"""Secure noise: whether it spreads as priced, and where it comes from."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np

from privgmm.arrays import Array
from privgmm.audit.findings import Finding, within
from privgmm.privacy.noise import SecureNoise, TruncatedLaplace, fine_normal, noise_source

__all__ = ["secure_origin", "secure_spread"]

_SIGMAS = 5.0
"""Standard errors that chance may cause; by convention: one check in two million fails by it."""


def _fine(source: SecureNoise, size: int) -> Array:
    whole, unit = fine_normal(source, (size,), 50)
    return np.array([math.ldexp(int(z), -unit) for z in whole])


def _laws() -> list[tuple[str, Callable[[SecureNoise, int], Array], float, float]]:
    """List laws by name: how they are drawn, their variance, and their kurtosis."""
    cut = TruncatedLaplace(1.0, 1.0, 1e-12)
    return [
        ("discrete Gaussian", lambda s, n: s.discrete_gaussian(9.0, n) / 9.0, 1.0, 3.0),
        (
            "wide discrete Gaussian",
            lambda s, n: s.discrete_gaussian(2.0**55, n) / 2.0**55,
            1.0,
            3.0,
        ),
        ("fine normal", _fine, 1.0, 3.0),
        # cut at 27 scales, which changes the variance by less than can be measured
        ("truncated Laplace", lambda s, n: cut.sample(n, rng=s), 2.0, 6.0),
    ]


def secure_spread(*, draws: int = 100_000, only: str | None = None) -> list[Finding]:
    """Compare the variance of many secure draws of each law with the variance that was priced.

    From 10^5 normal draws the variance is known to within 0.5 %, from 4,000 to within 2 %. A tenth
    less noise is a fifth less variance, so it fails with either. `only` names one of the laws.
    """
    found = []
    for name, draw, variance, kurtosis in _laws():
        if only not in (None, name):
            continue
        sample = draw(SecureNoise(), draws)
        error = variance * math.sqrt((kurtosis - 1) / draws)
        found.append(
            within(
                f"secure noise, {name}",
                "error of the variance, in standard errors <= 5",
                abs(float(np.mean(np.square(sample))) - variance) / error,
                _SIGMAS,
                f"{draws} draws of the sampler that releases use",
            )
        )
    return found


_GENERATORS = (
    "default_rng",
    "choice",
    "laplace",
    "normal",
    "permutation",
    "rand",
    "randint",
    "randn",
    "random",
    "shuffle",
    "standard_normal",
)


@contextlib.contextmanager
def _numpy_watched() -> Iterator[list[str]]:
    """Record every call of one of NumPy's generators, its global one included."""
    asked: list[str] = []
    with contextlib.ExitStack() as stack:
        for name in _GENERATORS:
            real = getattr(np.random, name)

            def watched(*args: Any, name: str = name, real: Any = real, **options: Any) -> Any:
                asked.append(name)
                return real(*args, **options)

            stack.enter_context(mock.patch.object(np.random, name, watched))
        yield asked


def secure_origin() -> Finding:
    """Check that no NumPy generator decides the noise of a release, and that no draw repeats."""
    with _numpy_watched() as asked:
        source = noise_source(None)
        faults = int(source.seeded) + int(type(source) is not SecureNoise)
        seen = []
        for _ in range(2):
            drawn = source.discrete_gaussian(2.0**40, 4).tolist()
            drawn += source.normal(4).tolist() + source.laplace(1.0, 4).tolist()
            seen.append((drawn, source.permutation(20).tolist(), source.seed()))
        faults += sum(one == two for one, two in zip(*seen, strict=True))
    return within(
        "secure noise, where it comes from",
        "draws that repeat, or that NumPy's generators decide <= 0",
        faults + len(asked),
        0,
        "drawn twice; calls for NumPy's generators counted",
    )

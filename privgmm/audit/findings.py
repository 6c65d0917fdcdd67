"""Findings: one claim, one measured number and one limit each; a report is a table of them.

The statistics that several attacks share are here too: exact bounds on a probability, a bound on a
mean, and the direction that separates two samples best.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.stats import beta

from privgmm.arrays import Array
from privgmm.errors import InvalidInput

__all__ = [
    "Finding",
    "Report",
    "best_direction",
    "caught",
    "clopper_pearson",
    "mean_upper_bound",
    "within",
]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One claim put to the test.

    Parameters
    ----------
    name : str
        What was attacked.
    claim : str
        What must hold.
    measured, limit : float
        The worst that was found, and what it may not exceed (for a deliberately broken variant:
        what it must exceed, or the audit is blind).
    passed : bool
    detail : str
        How hard it was tried.
    """

    name: str
    claim: str
    measured: float
    limit: float
    passed: bool
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {
            key: value if not isinstance(value, float) or math.isfinite(value) else str(value)
            for key, value in dataclasses.asdict(self).items()
        }


def within(name: str, claim: str, measured: float, limit: float, detail: str = "") -> Finding:
    """Make a finding that passes if the measured value is at most its limit; NaN never passes."""
    return Finding(name, claim, float(measured), float(limit), bool(measured <= limit), detail)


def caught(name: str, broken: Finding) -> Finding:
    """Make a finding about a deliberately broken variant: it passes if the check failed."""
    return Finding(
        f"broken: {name}",
        f"must be caught by: {broken.name}",
        broken.measured,
        broken.limit,
        not broken.passed,
        broken.detail,
    )


@dataclasses.dataclass(frozen=True)
class Report:
    """All findings of one audit."""

    findings: tuple[Finding, ...]

    def __post_init__(self) -> None:
        if not self.findings:
            raise InvalidInput("a report needs at least one finding: nothing was audited")

    @property
    def passed(self) -> bool:
        """Whether every claim held and every broken variant was caught."""
        return all(finding.passed for finding in self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """The findings that did not pass."""
        return tuple(finding for finding in self.findings if not finding.passed)

    def __str__(self) -> str:
        rows = [("", "what", "claim", "measured", "limit", "how")]
        for f in self.findings:
            word = "ok" if f.passed else "FAILED"
            if f.name.startswith("broken: "):
                word = "caught" if f.passed else "MISSED"
            rows.append((word, f.name, f.claim, f"{f.measured:.4g}", f"{f.limit:.4g}", f.detail))
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
        lines.insert(1, "  ".join("-" * w for w in widths))
        broken = sum(f.name.startswith("broken: ") for f in self.findings)
        lines.append(
            f"{len(self.findings) - broken} claims, {broken} broken variants, "
            f"{len(self.failures)} failures"
        )
        return "\n".join(line.rstrip() for line in lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return {"passed": self.passed, "findings": [f.to_dict() for f in self.findings]}


def clopper_pearson(successes: int, trials: int, miss: float) -> tuple[float, float]:
    """Compute exact bounds on a probability; each is wrong with chance at most `miss`."""
    if not 0 <= successes <= trials or trials < 1:
        raise InvalidInput(f"successes must lie in 0..trials, got {successes} of {trials}")
    low = 0.0 if successes == 0 else float(beta.ppf(miss, successes, trials - successes + 1))
    high = 1.0 if successes == trials else float(beta.isf(miss, successes + 1, trials - successes))
    return low, high


def mean_upper_bound(values: Array, miss: float) -> float:
    """Compute an upper bound on the mean of a law on [0, 1], wrong with chance at most `miss`.

    The empirical Bernstein bound ``mean + sqrt(2 v ln(2/miss) / n) + 7 ln(2/miss) / (3 (n - 1))``,
    v the sample variance (Maurer and Pontil, 2009, Theorem 4).
    """
    n = values.size
    log = math.log(2 / miss)
    spread = math.sqrt(2 * float(np.var(values, ddof=1)) * log / n)
    return float(np.mean(values)) + spread + 7 * log / (3 * (n - 1))


def best_direction(first: Array, second: Array) -> Array:
    """Find the combination of columns (m,) that separates two samples (n, m) best.

    Fisher's discriminant: the inverse pooled covariance, applied to the difference of the means.
    """
    pooled = np.cov(np.concatenate([part - part.mean(axis=0) for part in (first, second)]).T)
    gap = first.mean(axis=0) - second.mean(axis=0)
    # columns may be constant, or copies of each other
    return np.asarray(np.linalg.pinv(np.atleast_2d(pooled), rcond=1e-9) @ gap)

"""What a plan of `sketch` costs, held against dp-accounting and against what its stages draw."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as pld
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from scipy.stats import norm

from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.methods.sketch.method import SketchMethod
from privgmm.privacy.curves import ORDERS, RenyiCurve, gaussian_curve
from privgmm.privacy.gaussian_account import discrete_mu_squared
from privgmm.privacy.noise import DiscreteGaussian
from privgmm.stages.sketch.agreement_frame import FrameAgreement
from privgmm.stages.sketch.features import SketchShape
from privgmm.stages.sketch.finish import Finish
from privgmm.stages.sketch.histogram_frame import HistogramFrame
from privgmm.stages.sketch.stage import Sketch

GRID = 1e-4


def planned(
    n: int, d: int, epsilon: float, delta: float, k: int = 2, n_blocks: int | None = None
) -> Plan:
    return SketchMethod().automatic(
        PlanRequest(
            n_components=k,
            n_features=d,
            n_rows=n,
            epsilon=epsilon,
            delta=delta,
            n_blocks=n_blocks,
            method="sketch",
        )
    )


def gaussians(multipliers: list[float]) -> RdpAccountant:
    accountant = RdpAccountant(orders=ORDERS.tolist())
    for multiplier in multipliers:
        accountant.compose(dp_event.GaussianDpEvent(multiplier))
    return accountant


def later(plan: Plan) -> list[float]:
    """Return the multipliers of the stages after the frame."""
    _, first, last = plan.stages
    assert isinstance(first, Sketch)
    assert isinstance(last, Finish)
    return [first.multiplier, last.multiplier]


def exact(multipliers: list[float], delta: float) -> float:
    """Compute epsilon of Gaussian events by dp-accounting, rounded up on a grid."""
    whole = pld.identity(GRID)
    for multiplier in multipliers:
        event = pld.from_gaussian_mechanism(multiplier, value_discretization_interval=GRID)
        whole = whole.compose(event)
    return float(whole.get_epsilon_for_delta(delta))


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "delta"),
    [(2_000, 2, 1.0, 1e-6), (800, 1, 1.0, 1e-6), (600, 2, 4.0, 1e-5), (300, 1, 1.0, 1e-2)],
)
def test_a_plan_with_histograms_costs_what_dp_accounting_says(
    n: int, d: int, epsilon: float, delta: float
) -> None:
    """Every draw is a Gaussian event; what lone bins may show is taken off delta."""
    plan = planned(n, d, epsilon, delta)
    frame = plan.stages[0]
    assert isinstance(frame, HistogramFrame)
    values = frame.values
    assert values is not None
    sigmas = [frame.scale_sigma, frame.location_sigma, values.sigma, values.grid_sigma]
    counts = [sigma / math.sqrt(2) for sigma in sigmas]
    shortfall = d * sum(
        DiscreteGaussian(sigma).survival(threshold - lone)
        for sigma, threshold in (
            (frame.scale_sigma, frame.scale_threshold),
            (frame.location_sigma, frame.location_threshold),
            (values.sigma, values.threshold),
        )
        for lone in (0, 1)
    )
    assert frame.price().shortfall == pytest.approx(shortfall, rel=1e-12)
    assert shortfall <= 0.1 * delta
    others = [*frame.multipliers, *later(plan)]
    events = [*(d * counts), *others]
    spent = plan.spent()
    assert spent.delta == delta
    assert spent.epsilon > exact(events, delta - shortfall) - GRID * len(events)
    assert spent.epsilon < gaussians(events).get_epsilon(delta - shortfall)
    # counts are integers with little noise: of their variance 3 is given up
    priced = [math.sqrt(count**2 - 1.5) for count in counts]
    assert spent.epsilon == pytest.approx(
        exact([*(d * priced), *others], delta - shortfall), rel=1e-3
    )
    assert epsilon * (1 - 1e-3) < spent.epsilon <= epsilon


def least_epsilon(curve: RenyiCurve, mu: float, delta: float) -> float:
    """Price a Gaussian mechanism after a curve: the bound of `gaussian_account`, on a grid."""
    t = np.linspace(-4.0, 12.0, 16_001)
    low, high = t / mu - mu / 2, t / mu + mu / 2
    logs = norm.logsf(low) + np.log1p(
        -np.exp(np.minimum(t + norm.logsf(high) - norm.logsf(low), 0))
    )
    found: list[float] = []
    for order, loss in zip(ORDERS[::3].tolist(), curve.values[::3].tolist(), strict=True):
        top = float(np.nanmax(logs + (order - 1) * t))
        found.append(float(loss) + (top - math.log(delta)) / (order - 1))
    return min(found)


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "delta"), [(100_000, 2, 1.0, 1e-6), (300_000, 1, 0.5, 1e-8)]
)
def test_a_plan_with_an_agreement_costs_its_mask_and_gaussians(
    n: int, d: int, epsilon: float, delta: float
) -> None:
    """Its price is above that of test, sketch and finish alone, and below that by Rényi curves."""
    plan = planned(n, d, epsilon, delta, n_blocks=600)
    frame = plan.stages[0]
    assert isinstance(frame, FrameAgreement)
    mask = frame.mask_curve()
    assert mask is not None
    events = [frame.test.sigma, *later(plan)]
    losses = [
        sum(order / (2 * multiplier**2) for multiplier in events) for order in ORDERS.tolist()
    ]
    # the same as dp-accounting's own sum, before the mask is added
    plain, _ = compute_epsilon(ORDERS.tolist(), losses, delta)
    assert plain == pytest.approx(gaussians(events).get_epsilon(delta), rel=1e-9)
    whole, _ = compute_epsilon(ORDERS.tolist(), np.add(losses, mask.values), delta)
    spent = plan.spent()
    assert spent.delta == delta
    assert exact(events, delta) - GRID * len(events) < spent.epsilon < whole
    assert spent.epsilon <= epsilon
    mu = math.sqrt(math.fsum(m**-2 for m in later(plan)))
    first = gaussian_curve(frame.test.sigma) + mask
    assert spent.epsilon == pytest.approx(least_epsilon(first, mu, delta), rel=1e-3)
    # where a neighbour never passes, the test lets the other pass no more often than delta
    assert frame.price().shortfall <= delta


@pytest.mark.parametrize("multiplier", [0.7, 3.0, 40.0])
def test_every_way_of_the_finish_composes_to_one_gaussian(multiplier: float) -> None:
    stage = Finish(2, 2, 10_000, SketchShape.default(2), multiplier)
    rich, vote, last = (stage.part(share) for share in (0.70 / 16, 0.05, 0.25 / 6))
    long_way = [rich] * 16 + [vote] + [last] * 6
    assert math.fsum(m**-2 for m in long_way) == pytest.approx(multiplier**-2, rel=1e-12)
    for delta in (1e-3, 1e-8):
        want = gaussian_curve(multiplier).epsilon(delta)
        assert gaussians(long_way).get_epsilon(delta) == pytest.approx(want, rel=1e-6)
        assert gaussians([multiplier]).get_epsilon(delta) == pytest.approx(want, rel=1e-6)
    price = stage.price()
    assert price.curves == (gaussian_curve(multiplier),)
    # the exact account: the parts cost no more than the whole, whatever integers they are drawn on
    parts = math.fsum(discrete_mu_squared(m * 2.0**16, 2.0**16) for m in long_way)
    assert multiplier**-2 < parts <= price.mu_squared < multiplier**-2 * (1 + 1e-8)
    # and these are the multipliers that it draws with
    alone = [stage.part(0.08), *[stage.part(0.92 / 12)] * 12]
    assert math.fsum(m**-2 for m in alone) == pytest.approx(multiplier**-2, rel=1e-12)
    listed = {one.multiplier for one in stage.row_sums(2)}
    assert listed == {multiplier, rich, vote, last, *alone}


def test_what_the_frame_leaves_is_divided_and_nothing_is_kept_back() -> None:
    plan = planned(2_000, 2, 1.0, 1e-6)
    first, rest = later(plan)
    assert first**-2 / (first**-2 + rest**-2) == pytest.approx(0.4, rel=1e-6)
    assert plan.spent().epsilon > 0.999

"""The audit passes, catches every broken variant, and measures what it says it measures."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator
from typing import ClassVar, NoReturn

import numpy as np
import pytest
from scipy.stats import binomtest, ks_2samp, norm

from privgmm.audit import Finding, Report, __main__, cores, endtoend, findings, run_audit, search
from privgmm.audit import neighbours as nb
from privgmm.audit.broken import with_space
from privgmm.audit.cores import Mechanism, strain
from privgmm.audit.rounding import exact_distance
from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.lifted.method import LiftedMethod
from privgmm.methods.plan import Plan
from privgmm.mixture import Mixture
from privgmm.stages.agreement.algorithm_1 import private_populous_estimator
from privgmm.stages.agreement.lifted_geometry import lift, lifted_distance, unlift
from privgmm.stages.agreement.lifted_space import Anchored
from privgmm.stages.agreement.stage import Agreement
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Bottom, Stage, Work
from tests.audit.sabotage import NoSeparation, PickOne, SharedSweeps, Unsettled
from tests.methods.toy import ToyMethod

BROKEN = [
    "no mask noise at all",
    "mask in floating point",
    "threshold without its margin",
    "warm start across blocks",
    "half the sketch noise",
    "sums over persons' rows at the price of means",
    "bins of a single row shown",
]


CLAIMS = [
    *(
        f"mask, {method}, k={k}, d=2: {what}"
        for method, k in (("paper", 2), ("tight", 2), ("lifted", 2), ("sketch", 1))
        for what in ("law of the code", "scale of the code")
    ),
    *(f"mask, {method}: order of components" for method in ("paper", "tight", "lifted")),
    *(f"vote, {method}: as it is run" for method in ("paper", "tight", "lifted", "sketch")),
    *(f"price, {method}, k=2, d=2" for method in ("paper", "tight", "lifted", "sketch")),
    *(f"price, {method}: misrounding" for method in ("paper", "tight", "lifted", "sketch")),
    *(
        f"secure noise, {what}"
        for what in (
            "discrete Gaussian",
            "wide discrete Gaussian",
            "fine normal",
            "truncated Laplace",
            "where it comes from",
        )
    ),
    *(f"release, k={k}, secure noise" for k in (1, 2)),
    *(
        f"release, {what}"
        for what in (
            "the order of steps",
            "rows in blocks",
            "persons in blocks",
            "a learner by a third party",
        )
    ),
    "ledger, a cap",
    "jitter",
    "mask, lifted: outputs that give rows away",
    *(f"exact sums, cut moments, d={d}" for d in (1, 3)),
    "mask, paper, k=2, d=2: Lemmas F.1, F.2, F.6",
    "truncated Laplace (Definition C.5)",
    "mask, tight, k=2, d=2: law of the code",
    "mask, tight, k=2, d=2: drawn",
    "mask, tight, k=2, d=2: one component, exact",
    "noisy count, sigma=10.7",
    "threshold, tight",
    "mask, lifted, k=2, d=2: law of the code",
    "mask, lifted, k=2, d=2: drawn",
    "mask, lifted, k=2, d=2: one component, exact",
    "noisy count, sigma=5.67",
    "threshold, lifted",
    "refinement sums, d=1",
    "refinement sums, d=2",
    "refinement noise, multiplier=3",
    "refinement noise, multiplier=60",
    *(f"core, paper k=2 d=1 t=31: {key}" for key in ("statistic", "flips", "move")),
    *(f"core, tight k=2 d=1 t=41: {key}" for key in ("statistic", "flips", "move")),
    *(
        f"core, lifted {shape}: {key}"
        for shape in ("k=2 d=1 t=31 m=23 M=23 G=23", "k=2 d=2 t=31 m=17 M=20 G=15")
        for key in ("statistic", "flips", "diameter", "move", "doubt")
    ),
    *(
        f"core, lifted k=1 d=1 t=31 m=20 M=20 G=20: {key}"
        for key in ("statistic", "flips", "diameter", "move")
    ),
    *(f"rounding of the mean, k={k}, d={d}" for k, d in ((1, 1), (2, 2), (1, 3))),
    *(
        f"release, k={k}, {what}"
        for k in (1, 2)
        for what in ("2 tau across", "neighbour always refuses")
    ),
    "learner BlockMoments",
    "learner EM",
    "learner StudentT",
    "mask, sketch, k=1, d=2: law of the code",
    "mask, sketch, k=1, d=2: drawn",
    "mask, sketch, k=1, d=2: one component, exact",
    "threshold, sketch",
    *(
        f"core, sketch k=1 d=1 t=31 m=20 M=20 G=20: {key}"
        for key in ("statistic", "flips", "diameter", "move")
    ),
    *(
        f"{kind} {what}, sketch, k=2, d=2"
        for kind in ("sketch", "finish", "histogram frame")
        for what in ("sums", "sums of persons")
    ),
    *(f"histograms, d=2: {what}" for what in ("bins", "lone rows", "beyond the curve", "counts")),
    *(f"sketch account, {what}" for what in ("one turn", "persons", "far away")),
    *(
        f"finish account, {what}"
        for what in (
            "second sketch",
            "second sketch, persons",
            "rich mixture",
            "rich mixture, far away",
            "noisy EM",
            "noisy EM, far away",
            "refinement",
        )
    ),
    *(f"histogram frame account, {what}" for what in ("one turn", "persons")),
    *(f"exact sums, {what}, d={d}" for what in ("waves", "moments", "votes") for d in (1, 3)),
    "sketch alone, multiplier=1",
    "sketch release, a row far away",
    "sketch release, hardly released",
    *(
        f"guesses, {plan}, k=2, d=2, {first} first"
        for plan, first in (
            ("tight", "agreement"),
            ("lifted", "agreement"),
            ("sketch", "agreement"),
            ("sketch", "histogram frame"),
        )
    ),
]
"""What is known to hold of the methods that come with the package."""


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    """The audit with one method more than those that come with the package."""
    toy = registry.register(ToyMethod())
    try:
        yield run_audit()
    finally:
        registry.unregister(toy.name)


# ------------------------------------------------------------------------------- the whole


def test_the_audit_passes(report: Report) -> None:
    assert report.passed, f"\n{report}"
    assert report.failures == ()


@pytest.mark.parametrize("name", BROKEN)
def test_every_broken_variant_is_caught(report: Report, name: str) -> None:
    (found,) = [f for f in report.findings if f.name == f"broken: {name}"]
    assert found.passed
    assert found.measured > found.limit


def test_no_broken_variant_is_left_out(report: Report) -> None:
    assert {f.name for f in report.findings if f.name.startswith("broken")} == {
        f"broken: {name}" for name in BROKEN
    }


@pytest.mark.parametrize(
    "part", ["mask, ", "noisy count", "threshold", "refinement", "core, ", "release, ", "learner "]
)
def test_every_mechanism_is_attacked(report: Report, part: str) -> None:
    assert any(f.name.startswith(part) for f in report.findings)


def test_nothing_known_to_hold_is_left_out(report: Report) -> None:
    assert {f.name for f in report.findings} >= set(CLAIMS)


def test_a_method_registered_at_run_time_is_attacked(report: Report) -> None:
    found = [f.name for f in report.findings if "toy" in f.name]
    assert [name for name in found if name.startswith("mask, ")] == [
        f"mask, toy, k=2, d=2: {what}"
        for what in ("law of the code", "scale of the code", "drawn", "one component, exact")
    ] + ["mask, toy: order of components"]
    assert "threshold, toy" in found
    shape = ToyMethod().attacked_cores(thorough=False)[0].stage(Agreement).shape
    assert [name for name in found if name.startswith("core, ")] == [
        f"core, toy {shape}: {key}" for key in ("statistic", "flips", "diameter", "move")
    ]


class Mute(Stage):
    """A stage that gives the audit nothing to attack."""

    kind: ClassVar[str] = "mute"

    def price(self) -> NoReturn:
        raise NotImplementedError

    def prepare(self, work: Work, public: object) -> NoReturn:
        raise NotImplementedError

    def sentences(self) -> list[str]:
        return []

    def to_dict(self) -> dict[str, object]:
        return {}


class MuteMethod(ToyMethod):
    """A method with a stage that is not audited, and no cores."""

    name: ClassVar[str] = "mute"

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        plans = super().audited_plans(thorough=thorough)
        return tuple(plan.but(*plan.stages, Refinement((9.0,), (3.0,)), Mute()) for plan in plans)

    def attacked_cores(self, *, thorough: bool) -> tuple[Plan, ...]:
        return ()


def test_a_stage_that_cannot_be_attacked_fails_the_audit() -> None:
    """The stages next to it are attacked anyway; twice, if asked for twice."""
    registry.register(MuteMethod())
    try:
        found = run_audit(only=("mute", "mute"))
    finally:
        registry.unregister("mute")
    names = [f.name for f in found.findings]
    assert [f.name for f in found.failures] == ["mute, mute, k=2, d=2", "mute, mute, k=2, d=2 (2)"]
    assert "refinement sums, mute, k=2, d=2" in names
    assert "refinement noise, mute, k=2, multiplier=9" in names
    assert len(names) == len(set(names))
    assert not any(name.startswith(("broken", "core", "release")) for name in names)


def test_an_unknown_method_is_named() -> None:
    with pytest.raises(InvalidInput, match="method must be one of"):
        run_audit(only=("nobody",))


def test_no_two_findings_share_a_name(report: Report) -> None:
    names = [finding.name for finding in report.findings]
    assert len(names) == len(set(names))


def test_the_table_shows_every_finding(report: Report) -> None:
    lines = str(report).splitlines()
    assert len(lines) == len(report.findings) + 3
    for finding, line in zip(report.findings, lines[2:], strict=False):
        assert line.startswith("caught" if finding.name.startswith("broken") else "ok")
        assert finding.name in line
    assert lines[-1].endswith("0 failures")
    assert json.loads(json.dumps(report.to_dict()))["passed"] is True


def test_one_failure_fails_the_report_and_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = findings.within("a", "x", 1.0, 2.0), findings.within("b", "x", 3.0, 2.0)
    asked = []

    def fake(**options: object) -> Report:
        asked.append(options["thorough"])
        return Report((good, bad) if options["rng"] else (good,))

    monkeypatch.setattr(__main__, "run_audit", fake)
    assert __main__.print_audit([]) == 0
    assert __main__.print_audit(["--quick", "--seed", "1"]) == 1
    assert asked == [True, False]
    assert "FAILED" in capsys.readouterr().out
    assert __main__.print_audit(["--json", "--seed", "1"]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][1]["passed"] is False


def test_what_is_not_a_number_never_passes() -> None:
    assert not findings.within("a", "x", math.nan, 1.0).passed
    assert not findings.within("a", "x", 1.0, math.nan).passed
    assert findings.within("a", "x", math.inf, 1.0).to_dict()["measured"] == "inf"
    with pytest.raises(InvalidInput, match="finding"):
        Report(())


def test_a_missed_variant_fails() -> None:
    unnoticed = findings.caught("something", findings.within("check", "x", 0.5, 1.0))
    assert not unnoticed.passed
    assert "MISSED" in str(Report((unnoticed,)))


# -------------------------------------------------------------------------- statistics


@pytest.mark.parametrize(("successes", "trials"), [(0, 50), (3, 50), (50, 50), (700, 1000)])
def test_bounds_on_a_probability_are_scipys(successes: int, trials: int) -> None:
    want = binomtest(successes, trials).proportion_ci(0.98, method="exact")
    got = findings.clopper_pearson(successes, trials, 0.01)
    assert got == pytest.approx((want.low, want.high), abs=1e-12)


def test_the_bound_on_a_mean_is_above_it_as_often_as_promised() -> None:
    rng = np.random.default_rng(0)
    below = sum(
        findings.mean_upper_bound(rng.beta(0.1, 2.0, 400), 0.05) < 0.1 / 2.1 for _ in range(400)
    )
    assert below <= 20 + 4 * math.sqrt(20)
    assert findings.mean_upper_bound(rng.beta(0.1, 2.0, 400_000), 0.05) < 0.049


def test_proved_epsilon_is_below_the_truth_and_near_it() -> None:
    """Randomised response on one number, and a Gaussian shift: both with known epsilon."""
    rng = np.random.default_rng(1)
    keep = math.exp(1.5) / (1 + math.exp(1.5))
    first = (rng.random((100_000, 1)) < keep).astype(np.float64)
    second = (rng.random((100_000, 1)) >= keep).astype(np.float64)
    proved, _ = endtoend.proved_epsilon(first, second, 0.0)
    assert 1.4 < proved <= 1.5
    # N(0, 1) against N(1, 1): exact epsilon at delta = 0.01
    grid = np.linspace(0, 6, 6001)
    delta = norm.cdf(0.5 - grid) - np.exp(grid) * norm.cdf(-0.5 - grid)
    truth = float(grid[np.argmax(delta <= 0.01)])
    draws = rng.standard_normal((2, 100_000, 1))
    proved, _ = endtoend.proved_epsilon(draws[0], draws[1] + 1, 0.01)
    assert 0.75 * truth < proved <= truth
    same, _ = endtoend.proved_epsilon(draws[0], draws[1], 0.01)
    assert same < 0.05


# ------------------------------------------------------------------------ constructions


@pytest.mark.parametrize(("k", "d", "m"), [(1, 1, 20), (1, 2, 20), (2, 1, 23), (3, 2, 23)])
def test_extremes_attain_the_bound_on_the_mean(k: int, d: int, m: int) -> None:
    """The bound gamma is not loose: with m = M = G a pair of neighbours reaches it."""
    stage = LiftedMethod.shaped(31, m, m, m, n_components=k, n_features=d)
    found = strain(Mechanism(stage), nb.extremes(stage))
    assert found.both
    assert 1 - 1e-6 < found.move <= 1
    assert 1 - 1e-6 < found.diameter <= 1
    far = strain(Mechanism(stage), nb.moved_far(nb.extremes(stage), 1e12))
    assert far.move == pytest.approx(found.move, abs=1e-9)


def test_strains_do_not_mind_labels_and_units() -> None:
    rng = np.random.default_rng(2)
    stage = LiftedMethod.shaped(31, 23, 25, 20, n_components=2, n_features=2)
    pair = nb.random_fits(stage, 0.08, rng)
    one = strain(Mechanism(stage), pair)
    assert one.both
    other = strain(Mechanism(stage), nb.swapped(pair, rng))
    assert dataclasses.astuple(other) == pytest.approx(dataclasses.astuple(one), rel=1e-6)
    squeezed = strain(Mechanism(stage), nb.flattened(pair, 100.0))
    assert dataclasses.astuple(squeezed) == pytest.approx(dataclasses.astuple(one), rel=1e-6)


def test_neighbours_differ_in_one_fit() -> None:
    stage = LiftedMethod.shaped(31, 20, 20, 20, n_components=1, n_features=1)
    fits = nb.Fits.equal(31, 1, 1)
    with pytest.raises(InvalidInput, match="differ"):
        nb.Neighbours(fits, fits.scaled(np.full(31, stage.tau)), 0, "all moved")
    for pair in search.planted(Mechanism(stage), np.random.default_rng(0), clouds=1):
        changed = [
            i
            for i in range(31)
            if not all(
                np.array_equal(a[i], b[i], equal_nan=True)
                for a, b in zip(
                    dataclasses.astuple(pair.first), dataclasses.astuple(pair.second), strict=True
                )
            )
        ]
        assert set(changed) <= {pair.changed}


def test_scaling_walks_a_straight_line() -> None:
    fits = nb.Fits.equal(3, 1, 2).scaled(np.array([-0.4, 0.0, 0.7]))
    roots = lift(fits.weights[:, 0], fits.means[:, 0], fits.cholesky[:, 0])
    assert float(lifted_distance(roots[0], roots[2])) == pytest.approx(1.1, rel=1e-12)
    assert float(lifted_distance(roots[0], roots[1])) == pytest.approx(0.4, rel=1e-12)


def test_climbing_never_loses_ground() -> None:
    rng = np.random.default_rng(3)
    stage = LiftedMethod.shaped(21, 13, 15, 12, n_components=1, n_features=1)
    start = nb.random_fits(stage, 0.05, rng)
    before = strain(Mechanism(stage), start)
    after, _ = search.climb_from(Mechanism(stage), start, "move", 30, rng)
    assert before.both
    assert before.move < after.move <= 1 + 1e-9
    assert after.flips == 0
    assert after.statistic <= 1


def test_the_rule_on_separation_is_what_keeps_labels() -> None:
    """The same confusing fits: no core with the rule, a broken mean without it."""
    rng = np.random.default_rng(4)
    stage = LiftedMethod.shaped(31, 23, 29, 29, n_components=2, n_features=2)
    pair = nb.fan(stage, 1.2 * stage.tau, np.pi / 2, rng, to=0.8)
    assert not strain(Mechanism(stage), pair).both
    assert strain(Mechanism(with_space(stage, NoSeparation(stage.eta))), pair).move > 2


def test_distances_that_share_sweeps_are_accurate_and_still_broken() -> None:
    rng = np.random.default_rng(5)
    stage = LiftedMethod.shaped(31, 20, 20, 20, n_components=1, n_features=2)
    broken = with_space(stage, SharedSweeps(stage.eta))
    shared = Unsettled(broken)
    batch = nb.random_fits(stage, 0.2, rng).first.batch()
    plain = Unsettled(stage)
    assert np.allclose(shared.distances(batch), plain.distances(batch), rtol=1e-8, atol=1e-12)
    # votes are counted from numbers on the same side of the radius
    counted = Mechanism(stage).distances(batch)
    assert np.array_equal(counted <= stage.tau, plain.distances(batch) <= stage.tau)

    def distance(fits: nb.Fits) -> float:
        return float(shared.distances(fits.batch())[0, 1])

    pairs = [pair for _ in range(6) for pair in nb.edge(stage, distance, rng)]
    assert max(strain(shared, pair).statistic for pair in pairs) > 1
    assert max(strain(Mechanism(stage), pair).statistic for pair in pairs) <= 1
    # settling the pairs near the radius by themselves would have been enough
    assert max(strain(Mechanism(broken), pair).flips for pair in pairs) == 0


# --------------------------------------------------------------------------- rounding


def test_rational_distances_are_the_distances() -> None:
    rng = np.random.default_rng(6)
    roots = np.eye(3) + 0.05 * rng.standard_normal((2, 2, 3, 3))
    weights, means, factors = unlift(lift([0.3, 0.7], rng.standard_normal((2, 2)), [np.eye(2)] * 2))
    one, two = (Anchored(weights, means, factors, part) for part in roots)
    want = float(lifted_distance(roots[0], roots[1]).max())
    assert exact_distance(one, two) == pytest.approx(want, rel=1e-10)
    assert exact_distance(one, one) == 0.0


# ---------------------------------------------------------------------- whole releases


@pytest.mark.parametrize("k", [1, 2])
def test_many_releases_at_once_have_the_law_of_single_ones(k: int) -> None:
    stage = endtoend.tiny_stage(k)
    fits, _ = endtoend.opposite(stage).fits()
    rng = np.random.default_rng(9)
    fast = endtoend.releases(stage, fits, 20_000, rng=rng)
    runs, slow = 250, []
    for _ in range(runs):
        found = private_populous_estimator(fits, stage.space, stage.test, rng)
        if isinstance(found.value, Bottom):
            continue
        assert isinstance(found.value, Mixture)
        order = np.argsort(found.value.means[:, 0])
        slow.append(
            np.concatenate(
                [
                    found.value.weights[order],
                    found.value.means[order, 0],
                    np.log(found.value.covariances[order, 0, 0]),
                ]
            )
        )
    passed = ~np.isnan(fast[:, 0])
    assert binomtest(len(slow), runs, float(passed.mean())).pvalue > 6.3e-5
    for column in range(fast.shape[1]):
        if k == 1 and column == 0:
            continue  # the only weight is one
        assert ks_2samp(fast[passed, column], np.array(slow)[:, column]).pvalue > 6.3e-5


def test_one_row_spans_two_radii() -> None:
    stage = endtoend.tiny_stage()
    instance = endtoend.opposite(stage)
    first, second = instance.fits()
    table = Mechanism(stage).distances(first)
    changed = np.flatnonzero(table[0 if table[0, 1:].min() == 0 else 1] > 0)
    assert changed.size == 1
    i = int(changed[0])
    roots = [lift(b.weights[i], b.means[i], b.cholesky[i]) for b in (first, second)]
    assert float(lifted_distance(*roots)[0]) == pytest.approx(2 * stage.tau, rel=0.03)
    assert table[i].max() <= stage.tau
    assert table[i].max() == pytest.approx(stage.tau, rel=1e-6)


def test_data_sets_that_differ_in_two_rows_are_no_neighbours() -> None:
    stage = endtoend.tiny_stage()
    rows = endtoend.opposite(stage).first
    other = rows.copy()
    other[:2] += 1
    with pytest.raises(InvalidInput, match="one row"):
        endtoend.Instance(stage, rows, other, endtoend.BlockMoments())


def test_pick_one_needs_its_own_noise() -> None:
    """Masking one block with the noise for an average leaks; the average itself does not."""
    stage = LiftedMethod.shaped(31, 20, 20, 20, n_components=1, n_features=1)
    pair = nb.extremes(stage)
    assert strain(Mechanism(stage), pair).move <= 1
    assert strain(Mechanism(with_space(stage, PickOne(stage.eta))), pair).move > 1.5


def test_findings_of_needs_no_luck() -> None:
    """Each guarantee is reported with the construction that strained it most."""
    calm, tense = cores.Strain(0, 0), cores.Strain(1, 0, 0.5, 0.25, 0.75, True)
    found = cores.findings_of("x", [(calm, "a"), (tense, "b")])
    assert [f.measured for f in found] == [1, 0, 0.5, 0.25, 0.75]
    assert all(f.passed for f in found)
    assert found[3].detail.endswith("b")
    broken = dataclasses.replace(tense, flips=2, move=1.1, doubt=1.0)
    assert [f.passed for f in cores.findings_of("x", [(broken, "c")])] == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert isinstance(found[0], Finding)

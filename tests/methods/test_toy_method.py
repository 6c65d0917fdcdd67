"""A new method from its own file alone: every room takes it in, without any other edit."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from privgmm import Mixture, Plan, PrivateGaussianMixture, Release, methods, release
from privgmm.audit import run_audit
from privgmm.cli.main import main
from privgmm.errors import InvalidInput
from privgmm.methods.planner import best_plan, calibrate, plan_for
from privgmm.methods.registry import BUILT_IN
from privgmm.methods.request import PlanRequest
from privgmm.methods.what_if import along_rows, epsilon_for, prospect, rows_for
from privgmm.records.receipt import make_receipt, verify_receipt
from privgmm.stages.agreement.stage import Agreement
from tests.methods.toy import ToyMethod

ROOT = Path(__file__).resolve().parents[2]
TRUTH = Mixture([0.5, 0.5], [[-9.0, 0.0], [9.0, 0.0]], [np.eye(2), np.eye(2)])


@pytest.fixture(autouse=True)
def toy() -> Iterator[ToyMethod]:
    method = ToyMethod()
    methods.register(method)
    yield method
    methods.unregister(method.name)


def asked(n: int) -> PlanRequest:
    return PlanRequest(n_components=2, n_features=2, n_rows=n, epsilon=4.0, method="toy")


def test_it_is_listed_once_and_goes_again(toy: ToyMethod) -> None:
    assert methods.names() == (*BUILT_IN, "toy")
    with pytest.raises(InvalidInput, match="already"):
        methods.register(toy)
    methods.unregister("toy")
    with pytest.raises(InvalidInput, match=r"method must be one of .*, got 'toy'"):
        methods.get("toy")
    methods.register(toy)


def test_it_is_planned_priced_and_read_back() -> None:
    plan = plan_for(asked(60_000)).plan
    assert plan.budget.covers(plan.spent())
    assert plan == best_plan(
        60_000, method="toy", epsilon=4.0, delta=1e-6, n_components=2, n_features=2
    )
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    by_hand = calibrate(
        "toy", epsilon=4.0, delta=1e-6, alpha=1.0, n_components=2, n_features=2, n_blocks=150
    )
    assert by_hand.stage(Agreement).n_blocks == 150
    assert "Method toy: 120 blocks" in plan.explain()


def test_what_if_questions_are_answered() -> None:
    rows = rows_for(asked(1))
    assert 1e3 < rows < 1e6
    assert epsilon_for(asked(int(4 * rows))) < 4.0
    seen = prospect(asked(int(4 * rows)))
    assert seen.pass_probability > 0.9
    chances = [p.pass_probability for p in along_rows(asked(1), [rows / 10, rows, 10 * rows])]
    assert chances == sorted(chances)


def test_it_releases_and_its_receipt_verifies() -> None:
    outcome = release(TRUTH.sample(60_000, rng=1), plan_for(asked(60_000)).plan, rng=1)
    assert isinstance(outcome.result, Release)
    receipt = make_receipt(outcome.result, learner="em")
    assert receipt["plan"]["method"] == "toy"
    assert verify_receipt(receipt).intact


def test_the_estimator_takes_it() -> None:
    model = PrivateGaussianMixture(2, epsilon=4.0, method="toy", random_state=1)
    model.fit(TRUTH.sample(60_000, rng=1))
    assert model.released_
    assert model.plan_ is not None
    assert model.plan_.method == "toy"


def test_the_command_line_lists_and_runs_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["release", "--help"])
    assert left.value.code == 0
    assert "toy" in capsys.readouterr().out
    assert main(["plan", "--k", "2", "--d", "2", "--epsilon", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_needed"]["toy"] > 1e3
    rows = tmp_path / "rows.csv"
    np.savetxt(rows, TRUTH.sample(60_000, rng=1), delimiter=",", header="a,b", comments="")
    order = ["release", str(rows), "--k", "2", "--method", "toy", "--epsilon", "4", "--seed", "1"]
    assert main([*order, "--no-ledger", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["method"] == "toy"


def test_explore_offers_it() -> None:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    assert not app.exception
    assert "Toy" in app.selectbox(key="method").options
    app.selectbox(key="method").set_value("toy").run()
    assert not app.exception
    assert "averages 120 blocks" in app.selectbox(key="method").help.lower()


def test_the_planner_answers_for_it() -> None:
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=120).run()
    app.switch_page("pages/Planner.py").run()
    for _ in range(100):
        if any("Toy" in metric.label for metric in app.metric):
            break
        time.sleep(0.2)
        app.run()
    assert not app.exception
    assert any("Toy" in metric.label for metric in app.metric)


def test_the_audit_attacks_it() -> None:
    report = run_audit(rng=3, only=("toy",))
    assert report.passed
    attacked = [finding.name for finding in report.findings if "toy" in finding.name]
    assert any(name.startswith("mask, toy") for name in attacked)
    assert any(name.startswith("core, toy") for name in attacked)

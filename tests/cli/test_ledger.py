"""The ledger at the command line: releases are written down, added up, capped and exported."""

from __future__ import annotations

import csv
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privgmm.budget import Budget
from privgmm.data.fingerprint import file_fingerprint
from privgmm.ledger.sqlite import SQLiteBook
from privgmm.methods.plan import Plan
from privgmm.privacy.composition import total
from privgmm.records.receipt import verify_receipt
from privgmm.stages.agreement.stage import DISAGREEMENT

ORDER = ["--k", "1", "--epsilon", "4", "--delta", "1e-5", "--mask-accuracy", "2", "--blocks", "60"]
ORDER += ["--method", "lifted"]
BOTH = ["--columns", "u,v"]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write two columns of numbers, and which person each row belongs to: two rows per person."""
    path = tmp_path_factory.mktemp("people") / "people.csv"
    rows = np.random.default_rng(0).normal(size=(12_000, 2))
    lines = ["u,v,name", *(f"{u!r},{v!r},p{i // 2}" for i, (u, v) in enumerate(rows.tolist()))]
    path.write_text("\n".join(lines))
    return path


def test_before_the_first_release_there_is_nothing(run: Any, ledger: Path, people: Path) -> None:
    assert run("ledger", "--json").json() == {"ledger": str(ledger), "data_sets": []}
    assert "nothing was spent" in run("ledger", people).out
    assert not ledger.exists(), "to look is not to make"
    assert run("ledger", "--ledger", ledger).code == 2


def test_a_release_is_in_the_ledger_and_the_receipt_names_it(
    run: Any, ledger: Path, people: Path, tmp_path: Path
) -> None:
    out = tmp_path / "receipt.json"
    done = run("release", people, *ORDER, *BOTH, "--out", out, "--json")
    assert done.code == 0, done.err
    (spend,) = SQLiteBook(ledger).export()
    assert (spend["released"], spend["seeded"], spend["unit"]) == (True, False, "row")
    assert spend["label"] == "people.csv"
    receipt = json.loads(out.read_bytes())
    assert verify_receipt(out.read_bytes())
    assert receipt["ledger"] == {"entry": spend["number"], "mark": spend["mark"]}
    assert receipt["learner"] == "em"
    told = done.json()["ledger"]
    assert told["entry"] == spend["number"]
    assert told["data_set"]["total"] == {"epsilon": spend["epsilon"], "delta": spend["delta"]}
    # other columns of the same file are the same people
    assert run("release", people, *ORDER, "--columns", "v", "--seed", 1).code == 0
    (standing,) = run("ledger", people, "--json").json()["data_sets"]
    assert standing["spends"] == 2
    assert [entry["seeded"] for entry in standing["entries"]] == [False, True]
    plans = [Plan.from_dict(json.loads(text)) for text in stored_plans(ledger)]
    joint = total([plan.price() for plan in plans])
    assert standing["total"] == joint.to_dict()
    assert joint.epsilon < sum(entry["epsilon"] for entry in standing["entries"])
    words = run("ledger").out
    assert "2 spends, together" in words
    assert "seeded (a demonstration)" in words


def stored_plans(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [text for (text,) in database.execute("SELECT plan FROM spends ORDER BY number")]


def test_a_refusal_is_in_the_ledger_with_its_reason(run: Any, ledger: Path, tmp_path: Path) -> None:
    scattered = np.random.default_rng(0).standard_cauchy((9_000, 1)) ** 5
    np.savetxt(tmp_path / "wild.csv", scattered, header="x", comments="")
    done = run("release", tmp_path / "wild.csv", *ORDER)
    assert done.code == 3
    (spend,) = SQLiteBook(ledger).export()
    assert spend["released"] is False
    assert spend["reason"] == DISAGREEMENT
    assert f"refused: the budget is spent although nothing is published. {DISAGREEMENT}" in (
        run("ledger").out
    )
    assert json.loads(done.out)["ledger"]["mark"] == spend["mark"]


def test_a_cap_stops_releases_and_nothing_is_spent_beyond(
    run: Any, ledger: Path, people: Path, tmp_path: Path
) -> None:
    cap = ("--cap-epsilon", "4.5", "--cap-delta", "1.2e-5")
    (before,) = run("ledger", people, *cap, "--json").json()["data_sets"]
    assert before["cap"] == before["remaining"] == {"epsilon": 4.5, "delta": 1.2e-5}
    assert before["total"] is None
    done = 0
    while (result := run("release", people, *ORDER, *BOTH, "--seed", done)).code == 0:
        done += 1
        assert done < 50
    assert done >= 1
    assert result.code == 2
    assert "beyond what its cap" in result.err
    assert result.out == ""
    (after,) = run("ledger", people, "--json").json()["data_sets"]
    assert (after["spends"], after["more_like_the_last"]) == (done, 0)
    assert Budget(4.5, 1.2e-5).covers(Budget.from_dict(after["total"]))
    # nothing is left behind where the receipt would have been
    out = tmp_path / "receipt.json"
    assert run("release", people, *ORDER, *BOTH, "--out", out).code == 2
    assert not out.exists()
    assert not list(tmp_path.glob(".privgmm-*"))
    # the cap stays, and its account is that of the file
    assert "cannot replace" in run("ledger", people, "--cap-epsilon", 9, "--cap-delta", 0.1).err
    kept = SQLiteBook(ledger).find(file_fingerprint(people))
    assert kept is not None
    assert kept.cap == Budget(4.5, 1.2e-5)
    # another account has no cap
    assert run("release", people, *ORDER, *BOTH, "--dataset", "others").code == 0
    assert [d["label"] for d in run("ledger", "--json").json()["data_sets"]] == [
        "people.csv",
        "others",
    ]
    (others,) = run("ledger", "--dataset", "others", "--json").json()["data_sets"]
    assert others["spends"] == 1
    assert "0 more like the last fit" in run("ledger", people).out


def test_a_late_cap_is_said_to_be_late(run: Any, ledger: Path, people: Path) -> None:
    assert run("release", people, *ORDER, *BOTH).code == 0
    late = run("ledger", people, "--cap-epsilon", 40, "--cap-delta", 1e-3)
    assert late.code == 0
    assert "before this cap" in late.err
    assert "more like the last fit; any release up to" in late.out


def test_persons(run: Any, ledger: Path, people: Path, tmp_path: Path) -> None:
    cap = ("--cap-epsilon", 40, "--cap-delta", 1e-3, "--cap-unit", "person")
    assert run("ledger", people, *cap).code == 0
    forbidden = run("release", people, *ORDER, *BOTH)
    assert forbidden.code == 2
    assert "groups" in forbidden.err
    done = run("release", people, *ORDER, "--groups", "name", "--out", tmp_path / "r.json")
    assert done.code == 0, done.err
    assert "for a person" in done.out
    receipt = json.loads((tmp_path / "r.json").read_text())
    assert receipt["neighbours"]["unit"] == "person"
    assert "all rows of one person" in receipt["guarantee"]["words"]
    assert len(receipt["mixture"]["means"][0]) == 2, "who is not fitted"
    (standing,) = run("ledger", people, "--json").json()["data_sets"]
    assert (standing["unit"], standing["spends"]) == ("person", 1)


def test_no_ledger(run: Any, ledger: Path, people: Path) -> None:
    done = run("release", people, *ORDER, *BOTH, "--no-ledger")
    assert done.code == 0
    assert "in no ledger" in done.err
    assert done.json()["ledger"] is None
    assert not ledger.exists()


def test_export(run: Any, ledger: Path, people: Path, tmp_path: Path) -> None:
    for seed in range(2):
        assert run("release", people, *ORDER, *BOTH, "--seed", seed).code == 0
    assert run("release", people, *ORDER, *BOTH, "--dataset", "others").code == 0
    table, document = tmp_path / "spends.csv", tmp_path / "spends.json"
    assert run("ledger", "--export", table).code == 0
    with table.open(encoding="utf-8", newline="") as file:
        read = list(csv.DictReader(file))
    assert [row["mark"] for row in read] == [row["mark"] for row in SQLiteBook(ledger).export()]
    answer = run("ledger", people, "--export", document, "--json").json()
    assert json.loads(document.read_text()) == answer
    assert len(answer["data_sets"]) == 1
    assert "exists" in run("ledger", "--export", table).err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--cap-epsilon", "1"],
        ["--cap-delta", "1e-6"],
        ["--cap-unit", "person"],
        ["--cap-epsilon", "1", "--cap-delta", "1e-6"],
        ["--dataset", "people", "--cap-epsilon", "-1", "--cap-delta", "1e-6"],
        ["--dataset", "people", "--cap-epsilon", "nan", "--cap-delta", "1e-6"],
        ["--dataset", ""],
        ["--dataset", "x", "old_faithful"],
        ["missing.csv"],
        ["--export", "spends.txt"],
        ["--ledger", "a\0b"],
        ["--ledger", "/"],
        ["--ledger", "/dev/full"],
        [
            "--dataset",
            "x",
            "--ledger",
            "/no/such/folder/x",
            "--cap-epsilon",
            "1",
            "--cap-delta",
            ".1",
        ],
    ],
)
def test_bad_options(run: Any, ledger: Path, wrong: list[str]) -> None:
    done = run("ledger", *wrong)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("privgmm: ")
    assert done.err.count("\n") == 1
    assert not ledger.exists()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--no-ledger", "--ledger", "x"],
        ["--no-ledger", "--dataset", "x"],
        ["--dataset", ""],
        ["--ledger", "/no/such/folder/x"],
        ["--groups", "missing"],
        ["--groups", "u", "--columns", "u,v"],
        ["--learner", "oracle"],
    ],
)
def test_bad_options_of_a_release(run: Any, ledger: Path, people: Path, wrong: list[str]) -> None:
    done = run("release", people, *ORDER, *wrong)
    assert done.code == 2
    assert done.err.startswith("privgmm: ")
    assert not ledger.exists()


def test_groups_of_any_kind(run: Any, ledger: Path, tmp_path: Path) -> None:
    """A numeric column of persons is left out too; gaps in it are refused."""
    rows = np.random.default_rng(1).normal(size=(12_000, 1))
    table = np.column_stack([np.arange(12_000) // 2, rows])
    path = tmp_path / "numbered.csv"
    np.savetxt(path, table, delimiter=",", header="who,x", comments="")
    done = run("release", path, *ORDER, "--groups", "who")
    assert done.code == 0, done.err
    assert len(done.json()["mixture"]["means"][0]) == 1
    path.write_text("who,x\na,1\n,2\n")
    assert "missing" in run("release", path, *ORDER, "--groups", "who").err
    path.write_text("who\n1\n2\n")
    assert "left" in run("release", path, *ORDER, "--groups", "who").err
    assert "file" in run("release", "old_faithful", *ORDER, "--groups", "eruptions").err
    # two rows per person: too few persons for this number of blocks
    few = run(
        "release", tmp_path / "numbered.csv", "--k", 1, "--mask-accuracy", 1, "--blocks", 9999
    )
    assert few.code == 2


def test_columns_of_a_sample(run: Any, ledger: Path) -> None:
    assert "distinct" in run("release", "old_faithful", "--k", 1, "--columns", "nothing").err
    done = run("release", "well_separated_2d", *ORDER, "--columns", "x2", "--seed", 0)
    assert done.code == 0, done.err
    (standing,) = run("ledger", "well_separated_2d", "--json").json()["data_sets"]
    assert standing["label"] == "well_separated_2d"

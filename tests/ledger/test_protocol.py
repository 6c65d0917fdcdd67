"""One contract for every ledger and every book: the same relations hold wherever they are kept."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from privgmm.budget import Budget, Unit
from privgmm.data.fingerprint import content_fingerprint
from privgmm.errors import BudgetExceeded, InvalidInput, PrivGMMError
from privgmm.ledger.history import History, write_csv
from privgmm.ledger.memory import MemoryBook, MemoryLedger
from privgmm.ledger.protocol import Book, Intent, Ledger
from privgmm.ledger.sqlite import SQLiteBook, SQLiteLedger
from privgmm.privacy.composition import Measure, added, total
from privgmm.releases import Refusal, release
from tests.ledger.ledger_children import PLAN, ROWS

SPEND = PLAN.price()


class MakesLedgers(Protocol):
    def __call__(self, cap: Budget | None = None, *, cap_unit: Unit = "row") -> Ledger: ...


LEDGERS: dict[str, Callable[[Path], MakesLedgers]] = {
    "memory": lambda _: MemoryLedger,
    "sqlite": lambda path: lambda cap=None, **more: SQLiteLedger(path, "people", cap=cap, **more),
    "in a memory book": lambda _: (
        lambda cap=None, **more: MemoryBook().open("people", cap=cap, **more)
    ),
    "in a sqlite book": lambda path: (
        lambda cap=None, **more: SQLiteBook(path).open("people", cap=cap, **more)
    ),
}
BOOKS: dict[str, Callable[[Path], Book]] = {"memory": lambda _: MemoryBook(), "sqlite": SQLiteBook}


@pytest.fixture(params=LEDGERS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> MakesLedgers:
    return LEDGERS[request.param](tmp_path / "spends.db")


@pytest.fixture(params=BOOKS)
def book(request: pytest.FixtureRequest, tmp_path: Path) -> Book:
    return BOOKS[request.param](tmp_path / "spends.db")


def fitting(cap: Budget) -> int:
    """Count the spends of the plan that fit, by the account alone."""
    measure = Measure.choose(cap, SPEND)
    return next(n for n in itertools.count() if not measure.admits([SPEND] * (n + 1)))


# ---------------------------------------------------------------------------------- ledgers


def test_an_intent_is_a_spend_until_it_is_concluded(make: MakesLedgers) -> None:
    ledger = make()
    assert (ledger.entries, ledger.spends(), ledger.export()) == ((), [], [])
    assert ledger.total() is None
    first = ledger.intend(PLAN, seeded=True)
    second = ledger.intend(PLAN, seeded=False)
    assert [entry.released for entry in ledger.entries] == [None, None]
    first.conclude(released=False, reason="The noise was large.")
    assert [entry.number for entry in ledger.entries] == [first.number, second.number]
    assert [entry.released for entry in ledger.entries] == [False, None]
    assert [entry.reason for entry in ledger.entries] == ["The noise was large.", None]
    assert [entry.verdict for entry in ledger.entries] == ["refused", "unfinished"]
    assert [entry.seeded for entry in ledger.entries] == [True, False]
    assert all(entry.method == PLAN.method for entry in ledger.entries)
    assert all(entry.spend == SPEND for entry in ledger.entries)
    assert all(entry.budget == PLAN.spent() for entry in ledger.entries)


@pytest.mark.parametrize("released", [False, True])
def test_an_intent_is_concluded_once(make: MakesLedgers, released: bool) -> None:
    ledger = make()
    intent, other = ledger.intend(PLAN, seeded=False), ledger.intend(PLAN, seeded=False)
    intent.conclude(released=released)
    before = ledger.entries
    word = "released" if released else "refused"
    for again in (True, False):
        with pytest.raises(PrivGMMError, match=f"spend 1 was concluded already, as {word}"):
            intent.conclude(released=again)
    assert ledger.entries == before
    other.conclude(released=True)
    assert ledger.entries[1].released is True


def test_only_a_refusal_has_a_reason(make: MakesLedgers) -> None:
    ledger = make()
    intent, other = ledger.intend(PLAN, seeded=False), ledger.intend(PLAN, seeded=False)
    with pytest.raises(InvalidInput, match="reason must be left out of a release"):
        intent.conclude(released=True, reason="None was needed")
    assert [entry.released for entry in ledger.entries] == [None, None]
    intent.conclude(released=True)
    # a ledger's caller need not know why
    other.conclude(released=False)
    assert [entry.reason for entry in ledger.entries] == [None, None]
    meaning = ledger.entries[1].meaning
    assert meaning == "refused: the budget is spent although nothing is published"


def test_every_view_is_of_one_history(make: MakesLedgers) -> None:
    ledger = make(Budget(20.0, 1e-4))
    for released in (True, False, None):
        intent = ledger.intend(PLAN, seeded=released is None)
        if released is not None:
            intent.conclude(released=released)
    history = ledger.history()
    assert ledger.cap == history.cap == Budget(20.0, 1e-4)
    assert ledger.entries == history.entries
    assert ledger.spends() == history.spends == [SPEND] * 3
    assert ledger.standing() == history.standing()
    assert ledger.total() == history.total() == ledger.standing().total
    assert ledger.export() == history.export()
    # what was read does not change any more
    ledger.intend(PLAN, seeded=False)
    assert len(history.entries) == 3
    assert len(ledger.entries) == 4


def test_the_total_is_that_of_the_plans(make: MakesLedgers) -> None:
    capped = make(Budget(20.0, 1e-4))
    for number in range(1, 6):
        capped.intend(PLAN, seeded=False)
        assert capped.total() == total([SPEND] * number, 1e-4)
        assert capped.total(1e-5) == total([SPEND] * number, 1e-5)
    joint = capped.total()
    assert joint is not None
    assert joint.epsilon < 5 * PLAN.spent().epsilon


def test_without_a_cap_the_total_is_at_the_sum_of_the_deltas(make: MakesLedgers) -> None:
    ledger = make()
    for number in range(1, 4):
        ledger.intend(PLAN, seeded=False)
        assert ledger.total() == total([SPEND] * number)
        assert ledger.total(1e-4) == total([SPEND] * number, 1e-4)


@pytest.mark.parametrize(
    "cap", [Budget(1.6, 1e-4), Budget(50.0, 1.5e-6), Budget(1.0, 2e-6)], ids=str
)
def test_the_cap_counts_refusals_and_unfinished_spends(make: MakesLedgers, cap: Budget) -> None:
    ledger = make(cap)
    most = fitting(cap)
    assert most >= 1
    for i in range(most):
        assert ledger.standing().more == (None if i == 0 else most - i)
        intent = ledger.intend(PLAN, seeded=False)
        if i % 2:
            intent.conclude(released=False)
    before = ledger.history()
    with pytest.raises(BudgetExceeded, match="nothing was drawn"):
        ledger.intend(PLAN, seeded=False)
    assert ledger.history() == before
    assert (len(before.entries), ledger.standing().more) == (most, 0)


def test_a_cap_can_be_used_up_exactly(make: MakesLedgers) -> None:
    ledger = make(PLAN.spent())
    assert ledger.standing().remaining == PLAN.spent()
    ledger.intend(PLAN, seeded=False)
    with pytest.raises(BudgetExceeded):
        ledger.intend(PLAN, seeded=False)
    assert ledger.standing().remaining is None
    assert ledger.standing().more == 0


def test_a_total_protects_persons_only_if_every_spend_does(make: MakesLedgers) -> None:
    ledger = make()
    ledger.intend(PLAN, seeded=False, unit="person")
    assert ledger.standing().unit == "person"
    ledger.intend(PLAN, seeded=False)
    assert ledger.standing().unit == "row"
    assert [entry.unit for entry in ledger.entries] == ["person", "row"]


def test_a_cap_for_persons_forbids_releases_for_rows(make: MakesLedgers) -> None:
    ledger = make(Budget(50.0, 1e-3), cap_unit="person")
    ledger.intend(PLAN, seeded=False, unit="person")
    with pytest.raises(BudgetExceeded, match="groups"):
        ledger.intend(PLAN, seeded=False)
    assert ledger.standing().spends == 1
    assert ledger.standing().cap_unit == "person"
    assert ledger.standing().remaining is not None


def test_units_are_known(make: MakesLedgers) -> None:
    with pytest.raises(InvalidInput, match="cap_unit"):
        make(cap_unit="family")  # type: ignore[arg-type]  # the point of the test
    ledger = make()
    with pytest.raises(InvalidInput, match="unit"):
        ledger.intend(PLAN, seeded=False, unit="family")  # type: ignore[arg-type]  # likewise
    assert ledger.entries == ()


def test_marks_are_random_and_find_their_spend(make: MakesLedgers) -> None:
    ledger = make()
    intents: list[Intent] = [ledger.intend(PLAN, seeded=False) for _ in range(4)]
    marks = [intent.mark for intent in intents]
    assert len(set(marks)) == 4
    assert all(re.fullmatch("[0-9a-f]{16}", mark) for mark in marks)
    assert [entry.mark for entry in ledger.entries] == marks
    assert [row["mark"] for row in ledger.export()] == marks


def test_release_speaks_to_it(make: MakesLedgers) -> None:
    ledger = make()
    outcome = release(ROWS, PLAN, ledger=ledger, rng=3)
    scattered = np.random.default_rng(0).standard_cauchy((9000, 1)) ** 5
    refused = release(scattered, PLAN, ledger=ledger, rng=3)
    assert not refused.released
    assert [entry.released for entry in ledger.entries] == [outcome.released, refused.released]
    for entry, result in zip(ledger.entries, (outcome.result, refused.result), strict=True):
        assert (entry.number, entry.mark) == (result.entry, result.mark)
    rows = ledger.export()
    assert rows[1]["epsilon"] == rows[0]["epsilon"]
    assert isinstance(refused.result, Refusal)
    assert [row["reason"] for row in rows] == [None, refused.result.why]
    assert rows[1]["meaning"].startswith("refused: the budget is spent although nothing is")
    assert rows[1]["meaning"].endswith(refused.result.why)


def test_a_ledger_that_cannot_write_the_verdict_keeps_the_result(
    make: MakesLedgers,
) -> None:
    """The spend then keeps the verdict that was written down."""
    ledger = make()

    class Impatient(Ledger):
        """Concludes at once, so that `release` comes too late."""

        def history(self) -> History:
            return ledger.history()

        def intend(self, plan: Any, *, seeded: bool, unit: Unit = "row") -> Intent:
            intent = ledger.intend(plan, seeded=seeded, unit=unit)
            intent.conclude(released=False)
            return intent

    outcome = release(ROWS, PLAN, ledger=Impatient(), rng=3)
    assert outcome.released
    assert outcome.ledger_problem is not None
    assert "was concluded already, as refused" in outcome.ledger_problem
    assert [entry.released for entry in ledger.entries] == [False]


def test_export_and_csv_hold_the_same(make: MakesLedgers) -> None:
    ledger = make()
    for released in (True, False):
        ledger.intend(PLAN, seeded=False).conclude(released=released)
    ledger.intend(PLAN, seeded=True)
    rows = ledger.export()
    assert [row["released"] for row in rows] == [True, False, None]
    assert [row["meaning"].split(":")[0] for row in rows] == ["released", "refused", "unfinished"]
    assert [row["concluded"] is None for row in rows] == [False, False, True]
    assert all(row["intended"] <= row["concluded"] for row in rows[:2])
    stream = io.StringIO(newline="")
    write_csv(rows, stream)
    read = list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))
    for row, line in zip(rows, read, strict=True):
        assert line == {key: "" if value is None else str(value) for key, value in row.items()}
        assert float(line["epsilon"]) == PLAN.spent().epsilon


@pytest.mark.parametrize("cap", [Budget(1.6, 1e-4), Budget(1.0, 2e-6)], ids=["joint", "added"])
def test_threads_cannot_pass_the_cap_together(make: MakesLedgers, cap: Budget) -> None:
    ledger = make(cap)
    most, outcomes = fitting(cap), []
    barrier = threading.Barrier(8)

    def spend() -> None:
        barrier.wait()
        for _ in range(most):
            try:
                outcomes.append(ledger.intend(PLAN, seeded=False).number)
            except BudgetExceeded:
                outcomes.append(0)

    threads = [threading.Thread(target=spend, daemon=True) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = [entry.number for entry in ledger.entries]
    assert len(outcomes) == 8 * most
    assert sorted(number for number in outcomes if number) == numbers
    assert len(numbers) == most


@pytest.mark.parametrize("cap", [None, Budget(6.0, 1e-4), Budget(2.5, 5e-6)], ids=str)
def test_all_ledgers_hold_the_same(cap: Budget | None, tmp_path: Path) -> None:
    """One account for all: the joint one, which for several releases is below the sum."""
    ledgers = [prepare(tmp_path / f"{name}.db")(cap) for name, prepare in LEDGERS.items()]
    for number in range(5):
        for ledger in ledgers:
            intent = ledger.intend(PLAN, seeded=number == 3, unit="person" if number < 2 else "row")
            if number % 2:
                intent.conclude(released=number == 1)
        told = [dataclasses.replace(ledger.standing(), account="") for ledger in ledgers]
        assert told == told[:1] * len(ledgers)
        assert told[0].spends == number + 1
        plain = [[timeless(row) for row in ledger.export()] for ledger in ledgers]
        assert plain == plain[:1] * len(ledgers)
        assert all(ledger.spends() == [SPEND] * (number + 1) for ledger in ledgers)


def timeless(row: dict[str, Any]) -> dict[str, Any]:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", row["intended"])
    return {k: v for k, v in row.items() if k not in ("mark", "account", "intended", "concluded")}


# ------------------------------------------------------------------------------------ books


def test_data_sets_are_apart(book: Book) -> None:
    one, other = book.open("one"), book.open("other", cap=PLAN.spent())
    first = one.intend(PLAN, seeded=False)
    second = other.intend(PLAN, seeded=False)
    with pytest.raises(BudgetExceeded):
        other.intend(PLAN, seeded=False)
    third = one.intend(PLAN, seeded=False)
    third.conclude(released=True)
    assert [entry.number for entry in one.entries] == [first.number, third.number]
    assert [entry.number for entry in other.entries] == [second.number]
    # numbers tell spends of the whole book apart, and which came first
    assert first.number < second.number < third.number
    rows = book.export()
    assert [row["number"] for row in rows] == [first.number, second.number, third.number]
    assert [row["mark"] for row in rows] == [first.mark, second.mark, third.mark]
    assert [row["released"] for row in rows] == [None, None, True]


def test_a_data_set_meets_its_ledger_again(book: Book) -> None:
    one, again = book.open("people"), book.open("people")
    one.intend(PLAN, seeded=False).conclude(released=True)
    again.intend(PLAN, seeded=True)
    assert one.history() == again.history()
    assert [entry.seeded for entry in one.entries] == [False, True]
    assert len(book.standings()) == 1


def test_the_first_cap_stays(book: Book) -> None:
    cap = PLAN.spent()
    book.open("people", cap=cap, label="first")
    careless = book.open("people")
    assert careless.cap == cap
    assert book.open("people", cap=cap).cap == cap
    careless.intend(PLAN, seeded=False)
    with pytest.raises(BudgetExceeded, match="nothing was drawn"):
        careless.intend(PLAN, seeded=False)
    before = book.histories()
    others: list[tuple[Budget, Unit]] = [(Budget(100.0, 1e-3), "row"), (cap, "person")]
    for other, unit in others:
        with pytest.raises(InvalidInput, match=r"already has the cap .* cannot replace"):
            book.open("people", cap=other, cap_unit=unit, label="second")
    assert book.histories() == before


def test_a_cap_set_late_counts_what_was_spent(book: Book) -> None:
    book.open("people").intend(PLAN, seeded=False)
    spent = PLAN.spent()
    capped = book.open("people", cap=Budget(2 * spent.epsilon, 2 * spent.delta))
    capped.intend(PLAN, seeded=False)
    with pytest.raises(BudgetExceeded):
        capped.intend(PLAN, seeded=False)
    # a cap for persons that came after a release for rows can allow nothing more
    book.open("others").intend(PLAN, seeded=False)
    late = book.open("others", cap=Budget(50.0, 1e-3), cap_unit="person")
    assert (late.standing().remaining, late.standing().more) == (None, 0)
    with pytest.raises(BudgetExceeded, match="a release before it protects single rows only"):
        late.intend(PLAN, seeded=False, unit="person")


def test_every_data_set_has_its_standing(book: Book) -> None:
    one = book.open("one", label="first")
    other = book.open("other", cap=Budget(20.0, 1e-4), label="odd\ud800")
    for _ in range(3):
        one.intend(PLAN, seeded=False, unit="person")
    other.intend(PLAN, seeded=True)
    book.open("one", label="renamed")
    found = book.standings()
    assert found == [one.standing(), other.standing()]
    assert [history.standing() for history in book.histories()] == found
    assert [standing.label for standing in found] == ["renamed", "odd?"]
    assert [standing.spends for standing in found] == [3, 1]
    assert [standing.unit for standing in found] == ["person", "row"]
    assert found[0].total == total([SPEND] * 3)
    assert json.loads(json.dumps(found[1].to_dict()))["cap"] == {"epsilon": 20.0, "delta": 1e-4}
    assert [row["label"] for row in book.export()] == ["renamed"] * 3 + ["odd?"]
    accounts = [standing.account for standing in found]
    assert len(set(accounts)) == 2
    assert [row["account"] for row in book.export()] == [accounts[0]] * 3 + [accounts[1]]


def test_to_find_is_not_to_begin(book: Book) -> None:
    ledger = book.open("people", cap=Budget(20.0, 1e-4), label="People")
    ledger.intend(PLAN, seeded=False)
    before = book.histories()
    assert book.find("others") is None
    found = book.find("people")
    assert found is not None
    assert found.history() == ledger.history()
    assert book.histories() == before
    found.intend(PLAN, seeded=False).conclude(released=False)
    assert [entry.released for entry in ledger.entries] == [None, False]


@pytest.mark.parametrize("name", list(BOOKS))
def test_a_book_keeps_no_fingerprint_and_cannot_be_matched(name: str, tmp_path: Path) -> None:
    fingerprint = content_fingerprint(ROWS)
    books = [BOOKS[name](tmp_path / f"{i}.db") for i in range(2)]
    for book in books:
        book.open(fingerprint).intend(PLAN, seeded=False)
    accounts = [book.standings()[0].account for book in books]
    assert all(re.fullmatch("[0-9a-f]{64}", account) for account in accounts)
    assert len({fingerprint, *accounts}) == 3
    assert fingerprint not in json.dumps([book.export() for book in books])


@pytest.mark.parametrize("name", ["", None, 7])
def test_what_stands_for_no_data_set_is_refused(book: Book, name: Any) -> None:
    book.open("people")
    for ask in (book.open, book.find):
        with pytest.raises(InvalidInput, match="fingerprint must be a non-empty string"):
            ask(name)
    assert len(book.histories()) == 1


def test_what_cannot_be_opened_is_not_begun(book: Book) -> None:
    book.open("people")
    with pytest.raises(InvalidInput, match="cap_unit"):
        book.open("others", cap_unit="family")  # type: ignore[arg-type]  # the point of the test
    assert book.find("others") is None


# ------------------------------------------------------------------------------ look-alikes


def test_a_changed_file_is_a_new_account_that_looks_like_the_old_one(book: Book) -> None:
    columns = ["age", "income"]
    old = book.open("bytes", label="people.csv", n_rows=9_000, columns=columns)
    old.intend(PLAN, seeded=False)
    new = book.open("bytes with one changed", label="people.csv", n_rows=9_000, columns=columns)
    assert new.entries == ()
    (found,) = book.look_alikes(new)
    assert found.history.account == old.standing().account
    assert found.likeness == "the same name and the same columns and as many rows and columns"
    assert found.history.account[:12] in str(found)
    assert f"1 spend {PLAN.spent()}" in str(found)
    assert book.look_alikes(book.open("bytes")) == []


@pytest.mark.parametrize(
    ("label", "n_rows", "columns", "likeness"),
    [
        ("people.csv", 5, ["x"], "the same name"),
        ("other.csv", 5, ["income", "age"], "the same columns"),
        ("other.csv", 9_000, ["x1", "x2"], "as many rows and columns"),
        ("other.csv", 9_000, ["age"], None),
        ("other.csv", 9_001, ["age", "height"], None),
        (None, None, None, None),
    ],
)
def test_what_makes_a_likeness(
    book: Book,
    label: str | None,
    n_rows: int | None,
    columns: list[str] | None,
    likeness: str | None,
) -> None:
    old = book.open("old", label="people.csv", n_rows=9_000, columns=["age", "income"])
    new = book.open("new", label=label, n_rows=n_rows, columns=columns)
    assert book.look_alikes(new) == [], "nothing was spent on the old one"
    old.intend(PLAN, seeded=False)
    assert [found.likeness for found in book.look_alikes(new)] == [likeness] * bool(likeness)


def test_default_names_are_no_likeness(book: Book) -> None:
    book.open("old", n_rows=10, columns=["x1", "x2"]).intend(PLAN, seeded=False)
    assert book.look_alikes(book.open("new", n_rows=11, columns=["x1", "x2"])) == []


def test_the_shape_given_last_counts(book: Book) -> None:
    book.open("people", n_rows=10, columns=["a"])
    book.open("people")
    ledger = book.open("people", n_rows=11)
    assert (ledger.history().n_rows, ledger.history().columns) == (11, ("a",))
    with pytest.raises(InvalidInput, match="n_rows"):
        book.open("people", n_rows=-1)


# --------------------------------------------------------------------- totals, and what they say


def test_totals_say_for_which_plans_they_hold(make: MakesLedgers) -> None:
    """The joint account is proved for plans made in advance; added up they hold in any case."""
    free, capped = make(), MemoryLedger(Budget(20.0, 1e-4))
    assert free.standing().total_in_words == "nothing was spent"
    for ledger in (free, capped):
        ledger.intend(PLAN, seeded=False)
        assert ledger.standing().total_in_words == f"1 spend {ledger.total()} for a row"
        for _ in range(9):
            ledger.intend(PLAN, seeded=False)
    standing = free.standing()
    assert standing.added == added([SPEND] * 10)
    assert standing.total is not None
    assert standing.total.epsilon < standing.added.epsilon
    assert standing.total_in_words == (
        f"10 spends, together {standing.total} for a row if all were planned before the first "
        f"result, {standing.added} if some were planned in view of others"
    )
    assert standing.to_dict()["added"] == standing.added.to_dict()
    assert "the cap, if it was set before that, holds in any case" in (
        capped.standing().total_in_words
    )

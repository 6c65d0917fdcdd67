"""The method that chooses a method: the least expected error among those expected to release."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

from privgmm.errors import InvalidInput
from privgmm.methods import registry
from privgmm.methods.method import PASS, Look, Method, Prospect
from privgmm.methods.plan import Plan
from privgmm.methods.request import PlanRequest
from privgmm.stages.form import Form
from privgmm.stages.refinement.noisy_moments import Refinement
from privgmm.stages.stage import Stage

__all__ = ["AutoMethod"]

_WORTH = 0.9
"""An older method must expect less than this share of a newer one's error to be taken."""


class AutoMethod(Method):
    """Ask the methods that forecast their error, and hand the request to the best of them.

    It makes no plans of its own: every plan names the method that made it. Methods that promise an
    alpha instead of forecasting an error (`Method.error_is_promised`) are left out, because the
    two numbers do not mean the same.

    Notes
    -----
    The newest method is asked first. A search for a plan of an older one may take seconds, so it
    is made only if that method's `least_error` is clearly below what the newest expects; an
    advantage within a tenth is less than forecasts can tell. With both alpha and blocks set by
    hand there is nothing to forecast for: then it is the newest method whose plan is expected to
    release, or else the newest that has one.
    """

    name: ClassVar[str] = "auto"
    title: ClassVar[str] = "Auto"
    sentence: ClassVar[str] = "takes the method with the least expected error for so many rows"
    look: ClassVar[Look] = Look("#333333", "solid", 4.0)
    largest_alpha: ClassVar[float] = math.inf
    error_is_promised: ClassVar[bool] = False
    takes_forgiving: ClassVar[bool] = True
    plans_only_for_enough: ClassVar[bool] = True

    @property
    def can_choose_components(self) -> bool:
        """Whether one of the methods that it chooses from can."""
        return any(method.can_choose_components for method in _candidates())

    # ----------------------------------------------------------------------------- planning

    def settled(self, request: PlanRequest) -> PlanRequest:
        """The same request, put to the method that should answer it."""
        self.check(request)
        asked = tuple(_asked(request))
        if request.by_hand or request.n_rows is None:
            return _by_hand(asked)
        best = _best(asked)
        return asked[0] if best is None else next(a for a in asked if a.method == best.method)

    def automatic(self, request: PlanRequest) -> Plan:
        """The automatic plan of the method chosen."""
        asked = self.settled(request)
        return registry.get(asked.method).automatic(asked)

    def calibrated(self, request: PlanRequest, refinement: Refinement | None) -> Plan:
        """The plan by hand of the method chosen."""
        asked = self.settled(request)
        return registry.get(asked.method).calibrated(asked, refinement)

    def read(self, form: Form, n_components: int, n_features: int) -> tuple[Stage, ...]:
        """No plan is of this method."""
        del form, n_components, n_features
        raise InvalidInput(
            f"a plan names the method that made it, one of {', '.join(registry.names())}; "
            f"got {self.name!r}"
        )

    def check(self, request: PlanRequest) -> None:
        """Raise `InvalidInput` if none of the methods can be asked this."""
        if next(_asked(request), None) is None:
            for method in _candidates():
                method.check(_put_to(method, request))
            raise InvalidInput("no method that forecasts its error is registered: name a method")

    # ------------------------------------------------------------------------------ what if

    def feasible(self, request: PlanRequest) -> bool:
        """Whether any of the methods is expected to release."""
        return any(registry.get(a.method).feasible(a) for a in _asked(request))

    def rows_for(self, request: PlanRequest) -> float:
        """The fewest rows that any of the methods takes."""
        self.check(request)
        fewest = math.inf
        for asked in _asked(request):
            method = registry.get(asked.method)
            # quicker than a search: is one row less than what is known to do enough here?
            if math.isinf(fewest) or method.enough(asked.but(n_rows=math.ceil(fewest) - 1)):
                fewest = min(fewest, method.fewest_rows(asked))
        return fewest

    def fewest_rows(self, request: PlanRequest) -> float:
        """The same: the methods' own answers are to the last digit."""
        return self.rows_for(request)

    def least_error(self, request: PlanRequest) -> float:
        """What none of the methods can do better than."""
        return min(registry.get(a.method).least_error(a) for a in _asked(request))

    def alpha_for(self, request: PlanRequest) -> float:
        """The error to expect: what it is left to choose promises no alpha."""
        return self.error_for(request)

    def error_for(self, request: PlanRequest) -> float:
        """The error to expect; infinite if the rows are too few."""
        best = _best(tuple(_asked(request)))
        return math.inf if best is None else best.error

    def prospect(self, request: PlanRequest) -> Prospect:
        """Chance and error of the method chosen, which it names."""
        self.check(request)
        asked = tuple(_asked(request))
        best = _best(asked)
        return registry.get(asked[0].method).prospect(asked[0]) if best is None else best

    def along_rows(
        self, request: PlanRequest, rows: Sequence[float], *, enough: float | None = None
    ) -> tuple[Prospect, ...]:
        """At each number of rows that of the method chosen there."""
        self.check(request)
        first, *others = _asked(request)
        best = list(registry.get(first.method).along_rows(first, rows, enough=enough))
        for asked in others:
            method = registry.get(asked.method)
            wanted = [
                i
                for i, seen in enumerate(best)
                if not _releases(seen)
                or method.least_error(asked.but(n_rows=max(1, int(rows[i])))) < _WORTH * seen.error
            ]
            found = method.along_rows(asked, [rows[i] for i in wanted], enough=enough)
            for i, seen in zip(wanted, found, strict=True):
                best[i] = _better(best[i], seen)
        return tuple(best)

    # -------------------------------------------------------------------------------- audit

    def audited_plans(self, *, thorough: bool) -> tuple[Plan, ...]:
        """None of its own: the methods it chooses among are audited."""
        del thorough
        return ()


def _candidates() -> tuple[Method, ...]:
    """The methods whose errors are forecasts, the newest first."""
    return tuple(m for m in reversed(registry.all_methods()) if not m.error_is_promised)


def _put_to(method: Method, request: PlanRequest) -> PlanRequest:
    """The request as this method takes it; one that always allows for real rows is not asked to."""
    return request.but(method=method.name, forgiving=request.forgiving and method.takes_forgiving)


def _asked(request: PlanRequest) -> Iterator[PlanRequest]:
    """The request as put to each method that can be asked it, the newest first."""
    for method in _candidates():
        asked = _put_to(method, request)
        try:
            method.check(asked)
        except InvalidInput:
            # what was asked for is not known to this method: the others answer
            continue
        yield asked


def _releases(seen: Prospect) -> bool:
    return seen.plan is not None and seen.pass_probability >= PASS


def _better(newer: Prospect, older: Prospect) -> Prospect:
    """Of two methods' prospects the one to take."""
    if not (_releases(newer) and _releases(older)):
        return max(newer, older, key=_releases)
    return older if older.error < _WORTH * newer.error else newer


def _best(requests: Sequence[PlanRequest]) -> Prospect | None:
    """The least expected error among those expected to release; None if none is."""
    best: Prospect | None = None
    for asked in requests:
        method = registry.get(asked.method)
        if best is not None and method.least_error(asked) >= _WORTH * best.error:
            continue
        if not method.feasible(asked):
            continue
        seen = method.prospect(asked)
        if _releases(seen):
            best = seen if best is None else _better(best, seen)
    return best


def _by_hand(requests: Sequence[PlanRequest]) -> PlanRequest:
    """The newest method whose plan is expected to release, or else the newest that has a plan."""
    possible: list[PlanRequest] = []
    for asked in requests:
        try:
            plan = registry.get(asked.method).calibrated(asked, asked.refinement)
        except InvalidInput:
            # this method has no plan with these knobs: the others may
            continue
        possible.append(asked)
        if asked.n_rows is not None and plan.pass_probability(asked.n_rows) >= PASS:
            return asked
    return possible[0] if possible else requests[0]

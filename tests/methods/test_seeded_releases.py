"""Seeded releases are what they were: bit for bit where they were written, nearly so elsewhere."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.methods.seeded_releases import CASES, FILE, machine, record

DERIVED = "/result/plan/gamma"
"""Of picked fits gamma follows from tau since it is no longer stored: the same but for rounding."""

KEPT: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SAME_MACHINE = KEPT["machine"] == machine()


def differences(kept: Any, now: Any, place: str = "") -> list[str]:
    """List where two records differ: in any bit, or on another processor by more than rounding."""
    if isinstance(kept, dict) and isinstance(now, dict):
        found = (
            [f"{place}: {sorted(kept.keys() ^ now.keys())}"] if kept.keys() != now.keys() else []
        )
        return found + [
            line
            for key in kept.keys() & now.keys()
            for line in differences(kept[key], now[key], f"{place}/{key}")
        ]
    if isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        return [
            line
            for i, pair in enumerate(zip(kept, now, strict=True))
            for line in differences(*pair, f"{place}/{i}")
        ]
    if place == DERIVED and math.isclose(kept, now, rel_tol=1e-7):
        return []
    if isinstance(kept, float) and isinstance(now, float) and not SAME_MACHINE:
        alike = math.isclose(kept, now, rel_tol=1e-5, abs_tol=1e-7)
    else:
        alike = kept == now and type(kept) is type(now)
    return [] if alike else [f"{place}: {kept!r} became {now!r}"]


def test_every_kind_of_release_is_written_down() -> None:
    assert KEPT["releases"].keys() == CASES.keys()
    kinds = {(name.split(",")[0], kept["released"]) for name, kept in KEPT["releases"].items()}
    both = {(method, said) for method in ("paper", "tight", "lifted") for said in (True, False)}
    assert both <= kinds


@pytest.mark.parametrize("name", CASES)
def test_the_release_is_the_one_written_down(name: str) -> None:
    now = json.loads(json.dumps(record(CASES[name]())))
    assert differences(KEPT["releases"][name], now) == []


def test_the_comparison_sees_a_single_bit() -> None:
    kept = KEPT["releases"]["lifted, auto"]
    moved = json.loads(json.dumps(kept))
    weights = moved["result"]["mixture"]["weights"]
    weights[0] = math.nextafter(weights[0], 1.0) if SAME_MACHINE else weights[0] + 1e-4
    assert differences(kept, kept) == []
    assert len(differences(kept, moved)) == 1

"""The page on keeping account: its samples run, and what it names exists."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from pathlib import Path
from typing import Any

import privgmm

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "keeping-account.md").read_text()


def test_the_samples_run() -> None:
    first, second, third = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names: dict[str, Any] = {"__name__": "page"}
    said = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(said):
        for sample in (first, second, third):
            exec(compile(sample, "keeping-account.md", "exec"), names)
    assert names["model"].released_
    assert names["chosen"].n_components_ == 2
    assert names["tied"].covariance_type == "tied"
    assert len(names["ledger"].entries) == 2
    assert "1 spend" in said.getvalue()


def test_every_warning_is_explained() -> None:
    for name in ("RepeatedSpend", "ScaledRows", "SeededRelease", "WeakBudget", "PrivacyWarning"):
        assert hasattr(privgmm, name)
        assert f"`{name}`" in TEXT

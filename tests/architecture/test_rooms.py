"""Each room offers its public names, which are loaded when first asked for."""

from __future__ import annotations

import importlib

import pytest

from tests.architecture.sources import PACKAGE

ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.pyi"))


def test_the_rooms_under_the_methods_have_public_names() -> None:
    assert {"data", "distances", "learners", "privacy"} <= set(ROOMS)


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there_and_hides_no_module(room: str) -> None:
    package = importlib.import_module(f"privgmm.{room}")
    modules = {path.stem for path in (PACKAGE / room).iterdir()}
    assert package.__all__
    for name in package.__all__:
        assert name not in modules, "a module of that name would take its place"
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))

"""Contrast, computed from the colours of the theme: WCAG 2.2 asks 4.5 of text and 3 of marks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from privgmm.dashboard.shared.look import COLOURS, ON_ACCENT, TINTS
from privgmm.figures.mixtures import NONPRIVATE, PRIVATE, TRUE

_CONFIG = Path(__file__).resolve().parents[2] / ".streamlit/config.toml"
THEMES = tomllib.loads(_CONFIG.read_text(encoding="utf-8"))["theme"]
TEXT, MARKS = 4.5, 3.0

Colour = tuple[float, float, float]


def _colour(text: str) -> Colour:
    red, green, blue = (int(text[i : i + 2], 16) for i in (1, 3, 5))
    return red, green, blue


def _over(tint: tuple[str, float], ground: Colour) -> Colour:
    hue, share = [float(part) for part in tint[0].split(",")], tint[1]
    red, green, blue = (share * a + (1 - share) * b for a, b in zip(hue, ground, strict=True))
    return red, green, blue


def _luminance(colour: Colour) -> float:
    parts = [value / 255 for value in colour]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: Colour, other: Colour) -> float:
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert _contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    assert _contrast(_colour("#767676"), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_on_every_background(theme: str) -> None:
    config = THEMES[theme]
    plain = [_colour(config[f"{name}ackgroundColor"]) for name in ("b", "secondaryB")]
    grounds = plain + [_over(tint, plain[0]) for tint in TINTS.values()]
    for ground in grounds:
        assert _contrast(_colour(config["textColor"]), ground) >= TEXT
        for name, pair in COLOURS.items():
            assert _contrast(_colour(getattr(pair, theme)), ground) >= TEXT, (name, ground)
    accent = _colour(config["primaryColor"])
    assert _contrast(_colour(getattr(ON_ACCENT, theme)), accent) >= TEXT
    # chosen chips and links have words of the accent colour
    assert min(_contrast(accent, ground) for ground in plain) >= TEXT


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_mixtures_can_be_seen_on_the_page(theme: str) -> None:
    ground = _colour(THEMES[theme]["backgroundColor"])
    for look in (TRUE, NONPRIVATE, PRIVATE):
        assert _contrast(_colour(look.colour), ground) >= MARKS, look.label

"""The look of all pages: colours that can be read in both themes, sizes, focus and motion.

Backgrounds, text and accent come from `.streamlit/config.toml`. The colours here are the ones that
Streamlit mixes itself, too faintly: a test computes the contrast of each on every background.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COLOURS", "LOOK", "ON_ACCENT", "PROJECTOR", "TINTS", "ThemedColour"]


class ThemedColour(NamedTuple):
    """One colour for each theme, as #rrggbb."""

    light: str
    dark: str


COLOURS = {
    "quiet": ThemedColour("#5F5C58", "#BDB9B3"),
    "keyword": ThemedColour("#0B5CAD", "#86BDF3"),
    "string": ThemedColour("#0A6B3D", "#74D09C"),
    "operator": ThemedColour("#964400", "#F2A877"),
}
"""Colours of small text: captions, ticks and notes, and parts of code."""

ON_ACCENT = ThemedColour("#FFFFFF", "#171614")
"""Text on a button of the accent colour."""

TINTS = {
    "open": ("128, 128, 136", 0.12),
    "yes": ("0, 158, 115", 0.13),
    "fair": ("230, 159, 0", 0.17),
    "no": ("150, 110, 110", 0.20),
}
"""Backgrounds of verdicts, with their opacity. Their words differ too, not only their hue."""


def _variables() -> str:
    """Write the colours for the style sheet; Streamlit names the theme by its colour scheme."""
    pairs = {**COLOURS, "on-accent": ON_ACCENT}
    lines = [
        f"--privgmm-{name}: light-dark({pair.light}, {pair.dark});" for name, pair in pairs.items()
    ]
    lines += [f"--privgmm-{name}: rgba({hue}, {share});" for name, (hue, share) in TINTS.items()]
    return "[data-testid='stApp'] { " + " ".join(lines) + " }"


LOOK = (
    "<style>\n"
    + _variables()
    + """
[data-testid="stCaptionContainer"] { color: var(--privgmm-quiet) !important;
  opacity: 1 !important; }
[data-testid="stCaptionContainer"] :is(p, li, strong, em) { color: var(--privgmm-quiet); }
.js-plotly-plot :is(.xtick, .ytick, .xaxislayer-above, .yaxislayer-above, .colorbar) text,
.js-plotly-plot .infolayer .g-xtitle text, .js-plotly-plot .infolayer .g-ytitle text,
.js-plotly-plot .infolayer [class*="title"] text, .js-plotly-plot .annotation text[style*="128"]
  { fill: var(--privgmm-quiet) !important; }
[data-testid^="stBaseButton-primary"]:not(:disabled),
[data-testid^="stBaseButton-primary"]:not(:disabled) *
  { color: var(--privgmm-on-accent) !important; }
[data-testid="stCode"] .token.keyword, [data-testid="stCode"] .token.function,
[data-testid="stCode"] .token.number, [data-testid="stCode"] .token.boolean
  { color: var(--privgmm-keyword) !important; }
[data-testid="stCode"] .token.string { color: var(--privgmm-string) !important; }
[data-testid="stCode"] .token.operator { color: var(--privgmm-operator) !important; }
[data-testid="stCode"] :is(.token.punctuation, .token.comment)
  { color: var(--privgmm-quiet) !important; }
:is(a, button, summary, [role="slider"], [role="radio"], [role="switch"]):focus-visible
  { outline: 2px solid currentColor !important; outline-offset: 2px; }
h2 { font-size: 1.4rem !important; padding: 0.4rem 0 !important; }
@media (prefers-reduced-motion: reduce) { *, *::before, *::after {
  animation-duration: 0.01ms !important; animation-iteration-count: 1 !important;
  transition-duration: 0.01ms !important; scroll-behavior: auto !important; } }
.block-container { padding: 3.7rem 2.5rem 4rem 2.5rem; max-width: 1500px; }
@media (max-width: 1200px) { .block-container { padding-top: 4.1rem; } }
.privgmm-ends { display: flex; justify-content: space-between; font-size: 0.8rem;
  color: var(--privgmm-quiet); margin: -0.9rem 0 0.4rem 0; }
[data-testid="stMetricValue"] { font-size: 1.45rem; }
.st-key-split > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-rail > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-sharing > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-beside > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"],
.st-key-answers > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
  { flex-wrap: wrap; }
.st-key-answers > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: max(8rem, 40%); }
.st-key-split > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: min(100%, 15rem); }
.st-key-beside > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"],
.st-key-sharing > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]
  { min-width: min(100%, 14rem); }
.st-key-rail > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child
  { flex: 1 1 12.5rem; min-width: 12.5rem; }
.st-key-rail > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child
  { flex: 3 1 20rem; min-width: min(100%, 20rem); }
@media (max-width: 1200px) { .block-container:has(.st-key-rail)
  { padding-left: 2rem; padding-right: 2rem; } }
[class*="st-key-hidden-"] { display: none; }
h1 { font-size: 1.75rem !important; line-height: 1.25 !important; padding: 0.2rem 0 !important; }
@media (max-width: 1200px) { h1 { font-size: 1.4rem !important; } }
[data-testid="stSidebarHeader"] { height: 2.6rem; min-height: 2.6rem; }
.st-key-explore > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
  { flex-wrap: nowrap; gap: 1.2rem; }
.st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child
  { flex: 0 0 18.5rem; min-width: 0; width: 18.5rem; }
.st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child
  { flex: 1 1 0; min-width: 0; }
@media (max-width: 1200px) {
  .st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child
    { flex-basis: 15.5rem; width: 15.5rem; }
  .block-container:has(.st-key-explore) { padding-left: 1.2rem; padding-right: 1.2rem; }
  .privgmm-band .cell .note:last-child { display: none; }
  .privgmm-band { column-gap: 0.6rem; padding: 0.5rem 0.6rem; }
  .privgmm-band .cell .note { font-size: 0.8rem; }
}
@media (max-width: 640px) {
  .st-key-explore > [data-testid="stLayoutWrapper"] > [data-testid="stHorizontalBlock"]
    { flex-wrap: wrap; flex-direction: column-reverse; }
  .st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:first-child,
  .st-key-explore > * > [data-testid="stHorizontalBlock"] > [data-testid="stColumn"]:last-child
    { flex: 1 1 auto; width: 100%; }
}
.st-key-knobs [data-testid^="stBaseButton-tertiary"] { font-weight: 600; min-height: 1.9rem;
  padding: 0.1rem 0.2rem; }
.st-key-knobs [class*="st-key-knob_"] { min-width: 5.2rem; }
.st-key-knobs [class*="st-key-knob_"] :is(div, button, button *)
  { justify-content: flex-start !important; }
.st-key-line_k [data-testid="stMarkdownContainer"] p { font-size: 0.9rem; }
@media (max-width: 1200px) { .st-key-chip button { padding: 0.1rem 0.55rem; min-height: 1.8rem; } }
.st-key-knobs [data-testid="stCaptionContainer"],
.st-key-knobs [data-testid="stCaptionContainer"] p { margin: 0; line-height: 1.2; }
.st-key-knobs [class*="st-key-line_"] { flex-wrap: nowrap; }
[class*="st-key-shut-"], [data-testid="stLayoutWrapper"]:has(> [class*="st-key-shut-"])
  { display: none; }
.st-key-settings_rail [data-testid="stSlider"] { margin-bottom: -0.5rem; }
.privgmm-band { display: flex; flex-wrap: wrap; gap: 0.4rem 1.6rem; align-items: center;
  border-radius: 0.5rem; border-left: 0.35rem solid #8a8a94; padding: 0.55rem 0.9rem;
  background: var(--privgmm-open); line-height: 1.3; }
.privgmm-band.yes { border-left-color: #009E73; background: var(--privgmm-yes); }
.privgmm-band.fair { border-left-color: #E69F00; background: var(--privgmm-fair); }
.privgmm-band.no { border-left-color: #9A5A5A; background: var(--privgmm-no); }
.privgmm-band > div:first-child { flex: 0 1 17.5rem; }
.privgmm-band .what { font-size: 1.2rem; font-weight: 700; line-height: 1.2; }
.privgmm-band .number { font-size: 1.25rem; font-weight: 600; }
.privgmm-band .note { font-size: 0.85rem; color: var(--privgmm-quiet); }
.privgmm-band .why { font-size: 0.9rem; flex-basis: 100%; }
.privgmm-band .mark { font-size: 0.85rem; font-weight: 600; }
[data-testid="stDialog"] [data-testid="stErrorCodeBlock"] code { font-size: 0; }
[data-testid="stDialog"] [data-testid="stErrorCodeBlock"] code::after { font-size: 0.9rem;
  content: "make app      (installed: privgmm app)"; }
.privgmm-budget { font-size: 0.88rem; line-height: 1.25; white-space: nowrap; min-width: 9rem; }
@media (min-width: 641px) { .st-key-lead { flex-wrap: nowrap; } }
.privgmm-budget .rail { height: 0.4rem; border-radius: 0.2rem; margin-top: 0.2rem;
  background: var(--privgmm-open); outline: 1px solid rgba(128, 128, 136, 0.5); }
.privgmm-budget .fill { height: 100%; border-radius: 0.2rem; background: #D55E00; }
.privgmm-answer { border-radius: 0.5rem; padding: 0.6rem 1.2rem; margin-top: 0.2rem;
  background: rgba(0, 158, 115, 0.13); font-size: 1.05rem; line-height: 1.45;
  overflow-wrap: anywhere; }
.privgmm-answer i { color: var(--privgmm-quiet); }
.privgmm-links { margin: 0; padding-left: 1.1rem; }
.privgmm-links li { margin: 0.15rem 0; }
.privgmm-lesson { border-left: 0.3rem solid #D55E00; background: rgba(213, 94, 0, 0.10);
  border-radius: 0.5rem; padding: 0.9rem 1.2rem; margin-top: 0.4rem;
  font-size: 1.15rem; line-height: 1.45; overflow-wrap: anywhere; }
.block-container:has(.st-key-lesson) { max-width: 66rem; }
.st-key-lesson { max-width: 44rem; }
.st-key-remedies button { white-space: normal; }
@media (hover: none), (max-width: 640px) { .js-plotly-plot .modebar-container
  { display: none; } }
@media (max-width: 640px) { [data-testid="stTable"] { overflow-x: auto; }
  [data-testid="stTable"] table { min-width: 34rem; } }
@media (max-width: 640px) { .block-container { padding-left: 0.8rem; padding-right: 0.8rem; } }
</style>
"""
)

PROJECTOR = """
<style>
html { font-size: 20px; }
[data-testid="stSidebar"], [data-testid="stExpandSidebarButton"] { display: none !important; }
</style>
"""
"""For a projector: larger type, and no sidebar."""

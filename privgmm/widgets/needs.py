"""Check for the extra that widgets need; imported first, so that the error says what to do."""

import importlib.util

__all__ = ["NEEDED"]

NEEDED = ("plotly", "ipywidgets", "anywidget")
"""What the extra ``notebook`` brings for widgets."""

_MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
if _MISSING:
    raise ImportError(
        f"privgmm.widgets needs {' and '.join(_MISSING)}: pip install 'privgmm[notebook]'"
    )

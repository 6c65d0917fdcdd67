"""Figures that move: frames in the browser, from a start to the very picture that stands still.

The figure itself is how it ends, so that nobody has to watch: it is complete without being played.
Frames hold what changes on the way, and a last frame gives back what the figure had. They are
played by the figure's own button, in the browser, without asking the server.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

__all__ = ["PLAY", "STOP", "appearing", "set_moving"]

PLAY, STOP = "Play", "Stop"
"""What the buttons in the figure are called."""

_MILLISECONDS = 2600
_SLOWEST = 260

Change = Mapping[int, Mapping[str, Any]]
"""What one frame changes: attributes, by the position of the trace."""


def set_moving(figure: go.Figure, changes: Sequence[Change]) -> go.Figure:
    """Give the figure frames, and a button that plays them; nothing if there are none.

    Parameters
    ----------
    figure : Figure
        The picture at the end.
    changes : sequence of mapping
        One for each frame but the last: attributes by the position of their trace. All frames
        change the same attributes of the same traces, so that playing again starts afresh.
    """
    if not changes:
        return figure
    still = {
        place: {name: _value(figure.data[place], name) for name in attributes}
        for place, attributes in changes[0].items()
    }
    # arrays are sent as they are: a million of them need not be checked again
    figure.frames = [
        go.Frame(
            data=[type(figure.data[place])(**values) for place, values in change.items()],
            traces=list(change),
            name=str(number),
        )
        for number, change in enumerate([*changes, still])
    ]
    milliseconds = min(_SLOWEST, _MILLISECONDS / len(changes))
    figure.update_layout(
        updatemenus=[
            {
                "type": "buttons",
                "direction": "right",
                "showactive": False,
                "x": 0,
                "y": 0,
                "xanchor": "left",
                "yanchor": "bottom",
                "buttons": [
                    {"label": PLAY, "method": "animate", "args": [None, _timing(milliseconds)]},
                    {"label": STOP, "method": "animate", "args": [[None], _timing(0)]},
                ],
            }
        ]
    )
    return figure


def _value(trace: Any, name: str) -> Any:
    """An attribute as it is; a trace that is not see-through has no opacity of its own."""
    value = trace[name]
    return 1.0 if value is None and name == "opacity" else value


def _timing(milliseconds: float) -> dict[str, Any]:
    return {
        "frame": {"duration": milliseconds, "redraw": True},
        "transition": {"duration": 0},
        "fromcurrent": False,
        "mode": "immediate",
    }


def appearing(groups: Sequence[Sequence[int]]) -> list[dict[int, dict[str, Any]]]:
    """Changes that let groups of traces appear one after another, beginning with none."""
    return [
        {
            place: {"opacity": float(number < seen)}
            for number, group in enumerate(groups)
            for place in group
        }
        for seen in range(len(groups))
    ]

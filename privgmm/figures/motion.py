"""Let figures move: frames in the browser, which end with the picture that stands still.

The figure itself is how it ends, so it is complete without being played. Frames hold what changes
on the way, and a last frame restores what the figure had. They are played by the figure's own
button, in the browser, without asking the server.

Plotly only: no page framework is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

__all__ = ["PLAY", "STOP", "appearing", "set_moving"]

PLAY, STOP = "Play", "Stop"
"""Labels of the buttons in the figure."""

_MILLISECONDS, _SLOWEST = 2600, 260
"""Milliseconds for all frames, and for one frame at most: a choice of looks."""

FrameChange = Mapping[int, Mapping[str, Any]]
"""What one frame changes: attributes, by the position of the trace."""


def set_moving(figure: go.Figure, changes: Sequence[FrameChange]) -> go.Figure:
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
    """Read an attribute of a trace; an opacity that is not set is 1."""
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
    """List changes that let groups of traces appear one after another, beginning with none."""
    return [
        {
            place: {"opacity": float(number < seen)}
            for number, group in enumerate(groups)
            for place in group
        }
        for seen in range(len(groups))
    ]

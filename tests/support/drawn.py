"""What a figure shows once it is drawn: texts with their places, pixels, and what shapes stand for."""

from itertools import combinations
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import StepPatch
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from numpy.typing import NDArray

_SLACK = 1.5  # pixels by which letters may touch


class Drawn(NamedTuple):
    """Texts that were drawn, with their boxes in pixels from the lower left, and the picture from its top."""

    places: list[tuple[str, Bbox]]
    pixels: NDArray[np.uint8]

    @property
    def texts(self) -> list[str]:
        """The texts, each on one line."""
        return [" ".join(text.split("\n")) for text, _ in self.places]

    def cut_off(self) -> list[str]:
        """Return the texts that do not lie wholly in the picture."""
        height, width = self.pixels.shape[:2]
        return [
            text
            for text, box in self.places
            if min(box.x0, box.y0) < -_SLACK or box.x1 > width + _SLACK or box.y1 > height + _SLACK
        ]

    def overlapping(self) -> list[tuple[str, str]]:
        """Return the pairs of texts that cover each other."""
        return [
            (one, other)
            for (one, a), (other, b) in combinations(self.places, 2)
            if min(a.x1, b.x1) - max(a.x0, b.x0) > _SLACK and min(a.y1, b.y1) - max(a.y0, b.y0) > _SLACK
        ]


class Steps(NamedTuple):
    """A shape of steps: what it stands for, its heights and the edges between them, and where it begins."""

    label: str
    heights: NDArray[Any]
    edges: NDArray[Any]
    base: NDArray[Any]


def drawn(figure: Figure) -> Drawn:
    """Draw a figure at the size it has on a screen."""
    canvas: Any = FigureCanvasAgg(figure)  # its methods have no types
    seen: list[Text] = []
    draw: Any = Text.draw

    def noted(text: Text, renderer: object) -> None:
        seen.append(text)
        draw(text, renderer)

    with mock.patch.object(Text, "draw", noted):
        canvas.draw()
    shown = [text for text in seen if text.get_visible() and text.get_text().strip()]
    places = [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in shown]
    return Drawn(places, np.asarray(canvas.buffer_rgba()))


def steps(axes: Axes) -> list[Steps]:
    """Return the shapes of steps in axes."""
    found = []
    for patch in axes.patches:
        if isinstance(patch, StepPatch):
            data: Any = patch.get_data()
            found.append(
                Steps(str(patch.get_label()), data.values - data.baseline, data.edges, data.baseline)
            )
    return found


def corners(line: Line2D) -> list[tuple[float, float]]:
    """Return the points that a line joins."""
    x, y = (np.asarray(part).tolist() for part in line.get_data())
    return list(zip(x, y, strict=True))

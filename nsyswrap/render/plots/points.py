"""Points on logarithmic axes: those that fall on the same spot are one, the fuller the more there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

_SPOTS_PER_DECADE = 80  # about a pixel each on a screen
_MANY = 2000  # spots that a vector file holds as a picture
_AREA, _FAINTEST, _SINGLE = 9.0, 0.2, 0.6  # of a spot: square points, and how opaque it is


def spots(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the x and y of each spot, and how many of the points it stands for; below 1 is drawn at 1."""
    cells = [np.round(np.log10(np.maximum(part, 1)) * _SPOTS_PER_DECADE).astype(np.int64) for part in (x, y)]
    codes, places = group_keys(*cells)
    at_x, at_y = (10.0 ** (place / _SPOTS_PER_DECADE) for place in places)
    return at_x, at_y, np.bincount(codes, minlength=len(at_x))


def points(axes: Axes, x: NDArray[Any], y: NDArray[Any], color: str, label: str) -> None:
    """Draw a spot for all points that look alike."""
    at_x, at_y, count = spots(x, y)
    most = count.max(initial=1)
    part = np.log(count) / np.log(most) if most > 1 else _SINGLE
    opaque = np.minimum(_FAINTEST + (1 - _FAINTEST) * part, 1)
    rasterized = len(count) > _MANY
    axes.scatter(
        at_x, at_y, _AREA, color=color, label=label, alpha=opaque, linewidths=0, rasterized=rasterized
    )

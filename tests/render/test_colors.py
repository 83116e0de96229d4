"""The colors of plots: every class and direction has one, and color-blind readers can tell them apart."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nsyswrap.analysis.kernel_names import CLASSES
from nsyswrap.capture.schema import ENUMS
from nsyswrap.render import colors as palette

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Linear RGB as seen without red, green or blue cones (Machado, Oliveira and Fernandes, 2009).
SIGHT = {
    "all": np.eye(3),
    "no red": [
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ],
    "no green": [
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.01182, 0.04294, 0.968881),
    ],
    "no blue": [
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.3039),
    ],
}
XYZ = np.array([(0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505)])
WHITE = np.array([0.9505, 1.0, 1.089])
APART = 15  # distance in CIELAB that is visible at a glance, side by side


def seen(color: str, sight: object) -> NDArray[Any]:
    """Return the coordinates of a color in CIELAB."""
    parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(np.array(sight, float) @ linear, 0, 1) / WHITE
    x, y, z = (np.cbrt(part) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize(
    "colors",
    [
        palette.KERNEL_CLASSES,
        {**palette.DIRECTIONS, "memset": palette.MEMSET},
        {"first": palette.FIRST, "repeat": palette.REPEAT},
        {"api": palette.API, "nvtx": palette.NVTX},
    ],
    ids=["classes", "directions", "launches", "host"],
)
def test_colours_stay_apart(colors: dict[str, str], sight: str) -> None:
    for one, other in combinations(colors, 2):
        distance = np.linalg.norm(seen(colors[one], SIGHT[sight]) - seen(colors[other], SIGHT[sight]))
        assert distance > APART, (one, other)


def test_every_class_and_direction_has_its_colour() -> None:
    assert set(palette.KERNEL_CLASSES) == set(CLASSES)
    directions = {label: palette.copy_color(label) for label in ENUMS["copy_kind"][1].values()}
    assert directions["Unified Host-to-Device"] == directions["Host-to-Device"] == directions["Host-to-Array"]
    unknown = palette.copy_color("new in some later nsys")
    assert [label for label, color in directions.items() if color == unknown] == ["Unknown"]
    assert palette.kernel_color("a class of my own") == palette.KERNEL_CLASSES["other"]

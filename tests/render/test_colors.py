"""The colors of pictures: each means one thing, and color-blind readers can tell them apart."""

import re
from importlib import resources
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nsyswrap.analysis.gpu_gaps import CAUSES
from nsyswrap.analysis.kernel_names import CLASSES
from nsyswrap.analysis.names import CLASSES as CALLS
from nsyswrap.analysis.peaks import KINDS
from nsyswrap.analysis.step_budget import OTHER_PROCESS, STATES
from nsyswrap.capture.schema import ENUMS
from nsyswrap.render import colors as palette

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
LIGHTNESS_APART = 10  # of 100
VERDICTS_APART = 10  # which have a sign and a word too


def seen(color: str, sight: object) -> NDArray[Any]:
    """Return the coordinates of a color in CIELAB."""
    parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = XYZ @ np.clip(np.array(sight, float) @ linear, 0, 1) / WHITE
    x, y, z = (np.cbrt(part) if part > 0.008856 else 7.787 * part + 16 / 116 for part in (x, y, z))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


HUES = range(palette.SLOWER)  # of things; verdicts have others
TABLES = (
    {("kernel", name): style for name, style in palette.KERNELS.items()},
    {("copy", name): style for name, style in palette.COPIES.items()},
    {("host", name): style for name, style in {**palette.CAUSES, "call": palette.CALLS["other"]}.items()},
    {("host call", name): style for name, style in palette.OTHERS.items() if name != "profiler overhead"},
    {("step", name): style for name, style in palette.STEPS.items()},
    {("range", name): style for name, style in palette.RANGES.items()},
    {("first launch", ""): palette.LAUNCHES["first"], ("rest", ""): palette.REST},
    {("verdict", name): style for name, style in palette.VERDICTS.items() if name != "no verdict"},
)


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("ground", ["light", "dark"])
def test_hues_stay_apart(ground: str, sight: str) -> None:
    hues = {number: seen(getattr(palette.HUES[number], ground), SIGHT[sight]) for number in HUES}
    near = [pair for pair in combinations(hues, 2) if np.linalg.norm(hues[pair[0]] - hues[pair[1]]) <= APART]
    assert near == []
    verdicts = [
        seen(getattr(palette.HUES[number], ground), SIGHT[sight])
        for number in (palette.SLOWER, palette.FASTER, palette.INK)
    ]
    assert all(np.linalg.norm(one - other) > VERDICTS_APART for one, other in combinations(verdicts, 2))


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_the_kernels_of_most_programs_differ_without_color(ground: str) -> None:
    lightness = [
        seen(getattr(palette.HUES[palette.KERNELS[name].hue], ground), SIGHT["all"])[0]
        for name in ("gemm", "attention", "elementwise")
    ]
    assert min(abs(one - other) for one, other in combinations(lightness, 2)) > LIGHTNESS_APART


def luminance(color: str) -> float:
    parts = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(np.array((0.2126, 0.7152, 0.0722)) @ linear)


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colors by WCAG 2: 1 to 21."""
    least, most = sorted(map(luminance, (one, other)))
    return (most + 0.05) / (least + 0.05)


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_graphics_have_the_contrast_that_wcag_asks_for(ground: str) -> None:
    style = resources.files("nsyswrap.render.page").joinpath("static", "page.css").read_text(encoding="utf-8")
    names = ("ground", "raised", "lane", "chosen")  # what pictures are drawn on
    grounds = [re.findall(rf"--{name}: (#\w+);", style)[ground == "dark"] for name in names]
    faint = {
        (hue, under): ratio
        for hue in (getattr(hue, ground) for hue in palette.HUES)
        for under in grounds
        if (ratio := contrast(hue, under)) < 3
    }
    assert faint == {}


def test_a_style_means_one_thing() -> None:
    meanings: dict[palette.Style, set[object]] = {}
    for table in TABLES:
        for meaning, style in table.items():
            meanings.setdefault(style, set()).add(meaning)
    assert {style: every for style, every in meanings.items() if len(every) > 1} == {}
    assert all(
        palette.CALLS[kind] == palette.CAUSES.get(kind, palette.CALLS["other"]) for kind in palette.CALLS
    )


def test_every_class_direction_call_and_cause_has_its_style() -> None:
    assert set(palette.KERNELS) == {*CLASSES, *KINDS.values(), "graph"}
    assert set(palette.CALLS) == set(CALLS)
    assert set(palette.CAUSES) == {*CAUSES, OTHER_PROCESS}
    directions = {label: palette.copy_color(label) for label in ENUMS["copy_kind"][1].values()}
    assert directions["Host-to-Device"] == directions["Host-to-Array"]
    assert [label for label, style in directions.items() if style == palette.UNKNOWN] == ["Unknown"]
    assert palette.kernel_color("tensor core attention") == palette.KERNELS["attention"]
    assert palette.kernel_color("a class of my own") == palette.UNKNOWN
    assert {palette.state_color(state) for state in STATES} <= {
        *palette.KERNELS.values(),
        *palette.COPIES.values(),
        *palette.CAUSES.values(),
    }

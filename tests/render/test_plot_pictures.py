"""Figures compared with the reviewed pictures in docs/plots, which screenshots.py makes."""

from io import BytesIO
from pathlib import Path

import matplotlib.image as mpl_image
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from numpy.typing import NDArray
from recorded import PICTURED, ROOT, pictured

from nsyswrap.api import open_capture
from nsyswrap.render.plots import NAMES
from nsyswrap.render.plots.figure import content

pytestmark = pytest.mark.slow

PICTURES = ROOT / "docs" / "plots"
_BLOCK = 8  # pixels; smaller than a letter, larger than its anti-aliased edges
_TOLERANCE = 0.15  # difference of block means, where 1 is from black to white


def seen(source: object) -> NDArray[np.float64]:
    """Return the mean color of each block of pixels in a PNG."""
    pixels = mpl_image.imread(source)[..., :3].astype(float)  # type: ignore[arg-type]
    height, width = (side // _BLOCK for side in pixels.shape[:2])
    blocks = pixels[: height * _BLOCK, : width * _BLOCK].reshape(height, _BLOCK, width, _BLOCK, 3)
    return np.asarray(blocks.mean(axis=(1, 3)))


def difference(kind: str, figure: Figure) -> float:
    """Return the largest difference of a block, or 1 if the pictures differ in size."""
    before, now = seen(PICTURES / f"{kind}.png"), seen(BytesIO(content(figure, "png")))
    return float(np.abs(before - now).max()) if before.shape == now.shape else 1.0


@pytest.mark.parametrize("kind", NAMES)
def test_a_figure_is_drawn_as_it_was(kind: str, tmp_path: Path) -> None:
    assert difference(kind, open_capture(pictured(kind, tmp_path)).plot(kind)) < _TOLERANCE, (
        f"look at it, and keep it by `python tests/support/screenshots.py`: {kind}"
    )


@pytest.mark.parametrize("kind", NAMES)
def test_a_lost_title_is_seen(kind: str, tmp_path: Path) -> None:
    figure = open_capture(pictured(kind, tmp_path)).plot(kind)
    max(figure.findobj(Text), key=lambda text: text.get_fontsize()).set_visible(False)
    assert difference(kind, figure) > _TOLERANCE


def test_a_shorter_bar_and_another_colour_are_seen() -> None:
    figure = open_capture(PICTURED).plot("top-kernels")
    bar = next(patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle))
    whole, colour = bar.get_width(), bar.get_facecolor()
    bar.set_width(0.97 * whole)
    assert difference("top-kernels", figure) > _TOLERANCE
    bar.set_width(whole)
    bar.set_facecolor("tab:red")
    assert difference("top-kernels", figure) > _TOLERANCE
    bar.set_facecolor(colour)
    assert difference("top-kernels", figure) < _TOLERANCE

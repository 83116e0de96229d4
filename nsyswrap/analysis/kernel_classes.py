"""The class of each kernel of a capture, by its full name, whatever the view calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import text_codes
from nsyswrap.analysis.kernel_names import classify

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture


def kernel_classes(capture: Capture) -> tuple[NDArray[Any], list[str]]:
    """Return a code per kernel, in row order, and the class of each code, in the classes' order."""
    codes, names = text_codes(capture.columns("kernel", "name")["name"], capture.text)
    of_name = [classify(name, capture.view.classes) for name in names]
    classes = sorted(set(of_name))
    return np.array([classes.index(kind) for kind in of_name], np.int64)[codes], classes

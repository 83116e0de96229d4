"""Process and thread ids out of nsys' global ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT

if TYPE_CHECKING:
    from numpy.typing import NDArray


def process_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the process id inside each global thread or process id."""
    return np.where(global_ids == MISSING, MISSING, global_ids >> PID_SHIFT & ID_MASK)


def thread_ids(global_tids: NDArray[Any]) -> NDArray[Any]:
    """Return the thread id inside each global thread id."""
    return np.where(global_tids == MISSING, MISSING, global_tids & ID_MASK)

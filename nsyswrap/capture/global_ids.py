"""Take machine, process and thread apart in nsys' global ids; their layout is in ``schema``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.base.missing import MISSING
from nsyswrap.capture.schema import ID_MASK, PID_SHIFT, PROCESS_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MACHINE_SHIFT = 48


def process_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the operating system's process id in each global thread or process id."""
    return np.where(global_ids == MISSING, MISSING, global_ids >> PID_SHIFT & ID_MASK)


def thread_ids(global_tids: NDArray[Any]) -> NDArray[Any]:
    """Return the operating system's thread id in each global thread id."""
    return np.where(global_tids == MISSING, MISSING, global_tids & ID_MASK)


def global_process_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return the global process id of each global thread or process id."""
    return np.where(global_ids == MISSING, MISSING, global_ids & PROCESS_MASK)


def machine_ids(global_ids: NDArray[Any]) -> NDArray[Any]:
    """Return an id of the machine for each global id: device ids repeat between machines."""
    return global_ids >> _MACHINE_SHIFT

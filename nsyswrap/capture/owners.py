"""The GPUs and processes that events of a capture belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.capture.schema import EVENTS, ID_MASK, PID_SHIFT

if TYPE_CHECKING:
    from nsyswrap.capture.capture import Capture

_THREADS = ("global_tid", "global_pid")


def check_owners(capture: Capture) -> None:
    """Raise NotInCapture if a selected GPU or process is not in the capture."""
    selection, whole = capture.view.selection, capture.whole
    gpus = set(whole.gpu_names)
    if not gpus.issuperset(selection.devices):
        gpus |= _owners(whole, "device_id")
    _check(capture, "GPU", selection.devices, gpus)
    if selection.processes:
        threads = set[int]().union(*(_owners(whole, field) for field in _THREADS))
        processes = {thread >> PID_SHIFT & ID_MASK for thread in threads}
        _check(capture, "process", selection.processes, processes - {0})  # no program


def _check(capture: Capture, owner: str, wanted: tuple[int, ...], present: set[int]) -> None:
    missing = ", ".join(str(number) for number in wanted if number not in present)
    if missing:
        plural = "GPUs" if owner == "GPU" else "processes"
        names = ", ".join(map(str, sorted(present))) or "none"
        raise NotInCapture(f"no {owner} {missing}", f"{plural}: {names}", source=capture.source)


def _owners(whole: Capture, field: str) -> set[int]:
    """Return the numbers in a field over all kinds of events."""
    kinds = [kind for kind, events in EVENTS.items() if field in events.fields and whole.has(kind)]
    numbers = (set(np.unique(whole.columns(kind, field)[field]).tolist()) for kind in kinds)
    return set[int]().union(*numbers) - {MISSING}

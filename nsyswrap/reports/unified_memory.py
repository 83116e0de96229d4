"""What the reports on unified memory share: migrations, and notes on page faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture


def migrations(capture: Capture, direction: int) -> dict[str, NDArray[Any]]:
    """Return ``address``, ``bytes`` and ``duration_ns`` of the copies that migrated pages one way."""
    copies = capture.columns("memcpy", "start_ns", "end_ns", "bytes", "address", "copy_kind")
    chosen = copies["copy_kind"] == direction
    return {
        "address": copies["address"][chosen],
        "bytes": copies["bytes"][chosen],
        "duration_ns": (copies["end_ns"] - copies["start_ns"])[chosen],
    }


def note_faults(capture: Capture) -> None:
    """Say it where no page fault is in the capture, and where faults of other times are counted."""
    if not (capture.whole.has("um_cpu_fault") or capture.whole.has("um_gpu_fault")):
        capture.note(
            "no page faults in this capture: none happened, or they were not traced "
            "(--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true)"
        )
    note_window(capture)


def note_window(capture: Capture) -> None:
    """Say it where page faults outside the window are counted, as nsys does."""
    selection = capture.view.selection
    if selection.windowed and not selection.clip and capture.whole.has("um_cpu_fault"):
        capture.note(
            "CPU page faults have no end: those outside the window are counted too (not with --clip yes)"
        )

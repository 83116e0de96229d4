"""Read migrations for the reports on unified memory, and note what their captures lack."""

from __future__ import annotations

from typing import Any

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


def migration_notes(capture: Capture) -> tuple[str, ...]:
    """Return the notes on page faults and migrations: those not collected, those outside the window."""
    traced = capture.whole.has("um_cpu_fault") or capture.whole.has("um_gpu_fault")
    text = (
        "no page faults in this capture: none occurred, or they were not traced "
        "(--cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true)"
    )
    return (
        *(() if traced else (text,)),
        *window_notes(capture),
        *capture.notes_on_fields("memcpy", "address"),
    )


def window_notes(capture: Capture) -> tuple[str, ...]:
    """Return a note if page faults outside the window are counted, as nsys does."""
    selection = capture.view.selection
    counted = selection.windowed and not selection.clip and capture.whole.has("um_cpu_fault")
    text = "CPU page faults have no end time, so those outside the window also count (not with --clip yes)"
    return (text,) if counted else ()

"""What events are called and how long they took."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct, group_keys, number_texts, text_codes
from nsyswrap.analysis.nvtx_ranges import kernel_ranges

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

MEMSET_NAME = "[CUDA memset]"


def durations(capture: Capture, kind: str) -> NDArray[Any]:
    """Return end - start of every event, in ns."""
    span = capture.columns(kind, "start_ns", "end_ns")
    return span["end_ns"] - span["start_ns"]  # type: ignore[no-any-return]


def name_codes(capture: Capture, kind: str) -> tuple[NDArray[Any], list[str | None]]:
    """Return a code per event and the name of each code, in the names' order.

    API calls come without their version suffix; kernels are called as the view says: full, base or mangled,
    with or without the NVTX range before it.
    """
    ids = capture.name_ids(kind)
    codes, names = text_codes(
        ids, capture.text if kind != "api" else lambda i: strip_version(capture.text(i))
    )
    if kind == "kernel" and capture.view.nvtx_names:
        return _in_ranges(capture, codes, names)
    return codes, names


def _in_ranges(
    capture: Capture, codes: NDArray[Any], names: Sequence[str | None]
) -> tuple[NDArray[Any], list[str | None]]:
    """Put the innermost NVTX range around its launch before each kernel's name, where both are known."""
    ranges, range_names = kernel_ranges(capture)
    pairs, keys = group_keys(ranges, codes)
    texts = [
        f"{range_names[i]}/{names[code]}" if i >= 0 and names[code] is not None else names[code]
        for i, code in zip(*(key.tolist() for key in keys), strict=True)
    ]
    return number_texts(pairs, texts)


def event_names(capture: Capture, kind: str) -> NDArray[Any]:
    """Return the name of every event, as an array of texts."""
    codes, names = name_codes(capture, kind)
    texts: NDArray[Any] = np.array(names, dtype=object)[codes]
    return texts


def look_up(ids: NDArray[Any], text: Callable[[int], str | None]) -> NDArray[Any]:
    """Return the text behind every id, as an array of texts; each id is asked for once."""
    known, positions = distinct(ids)
    texts: NDArray[Any] = np.array([text(i) for i in known.tolist()], dtype=object)[positions]
    return texts


def shapes(capture: Capture, field: str) -> tuple[NDArray[Any], list[str]]:
    """Return a code per kernel and the ``grid`` or ``block`` of each code, as nsys writes it."""
    sizes = capture.columns("kernel", *(f"{field}_{axis}" for axis in "xyz"))
    codes, keys = group_keys(*sizes.values())
    return codes, [
        " ".join(f"{size:4}" for size in shape) for shape in zip(*(key.tolist() for key in keys), strict=True)
    ]


def copy_name(label: str) -> str:
    """Name copies as nsys does: ``[CUDA memcpy Host-to-Device]``."""
    return f"[CUDA memcpy {label}]"


def strip_version(name: str | None) -> str | None:
    """Cut a version suffix of four digits off an API name, as nsys does: cudaLaunchKernel_v7000."""
    return name[:-6] if name is not None and name[-6:-4] == "_v" else name

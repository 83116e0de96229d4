"""Classify CUDA API calls by their names: launching, synchronizing, allocating, loading, copying.

Names are those of the runtime (``cudaLaunchKernel_v7000``) and of the driver (``cuLaunchKernel``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.codes import Texts
from nsyswrap.analysis.arrays.groups import distinct, order_by_code
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.stream import looked_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture

LAUNCH, SYNCHRONISE, ALLOCATE, LOAD, COPY, OTHER = CLASSES = (
    "launch",
    "synchronise",
    "allocate",
    "load",
    "copy",
    "other",
)
# The first match counts. Loading is the cost of a first use: of contexts, modules, libraries and kernels.
# Queries about a kernel, which the runtime makes before each launch, load nothing.
_PATTERNS = {
    LAUNCH: "cu(da)?(Launch(?!HostFunc)|GraphLaunch)",
    SYNCHRONISE: "cu(da)?(Device|Stream|Event|Ctx|Thread)Synchronize",
    LOAD: "cu(da)?(Module(?!GetLoadingMode)|Library|Link|KernelGetFunction|Func(Load|GetAttributes)|Init"
    "|Ctx(Create|Destroy)|DevicePrimaryCtxRe(tain|lease|set)|(Set|Init)Device|DeviceReset)",
    ALLOCATE: "cu(da)?(Malloc|Free|Host(Alloc|Register|Unregister)"
    "|Mem(Alloc|Free|Host|Create|Release|Map|Unmap|Address|SetAccess|Pool)"
    "|(Mipmapped)?Array(3D)?(Create|Destroy))",
    COPY: "cu(da)?(Memcpy|Memset|MemPrefetch)",
}


def classify(name: str | None) -> str:
    """Return the one of CLASSES that a call with this name belongs to."""
    return next((kind for kind, pattern in _PATTERNS.items() if re.match(pattern, name or "")), OTHER)


@per_capture
def call_names(capture: Capture, kind: str = "api") -> Texts:
    """Return the names of the calls, with their version suffix."""
    if capture.view.selection.narrows:
        every = call_names(capture.whole, kind)
        return Texts(every.codes[capture.columns(kind, "row")["row"] - 1], every.texts)
    ids, positions = distinct(capture.name_ids(kind))
    return Texts(positions, [capture.text(i) for i in ids.tolist()])


@per_capture
def call_classes(capture: Capture) -> NDArray[Any]:
    """Return the number in CLASSES of each API call."""
    names = call_names(capture)
    known = np.array([CLASSES.index(classify(name)) for name in names.texts], np.int8)
    classes: NDArray[Any] = looked_up(known, names.codes)
    return classes


def with_name(capture: Capture, pattern: re.Pattern[str], kind: str = "api") -> NDArray[Any]:
    """Mark the calls whose name, version suffix included, matches the pattern."""
    names = call_names(capture, kind)
    marks: NDArray[Any] = np.array([bool(pattern.match(name or "")) for name in names.texts], bool)
    return looked_up(marks, names.codes)


@per_capture
def by_thread(whole: Capture, kind: str = "api") -> Mapping[int, NDArray[np.int32]]:
    """Return the positions of the calls of each thread by start; ``kind`` is that of the calls."""
    calls = whole.columns(kind, "global_tid", "start_ns")
    threads, codes = distinct(calls["global_tid"])
    if (calls["start_ns"][1:] >= calls["start_ns"][:-1]).all():  # as nsys mostly writes them
        rows = order_by_code(codes, len(threads)).astype(np.int32)
    else:
        by_start = np.argsort(calls["start_ns"], kind="stable").astype(np.int32)
        rows = by_start[order_by_code(codes[by_start], len(threads))]
    ends = np.cumsum(np.bincount(codes, minlength=len(threads)))
    return dict(zip(threads.tolist(), np.split(rows, ends[:-1]), strict=False))


def calls_named(capture: Capture, pattern: re.Pattern[str], kind: str = "api") -> NDArray[Any]:
    """Return the rows of the calls whose name, version suffix included, matches the pattern.

    ``kind`` is that of the calls: ``api`` for CUDA, ``osrt`` for the OS.
    """
    return np.flatnonzero(with_name(capture, pattern, kind))

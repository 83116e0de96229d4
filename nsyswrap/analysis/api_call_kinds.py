"""Classify CUDA API calls by their names: launching, synchronizing, allocating, loading, copying.

Names are those of the runtime (``cudaLaunchKernel_v7000``) and of the driver (``cuLaunchKernel``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.arrays.groups import distinct

if TYPE_CHECKING:
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


def call_classes(capture: Capture) -> NDArray[Any]:
    """Return the number in CLASSES of each API call."""
    ids, positions = distinct(capture.name_ids("api"))
    known = np.array([CLASSES.index(classify(capture.text(i))) for i in ids.tolist()], np.int64)
    classes: NDArray[Any] = known[positions]
    return classes


def calls_named(capture: Capture, pattern: re.Pattern[str], kind: str = "api") -> NDArray[Any]:
    """Return the rows of the calls whose name, version suffix included, matches the pattern.

    ``kind`` is that of the calls: ``api`` for CUDA, ``osrt`` for the OS.
    """
    ids = capture.name_ids(kind)
    matching = [i for i in np.unique(ids).tolist() if pattern.match(capture.text(i) or "")]
    return np.flatnonzero(np.isin(ids, matching))

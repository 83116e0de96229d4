"""What CUDA API calls are there for, by their names: launching, waiting, allocating, loading, copying.

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
# The first that fits. Loading is all that a first use costs: contexts, modules, libraries, kernels; what only
# asks about a kernel, as the runtime does before each launch, costs nothing of the kind.
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
    """Return which of CLASSES the call of this name belongs to."""
    return next((kind for kind, pattern in _PATTERNS.items() if re.match(pattern, name or "")), OTHER)


def call_classes(capture: Capture) -> NDArray[Any]:
    """Return, for each API call, the number in CLASSES of what it is there for."""
    ids, positions = distinct(capture.name_ids("api"))
    known = np.array([CLASSES.index(classify(capture.text(i))) for i in ids.tolist()], np.int64)
    classes: NDArray[Any] = known[positions]
    return classes


def calls_named(capture: Capture, pattern: re.Pattern[str]) -> NDArray[Any]:
    """Return the rows of the API calls whose name, its version suffix included, fits the pattern."""
    ids = capture.name_ids("api")
    fitting = [i for i in np.unique(ids).tolist() if pattern.match(capture.text(i) or "")]
    return np.flatnonzero(np.isin(ids, fitting))

"""What the kernels of a capture compute with, by their full names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nsyswrap.analysis.kernel_names.arithmetic import Arithmetic, arithmetic
from nsyswrap.analysis.names import numbered_names
from nsyswrap.capture.per_capture import per_capture

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.capture.capture import Capture


@per_capture
def kernel_arithmetic(capture: Capture) -> tuple[NDArray[Any], list[Arithmetic]]:
    """Return one code per kernel, and what the name of each code says about its arithmetic."""
    ids, codes = numbered_names(capture.viewed(names="full"), "kernel")
    return codes, [arithmetic(capture.text(i) or "") for i in ids.tolist()]

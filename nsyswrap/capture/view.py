"""How a capture is read: what kernels are called, whose rounding is used, which part of it is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nsyswrap.capture.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from nsyswrap.base.units import Rounding


KernelNames = Literal["full", "base", "mangled"]


@dataclass(frozen=True)
class View:
    """How a capture is read: kernel names, the era whose rounding and names are printed, what is selected.

    ``nvtx_names`` puts the innermost NVTX range around its launch before a kernel's name. ``classes`` are
    rules for the class of a kernel, name and pattern, tried before the built-in ones.
    """

    names: KernelNames = "full"
    nvtx_names: bool = False
    classes: tuple[tuple[str, str], ...] = ()
    rounding: Rounding = "2025"
    selection: Selection = EVERYTHING

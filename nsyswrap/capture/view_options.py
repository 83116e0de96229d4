"""How a capture is read: what ``Capture.viewed`` can change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nsyswrap.base.lazy import lazy_imports
from nsyswrap.capture.selection import EVERYTHING, Selection

if TYPE_CHECKING:
    from nsyswrap.base.units import Rounding
    from nsyswrap.capture.export import Export

with lazy_imports():
    from nsyswrap.capture import shown

KernelNames = Literal["full", "base", "mangled"]

NAME_FIELDS = {"full": "name", "base": "base_name", "mangled": "mangled_name"}


@dataclass(frozen=True)
class ViewOptions:
    """How a capture is read: the form of kernel names, the era of nsys to follow, and the selection.

    ``nvtx_names`` puts the innermost NVTX range around the launch before a kernel's name.
    ``classes`` are pairs of kernel class and pattern, tried before the built-in rules. ``steps`` says which
    steps the steady part has, as ``NAME``, ``10-13`` or ``NAME/10-13``; empty means that they are looked for.
    ``shared``: texts are read as others may see them, without credentials and names of people.
    """

    names: KernelNames = "full"
    nvtx_names: bool = False
    classes: tuple[tuple[str, str], ...] = ()
    rounding: Rounding = "2025"
    selection: Selection = EVERYTHING
    steps: str = ""
    shared: bool = False


def read_in(view: ViewOptions, export: Export) -> Export:
    """Return what a view reads: the export, or its texts as others may see them."""
    return shown.shown_export(export) if view.shared else export

"""nsyswrap: run programs under NVIDIA Nsight Systems and read what the GPU did.

``profile(command)`` runs a program. ``open_capture(path)`` opens an export, ``compare(base, new)`` compares
runs. ``measure(name)`` times a part of a program, so that the export can be compared with it. Each name is
imported when it is first used.
"""

from __future__ import annotations

import importlib
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsyswrap.api import CaptureReader, Run, compare, open_capture, profile
    from nsyswrap.record.in_program.measure import measure
    from nsyswrap.reports import NAMES as REPORTS

    Capture = CaptureReader  # deprecated
    __version__: str

__all__ = [
    "REPORTS",
    "Capture",
    "CaptureReader",
    "Run",
    "__version__",
    "compare",
    "measure",
    "open_capture",
    "profile",
]

_HOMES = {
    "REPORTS": ("nsyswrap.reports", "NAMES"),
    "CaptureReader": ("nsyswrap.api", "CaptureReader"),
    "Run": ("nsyswrap.api", "Run"),
    "measure": ("nsyswrap.record.in_program.measure", "measure"),
    "compare": ("nsyswrap.api", "compare"),
    "open_capture": ("nsyswrap.api", "open_capture"),
    "profile": ("nsyswrap.api", "profile"),
    "__version__": ("nsyswrap.base.version", "__version__"),
}
_RENAMED = {"Capture": "CaptureReader"}  # deprecated in 0.4.0


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        warnings.warn(f"nsyswrap.{name} is now nsyswrap.{_RENAMED[name]}", DeprecationWarning, stacklevel=2)
        name = _RENAMED[name]
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value: object = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

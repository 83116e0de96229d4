"""The Python interface: runs, captures and tables. No other part joins recording and reading.

``nsyswrap.api.runs`` records. ``nsyswrap.api.captures`` reads. Each is imported when it is first used: numpy
and the schema of an export are not needed before the program has run, and pytest needs neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.lazy import lazy_imports

if TYPE_CHECKING:
    from nsyswrap.api.captures import CaptureReader, NotebookComparison, NotebookTable, compare, open_capture
    from nsyswrap.api.runs import Run, profile, run, run_planned

with lazy_imports():
    from nsyswrap.api import captures as _captures
    from nsyswrap.api import runs as _runs

__all__ = [
    "CaptureReader",
    "NotebookComparison",
    "NotebookTable",
    "Run",
    "compare",
    "open_capture",
    "profile",
    "run",
    "run_planned",
]
_RECORDING = ("Run", "profile", "run", "run_planned")


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(_runs if name in _RECORDING else _captures, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What nsyswrap runs inside the user's program: it marks steps and modules, and records some steps alone.

It imports the standard library only, and runs on Python 3.8 or newer. If something here fails, the program
runs on and the failure is noted. The settings are environment variables, so child processes inherit them.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # each Python of the program starts with this file: typing is not imported
if TYPE_CHECKING:
    from .steps import StepRecorder

STEPS = "NSYSWRAP_HOOK_STEPS"  # the steps to record, as 10-13; without it everything is recorded
STEP_AT = "NSYSWRAP_HOOK_STEP_AT"  # what ends a step; without it the optimizers do
MODULES = "NSYSWRAP_HOOK_MODULES"  # mark modules down to this depth
GC = "NSYSWRAP_HOOK_GC"  # mark garbage collections
MEMORY = "NSYSWRAP_HOOK_MEMORY"  # note what PyTorch's allocator held
NOTES = "NSYSWRAP_HOOK_NOTES"  # folder for the notes of each process


def activate() -> None:
    """Wait for the imports that this process is asked to act on."""
    steps = any(name in os.environ for name in (STEPS, STEP_AT, MODULES))
    if not steps and GC not in os.environ and MEMORY not in os.environ:
        return
    from . import imports, notes

    notes.write()
    if GC in os.environ:
        from . import garbage

        notes.guarded(garbage.watch)()
    if MEMORY in os.environ:
        imports.after_import("torch", notes.watch_allocator)
    if not steps:
        return
    imports.after_import("torch", _torch_imported)
    kind, _, place = os.environ.get(STEP_AT, "").partition(":")
    if kind == "call":
        from .occurrences import at_call

        at_call(place, _steps)
    elif kind == "nvtx":
        from .occurrences import at_range

        at_range(place, _steps)


def _torch_imported() -> None:
    from . import notes

    notes.add(torch=True)
    if MODULES in os.environ:
        from . import modules

        notes.guarded(modules.mark)(int(os.environ[MODULES]))
    at = os.environ.get(STEP_AT, "")
    if at == "module":
        from .occurrences import at_forward

        at_forward(_steps())
    elif not at:
        from .module_calls import before_first_forward
        from .optimizers import Optimizers

        steps = _steps()
        if steps.wants_first:
            before_first_forward(steps.begin)
        Optimizers(steps).watch()


def _steps() -> StepRecorder:
    from .steps import StepRecorder

    if not _recorders:
        first, _, last = os.environ.get(STEPS, "").partition("-")
        _recorders.append(StepRecorder(int(first), int(last or first)) if first else StepRecorder())
    return _recorders[0]


_recorders: list[StepRecorder] = []

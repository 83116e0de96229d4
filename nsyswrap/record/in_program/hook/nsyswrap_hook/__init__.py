"""What nsyswrap runs inside the user's program: it marks steps and modules, and records some steps alone.

It imports the standard library only, and runs on Python 3.8 or newer. If something here fails, the program
runs on and the failure is noted. The settings are environment variables, so child processes inherit them.
"""

from __future__ import annotations

import os

STEPS = "NSYSWRAP_HOOK_STEPS"  # the steps to record, as 10-13; without it everything is recorded
STEP_AT = "NSYSWRAP_HOOK_STEP_AT"  # what ends a step; without it the optimizers do
MODULES = "NSYSWRAP_HOOK_MODULES"  # mark modules down to this depth
NOTES = "NSYSWRAP_HOOK_NOTES"  # folder for the notes of each process


def activate() -> None:
    """Wait for the imports that this process is asked to act on."""
    if not any(name in os.environ for name in (STEPS, STEP_AT, MODULES)):
        return
    from . import imports, notes

    notes.write()
    imports.after_import("torch", _torch_imported)


def _torch_imported() -> None:
    from . import notes, recorded

    notes.add(torch=True)
    if STEPS not in os.environ:
        recorded.open_part()

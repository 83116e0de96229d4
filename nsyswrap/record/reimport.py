"""Import and export a recording again after nsys failed to.

On a busy machine nsys' importer sometimes fails, and leaves the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.nsys import command
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def complete(nsys: str, folder: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Make the export that ``folder`` lacks from the recording in it; return True if that was done.

    The recording is then removed. nsys' own tables are not made again. ``nsys`` is a path; ``environment`` is
    the environment of the importer (default: that of this process). Raises NsyswrapError with the reason if
    there is a report and its export fails again.
    """
    recording, report = folder / RECORDING, folder / REPORT
    if not command.check_export(folder / EXPORT):
        if paths.exists(report):  # on a busy machine nsys sometimes leaves what it has imported
            recording.unlink(missing_ok=True)
        return False
    if paths.exists(recording):
        command.import_recording(nsys, recording, report, environment)
    if not paths.exists(report):
        return False
    command.export(nsys, report, folder / EXPORT, environment=environment)
    recording.unlink(missing_ok=True)
    return True

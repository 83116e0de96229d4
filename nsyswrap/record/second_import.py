"""What nsys recorded, imported and exported once more where its own attempt failed.

On a busy machine its importer now and then does, and leaves what it was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def complete(nsys_path: str, folder: Path, environment: Mapping[str, str] | None = None) -> bool:
    """Make the export that ``folder`` lacks, out of what nsys left there; return whether that was done.

    The recording is removed then. nsys' own tables are not made again. ``environment`` is the importer's
    (default: ours). Raises NsyswrapError where the report is there but the export fails again: why.
    """
    if not nsys.check_export(folder / EXPORT):
        return False
    recording, report = folder / RECORDING, folder / REPORT
    if recording.exists():
        nsys.import_recording(nsys_path, recording, report, environment)
    if not report.exists():
        return False
    nsys.export(nsys_path, report, folder / EXPORT, environment=environment)
    recording.unlink(missing_ok=True)
    return True

"""What nsys recorded, imported and exported once more where its own attempt failed.

On a busy machine its importer now and then does, and leaves what it was given.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import EXPORT, RECORDING, REPORT

if TYPE_CHECKING:
    from pathlib import Path


def complete(nsys_path: str, folder: Path) -> bool:
    """Make the export that ``folder`` lacks, out of what nsys left there; return whether that was done.

    The recording is removed then. nsys' own tables are not made again. Raises NsyswrapError where the report
    is there but the export fails again: why.
    """
    if not nsys.check_export(folder / EXPORT):
        return False
    recording, report = folder / RECORDING, folder / REPORT
    if recording.exists():
        with suppress(OSError, subprocess.TimeoutExpired):
            _import(nsys_path, recording, report)
    if not report.exists():
        return False
    nsys.export(nsys_path, report, folder / EXPORT)
    recording.unlink(missing_ok=True)
    return True


def _import(nsys_path: str, recording: Path, report: Path) -> None:
    if importer := nsys_install.importer(nsys_path):
        paths = ["--input-file", str(recording), "--output-file", str(report)]
        subprocess.run(
            [importer, *paths, "--force-overwrite"],
            capture_output=True,
            timeout=nsys.EXPORT_DEADLINE_S,
            check=False,
        )

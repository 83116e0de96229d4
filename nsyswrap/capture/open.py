"""Where the export of a capture lies: the file itself, in a run folder, or exported from a .nsys-rep."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsyswrap.base.errors import NotACapture
from nsyswrap.base.run_folder import EXPORT, REPORT, STATUS, RunFolder
from nsyswrap.capture.export_cache import cached_export

if TYPE_CHECKING:
    from pathlib import Path


def export_of(path: Path) -> Path:
    """Return the SQLite export of a .sqlite, a .nsys-rep (exported into the cache first) or a run folder."""
    if path.is_dir():
        return _in_folder(path)
    return cached_export(path) if path.suffix in (".nsys-rep", ".qdrep") else path


def _in_folder(folder: Path) -> Path:
    export = folder / EXPORT
    if export.exists():
        return export
    if (folder / REPORT).exists():
        return cached_export(folder / REPORT)
    if (folder / STATUS).exists():
        status = RunFolder(folder).read_status()
        raise NotACapture(
            f"{folder} is a run without an export (outcome: {status.outcome})", f"see {folder}/nsys.log"
        )
    hint = "give a run folder, a .sqlite or a .nsys-rep"
    if any(folder.glob("rank-*")):
        hint = "it has those of ranks: `nsyswrap report DIR --by rank` compares them; or give one of these"
    raise NotACapture(f"{folder} is no run folder: it has no {EXPORT}", hint)

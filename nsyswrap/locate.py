"""Where the export of a capture lies: the file itself, in a run folder, or exported from a .nsys-rep."""

from __future__ import annotations

import shlex
from pathlib import Path

from nsyswrap.errors import NotACapture
from nsyswrap.export_cache import cached_export
from nsyswrap.folder import EXPORT, REPORT, RUN, STATUS, WORK, RunFolder, unfinished


def export_of(path: Path) -> Path:
    """Return the SQLite export of a .sqlite, a .nsys-rep (exported into the cache first) or a run folder.

    A .qdstrm, which nsys leaves where it could not import it, is imported and exported into the cache.
    """
    if path.is_dir():
        return _in_folder(path)
    return cached_export(path) if path.suffix in (".nsys-rep", ".qdrep", ".qdstrm") else path


def _in_folder(folder: Path) -> Path:
    export = folder / EXPORT
    if export.exists():
        return export
    if (folder / REPORT).exists():
        return cached_export(folder / REPORT)
    if (folder / STATUS).exists():
        status = RunFolder(folder).read_status()
        raise NotACapture(
            f"{folder} is a run without an export (outcome: {status.outcome})",
            status.hint or f"see {folder}/nsys.log",
        )
    if (folder / RUN).exists():
        left = sorted(folder.glob(f"{WORK}*/{Path(REPORT).stem}.*"), key=lambda path: path.suffix)
        hint = f"nsyswrap report {shlex.quote(str(left[-1]))}" if left else ""
        raise NotACapture(f"{folder}: {unfinished(folder)}", hint)
    hint = "give a run folder, a .sqlite or a .nsys-rep"
    if any(folder.glob("rank-*")):
        hint = "it has those of ranks: `nsyswrap report DIR --by rank` compares them; or give one of these"
    raise NotACapture(f"{folder} is no run folder: it has no {EXPORT}", hint)

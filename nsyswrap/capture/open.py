"""Find the SQLite export of a capture: the file itself, in a run folder, or exported from a .nsys-rep.

Exports of .nsys-rep files are kept in the user's cache for a limited time, without the environment.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError
from nsyswrap.base.nsys import command as nsys
from nsyswrap.base.nsys import find as nsys_install
from nsyswrap.base.run_folder import EXPORT, REPORT, RUN, STATUS, WORK, RunFolder, cache_dir, unfinished
from nsyswrap.capture import redact

ROOM_BYTES = 10_000_000_000
UNUSED_S = 30 * 86_400.0
_WORK = "exporting-"
_FORM = "without environment"  # of what is kept; another form is another file


def cached_export(report: Path) -> Path:
    """Return the SQLite export of a .nsys-rep or .qdstrm, made by the newest usable nsys in the user's cache.

    Never beside the input. Exported anew when the report or the nsys changes; others go where they were not
    used for ``UNUSED_S``, or where there are more than ``ROOM_BYTES``. Raises NotACapture, DamagedCapture,
    Unavailable and OutputError.
    """
    if not report.is_file():
        raise NotACapture(f"{report}" + (" is no file" if report.exists() else ": No such file or directory"))
    newest = nsys_install.newest()
    stat = report.stat()
    identity = f"{report.resolve()} {stat.st_size} {stat.st_mtime_ns} {newest.version} {_FORM}"
    target = cache_dir("exports") / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.sqlite"
    if nsys.check_export(target):
        _export(newest.path, report, target)
    with suppress(OSError):
        _prune(target)
    return target


def _export(path: str, report: Path, target: Path) -> None:
    """Export into a folder of its own: what is under its name is without the environment."""
    try:
        with tempfile.TemporaryDirectory(prefix=_WORK, dir=target.parent) as work:
            part, imported = Path(work, "export.sqlite"), Path(work, "import.nsys-rep")
            if report.suffix == ".qdstrm":
                nsys.import_recording(path, report, imported)
                if not imported.exists():
                    raise DamagedCapture(f"{report} cannot be imported", "the recording was cut off")
            nsys.export(path, imported if imported.exists() else report, part)
            redact.remove_environment(part)
            part.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {target}: {error.strerror}", "set XDG_CACHE_HOME") from None


def _prune(used: Path) -> None:
    """Remove what was not used for long, and of the rest what was used first, until there is room."""
    now = time.time()
    os.utime(used, (now, used.stat().st_mtime))
    exports = [(export.stat(), export) for export in used.parent.glob("*.sqlite")]
    held = 0
    for stat, export in sorted(exports, key=lambda found: found[0].st_atime, reverse=True):
        held += stat.st_size
        if export != used and (held > ROOM_BYTES or now - stat.st_atime > UNUSED_S):
            export.unlink(missing_ok=True)
    for left in used.parent.glob(f"{_WORK}*"):  # by a process that was killed
        if now - left.stat().st_mtime > 2 * nsys.EXPORT_DEADLINE_S:
            shutil.rmtree(left, ignore_errors=True)


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

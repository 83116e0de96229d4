"""Find the export of a capture: a file or a folder of tables, one in a run folder, one made from a report.

Exports of .nsys-rep files stay in the user's cache for a limited time, without the environment.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError, Unavailable
from nsyswrap.base.files import RECORDINGS
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT, REPORT, RUN, STATUS, WORK, RunFolder, cache_dir, unfinished
from nsyswrap.base.suggest import did_you_mean_file
from nsyswrap.capture.export import Export

with lazy_imports():
    import hashlib

    from nsyswrap.base.nsys import command, find
    from nsyswrap.capture import arrow_export, redact

ROOM_BYTES = 10_000_000_000
UNUSED_S = 30 * 86_400.0
GIVE_A_CAPTURE = "give a run folder, a .sqlite or a .nsys-rep"
_WORK = "exporting-"
_INSIDE = ("*.sqlite", "*.nsys-rep", f"*/{EXPORT}", f"*/*/{EXPORT}")  # captures in a folder
_FORM = "without environment and its values"  # of the cached exports; part of the file's identity


def cached_export(report: Path) -> Path:
    """Return the SQLite export of a .nsys-rep or .qdstrm, made in the user's cache by the newest usable nsys.

    It is made again if the report or the nsys changes, or if somebody changed the export. Other exports are
    removed if they were not used for ``UNUSED_S`` seconds, or if the cache exceeds ``ROOM_BYTES``. Raises
    NotACapture, DamagedCapture, Unavailable and OutputError.
    """
    if not report.exists():
        raise NotACapture(f"{report} not found", did_you_mean_file(report))
    if not report.is_file():
        raise NotACapture(f"{report} is not a file")
    newest = find.newest()
    stat = report.stat()
    identity = f"{report.resolve()} {stat.st_size} {stat.st_mtime_ns} {newest.version} {_FORM}"
    target = cache_dir("exports") / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.sqlite"
    if command.check_export(target) or target.stat().st_mtime != _written_s(report):
        _export(newest.path, report, target)
    with suppress(OSError):
        _prune(target)
    return target


def _export(path: str, report: Path, target: Path) -> None:
    """Export into a temporary folder, so that ``target`` never contains the environment."""
    try:
        with tempfile.TemporaryDirectory(prefix=_WORK, dir=target.parent) as work:
            part, imported = Path(work, "export.sqlite"), Path(work, "import.nsys-rep")
            if report.suffix == ".qdstrm":
                command.import_recording(path, report, imported)
                if not imported.exists():
                    raise DamagedCapture(f"{report} cannot be imported", "the recording was cut off")
            command.export(path, imported if imported.exists() else report, part)
            redact.remove_environment(part)
            os.utime(part, (time.time(), _written_s(report)))  # any later change gives it another time
            part.replace(target)
    except OSError as error:
        raise OutputError(
            f"cannot write {target}: {error.strerror}", "set XDG_CACHE_HOME to a folder that can be written"
        ) from None


def _written_s(report: Path) -> int:
    """Return the modification time for the export of a report: whole seconds, which all file systems keep."""
    return int(report.stat().st_mtime)


def _prune(used: Path) -> None:
    """Remove exports that were not used for long, then the least recently used ones until there is room."""
    now = time.time()
    os.utime(used, (now, used.stat().st_mtime))
    exports = [(export.stat(), export) for export in used.parent.glob("*.sqlite")]
    total_bytes = 0
    for stat, export in sorted(exports, key=lambda entry: entry[0].st_atime, reverse=True):
        total_bytes += stat.st_size
        if export != used and (total_bytes > ROOM_BYTES or now - stat.st_atime > UNUSED_S):
            export.unlink(missing_ok=True)
    for left in used.parent.glob(f"{_WORK}*"):  # left by a killed process
        if now - left.stat().st_mtime > 2 * command.EXPORT_DEADLINE_S:
            shutil.rmtree(left, ignore_errors=True)


def export_of(path: Path) -> Path:
    """Return the export of a .sqlite, a .nsys-rep (exported into the cache first) or a run folder.

    The folder of a parquetdir or arrowdir export is one itself.
    A .qdstrm, which nsys leaves if its import fails, is imported and exported into the cache. A report that
    cannot be exported here, as one of a newer nsys, stands for the export beside it if that is not older.
    """
    if path.is_dir():
        return path if arrow_export.is_table_folder(path) else _in_folder(path)
    if path.suffix in (".parquet", ".arrow") and arrow_export.is_table_folder(path.parent):
        raise NotACapture(
            f"{path} is one table of a capture", f"give its folder, {shlex.quote(str(path.parent))}"
        )
    if path.suffix not in RECORDINGS:
        return path
    try:
        return cached_export(path)
    except (DamagedCapture, Unavailable, OutputError) as error:
        export = _beside(path)
        if command.check_export(export):
            raise
        if export.stat().st_mtime_ns >= path.stat().st_mtime_ns:
            return export
        error.hint += f"; {export} is not read: it is older than the report"
        raise


def open_export(path: Path) -> Export:
    """Open an export that ``export_of`` found; raises NotACapture, DamagedCapture and Unavailable."""
    is_folder = path.is_dir() and arrow_export.is_table_folder(path)
    return arrow_export.ArrowExport(path) if is_folder else Export(path)


def beside_note(source: Path, export: Path) -> str:
    """Return a note if ``export`` lies beside the .nsys-rep that was to be read; empty otherwise."""
    if source.suffix not in RECORDINGS or export != _beside(source):
        return ""
    return f"read from {export.name} beside it: {source.name} cannot be exported here"


def _beside(report: Path) -> Path:
    return report.with_suffix(Path(EXPORT).suffix)


def _in_folder(folder: Path) -> Path:
    export = folder / EXPORT
    if export.exists():
        return export
    if (folder / REPORT).exists():
        return cached_export(folder / REPORT)
    if (folder / STATUS).exists():
        status = RunFolder(folder).read_status()
        raise NotACapture(
            f"{folder}: this run has no export (outcome: {status.outcome})",
            status.hint or f"see {folder}/nsys.log",
        )
    if (folder / RUN).exists():
        left = sorted(folder.glob(f"{WORK}*/{Path(REPORT).stem}.*"), key=lambda path: path.suffix)
        hint = f"nsyswrap report {shlex.quote(str(left[-1]))}" if left else ""
        raise NotACapture(f"{folder}: {unfinished(folder)}", hint)
    inside = next((path for pattern in _INSIDE for path in sorted(folder.glob(pattern))), None)
    hint = f"name a capture in it, for example {shlex.quote(str(inside))}" if inside else GIVE_A_CAPTURE
    raise NotACapture(f"{folder} is not a run folder: {EXPORT} is missing", hint)

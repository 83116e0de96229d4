"""Find the export of a capture: a file or a folder of tables, one in a run folder, one made from a report.

Exports of .nsys-rep files stay in the user's cache for a limited time, without the environment.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import DamagedCapture, NotACapture, OutputError, Unavailable, Unreadable
from nsyswrap.base.files import RECORDINGS, head, is_locked, reading, temporary_folder
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import (
    EXPORT,
    REPORT,
    RUN,
    STATUS,
    RunFolder,
    cache_dir,
    left_recordings,
    outcome_words,
    unfinished,
)
from nsyswrap.base.sqlite import copies_of, read_only, tables_of
from nsyswrap.base.text import did_you_mean_file
from nsyswrap.capture import schema
from nsyswrap.capture.arrow_export import is_table_folder
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

Identity = tuple[int, str]

_EDGE = 4096  # bytes at the beginning and at the end; SQLite counts the changes of a file in the first page
_LONG_EDGE = 262_144
_METADATA = (schema.SESSION_START, schema.CAPTURE_METADATA, *schema.EXPORT_METADATA)
_DIGITS = 24  # of the hash


def cached_export(report: Path) -> Path:
    """Return the SQLite export of a .nsys-rep or .qdstrm, made in the user's cache by the newest usable nsys.

    An export with the environment is copied without it. The export is made again if the report or the nsys
    changes, or if somebody changed the export. Other exports are removed if they were not used for
    ``UNUSED_S`` seconds, or if the cache exceeds ``ROOM_BYTES``. Raises NotACapture, DamagedCapture,
    Unavailable and OutputError.
    """
    facts = paths.status(report)
    if facts is None:
        raise NotACapture(f"{report} not found", did_you_mean_file(report))
    if not stat.S_ISREG(facts.st_mode):
        raise NotACapture(f"{report} is not a file")
    try:
        head(report, 1)
    except OSError as error:  # nsys does not say why it cannot read it
        raise paths.unreadable(report, error) from None
    try:
        nsys = None if report.suffix == Path(EXPORT).suffix else find.newest()
    except Unavailable as error:
        raise Unavailable(f"{report}: {error.message}", error.hint) from None
    version = nsys.version if nsys else ""
    identity = f"{paths.real(report)} {facts.st_size} {facts.st_mtime_ns} {version} {_FORM}"
    target = cache_dir("exports") / f"{hashlib.sha256(os.fsencode(identity)).hexdigest()[:24]}.sqlite"
    written_s = int(facts.st_mtime)  # in whole seconds, which all file systems keep
    if command.check_export(target) or _changed_ns(target) != 10**9 * written_s:
        _export(nsys.path if nsys else "", report, target, written_s)
    with suppress(OSError, Unreadable):
        _prune(target)
    return target


def _export(path: str, report: Path, target: Path, written_s: int) -> None:
    """Export into a temporary folder, so that ``target`` never contains the environment."""
    try:
        with temporary_folder(target.parent, _WORK) as work:
            part, imported = work / "export.sqlite", work / "import.nsys-rep"
            if report.suffix == ".qdstrm":
                reason = command.import_recording(path, report, imported)
                if not paths.exists(imported):
                    raise DamagedCapture(
                        f"{report} cannot be imported: {reason}", "copy the file again, or profile again"
                    )
            if path:
                command.export(path, imported if paths.exists(imported) else report, part)
            else:
                [part] = copies_of([report], work)
            redact.remove_environment(part)
            os.utime(part, (time.time(), written_s))  # any later change gives it another time
            part.replace(target)
    except OSError as error:
        raise OutputError(
            f"{report}: cannot write {target}: {error.strerror}",
            "set XDG_CACHE_HOME to a folder that can be written",
        ) from None


def _changed_ns(path: Path) -> int:
    facts = paths.status(path)
    return facts.st_mtime_ns if facts else 0


def _prune(used: Path) -> None:
    """Remove exports that were not used for long, then the least recently used ones until there is room."""
    now = time.time()
    os.utime(used, ns=(int(now * 1e9), _changed_ns(used)))
    exports = [
        (facts, export)
        for export in paths.matching(used.parent, "*.sqlite")
        if (facts := paths.status(export))
    ]
    total_bytes = 0
    for facts, export in sorted(exports, key=lambda entry: entry[0].st_atime, reverse=True):
        total_bytes += facts.st_size
        if export != used and (total_bytes > ROOM_BYTES or now - facts.st_atime > UNUSED_S):
            export.unlink(missing_ok=True)
    for left in paths.matching(used.parent, f"{_WORK}*"):  # left by a killed process
        if now - _changed_ns(left) / 1e9 > 2 * command.EXPORT_DEADLINE_S:
            shutil.rmtree(left, ignore_errors=True)


def export_of(path: Path) -> Path:
    """Return the export of a .sqlite, a .nsys-rep (exported into the cache first) or a run folder.

    The folder of a parquetdir or arrowdir export is one itself.
    A .qdstrm, which nsys leaves if its import fails, is imported and exported into the cache. A report that
    cannot be exported here, as one of a newer nsys, stands for the export beside it if that is not older.
    """
    if paths.is_folder(path):
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
        if _changed_ns(export) >= _changed_ns(path):
            return export
        error.hint += f"; {export} is not read: it is older than the report"
        raise


def open_export(path: Path) -> Export:
    """Open an export that ``export_of`` found; raises NotACapture, DamagedCapture and Unavailable."""
    is_folder = paths.is_folder(path) and arrow_export.is_table_folder(path)
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
    if paths.exists(export):
        return export
    if paths.exists(folder / REPORT):
        return cached_export(folder / REPORT)
    if paths.exists(folder / STATUS):
        status = RunFolder(folder).read_status()
        raise NotACapture(
            f"{folder}: this run has no export (outcome: {outcome_words(status.outcome)})",
            status.hint or f"see {folder}/nsys.log",
        )
    if paths.exists(folder / RUN):
        # What a killed run left is copied or made in the cache.
        reasons = []
        for left in () if is_locked(folder) else left_recordings(folder):
            try:
                if left.suffix != Path(EXPORT).suffix or not command.check_export(left):
                    return cached_export(left)
            except DamagedCapture as error:
                reasons.append(error.message)
        raise NotACapture(f"{folder}: {unfinished(folder)}", "; ".join(reasons))
    every = (path for pattern in _INSIDE for path in paths.matching(folder, pattern, paths.ignore))
    inside = next(every, None)
    hint = f"name a capture in it, for example {shlex.quote(str(inside))}" if inside else GIVE_A_CAPTURE
    raise NotACapture(f"{folder} is not a run folder: {EXPORT} is missing", hint)


def identity_of(path: Path) -> Identity | None:
    """Return the size in bytes and a hash of header and metadata of a capture; None if there is no file.

    ``path`` is a file, a folder of tables or a run folder. The time of change does not count.
    """
    files = _files(path)
    if not files:
        return None
    content = hashlib.sha256()
    for file in files:
        for part in _parts(file):
            content.update(part)
    return sum(map(paths.size, files)), content.hexdigest()[:_DIGITS]


def has_capture(path: Path) -> bool:
    """Return True if there is a file that ``identity_of`` would read."""
    return bool(_files(path))


def _files(path: Path) -> list[Path]:
    if is_table_folder(path):
        return list(paths.matching(path, "*"))
    if paths.is_folder(path):
        return [file for file in (path / EXPORT, path / REPORT) if paths.exists(file)][:1]
    return [path] if paths.exists(path) else []


def _parts(file: Path) -> Iterator[bytes]:
    """Yield the metadata of an export and both ends of a file, which are longer for one without metadata."""
    metadata = _metadata(file) if file.suffix == ".sqlite" else []
    edge = _EDGE if metadata else _LONG_EDGE
    with suppress(OSError), reading(file) as (descriptor, size):
        yield os.pread(descriptor, edge, 0)
        yield os.pread(descriptor, edge, max(0, size - edge))
    yield repr(metadata).encode("utf-8", "backslashreplace")


def _metadata(file: Path) -> list[object]:
    rows: list[object] = []
    with suppress(sqlite3.Error), closing(read_only(file)) as db:
        db.text_factory = bytes
        plain, _ = tables_of(db, _METADATA)
        for table in _METADATA:
            with suppress(sqlite3.Error):
                if table in plain:
                    rows += db.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()  # noqa: S608 - names of ours
    return rows

"""Keep the digests that `collect` makes in the user's cache: a second one then reads no capture again.

Runs of a batch have their digest in their folder. Nothing is written into the folders of other captures. A
digest counts only for files that did not change, and for the version of nsyswrap that made it. None is kept
by a version that does not name its code, such as a checkout with changes: its figures could be old ones.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path

from nsyswrap.base import paths
from nsyswrap.base.errors import CaptureError, OutputError, Unreadable
from nsyswrap.base.run_folder import EXPORT, FILES, SPEC, cache_dir
from nsyswrap.base.version import names_code, version
from nsyswrap.reports.runs.digest import FORMAT, Digest, read_digest

_FOLDER = "digests"
_ENDING = ".json"
_SUFFIX = ".sqlite"  # other captures are exported first
_JOURNALS = ("-wal", "-journal")
_SETTLED_S = 2.0  # a file system may give changes within this time the same time of change
_UNUSED_S = 30 * 86_400.0
_MOST_BYTES = 512 << 20  # of all digests: those of 20,000 runs


def place_of(capture: Path) -> Path | None:
    """Return the file for the digest of a .sqlite or a run folder; None if it cannot be kept.

    The name stands for all files that the digest is made of, as they are now.
    """
    if not names_code():
        return None
    with suppress(OSError, OutputError, Unreadable):
        export = capture / EXPORT if paths.is_folder(capture) else capture
        folder = os.path.dirname(os.path.abspath(export))  # noqa: PTH100, PTH120 - no link is followed
        name = export.name
        names = {name, *((*FILES, SPEC) if name == EXPORT else ())}
        present = sorted(names.intersection(paths.names(folder)))
        if name not in present or export.suffix != _SUFFIX or _has_journal(folder, name):
            return None
        statuses = [facts for one in present if (facts := paths.status(f"{folder}/{one}"))]
        if len(statuses) < len(present):  # a broken link
            return None
        if time.time() - max(max(one.st_mtime, one.st_ctime) for one in statuses) < _SETTLED_S:
            return None
        files = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for s in statuses]
        key = repr((FORMAT, version(), folder, name, present, files))
        return cache_dir(_FOLDER) / f"{hashlib.sha256(os.fsencode(key)).hexdigest()[:24]}{_ENDING}"
    return None


def kept_digest(capture: Path) -> tuple[Path, Digest] | None:
    """Return the digest of a capture that was kept, and its file."""
    place = place_of(capture)
    with suppress(CaptureError, OSError, Unreadable):
        if place and paths.is_file(place, follow=False):
            kept = read_digest(place)
            os.utime(place)
            return place, kept
    return None


def prune() -> None:
    """Remove digests that were not used for long, and the oldest beyond a size."""
    with suppress(OSError, OutputError, Unreadable):
        every = [(path, paths.status(path)) for path in paths.matching(cache_dir(_FOLDER), f"*{_ENDING}")]
        known = ((facts.st_mtime, facts.st_size, path) for path, facts in every if facts)
        total = 0
        for used, size, path in known:
            total += size
            if time.time() - used > _UNUSED_S or total > _MOST_BYTES:
                path.unlink(missing_ok=True)


def _has_journal(folder: str, name: str) -> bool:
    return any(paths.size(f"{folder}/{name}{kind}") for kind in _JOURNALS)

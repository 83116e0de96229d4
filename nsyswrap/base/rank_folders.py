"""The ranks of one run: a run folder for each profiled rank, ``rank-N`` inside the folder of the run.

A launch of ``nsyswrap profile`` and a run of a batch with a launcher have the same layout. The folder of the
planned run itself has no capture: it holds spec.json, the one status.json of the run, and a run.json with the
launch. A command that brings its own nsys writes files that are named by rank instead.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.base import paths
from nsyswrap.base.errors import UsageError
from nsyswrap.base.run_folder import EXPORT, REPORT

if TYPE_CHECKING:
    from pathlib import Path

PATTERN = "rank-*"
_FOLDER = re.compile(r"rank-(\d{1,9})")
_IN_NAME = re.compile(r"rank[-_.]?(\d{1,9})(?!\d)")
_LOOSE = (".sqlite", ".nsys-rep")  # an export is preferred to its report


def folder_name(rank: int, world_size: int) -> str:
    """Return the name of a rank's run folder, padded so that names sort as ranks do: rank-03 of 64."""
    return f"rank-{rank:0{len(str(world_size - 1))}}"


def rank_in(name: str) -> int | None:
    """Return the rank that the name of a file or folder contains, as ``job.rank3.sqlite`` does; or None."""
    match = _IN_NAME.search(name)
    return int(match[1]) if match else None


def without_rank(name: str) -> str:
    """Return a name without the rank in it: job for ``job.rank3``."""
    return re.sub(rf"[-_.]?{_IN_NAME.pattern}", "", name)


def rank_folders(folder: Path) -> dict[int, Path]:
    """Return the run folder of each profiled rank in the folder of a run, by rank. Empty: it has no ranks."""
    matches = {path: _FOLDER.fullmatch(path.name) for path in paths.matching(folder, PATTERN)}
    return dict(
        sorted((int(match[1]), path) for path, match in matches.items() if match and paths.is_folder(path))
    )


def captures_by_rank(folder: Path) -> dict[int, Path]:
    """Return the capture of each rank in the folder of a run, by rank: an export, or a report without one.

    A rank whose run left no capture is missing. The result is empty for a run without ranks. Raises
    UsageError if two captures are of the same rank.
    """
    captures: dict[int, Path] = {}
    for rank, path in rank_folders(folder).items():
        for name in (EXPORT, REPORT):
            if paths.exists(path / name):
                captures[rank] = path / name
                break
    for path in (path for suffix in _LOOSE for path in paths.matching(folder, f"*{suffix}")):
        named = rank_in(path.name)
        if named is None:
            continue
        if named in captures:
            if captures[named] == path.with_suffix(_LOOSE[0]):  # its own export
                continue
            both = f"{captures[named]} and {path}"
            raise UsageError(f"{both}: both are rank {named}", "keep one of them in the folder of the run")
        captures[named] = path
    return dict(sorted(captures.items()))

"""The captures that a command is given: each that is named, and all in a folder that is not a capture."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nsyswrap.base.errors import CaptureError, NotACapture, UsageError
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT, FILES, REPORT
from nsyswrap.base.text import first_of, natural_key, printable
from nsyswrap.cli.output import note, unreadable_noted

with lazy_imports():
    from nsyswrap.analysis.ranks import members
    from nsyswrap.base import paths, recent_runs, run_folder
    from nsyswrap.capture import arrow_export
    from nsyswrap.capture import open as capture_open
    from nsyswrap.record import stored_runs
    from nsyswrap.reports.runs import find

_READ = (EXPORT, REPORT)
_RUN_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


def captures_in(given: Sequence[Path]) -> list[Path]:
    """Return the captures that are named or match, and those in each folder that is not a capture itself.

    Of several paths, a folder without captures is itself returned: opening it says what it lacks, and the
    others are read. Raises NotACapture if it is the only one, CaptureError for a pattern without a match.
    """
    named = [path for one in given for path in expanded(str(one))]
    found: list[Path] = []
    for path in named:
        try:
            found += _captures_of(path) if is_folder(path) else [path]
        except NotACapture:
            if len(named) == 1:
                raise
            found.append(path)
    return found


def expanded(pattern: str) -> list[Path]:
    """Return the paths that match a pattern, or the path itself. Raises CaptureError without a match."""
    path = Path(pattern)
    if not glob.has_magic(pattern) or paths.exists(path):
        return [path]
    with unreadable_noted() as skip:
        parts = "/".join(filter(None, pattern.split("/")))
        root = Path("/" if pattern.startswith("/") else "")
        matches = sorted(paths.matching(root, parts, skip), key=natural_key)
    folders = {match for match in matches if paths.is_folder(match)}
    captures = [match for match in matches if match in folders or match.suffix in find.CAPTURES]
    captures = [match for match in captures if folders.isdisjoint(match.parents)]  # read with the folder
    if not captures:
        raise CaptureError(
            f"no files match {pattern}", "put the pattern in quotes, for example 'runs/**/*.sqlite'"
        )
    return captures


def check_no_run_numbers(given: Iterable[object]) -> None:
    """Raise NotACapture for a number in the list of `nsyswrap runs`, unless a file has that name."""
    numbers = [word for word in map(str, given) if _RUN_NUMBER.fullmatch(word) and not paths.exists(word)]
    if not numbers:
        return
    with unreadable_noted() as skip:
        runs = dict(enumerate(stored_runs.stored_runs(Path.cwd(), skip), 1))
    meant = [
        f"{number} is {recent_runs.short_path(runs[int(number)].path, Path.cwd())}"
        for number in numbers
        if int(number) in runs
    ]
    if meant:
        hint = f"in the list of nsyswrap runs, {', '.join(meant)}"
        raise NotACapture(f"{numbers[0]} not found", hint)


def check_number(
    captures: Sequence[Path], given: Sequence[Path], most: int, reader: str, advice: str
) -> None:
    """Raise UsageError if folders among ``given`` hold more than ``most`` captures. ``reader`` is limited."""
    if len(captures) > most and any(map(is_folder, given)):
        places = ", ".join(map(str, given))
        raise UsageError(f"{places} holds {len(captures):,} captures, and {reader} at most {most:,}", advice)


def is_folder(path: Path) -> bool:
    """Return True for a folder that can hold captures and is not a run folder or a folder of tables."""
    if not paths.is_folder(path):
        return False
    if any(paths.exists(path / name) for name in FILES):
        return not has_capture(path) and bool(run_folder.captures_by_rank(path))  # a run with ranks
    return not arrow_export.is_table_folder(path)


def _captures_of(folder: Path) -> list[Path]:
    found = find.run_paths(folder, lambda text: note(f"nsyswrap: {text}"))
    runs = list(dict.fromkeys(run.parent if run.name in _READ else run for run in found))
    ranks = list(run_folder.rank_folders(folder).values())
    if ranks and set(runs) <= set(ranks):  # a launch: a rank without a capture is one that cannot be read
        return ranks
    captures = [run for run in runs if found.get(run) or has_capture(run)]
    if not captures:
        raise NotACapture(f"no capture in {folder}", capture_open.GIVE_A_CAPTURE)
    have = set(captures)
    if without := [run for run in runs if run not in have]:
        note(f"nsyswrap: runs without a capture: {listed(without)}")
    return sorted(captures, key=natural_key)


def has_capture(run: Path) -> bool:
    """Return True for a file, a folder of tables and a run folder with a capture."""
    is_file = not paths.is_folder(run) or arrow_export.is_table_folder(run)
    return is_file or any(paths.exists(run / name) for name in _READ)


def listed(paths: Sequence[Path], most: int = 20) -> str:
    """Return the first ``most`` paths as a text, and how many more there are."""
    return first_of([printable(str(path)) for path in paths], most)


def is_batch(paths: Sequence[Path]) -> bool:
    """Return True if the only path is the folder of a batch."""
    return len(paths) == 1 and bool(find.batch_name(paths[0]))


def name_of(paths: Sequence[Path], labels: Sequence[str]) -> str:
    """Return one name for captures with these labels: a label, or the name of their folder or plan."""
    if is_batch(paths):
        return find.batch_name(paths[0])
    first, *others = labels
    if others and len(paths) == 1:
        return paths[0].absolute().name
    return f"{first}-and-{len(others)}-more" if others else first


def as_file_name(name: str) -> str:
    """Return a name without folders, which does not hide the file and which the file system takes."""
    safe = name.replace("/", "-").strip(".") or "captures"
    return os.fsdecode(safe.encode("utf-8", "surrogateescape"))  # also where file names are not UTF-8


def are_ranks(captures: Sequence[Path], given: Sequence[Path] = ()) -> bool:
    """Return True if several captures each name their rank, and no two name the same.

    If only some of those in a folder among ``given`` do, or if they are of several launches, a note says so.
    """
    if len(captures) <= 1:
        return False
    numbers = [members.rank_of(capture) for capture in captures]
    named = sum(number is not None for number in numbers)
    why = "" if named == len(numbers) else f"{named:,} of {len(numbers):,} captures name a rank"
    try:
        members.places(captures)
    except UsageError as error:
        why = why or error.message
    if why and named > 1 and any(map(is_folder, given)):
        note(f"nsyswrap: {listed(given)}: shown side by side, not as ranks: {why}")
    return not why

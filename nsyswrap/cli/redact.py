"""``nsyswrap redact``: remove secrets from a capture, or check that none are left."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import click

from nsyswrap.base import paths
from nsyswrap.base.errors import (
    UNREADABLE,
    CheckFailed,
    CommandHint,
    NotACapture,
    UnreadCapture,
    UsageError,
    not_read,
    nothing_read,
)
from nsyswrap.base.files import RECORDINGS, why
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.base.text import counted, natural_key
from nsyswrap.cli.folders import captures_in, is_batch, is_folder, listed
from nsyswrap.cli.help import HelpCommand, option
from nsyswrap.cli.options import OUTPUT, PATH, check_ending, no_run_numbers
from nsyswrap.cli.output import note, note_not_read, say

with lazy_imports():
    from nsyswrap.capture import arrow_export, redact

STAYS = (
    "Stays on purpose: the command line, and names of kernels, calls, ranges, threads and modules.\n"
    "So do functions, GPU models, PCI addresses, versions, process numbers and times."
)


@click.command(
    cls=HelpCommand,
    examples=("nsyswrap redact run1 -o shared.sqlite", "nsyswrap redact --check shared.sqlite"),
)
@click.argument("captures", nargs=-1, required=True, type=PATH, metavar="CAPTURE", callback=no_run_numbers)
@option(OUTPUT, "-o, --output FILE", "Write the redacted copy.", type=PATH)
@option(OUTPUT, "--check", "List secrets by kind, name and count; exit 1 if any.")
def command(captures: tuple[Path, ...], output: Path | None, *, check: bool) -> None:
    """Remove secrets from a capture before sharing it.

    nsys stores the environment and output of the program, and the environment and name of every other
    process. The copy lacks them, and their values are removed from all other texts. Numbers of reports stay
    the same. The command line stays, without these values. CAPTURE is a run folder or a .sqlite file: a
    .nsys-rep cannot be redacted.
    """
    capture = captures[0]
    if captures[1:]:
        _refuse_several(captures, output, check=check)
    if capture.suffix.lower() in RECORDINGS:
        beside = capture.with_suffix(".sqlite")
        raise UsageError(
            f"{capture}: a .nsys-rep cannot be redacted",
            CommandHint.of(["nsyswrap", "redact", beside, "-o", output or "OUT.sqlite"], "use {}")
            if paths.is_file(beside)
            else CommandHint.of(
                ["nsys", "export", "--type=sqlite", capture], "export it to .sqlite and redact that: {}"
            ),
        )
    if arrow_export.is_table_folder(capture):
        raise UsageError(
            f"{capture}: a parquetdir or arrowdir export cannot be redacted",
            "export the .nsys-rep to .sqlite and redact that",
        )
    if check and output is not None:
        raise UsageError("--check cannot be used with --output", "omit one of them")
    if output is None and not check:
        raise UsageError("no output is named", "use -o OUT to redact, or --check")
    if output is None:
        _check(capture)
        return
    check_ending(output, ())
    if is_folder(capture):
        inside = captures_in([capture])
        raise UsageError(
            f"{capture} is not a capture, it holds {listed(inside)}",
            CommandHint.of(["nsyswrap", "redact", inside[0], "-o", "OUT"]),
        )
    for name in {"SIGTERM", "SIGHUP"} & set(dir(signal)):  # the temporary copy, with all secrets, has to go
        signal.signal(getattr(signal, name), lambda number, _: sys.exit(128 + number))
    done = redact.redact(capture / EXPORT if paths.is_folder(capture) else capture, output)
    note(f"wrote {output}")
    if done.renamed:
        names = counted(done.renamed, "names")
        note(f"nsyswrap: shown without removed values: {names} of ranges, threads or files")
    _note_kept(done.kept, done.unknown)
    _note_unknown_values([output] if not done.values_known else [])


def _refuse_several(captures: Sequence[Path], output: Path | None, *, check: bool) -> NoReturn:
    first, second = captures[:2]
    if not (check or output or captures[2:] or paths.exists(second)):
        meant = CommandHint.of(["nsyswrap", "redact", first, "-o", second], "the copy is named with -o: {}")
        raise UsageError("no output is named", meant)
    hint = (
        "--check takes a folder of captures"
        if check
        else 'for several: for f in *.sqlite; do nsyswrap redact "$f" -o "redacted/$f"; done'
    )
    raise UsageError(f"redact takes one capture, not {len(captures)}", hint)


def _check(path: Path) -> None:
    """Print the secrets in an export, or in every export in a folder.

    Raises CheckFailed for any, and NotACapture if an export of several cannot be read.
    """
    inside = _inside(path) if paths.is_folder(path) else _Inside([path], [], [])
    exports, unread = inside.exports, inside.unread
    if not exports and not unread:
        raise NotACapture(f"no .sqlite in {path}", "a .nsys-rep cannot be checked: export it to .sqlite")
    checked = {}
    for export in exports:
        try:
            checked[export] = redact.check(export)
        except UNREADABLE as error:
            if export == path:
                raise
            unread.append(not_read(export.name, export, error))
    if paths.is_folder(path):
        say(f"{path} is {_kind(path)}: {counted(len(checked), 'exports')} checked; other files not checked")
    for export, result in checked.items():
        _print_secrets(export, result, named=len(exports) > 1)
    _note_unknown_values([export for export, result in checked.items() if not result.values_known])
    leaking = [export for export, result in checked.items() if result.secrets]
    recordings, folders = _note_unchecked(inside)
    note_not_read(unread)
    if leaking:
        found = f"{len(leaking)} of {len(exports)} exports" if len(exports) > 1 else str(leaking[0])
        raise CheckFailed(
            f"{found} would leak", CommandHint.of(["nsyswrap", "redact", leaking[0], "-o", "OUT"])
        )
    if recordings or folders:
        held = "a .nsys-rep" if recordings else "a parquetdir or arrowdir export"
        raise CheckFailed(f"{path} holds {held}", "remove it before you share the folder")
    if unread:
        raise nothing_read(unread, f"{path}: not all exports can be checked")
    say(f"nothing left to remove\n\n{STAYS}")


class _Inside(NamedTuple):
    """The exports in a folder and below, all other files and folders, and folders that cannot be searched."""

    exports: list[Path]
    others: list[Path]
    unread: list[UnreadCapture]


def _inside(folder: Path) -> _Inside:
    faults: list[OSError] = []
    exports: list[Path] = []
    others: list[Path] = []
    for here, folders, files in os.walk(folder, onerror=faults.append):
        of_export = [name for name in files if name.lower().endswith(Path(EXPORT).suffix)]
        exports += [Path(here, name) for name in of_export]
        others += [Path(here, name) for name in {*folders, *files}.difference(of_export)]
    unread = [
        UnreadCapture(Path(fault.filename).name, str(fault.filename), f"cannot be searched: {why(fault)}")
        for fault in faults
    ]
    return _Inside(sorted(exports, key=natural_key), sorted(others, key=natural_key), unread)


def _note_unchecked(inside: _Inside) -> tuple[list[Path], list[Path]]:
    """Name what is not checked. Return the recordings and the folders of tables, which must not be shared."""
    if links := [one for one in inside.others if paths.is_link(one) and paths.is_folder(one)]:
        note(f"nsyswrap: not checked, as these are links to folders: {listed(links)}")
    recordings = [one for one in inside.others if one.suffix.lower() in RECORDINGS]
    if recordings:
        note(f"nsyswrap: do not share {listed(recordings)}")
        note("  a .nsys-rep cannot be redacted, and it can hold the environment")
    folders = [one for one in inside.others if arrow_export.is_table_folder(one)]
    if folders:
        note(f"nsyswrap: do not share {listed(folders)}")
        note("  parquetdir and arrowdir exports cannot be redacted, and they can hold the environment")
    return recordings, folders


def _kind(folder: Path) -> str:
    if not is_folder(folder):
        return "a run folder"
    return "the folder of a batch" if is_batch([folder]) else "a folder of captures"


def _print_secrets(export: Path, result: redact.ExportSecrets, *, named: bool) -> None:
    for secret in result.secrets:
        names = f": {', '.join(secret.names)}" if secret.names else ""
        say(f"{f'{export}: ' if named else ''}{secret.kind}: {secret.count:,}{names}")
    _note_kept(result.kept, result.unknown)


def _note_unknown_values(exports: Sequence[Path]) -> None:
    if exports:
        note(f"nsyswrap: values of environment variables not searched for in {listed(exports)}:")
        note("  the environment is not in the file, so its values are not known; a range name can hold one")


def _note_kept(kept: dict[str, int], unknown: tuple[str, ...]) -> None:
    if kept:
        cells = ", ".join(f"{count:,} in {column}" for column, count in kept.items())
        note(f"nsyswrap: names that hold a removed value stay, as reports show them: {cells}")
    if unknown:
        note(f"nsyswrap: unknown tables, searched for removed values only: {', '.join(unknown)}")

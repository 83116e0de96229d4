"""``nsyswrap view``: captures as one HTML page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nsyswrap.cli.selecting import selection_of, selection_options
from nsyswrap.cli.show import note, note_silence, step, write
from nsyswrap.errors import CaptureError, NotACapture, OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nsyswrap.capture import Capture
    from nsyswrap.selection import Selection

_SUFFIXES = (".qdrep", ".nsys-rep", ".sqlite")  # the last of those that tell of one run is taken
_MOST = 40  # captures of a folder


@click.command()
@click.argument("captures", nargs=-1, type=click.Path(path_type=Path), metavar="[CAPTURE|DIR]...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write this file. [<label>.html]"
)
@click.option("--open", "opening", is_flag=True, help="Open the page in the browser.")
@click.option("--force", is_flag=True, help="Replace the file where it exists.")
@selection_options
def command(**options: Any) -> None:  # noqa: ANN401 - one an option
    """Write captures as one HTML page: verdicts, timeline, tables; it needs no network and nothing else.

    CAPTURE is a .sqlite export, a .nsys-rep (exported into the cache first) or a run folder; without one, the
    newest run folder under nsyswrap-runs/ is taken. Several, and all that lie in DIR, stand side by side.
    """
    paths = _found(options["captures"])
    captures, failed = _opened(paths, selection_of(options))
    output = options["output"] or Path(_file_name(options["captures"], captures))
    if output.exists() and not options["force"]:
        raise OutputError(f"{output} exists", "give another --output, or --force")
    write(output, _page(captures))
    note(f"wrote {output}")
    if options["opening"]:
        _open(output)
    sys.exit(failed)


def _page(captures: Mapping[str, Capture]) -> str:
    from nsyswrap.page import render  # noqa: PLC0415

    for capture in captures.values():
        note_silence(capture, _run(capture))
    with step("making the page …"):
        return render(captures)


def _run(capture: Capture) -> dict[str, Any]:
    from nsyswrap.folder import RunFolder  # noqa: PLC0415

    return RunFolder(capture.source).read_run()


def _found(given: Sequence[Path]) -> list[Path]:
    """Return the captures that were named, and for a folder that is none all that lie in it."""
    from nsyswrap.folder import newest_run  # noqa: PLC0415

    return [path for one in given or (newest_run(),) for path in _in(one)]


def _in(path: Path) -> list[Path]:
    from nsyswrap.folder import EXPORT, FILES, REPORT  # noqa: PLC0415

    if not path.is_dir() or any((path / name).exists() for name in FILES):
        return [path]
    found: dict[Path, Path] = {}
    for file in (file for suffix in _SUFFIXES for file in path.rglob(f"*{suffix}")):
        run = file.name in (EXPORT, REPORT)
        found[file.parent if run else file.with_suffix("")] = file.parent if run else file
    if not found:
        raise NotACapture(f"there is no capture in {path}", "give a run folder, a .sqlite or a .nsys-rep")
    if len(found) > _MOST:
        raise UsageError(
            f"{path} holds {len(found)} captures, and a page {_MOST} at most", "name those that it is to show"
        )
    return sorted(found.values())


def _opened(paths: Sequence[Path], selection: Selection) -> tuple[dict[str, Capture], int]:
    """Open the captures, by label; of several, one that is bad is said, and the others are shown."""
    from nsyswrap.capture import open_capture  # noqa: PLC0415
    from nsyswrap.together import labels  # noqa: PLC0415

    found: dict[str, Capture] = {}
    failed = 0
    for label, path in zip(labels(paths), paths, strict=True):
        try:
            capture = open_capture(path).viewed(selection=selection)
            _ = capture.window  # finds the NVTX range that was chosen, or raises
        except CaptureError as error:
            if len(paths) == 1:
                raise
            note(f"nsyswrap: {error}")
            failed = error.exit_code
            continue
        found[label] = capture
    if not found:
        raise NotACapture("none of them can be read", "see above")
    return found, failed


def _file_name(given: Sequence[Path], captures: Mapping[str, Capture]) -> str:
    """Return the capture's label, or for several that of the folder they were found in."""
    first, *others = captures
    name = f"{given[0].absolute().name}" if others and len(given) == 1 else first
    if others and len(given) > 1:
        name = f"{first}-and-{len(others)}-more"
    return f"{name.replace('/', '-').strip('.') or 'captures'}.html"


def _open(path: Path) -> None:
    import webbrowser  # noqa: PLC0415

    if not webbrowser.open(path.absolute().as_uri()):
        note(f"no browser was found: open {path} in one")

"""The options that choose a part of a capture, and opening the captures that a command shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from nsyswrap.base.errors import CaptureError
from nsyswrap.cli.output import note

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from nsyswrap.capture.capture import Capture
    from nsyswrap.capture.selection import Selection

    Decorated = TypeVar("Decorated", bound=Callable[..., Any])


_OPTIONS = (
    click.option(
        "--time",
        "window",
        metavar="[START]/[END]",
        help="Only this time of the capture, as in 1s/2.5s or 10ms/.",
    ),
    click.option(
        "--nvtx",
        metavar="NAME[@DOMAIN][/N]",
        help="Only the time and thread of this NVTX range, the Nth from 0.",
    ),
    click.option(
        "--device", "devices", type=int, multiple=True, metavar="N", help="Only this GPU; repeatable."
    ),
    click.option(
        "--process",
        "processes",
        type=int,
        multiple=True,
        metavar="PID",
        help="Only this process; repeatable.",
    ),
    click.option(
        "--clip",
        type=click.Choice(["no", "yes"]),
        help="Cut rows off at the ends of --time and --nvtx, or keep them whole as nsys does. "
        "Default: whole in nsys' reports, cut in nsyswrap's own.",
    ),
)


def opener(selection: Selection, **view: object) -> Callable[[Path], Capture]:
    """Return what opens a capture in the view that is asked for; raises CaptureError, or UsageError."""
    from nsyswrap.capture.capture import open_capture  # noqa: PLC0415

    def open_one(path: Path) -> Capture:
        capture = open_capture(path).viewed(**view, selection=selection)
        _ = capture.window  # finds the NVTX range that was chosen, or raises
        return capture

    return open_one


def open_all(
    paths: Sequence[Path], open_one: Callable[[Path], Capture], *, as_screens: bool = False
) -> tuple[dict[str, Capture], int]:
    """Return the captures by label, without any the newest run, and the exit code of those that are bad.

    Of several a bad one is said, and the others are shown; of one alone it is raised. What a reader has to
    know of each is said; ``as_screens``: but for how its run ended, with which a screen begins.
    """
    from nsyswrap.base.run_folder import newest_run  # noqa: PLC0415
    from nsyswrap.base.text import shortest_labels  # noqa: PLC0415

    found: dict[str, Capture] = {}
    failed = 0
    chosen = paths or (newest_run(),)
    for label, path in zip(shortest_labels(chosen), chosen, strict=True):
        try:
            capture = open_one(path)
        except CaptureError as error:  # the others still have something to say
            if len(chosen) == 1:
                raise
            note(f"nsyswrap: {error}")
            failed = error.exit_code
            continue
        for remark in capture.remarks:
            if not as_screens or remark != capture.ending:
                note(f"nsyswrap: {path}: {remark}")
        found[label] = capture
    return found, failed


def selection_options(function: Decorated) -> Decorated:
    """Add --time, --nvtx, --device, --process and --clip."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def selection_of(options: Mapping[str, Any]) -> Selection:
    """Return what the options select; raises UsageError."""
    from nsyswrap.capture.selection import parse_selection  # noqa: PLC0415

    clip = None if options["clip"] is None else options["clip"] == "yes"
    return parse_selection(
        options["window"] or "",
        options["nvtx"] or "",
        devices=options["devices"],
        processes=options["processes"],
        clip=clip,
    )

"""The options that choose a part of a capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


def selection_options(function: Decorated) -> Decorated:
    """Add --time, --nvtx, --device, --process and --clip."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def selection_of(options: Mapping[str, Any]) -> Selection:
    """Return what the options select; raises UsageError."""
    from nsyswrap.capture.selection import chosen  # noqa: PLC0415

    clip = None if options["clip"] is None else options["clip"] == "yes"
    return chosen(
        options["window"] or "",
        options["nvtx"] or "",
        devices=options["devices"],
        processes=options["processes"],
        clip=clip,
    )

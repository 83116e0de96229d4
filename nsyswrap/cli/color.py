"""When output has colors: --color, else NO_COLOR, FORCE_COLOR, TERM, and whether a terminal shows it."""

from __future__ import annotations

import os
from typing import TextIO

import click

_CHOICES = {"auto": None, "always": True, "never": False}


def add_color_option(command: click.Command) -> None:
    """Add --color to a command. click keeps the value in the context, for the commands below too."""
    if all(parameter.name != "color" for parameter in command.params):
        command.params.append(
            click.Option(
                ["--color"],
                type=click.Choice(list(_CHOICES)),
                default="auto",
                metavar="WHEN",
                expose_value=False,
                callback=_keep,
                help="Use colors: auto (on a terminal), always or never.",
            )
        )


def _keep(context: click.Context, _: click.Parameter, value: str) -> None:
    if value != "auto":  # a group's choice counts for its commands
        context.color = _CHOICES[value]


def uses_color(stream: TextIO) -> bool:
    """Return True if text on this stream is to have colors."""
    context = click.get_current_context(silent=True)
    if context is not None and context.color is not None:
        return context.color
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "0") not in ("", "0"):
        return True
    return os.environ.get("TERM") != "dumb" and stream.isatty()

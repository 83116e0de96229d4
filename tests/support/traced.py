"""Captures written as traces for Perfetto, and read back by the strict rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiny_export import Row, opened
from trace_event_rules import Read, read

from nsyswrap.render.perfetto import compose, write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from nsyswrap.capture.capture import Capture


def traced(capture: Capture, folder: Path) -> Read:
    path = folder / "trace.json"
    write(compose(capture), path)
    return read(path)


def tiny(folder: Path, *rows: Row, without: Sequence[str] = ()) -> Read:
    own = folder / f"{len(list(folder.iterdir()))}"
    own.mkdir()
    return traced(opened(own, *rows, without=without), own)

"""Write a trace to a file, which is there whole or not at all, or to a stream."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, BinaryIO

from nsyswrap.base.files import replacing

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.render.perfetto.trace import Trace

_LEVEL = 3  # of gzip: what the default takes three times as long for is a tenth smaller


def write(trace: Trace, path: Path) -> None:
    """Write Chrome trace-event JSON to ``path``, compressed where its name ends in ``.gz``.

    Raises OutputError where it cannot be written.
    """
    with replacing(path) as part, part.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                stream(trace, packed)
        else:
            stream(trace, file)


def stream(trace: Trace, file: BinaryIO | gzip.GzipFile) -> None:
    """Write Chrome trace-event JSON to an open file."""
    head = json.dumps(trace.head)
    file.write(f'{head[:-1]}, "traceEvents": [\n'.encode())
    for number, block in enumerate(trace.blocks()):
        file.write(b",\n" if number else b"")
        file.write(block.encode("ascii"))
    file.write(b"\n]}\n")

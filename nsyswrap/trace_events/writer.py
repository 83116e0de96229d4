"""Write a trace to a file, which is there whole or not at all."""

from __future__ import annotations

import gzip
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from nsyswrap.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nsyswrap.trace_events.trace import Trace

_LEVEL = 3  # of gzip: what the default takes three times as long for is a tenth smaller


def write(trace: Trace, path: Path) -> None:
    """Write Chrome trace-event JSON to ``path``, compressed where its name ends in ``.gz``.

    Raises OutputError where it cannot be written.
    """
    with _replacing(path) as part, part.open("wb") as file:
        if path.suffix == ".gz":
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                _stream(trace, packed)
        else:
            _stream(trace, file)


def _stream(trace: Trace, file: BinaryIO | gzip.GzipFile) -> None:
    head = json.dumps(trace.head)
    file.write(f'{head[:-1]}, "traceEvents": [\n'.encode())
    for number, block in enumerate(trace.blocks()):
        file.write(b",\n" if number else b"")
        file.write(block.encode("ascii"))
    file.write(b"\n]}\n")


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Give a file beside ``path``, which takes its place at the end and goes if anything fails meanwhile."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield part
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None

"""Write a trace to a stream or a file. A file is either complete or absent."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, BinaryIO

from nsyswrap.base.files import replacing
from nsyswrap.render.perfetto import chrome, packets

if TYPE_CHECKING:
    from pathlib import Path

    from nsyswrap.render.perfetto.trace import Trace

FORMATS = {"perfetto": packets.blocks, "json": chrome.blocks}
_LEVEL = 2  # of gzip: smaller than 1 in the same time; a higher one takes more than making the trace


def format_of(path: Path) -> str:
    """Return the format that the name of a file asks for: json for .json and .json.gz, else perfetto."""
    return "json" if path.name.lower().removesuffix(".gz").endswith(".json") else "perfetto"


def write(trace: Trace, path: Path, form: str = "") -> None:
    """Write a trace to ``path``. Compress it if the name ends in ``.gz``.

    ``form`` is one of FORMATS; by default the name decides. Raises OutputError if the file cannot be written.
    """
    form = form or format_of(path)
    with replacing(path) as part, part.open("wb") as file:
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
                stream(trace, packed, form)
        else:
            stream(trace, file, form)


def stream(trace: Trace, file: BinaryIO | gzip.GzipFile, form: str = "perfetto") -> None:
    """Write a trace to an open file."""
    for block in FORMATS[form](trace):
        file.write(block)

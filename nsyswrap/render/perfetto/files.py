"""Write a trace to a stream or a file. A file is either complete or absent."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, BinaryIO

from nsyswrap.base.files import replacing
from nsyswrap.base.threads import in_threads
from nsyswrap.render.perfetto import chrome, packets

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from nsyswrap.render.perfetto.trace import Trace

FORMATS = {"perfetto": packets.blocks, "json": chrome.blocks}
_LEVEL = 2  # of gzip: smaller than 1 in the same time; a higher one takes more than making the trace
_THREADS = 4  # more of them hold more blocks at a time
_GZIP_HEAD = b"\x1f\x8b\x08" + bytes(6) + b"\xff"  # no name and no time
_NO_MORE = b"\x03\x00"  # the last block of deflate, empty


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
            _write_packed(FORMATS[form](trace), file)
        else:
            stream(trace, file, form)


def stream(trace: Trace, file: BinaryIO, form: str = "perfetto") -> None:
    """Write a trace to an open file."""
    file.writelines(in_threads(lambda make: make(), FORMATS[form](trace), _THREADS))


def _write_packed(blocks: Iterable[packets.Block], file: BinaryIO) -> None:
    """Write blocks as one member of gzip, each compressed by itself."""
    check = size = 0
    file.write(_GZIP_HEAD)
    for raw, deflated in in_threads(_deflated, blocks, _THREADS):
        check, size = zlib.crc32(raw, check), size + len(raw)
        file.write(deflated)
    file.write(_NO_MORE + struct.pack("<II", check, size & 0xFFFFFFFF))


def _deflated(make: packets.Block) -> tuple[bytes, bytes]:
    """Return a block, and the block compressed such that that of the next one can follow."""
    raw, deflate = make(), zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return raw, deflate.compress(raw) + deflate.flush(zlib.Z_SYNC_FLUSH)

"""Pack columns of integers for the page's script: differences, byte by byte, compressed.

The n-th bytes of all values of a column lie together, so that the zeros of small values take no room.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_RAW = -15  # window bits of zlib: without header, as the browser's "deflate-raw" reads it


def pack(columns: Mapping[str, NDArray[Any]], texts: object, ascending: frozenset[str]) -> dict[str, Any]:
    """Return the columns and a JSON value of texts as one compressed text, and what unpacks them.

    ``ascending`` names the columns that are written as differences. Values are at most 2^53 apart.
    """
    described, parts = [], []
    for name, values in columns.items():
        numbers = (
            np.diff(values.astype(np.int64), prepend=0) if name in ascending else values.astype(np.int64)
        )
        base = int(numbers.min(initial=0))
        numbers = numbers - base
        size = (int(numbers.max(initial=0)).bit_length() + 7) // 8
        described.append([name, len(values), size, base, int(name in ascending)])
        parts.append(numbers.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :size].T.tobytes())
    text = json.dumps(texts, separators=(",", ":"), allow_nan=False).encode()
    # In columns of bytes only repeats of one byte are worth looking for, which takes a tenth of the time.
    runs, words = (
        zlib.compressobj(wbits=_RAW, strategy=how) for how in (zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY)
    )
    compressed = [
        *map(runs.compress, parts),
        runs.flush(zlib.Z_FULL_FLUSH),
        words.compress(text),
        words.flush(),
    ]
    return {"columns": described, "packed": base64.b64encode(b"".join(compressed)).decode()}


def unpack(content: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Any]:
    """Return the columns and the texts of ``pack``, as the page's script does."""
    raw = zlib.decompress(base64.b64decode(content["packed"]), _RAW)
    columns, place = {}, 0
    for name, count, size, base, ascending in content["columns"]:
        planes = np.frombuffer(raw, np.uint8, count * size, place).reshape(size, count)
        place += count * size
        values = base + sum(
            (planes[i].astype(np.int64) << (8 * i) for i in range(size)), np.zeros(count, int)
        )
        columns[name] = np.cumsum(values) if ascending else values
    return columns, json.loads(raw[place:])

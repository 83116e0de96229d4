"""Search the raw bytes of a file for removed values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nsyswrap.capture.redact.one_of import one_of
from nsyswrap.capture.redact.search import SHORTEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nsyswrap.capture.redact.search import Search

_CHUNK_BYTES = 1 << 22
_UNITS = {"utf-8": 1, "utf-16-le": 2, "utf-16-be": 2}


def values_in(path: Path, search: Search) -> set[str]:
    """Return the values that the bytes of a file hold, in UTF-8 or UTF-16."""
    found: set[str] = set()
    for code, unit in _UNITS.items():
        forms = {text.encode(code, "surrogatepass"): text for text in {*search.values, *search.words}}
        if not forms:
            continue
        width = SHORTEST * unit
        lengths: dict[bytes, set[int]] = {}
        for form in forms:
            lengths.setdefault(form[:width], set()).add(len(form))
        pattern = one_of([form.decode("latin-1") for form in lengths], width)
        starts = re.compile(pattern.encode("latin-1"), re.DOTALL)
        longest = max(map(len, forms)) + unit
        with path.open("rb") as file:
            before = b""
            while chunk := file.read(_CHUNK_BYTES):
                raw = before + chunk
                for match in _overlapping(starts, raw):
                    at = match.start()
                    for length in lengths[match.group()]:
                        text = forms.get(raw[at : at + length])
                        if text and (text in search.values or _is_word(raw, at, at + length, unit)):
                            found.add(text)
                before = raw[-longest:]
    return found


def _overlapping(pattern: re.Pattern[bytes], raw: bytes) -> Iterator[re.Match[bytes]]:
    position = 0
    while match := pattern.search(raw, position):
        yield match
        position = match.start() + 1


def _is_word(raw: bytes, start: int, end: int, unit: int) -> bool:
    first, last = raw[max(start - unit, 0) : start], raw[end : end + unit]
    return not any(side.replace(b"\0", b"").isalnum() for side in (first, last))

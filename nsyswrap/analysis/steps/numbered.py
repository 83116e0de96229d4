"""Take ranges that count as one: ``step 0``, ``step 1``, .. are ``step *``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, distinct, order_by_code
from nsyswrap.analysis.range_texts import of_an_operation

_NUMBER = re.compile(r"\d+", re.ASCII)
_PLACE = "\0"  # of a number in a pattern; no name has it
_DIGITS = 18  # of a number: more are a hash or an address


def numbered_ranges(names: NDArray[Any], texts: Sequence[str | None]) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield names whose number counts, with ``*`` in its place, and the positions of their ranges.

    ``names`` has the ranges of one thread by start, as codes of ``texts``.
    """
    by_pattern: dict[str, int] = {}
    pattern = np.full(len(texts), -1)
    for code in ascending(names).tolist():
        text = texts[code]
        if text and _NUMBER.search(text) and _PLACE not in text and not of_an_operation(text):
            pattern[code] = by_pattern.setdefault(_NUMBER.sub(_PLACE, text), len(by_pattern))
    rows = np.flatnonzero(pattern[names] >= 0)
    found = pattern[names[rows]]
    edges = np.cumsum(np.bincount(found, minlength=len(by_pattern)))
    for mine in np.split(rows[order_by_code(found, len(by_pattern))], edges[:-1]) if by_pattern else ():
        used, codes = distinct(names[mine])
        numbers = [_NUMBER.findall(texts[code] or "") for code in used.tolist()]
        if len(used) < 2 or any(len(number) > _DIGITS for of_text in numbers for number in of_text):  # noqa: PLR2004
            continue
        values = np.array(numbers, np.int64)
        varies = (values != values[0]).any(axis=0)
        if any(_counts(values[codes, place]) for place in np.flatnonzero(varies).tolist()):
            yield _label(texts[used[0]] or "", varies.tolist()), mine


def _counts(values: NDArray[Any]) -> bool:
    """Return True if the values rise by a constant step, from the first one again in each run.

    Where runs outnumber the values of one, each value is a part of what repeats: a layer of a model.
    """
    rises, again = np.diff(values), values[1:] == values[0]
    steps, runs = rises[~again], 1 + np.count_nonzero(again)
    return bool(len(steps) and steps[0] > 0 and (steps == steps[0]).all() and runs**2 <= len(values))


def family(name: str) -> str:
    """Return a name with ``*`` in place of its numbers: ``A01`` and ``A02`` are variants of one family."""
    return name if of_an_operation(name) else _NUMBER.sub("*", name)


def is_numbered(text: str, name: str) -> bool:
    """Return True if a text is the name with a number in place of each ``*``, or with one behind it."""
    parts = r"\d+".join(map(re.escape, re.split(r"\*+", name)))
    return bool(re.fullmatch(parts if "*" in name else rf"{parts}[ _:#-]*\d+ *", text, re.ASCII))


def _label(text: str, varies: list[bool]) -> str:
    """Return the text with ``*`` in place of each number that varies."""
    numbers = iter(varies)
    return _NUMBER.sub(lambda number: "*" if next(numbers) else number[0], text)

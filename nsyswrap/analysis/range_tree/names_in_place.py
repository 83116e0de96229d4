"""Name ranges by where they are: numbered siblings have one name, and what did not end says so."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.range_texts import RANGE, RangeText

Ints = NDArray[Any]

NOT_ENDED = " (not ended)"
_FEWEST = 3  # siblings whose names differ in a number alone
_NUMBERED = re.compile(r"(.*[ _:#=-])\d+ *")
_PARTS = re.compile(r"(?:layer|block|stage|head|expert|module)s?[ _:#=-]+$", re.IGNORECASE)


def named_in_place(
    codes: Ints, texts: list[RangeText], parent: Ints, thread: Ints, not_ended: NDArray[np.bool_]
) -> tuple[Ints, list[RangeText]]:
    """Return the code of each range's text, and the texts.

    Ranges of the program inside one range share a name if their names differ in a number at the end alone,
    and if each name is there once on its thread. Parts of a model, such as ``layer 3``, keep their names.
    """
    if not len(codes):
        return codes, texts
    stem, stems = _stems(texts)
    shared = _shared(codes, stem, parent, thread)
    is_range = np.array([text.kind == RANGE for text in texts])[codes]
    changed, (code, merges, opened) = group_keys(codes, shared, not_ended & is_range)
    named = []
    for of, merged, is_open in zip(code.tolist(), merges.tolist(), opened.tolist(), strict=True):
        *around, name = texts[of].names or ("",)
        name = f"{stems[int(stem[of])]}*" if merged else name
        names = (*around, f"{name}{NOT_ENDED}" if is_open else name)
        named.append(texts[of]._replace(names=names) if merged or is_open else texts[of])
    return changed, named


def _stems(texts: list[RangeText]) -> tuple[Ints, list[str]]:
    """Return for each text the position of its name without the number, -1 for one without, and these."""
    stems: dict[str, int] = {}
    numbers = []
    for text in texts:
        found = _NUMBERED.fullmatch(text.names[-1]) if text.kind == RANGE and text.names else None
        is_numbered = found is not None and not _PARTS.search(found[1])
        numbers.append(stems.setdefault(found[1], len(stems)) if found and is_numbered else -1)
    return np.array(numbers, np.int64), list(stems)


def _shared(codes: Ints, stem: Ints, parent: Ints, thread: Ints) -> NDArray[np.bool_]:
    """Mark the ranges that share a name with their siblings."""
    shared = np.zeros(len(codes), bool)
    rows = np.flatnonzero(stem[codes] >= 0)
    if not len(rows):
        return shared
    each, (text, _) = group_keys(codes[rows], thread[rows])
    again = np.unique(text[np.bincount(each) > 1])
    rows = rows[~np.isin(codes[rows], again)]
    if not len(rows):
        return shared
    group, _ = group_keys(parent[rows], stem[codes[rows]])
    _, (of_group, _) = group_keys(group, codes[rows])
    shared[rows] = (np.bincount(of_group) >= _FEWEST)[group]
    return shared

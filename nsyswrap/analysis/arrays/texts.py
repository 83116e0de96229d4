"""Texts of many rows, as one code per row and the text of each code.

A trace has a name per row and few different ones: codes take 4 bytes a row, and what is done to a text is
done once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Text = str | None  # None is a missing text


@dataclass(frozen=True, eq=False)
class Texts(Sequence[Text]):
    """A column of texts. ``texts[codes[row]]`` is that of a row; several codes may have the same text.

    ``[row]`` is a text. A slice, an array of rows or a mask gives the Texts of these rows. As an array it has
    the type object.
    """

    codes: NDArray[np.int32]
    texts: Sequence[Text]

    def __post_init__(self) -> None:
        object.__setattr__(self, "codes", np.asarray(self.codes).astype(np.int32, copy=False))

    @classmethod
    def of(cls, values: Iterable[Text]) -> Texts:
        """Return the texts of these rows. Each distinct text gets one code."""
        if isinstance(values, cls):
            return values
        numbers: dict[Text, int] = {}
        codes = [numbers.setdefault(text, len(numbers)) for text in values]
        return cls(np.array(codes, np.int32), list(numbers))

    @classmethod
    def repeated(cls, text: Text, rows: int) -> Texts:
        """Return the same text for each of ``rows`` rows."""
        return cls(np.zeros(rows, np.int32), [text])

    @classmethod
    def joined(cls, parts: Iterable[Iterable[Text]]) -> Texts:
        """Return the rows of all parts, one after the other. Each distinct text gets one code."""
        numbers: dict[Text, int] = {}
        codes = [np.empty(0, np.int32)]
        for part in map(cls.of, parts):
            number = [numbers.setdefault(text, len(numbers)) for text in part.texts]
            codes.append(np.array(number, np.int32)[part.codes])
        return cls(np.concatenate(codes), list(numbers))

    def map(self, change: Callable[[Text], Text]) -> Texts:
        """Return the column with ``change`` applied to the text of each code."""
        return Texts(self.codes, [change(text) for text in self.texts])

    def used(self) -> set[Text]:
        """Return the distinct texts of the rows."""
        present = np.zeros(len(self.texts), dtype=bool)
        present[self.codes] = True
        return {self.texts[code] for code in np.flatnonzero(present).tolist()}

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Text]:
        return map(self.texts.__getitem__, self.codes.tolist())

    @overload
    def __getitem__(self, rows: int) -> Text: ...
    @overload
    def __getitem__(self, rows: slice | NDArray[Any]) -> Texts: ...
    def __getitem__(self, rows: int | slice | NDArray[Any]) -> Text | Texts:
        chosen = self.codes[rows]
        return Texts(chosen, self.texts) if isinstance(chosen, np.ndarray) else self.texts[chosen]

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 - numpy's
        values = np.empty(len(self.texts), dtype=object)
        values[:] = self.texts
        return values[self.codes]

"""Columns of texts as codes: they behave as the list of their texts does."""

import numpy as np
import pytest

from nsyswrap.analysis.arrays.codes import TextColumn

_ROWS = ["b", None, "a", "b", "", "a"]


@pytest.fixture
def column() -> TextColumn:
    return TextColumn.of(_ROWS)


def test_it_is_a_sequence_of_its_texts(column: TextColumn) -> None:
    assert list(column) == _ROWS
    assert len(column) == len(_ROWS)
    assert [column[row] for row in (0, 1, -1)] == ["b", None, "a"]
    assert "a" in column
    assert column.index("a") == 2


def test_each_distinct_text_is_there_once(column: TextColumn) -> None:
    assert list(column.texts) == ["b", None, "a", ""]
    assert column.codes.dtype == np.int32


def test_rows_are_taken_by_slice_positions_and_mask(column: TextColumn) -> None:
    assert list(column[1:3]) == [None, "a"]
    assert list(column[np.array([5, 0])]) == ["a", "b"]
    assert list(column[np.array([True, False, False, False, True, False])]) == ["b", ""]


def test_as_an_array_it_holds_objects(column: TextColumn) -> None:
    assert np.asarray(column).tolist() == _ROWS
    target = np.full(7, "x", dtype=object)
    target[1:] = column
    assert target.tolist() == ["x", *_ROWS]


def test_parts_are_joined_under_one_numbering(column: TextColumn) -> None:
    joined = TextColumn.joined([column, ["c", "a"], TextColumn.repeated(None, 2), []])
    assert list(joined) == [*_ROWS, "c", "a", None, None]
    assert len(joined.texts) == len(set(joined.texts))
    assert list(TextColumn.joined([])) == []


def test_a_change_is_made_once_for_each_code(column: TextColumn) -> None:
    changed: list[str | None] = []

    def louder(text: str | None) -> str | None:
        changed.append(text)
        return text and f"{text}!"

    assert list(column.map(louder)) == [text and f"{text}!" for text in _ROWS]
    assert changed == ["b", None, "a", ""]


def test_texts_without_a_row_are_not_used(column: TextColumn) -> None:
    assert column[:2].used() == {"b", None}
    assert column[:0].used() == set()


def test_no_rows() -> None:
    empty = TextColumn(np.empty(0, np.int64), [])
    assert list(empty) == []
    assert np.asarray(empty).tolist() == []
    assert list(empty[np.empty(0, np.int64)]) == []

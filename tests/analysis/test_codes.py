"""Codes of numbers and texts are those of all at once; parts of tables select columns when they are used."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet, Factorizer, TextColumn
from nsyswrap.base.constants import MISSING
from nsyswrap.base.records import dataclass
from nsyswrap.capture.stream import looked_up, one_of


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("values", [3, 200, 5_000, 100_000])
def test_blocks_are_numbered_as_a_whole(sparse: bool, values: int) -> None:  # noqa: FBT001
    dice = np.random.default_rng(values)
    known = np.append(dice.integers(MISSING, 2**63 - 1, values), [MISSING, 0, -1, 2**63 - 1])
    rows = dice.choice(known, 150_000)
    factorizer = Factorizer(sparse=sparse)
    with ThreadPoolExecutor(4) as pool:
        numbers = np.concatenate(list(pool.map(factorizer.of, np.array_split(rows, 40))))
    ranked, codes = factorizer.ranked(numbers)
    assert ranked.tolist() == np.unique(rows).tolist()
    assert (ranked[codes] == rows).all()


@pytest.mark.parametrize("times", [1, 1000])  # few values need no table
def test_values_that_share_a_place_stay_apart(times: int) -> None:
    factorizer = Factorizer()
    rows = np.tile([5, 5 + 2**16, 5 + 2**17, 5], times)
    numbers = np.concatenate([factorizer.of(rows), factorizer.of(rows[::-1].copy())])
    ranked, codes = factorizer.ranked(numbers)
    assert ranked[codes].tolist() == [*rows.tolist(), *rows[::-1].tolist()]
    assert codes.dtype == np.uint8


def test_nothing_has_no_numbers() -> None:
    factorizer = Factorizer()
    ranked, codes = factorizer.ranked(factorizer.of(np.empty(0, np.int64)))
    assert len(ranked) == len(codes) == 0


@dataclass(frozen=True, eq=False)
class Spans(ColumnSet):
    """A table with two columns, and names that hold for all rows."""

    start: NDArray[Any]
    end: NDArray[Any]
    names: tuple[str, ...] = ("a", "b")


SPANS = Spans(np.array([10, 20, 30, 40]), np.array([11, 22, 33, 44]))


def test_a_part_has_the_rows_at_positions_in_their_order() -> None:
    part = SPANS.of(np.array([3, 0]))
    assert (len(part), part.start.tolist(), part.end.tolist()) == (2, [40, 10], [44, 11])


def test_a_part_of_a_part_has_the_marked_rows() -> None:
    part = SPANS.of(np.array([True, False, True, True])).of(np.array([False, True, True]))
    assert (len(part), part.start.tolist(), part.names) == (2, [30, 40], ("a", "b"))


def test_all_rows_in_order_are_the_table_itself() -> None:
    rows = np.arange(4)
    assert SPANS.of(rows) is SPANS.of(rows >= 0) is SPANS
    assert SPANS.of(rows[::-1]).start.tolist() == [40, 30, 20, 10]
    assert SPANS.of(np.array([0, 1, 1, 3])).start.tolist() == [10, 20, 20, 40]
    assert SPANS.of(rows, end=rows).end.tolist() == [0, 1, 2, 3]


def test_columns_can_be_replaced() -> None:
    part = SPANS.of(np.array([1, 2]), end=np.array([21, 31]))
    assert (part.start.tolist(), part.end.tolist()) == ([20, 30], [21, 31])
    assert part.of(np.array([1])).end.tolist() == [31]


def test_a_column_is_selected_once_and_only_if_used() -> None:
    part = SPANS.of(np.array([1, 2]))
    assert part.start is part.start
    assert "end" not in vars(part)


def test_nothing_else_is_an_attribute() -> None:
    with pytest.raises(AttributeError, match="duration"):
        _ = SPANS.of(np.array([0])).duration  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="duration"):
        _ = SPANS.duration  # type: ignore[attr-defined]


def test_a_table_in_a_table_is_selected_as_well() -> None:
    @dataclass(frozen=True, eq=False)
    class Sized(ColumnSet):
        spans: Spans
        size: NDArray[Any]

    part = Sized(SPANS, np.array([1, 2, 3, 4])).of(np.array([2]))
    assert (len(part), part.spans.start.tolist(), part.size.tolist()) == (1, [30], [3])


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


@pytest.mark.parametrize("table", [np.arange(5, dtype=np.int8), np.arange(10).reshape(5, 2)])
@pytest.mark.parametrize("kind", [np.int16, np.int32, np.int64])
def test_positions_are_looked_up_from_either_end(kind: type, table: NDArray[Any]) -> None:
    positions: NDArray[Any] = np.random.default_rng(1).integers(-5, 5, 150_000).astype(kind)
    found = looked_up(table, positions)
    assert found.dtype == table.dtype
    np.testing.assert_array_equal(found, table[positions])


@pytest.mark.parametrize("numbers", [(), (MISSING, 3), tuple(range(20))])
@pytest.mark.parametrize("rows", [0, 5, 40])
def test_values_are_one_of_few_or_many_numbers(rows: int, numbers: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).choice([MISSING, 3, 19, 20], rows)
    marks = one_of(values, numbers)
    assert marks.dtype == bool
    np.testing.assert_array_equal(marks, np.isin(values, numbers))

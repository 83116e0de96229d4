"""Parts of tables select a column when it is used."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.codes import ColumnSet


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

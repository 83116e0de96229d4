"""Statistics of one group without a sort, against those of the sorted groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from nsyswrap.analysis.arrays.groups import Groups, grouped
from nsyswrap.analysis.arrays.one_group import OneGroup, exact_totals, largest, of_some

if TYPE_CHECKING:
    from nsyswrap.analysis.arrays.groups import Statistics

SHARES = (0.95, 0.99, 0.25, 0.5, 0.01)


def same(one: Statistics, other: Statistics) -> bool:
    exact = ("count", "total", "avg", "med", "min", "max")
    return all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in exact
    ) and np.allclose(one.std, other.std, rtol=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 4, 20, 99, 100, 101, 70_001])
@pytest.mark.parametrize("values", [2, 10, 10**9])
def test_selected_places_equal_those_of_a_sort(rows: int, values: int) -> None:
    times = np.random.default_rng(rows).integers(0, values, rows).astype(np.int32)
    sorted_, one = Groups(np.zeros(rows, np.int8), 1), OneGroup()
    before = times.copy()
    assert same(one.of(times), sorted_.of(times))
    for share in SHARES:
        expected = sorted_.quantile(times, share)
        assert np.array_equal(one.quantile(times, share), expected, equal_nan=True)
    assert np.array_equal(times, before)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("period", [60, 61, 62, 100_000])
def test_values_that_a_sample_does_not_tell_are_selected_too(period: int, kind: type[np.integer]) -> None:
    times = (np.arange(70_001) % period - 5).astype(kind)
    sorted_, one = Groups(np.zeros(len(times), np.int8), 1), OneGroup()
    assert same(one.of(times), sorted_.of(times))
    for share in SHARES:
        assert np.array_equal(one.quantile(times, share), sorted_.quantile(times, share))


def test_a_sum_beyond_64_bits_is_an_error() -> None:
    with pytest.raises(OverflowError):
        OneGroup().of(np.full(4, 2**62))


def test_some_groups_have_the_statistics_of_all() -> None:
    codes = np.array([0, 1, 2, 1, 2, 2, 3])
    times = np.array([9, 4, 1, 6, 2, 3, 10])
    every = grouped(codes, times, 4)
    some = of_some(codes, times, [1, 3])
    assert some.total.tolist() == [10, 10]
    assert some.med.tolist() == every.med[[1, 3]].tolist()
    assert some.std == pytest.approx(every.std[[1, 3]])


def test_of_equal_totals_the_first_are_the_largest() -> None:
    assert largest(np.array([1, 5, 7, 5, 5]), 3).tolist() == [1, 2, 3]


@pytest.mark.parametrize("times", [[2**52, 2**52, 1], [5, -1, 3]])
def test_totals_that_floats_may_not_hold_are_not_given(times: list[int]) -> None:
    assert exact_totals(np.array([0, 1, 1]), np.array(times), 2) is None


def test_totals_are_whole_numbers() -> None:
    totals = exact_totals(np.array([0, 1, 1]), np.array([5, 1, 3]), 2)
    assert totals is not None
    assert totals.tolist() == [5, 4]

"""Grouped statistics against values worked out on paper."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nsyswrap.analysis.arrays import groups
from nsyswrap.analysis.arrays.groups import (
    GroupBy,
    Statistics,
    ascending,
    distinct,
    group_keys,
    grouped,
    largest_first,
    median,
    number_texts,
    numbered,
    quantiles,
)
from nsyswrap.base.constants import MISSING


def of(*values: int) -> Statistics:
    """The statistics of one group."""
    return grouped(np.zeros(len(values), np.int64), np.array(values, np.int64), 1)


def test_a_single_value_has_no_deviation() -> None:
    one = of(7)
    assert (one.count[0], one.total[0], one.avg[0], one.med[0]) == (1, 7, 7.0, 7.0)
    assert (one.min[0], one.max[0], one.std[0]) == (7, 7, 0.0)


@pytest.mark.parametrize(
    ("values", "median"),
    [((3, 1, 2), 2.0), ((4, 1, 3, 2), 2.5), ((1, 2), 1.5), ((5, 5, 5, 9), 5.0), ((1, 1, 2, 2), 1.5)],
)
def test_the_median_is_the_middle_or_the_mean_of_the_two_in_the_middle(
    values: tuple[int, ...], median: float
) -> None:
    assert of(*values).med.tolist() == [median]


def test_the_deviation_is_that_of_a_sample() -> None:
    # mean 5; squares 9 + 1 + 1 + 1 + 0 + 0 + 4 + 16 = 32; 32 / 7
    assert of(2, 4, 4, 4, 5, 5, 7, 9).std[0] == pytest.approx((32 / 7) ** 0.5)


def test_the_deviation_of_huge_values_that_are_near_each_other_is_not_lost() -> None:
    hour = 3_600_000_000_000
    assert of(hour + 1, hour + 2, hour + 3).std.tolist() == [1.0]


def test_groups_do_not_mix_and_need_no_order() -> None:
    codes, values = np.array([2, 0, 2, 0, 2]), np.array([30, 1, 10, 2, 20])
    found = grouped(codes, values, 3)
    assert found.count.tolist() == [2, 0, 3]
    assert found.total.tolist() == [3, 0, 60]
    assert found.min[[0, 2]].tolist() == [1, 10]
    assert found.max[[0, 2]].tolist() == [2, 30]
    assert found.med[[0, 2]].tolist() == [1.5, 20.0]
    assert found.std[[0, 2]].tolist() == [pytest.approx(0.5**0.5), 10.0]


@pytest.mark.parametrize(
    "limits",
    [{}, {"_LOOP_ROWS": 1}, {"PART": 64, "_FEW_STEPS": 0}],
    ids=["together", "by group", "in threads"],
)
@pytest.mark.parametrize("codes_kind", [np.uint8, np.int64])
@pytest.mark.parametrize(
    ("values_kind", "farthest"),
    [(np.int32, 100), (np.int32, 2**31 - 1), (np.int64, 2**40), (np.int64, 2**61), (np.float64, 100)],
)
def test_values_are_ordered_by_group_then_by_value(
    codes_kind: type,
    values_kind: type,
    farthest: int,
    limits: dict[str, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, rows in limits.items():
        monkeypatch.setattr(groups, name, rows)
    random = np.random.default_rng(1)
    codes: NDArray[Any] = random.integers(0, 50, 500).astype(codes_kind)
    values: NDArray[Any] = random.integers(-farthest, farthest, 500, endpoint=True).astype(values_kind)
    ordered = GroupBy(codes, 40).ordered(values)  # the last 10 codes are in no group
    assert ordered.dtype == values_kind
    assert GroupBy(codes[:1] * 0, 1).ordered(values[:1]).tolist() == values[:1].tolist()
    assert ordered.tolist() == [
        value for code in range(40) for value in sorted(values[codes == code].tolist())
    ]


@pytest.mark.parametrize("empty", [0, 1, 2])
def test_a_group_without_values_has_no_average_and_no_deviation(empty: int) -> None:
    codes = np.array([code for code in (0, 1, 2) if code != empty])
    found = grouped(codes, np.array([5, 8]), 3)
    assert (found.count[empty], found.total[empty], found.std[empty]) == (0, 0, 0.0)
    assert np.isnan(found.avg[empty])
    assert np.isnan(found.med[empty])
    assert np.delete(found.med, empty).tolist() == [5.0, 8.0]


@pytest.mark.parametrize("groups", [0, 2])
def test_no_values_at_all(groups: int) -> None:
    found = grouped(np.empty(0, np.int64), np.empty(0, np.int64), groups)
    assert found.count.tolist() == found.std.tolist() == [0] * groups
    assert np.isnan(found.avg).tolist() == [True] * groups


def test_totals_stay_integers_beyond_what_a_float_can_tell_apart() -> None:
    assert of(2**53, 1).total.tolist() == [2**53 + 1]
    assert of(2**53, 1).total.dtype == np.int64


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_sums_and_medians_alone_are_those_among_all_statistics(groups: int) -> None:
    by_code = GroupBy(np.array([2, 0, 2, 0, 2]) % groups, groups)
    values = np.array([2**53, 1, 10, 2, 1])
    assert by_code.totals(values).tolist() == by_code.of(values).total.tolist()
    np.testing.assert_array_equal(by_code.quantile(values, 0.5), by_code.of(values).med)


@pytest.mark.parametrize("values", [[7], [3, 1, 2], [4, 1, 3, 2], [0.5, -2.0], [2**62, 2**62 - 1]])
def test_the_median_of_all_values_is_that_of_numpy(values: list[Any]) -> None:
    assert median(np.array(values)) == np.median(values)
    assert np.isnan(median(np.empty(0, np.int64)))


@pytest.mark.parametrize("values", [[7], [3, 1, 2], [[5, 9], [1, 1]], [0.5, -2.0, 1e9, 4.0]])
def test_quantiles_and_distinct_values_are_those_of_numpy(values: list[Any]) -> None:
    shares = (0.0, 0.25, 0.5, 0.99, 1.0)
    np.testing.assert_allclose(quantiles(np.array(values), shares), np.quantile(values, shares), rtol=1e-15)
    np.testing.assert_array_equal(ascending(np.ravel(values)), np.unique(values))


def test_keys_are_numbered_in_ascending_order_of_the_first_then_the_second() -> None:
    codes, (first, second) = group_keys(np.array([9, -1, 9, -1]), np.array([1, 5, 0, 5]))
    assert codes.tolist() == [2, 0, 1, 0]
    assert first.tolist() == [-1, 9, 9]
    assert second.tolist() == [5, 0, 1]


def test_values_alone_in_their_groups_are_their_own_statistics() -> None:
    found = grouped(np.array([3, 0, 1]), np.array([-7, 2**61, 4]), 5)
    assert found.count.tolist() == [1, 1, 0, 1, 0]
    alone = [0, 1, 3]
    for figure in (found.total, found.min, found.max):
        assert figure[alone].tolist() == [2**61, 4, -7]
    for mean in (found.avg, found.med):
        assert mean[alone].tolist() == [float(2**61), 4.0, -7.0]
        assert np.isnan(mean[[2, 4]]).all()
    assert found.std.tolist() == [0.0] * 5
    with pytest.raises(OverflowError):
        grouped(np.array([0, 1]), np.array([2**62, 2**62]), 2)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_have_keys_as_many_have(rows: int) -> None:
    first, second = np.array([5, 3], np.int32)[:rows], np.array([-1, -1])[:rows]
    codes, keys = group_keys(first, second)
    assert [key.tolist() for key in keys] == [sorted(first.tolist()), second.tolist()]
    assert [keys[0][code] for code in codes] == first.tolist()
    assert {codes.dtype, *(key.dtype for key in keys)} == {np.dtype(np.int64)}
    assert distinct(first)[0].tolist() == ascending(first).tolist() == sorted(first.tolist())


@pytest.mark.parametrize("most", [1, 3, 64])
def test_keys_of_many_rows_are_numbered_block_by_block(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that only later blocks have come first, among them a missing one; with more in a block than
    ``most``, all rows are numbered at once."""
    first = np.array([7, 7, 7, 7, 9, 9, 7, 9, 7, MISSING, -3, -3, 9], np.int64)
    second = np.array([5, 5, 1, 5, 0, 0, 1, 0, 5, 2**62, 4, 4, 2**40], np.int64)
    rows = list(zip(first.tolist(), second.tolist(), strict=True))
    monkeypatch.setattr(groups, "BLOCK_ROWS", 4)
    monkeypatch.setattr(groups, "_HANDFUL", most)
    codes, keys = group_keys(first, second)
    assert list(zip(*(key.tolist() for key in keys), strict=True)) == sorted({*rows})
    assert [sorted({*rows})[code] for code in codes.tolist()] == rows


@pytest.mark.parametrize(
    ("values", "size"),
    [
        ([], 1),
        ([2**62], 1),
        ([*range(256), 3], 1),  # all of a range
        ([*range(256), 256], 2),
        ([0, 900, 5, 5], 1),  # in a range with others, or not
        ([5, 2**60, -(2**60)], 1),
        ([MISSING, *range(255)], 1),
        ([MISSING, *range(256)], 2),
        ([*range(0, 2**40, 2**30)], 2),  # far apart, and more than a handful
    ],
)
def test_numbers_of_values_take_as_few_bytes_as_they_can(values: list[int], size: int) -> None:
    array = np.array([*values, *values[::-1]], np.int64)
    known, codes = numbered(array)
    assert (codes.dtype.kind, codes.itemsize) == ("u", size)
    assert known.tolist() == sorted({*values})
    assert known[codes].tolist() == array.tolist()


def test_no_rows_make_no_keys() -> None:
    codes, keys = group_keys(np.empty(0, np.int64), np.empty(0, np.int64))
    assert [codes.tolist(), *(key.tolist() for key in keys)] == [[], [], []]


def test_texts_are_numbered_in_byte_order_with_the_missing_one_first() -> None:
    ids = np.array([40, 10, 30, 20, 10])
    codes, texts = number_texts(ids, ["b", "é", None, "B"])  # of the ids 10, 20, 30, 40
    assert texts == [None, "B", "b", "é"]
    assert codes.tolist() == [1, 2, 0, 3, 2]


def test_one_text_behind_two_ids_is_one_group() -> None:
    codes, texts = number_texts(np.array([1, 2, 3]), ["same", "other", "same"])
    assert (codes.tolist(), texts) == ([1, 0, 1], ["other", "same"])


def test_no_texts_are_no_groups() -> None:
    codes, texts = number_texts(np.empty(0, np.int64), [])
    assert (codes.tolist(), texts) == ([], [])


def trimmed(*values: int) -> tuple[float, float]:
    """The trimmed mean of one group and its error."""
    mean, error, _ = GroupBy(np.zeros(len(values), np.int64), 1).trimmed(np.array(values, np.int64))
    return float(mean[0]), float(error[0])


def test_a_trimmed_mean_leaves_out_a_tenth_at_either_end() -> None:
    assert trimmed(10**9, *range(2, 10), 1)[0] == 5.5
    assert trimmed(100, 1, 4)[0] == 35.0  # too few to leave one out


def test_the_error_of_independent_values_is_that_of_a_trimmed_mean() -> None:
    values = np.random.default_rng(1).normal(10**6, 10**4, (400, 100)).astype(np.int64)
    means, errors, _ = GroupBy(np.repeat(np.arange(400), 100), 400).trimmed(values.ravel())
    assert np.sqrt((errors**2).mean()) == pytest.approx(means.std(), rel=0.1)


def test_values_that_drift_have_a_larger_error_than_the_same_ones_mixed() -> None:
    drifting = np.arange(1000, 2600)
    mixed = np.random.default_rng(1).permutation(drifting)
    assert trimmed(*drifting.tolist())[0] == trimmed(*mixed.tolist())[0]
    assert trimmed(*drifting.tolist())[1] > 5 * trimmed(*mixed.tolist())[1]


def test_trimmed_means_of_several_groups_and_of_none() -> None:
    groups = GroupBy(np.array([2, 0, 2, 0]), 4)
    mean, error, of_mean = groups.trimmed(np.array([5, 1, 7, 1]))
    assert (mean[[0, 2]].tolist(), error[[0, 2]].tolist()) == ([1.0, 6.0], [0.0, 1.0])
    assert np.isnan(mean[[1, 3]]).all()
    assert np.isnan(GroupBy(np.empty(0, np.int64), 2).trimmed(np.empty(0, np.int64))[0]).all()
    assert of_mean.tolist() == groups.mean_error(np.array([5, 1, 7, 1])).tolist() == [0.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("most", [0, 1, 3, 39, 40, 100])
@pytest.mark.parametrize("kinds", [1, 4, 1000])  # of which many are equal
def test_the_largest_come_first_and_equal_ones_in_order(kinds: int, most: int) -> None:
    values = np.random.default_rng(kinds).integers(-kinds, kinds, 40)
    expected = sorted(range(40), key=lambda row: (-values[row], row))[:most]
    assert largest_first(values, most).tolist() == expected
    assert largest_first(values[:0], most).tolist() == []

"""What is computed in columns equals what plain Python says of it, one value at a time."""

import math
import sqlite3
import tempfile
from contextlib import closing
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import median, stdev
from typing import Any, get_args

import numpy as np
import pytest
from fixed_examples import FILES, FIXED
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tiny_export import Row, memcpy, um_cpu_fault, um_gpu_fault, write

from nsyswrap.analysis.arrays.groups import GroupBy, distinct, group_keys, grouped, number_texts
from nsyswrap.api import CaptureReader
from nsyswrap.base.constants import MISSING
from nsyswrap.base.units import Rounding, TimeUnit, Unit, csv_cell, human, round_tenth
from nsyswrap.capture.intervals import LEAST, MOST, whole_time
from nsyswrap.capture.selection import parse_selection, parse_time
from nsyswrap.render.formats.csv import delimited
from nsyswrap.reports import find_report
from nsyswrap.reports.table import Column, Schema, Table, rounded_tenths, share, stat_values

ROUNDINGS = st.sampled_from(get_args(Rounding))
TIMES = st.integers(0, 10**12)  # ns: a quarter of an hour
SMALL = st.integers(-3, 3)  # of which many are equal
VALUES = st.one_of(SMALL, TIMES, st.integers(-(10**12), 10**12))
KEYS = st.one_of(st.just(MISSING), SMALL, st.integers(-(2**62), 2**62))
FLOATS = st.floats(-1e12, 1e12)
TENTHS_AND_TIES = st.integers(-(10**9), 10**9).map(lambda number: number / 20)  # every second one is a tie
GROUPS = 4  # of which some are empty


def array(values: list[int]) -> NDArray[Any]:
    return np.array(values, np.int64)


@FIXED
@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), VALUES), max_size=40), st.integers(0, 100))
def test_quantiles(rows: list[tuple[int, int]], percent: int) -> None:
    codes, values = array([code for code, _ in rows]), array([value for _, value in rows])
    found = GroupBy(codes, GROUPS).quantile(values, percent / 100)
    for group in range(GROUPS):
        own = sorted(value for code, value in rows if code == group)
        place = Fraction(len(own) * percent, 100)
        last = len(own) - 1
        if not own:
            assert math.isnan(found[group])
        elif place.denominator == 1 and place > 0:
            assert found[group] == (own[int(place) - 1] + own[min(int(place), last)]) / 2
        else:
            assert found[group] == own[math.floor(place)]


@FIXED
@given(st.lists(KEYS, max_size=200), st.sampled_from([1, 40]))
@example(list(range(0, 2**40, 2**33)), 1)  # more values than are looked for one by one, far apart
def test_distinct_values(few: list[int], times: int) -> None:
    values = array(few * times)
    found, codes = distinct(values)
    assert found.tolist() == sorted(set(few))
    assert found[codes].tolist() == values.tolist()


@FIXED
@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), VALUES), max_size=40), st.sampled_from([1, 1, 1, 30]))
def test_grouped_statistics(few: list[tuple[int, int]], times: int) -> None:
    rows = few * times  # groups of many rows may be sorted in another way
    found = grouped(array([code for code, _ in rows]), array([value for _, value in rows]), GROUPS)
    for group in range(GROUPS):
        values = [value for code, value in rows if code == group]
        assert (found.count[group], found.total[group]) == (len(values), sum(values))
        assert found.std[group] == pytest.approx(stdev(map(Fraction, values)) if len(values) > 1 else 0.0)
        if values:
            assert (found.min[group], found.max[group]) == (min(values), max(values))
            assert found.avg[group] == sum(values) / len(values)
            assert found.med[group] == float(median(map(Fraction, values)))
        else:
            assert math.isnan(found.avg[group])
            assert math.isnan(found.med[group])


@FIXED
@given(st.lists(st.tuples(st.integers(0, GROUPS - 1), VALUES), max_size=20))
def test_the_least_and_the_largest_of_nothing_are_missing(rows: list[tuple[int, int]]) -> None:
    found = stat_values(grouped(array([code for code, _ in rows]), array([v for _, v in rows]), GROUPS))
    for group in set(range(GROUPS)) - {code for code, _ in rows}:
        assert found["min_ns"][group] == found["max_ns"][group] == MISSING


@FIXED
@given(st.integers(1, 3), st.lists(st.tuples(KEYS, KEYS, KEYS), max_size=30))
def test_keys_are_numbered_like_sorted_tuples(width: int, rows: list[tuple[int, int, int]]) -> None:
    cut = [row[:width] for row in rows]
    codes, keys = group_keys(*(array([row[i] for row in cut]) for i in range(width)))
    distinct = sorted(set(cut))  # what is missing comes first, as in SQL
    assert list(zip(*(key.tolist() for key in keys), strict=True)) == distinct
    assert [distinct[code] for code in codes.tolist()] == cut


@FIXED
@given(st.dictionaries(st.integers(1, 30), st.one_of(st.none(), st.text(max_size=3)), max_size=10), st.data())
@pytest.mark.slow
def test_texts_are_numbered_in_the_order_of_their_bytes(
    strings: dict[int, str | None], data: st.DataObject
) -> None:
    ids = data.draw(st.lists(st.sampled_from(sorted(strings)), max_size=20)) if strings else []
    used = sorted(set(ids))
    codes, texts = number_texts(array(ids), [strings[i] for i in used])
    assert texts == sorted(
        {strings[i] for i in used}, key=lambda text: (text is not None, (text or "").encode())
    )
    assert [texts[code] for code in codes.tolist()] == [strings[i] for i in ids]


@FIXED
@given(st.lists(TIMES, max_size=30))
def test_shares_of_a_total(totals: list[int]) -> None:
    shares = share(array(totals)).tolist()
    if sum(totals):
        assert shares == [pytest.approx(float(Fraction(100 * total, sum(totals)))) for total in totals]
    else:
        assert all(map(math.isnan, shares))


def half_up(exact: Fraction) -> float:
    tenths = math.floor(abs(exact) * 10 + Fraction(1, 2))
    return float(Fraction(tenths if exact >= 0 else -tenths, 10))


@FIXED
@given(st.one_of(FLOATS, TENTHS_AND_TIES))
@example(13408.05)
@example(0.25)
@example(-0.05)
@example(0.0)
def test_both_eras_round_half_away_from_zero(value: float) -> None:
    assert round_tenth(value, "2025") == half_up(Fraction(value))
    assert round_tenth(value, "legacy") == half_up(Fraction(Decimal(repr(value))))


@FIXED
@given(st.lists(st.one_of(FLOATS, TENTHS_AND_TIES)))
def test_columns_round_as_single_values_do(values: list[float]) -> None:
    eras: tuple[Rounding, ...] = ("2025", "legacy")
    for era in eras:
        column = rounded_tenths(np.array([*values, math.nan]), era).tolist()
        assert column[:-1] == [round_tenth(value, era) for value in values]
        assert math.isnan(column[-1])


@FIXED
@given(st.one_of(FLOATS, TENTHS_AND_TIES))
@example(13408.05)
def test_rounding_is_that_of_an_sqlite_of_the_era(value: float) -> None:
    era: Rounding = "2025" if sqlite3.sqlite_version_info >= (3, 43) else "legacy"
    with closing(sqlite3.connect(":memory:")) as db:
        assert round_tenth(value, era) == db.execute("SELECT round(?, 1)", (value,)).fetchone()[0]


@FIXED
@given(st.one_of(st.integers(0, 10**18), FLOATS), st.sampled_from([Unit.BYTES, Unit.BYTES_PER_S]), ROUNDINGS)
def test_megabytes_are_near_their_bytes(value: float, unit: Unit, rounding: Rounding) -> None:
    cell = csv_cell(value, unit, rounding, "ns")
    assert len(cell.partition(".")[2]) == 3
    assert abs(Decimal(cell) * 10**6 - Decimal(value)) <= 500 + abs(Decimal(value)) / 10**15


@FIXED
@given(st.one_of(TIMES, st.floats(0, 1e15)), st.sampled_from(["us", "ms", "s"]), ROUNDINGS)
def test_times_in_other_units_are_near_their_nanoseconds(
    value: float, unit: TimeUnit, rounding: Rounding
) -> None:
    factor, digits = {"us": (10**3, 3), "ms": (10**6, 4), "s": (10**9, 4)}[unit]
    cell = csv_cell(value, Unit.NS, rounding, unit)
    assert len(cell.partition(".")[2]) == digits
    last = Decimal(factor) / 10**digits
    error = abs(Decimal(cell) * factor - Decimal(value))
    assert error <= last / 2 + Decimal("0.05") + Decimal(value) / 10**15


# Ties of rounding to thousandths of MB and ten-thousandths of ms and s, and what floats hold inexactly.
WHOLE = [VALUES, st.integers(0, 10**7).map(lambda n: n * 50), st.integers(-(2**63), 2**63 - 1)]
UNITS = st.sampled_from([Unit.NS, Unit.BYTES, Unit.BYTES_PER_S, Unit.PERCENT, Unit.COUNT])


@FIXED
@given(
    st.one_of(
        st.lists(st.one_of(*WHOLE), min_size=1).map(lambda values: np.array(values, np.int64)),
        st.lists(st.one_of(FLOATS, TENTHS_AND_TIES), min_size=1).map(np.array),
    ),
    UNITS,
    ROUNDINGS,
    st.sampled_from(["auto", "ns", "us", "ms", "s"]),
)
@example(np.array([0, MISSING, 2**47]), Unit.ADDRESS, "2025", "ns")
def test_a_column_is_written_like_its_cells(
    values: NDArray[Any], unit: Unit, rounding: Rounding, time_unit: TimeUnit
) -> None:
    schema = Schema("cuda_gpu_trace", "T", Column("a", "A", "h", unit=unit))
    _, *lines = delimited(Table(schema, {"a": values}, rounding), ",", time_unit, safe=False).splitlines()
    known = [None if value == MISSING else value for value in values.tolist()]
    assert lines == [csv_cell(value, unit, rounding, time_unit) for value in known]


SIZES = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9}
SIZES |= {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


@FIXED
@given(st.integers(-(10**15), 10**15), st.sampled_from([Unit.NS, Unit.BYTES]))
def test_values_for_people_are_off_by_half_a_percent_at_most(value: int, unit: Unit) -> None:
    number, label = human(value, unit).split()
    assert abs(Decimal(number) * SIZES[label] - value) <= Decimal(abs(value)) / 200


@FIXED
@given(st.one_of(TIMES, st.integers(LEAST, MOST)))
def test_a_time_as_it_is_said_selects_the_same(time: int) -> None:
    said = parse_selection(f"{time}/").criteria(whole_time()).removeprefix("time ")
    assert parse_time(said) == (time, None)


def table(name: str, *rows: Row, **options: int) -> dict[str, list[Any]]:
    """Return the columns of a report of an export with these rows."""
    with tempfile.TemporaryDirectory() as folder:
        made = find_report(name).make(CaptureReader(write(Path(folder) / "x.sqlite", *rows)), **options)
    return {column.name: [row[i] for row in made.rows()] for i, column in enumerate(made.columns)}


def nsys_throughput(size: int, duration: int) -> int | None:
    """Bytes per second, with nsys' division of integers."""
    return size * (10**9 // duration) if duration else None


DURATIONS = st.one_of(st.integers(0, 100), st.integers(0, 3 * 10**9))


@FILES
@given(st.lists(st.tuples(st.integers(0, 10**9), DURATIONS), min_size=1, max_size=10))
@example([(100, 0), (100, 1), (1000, 3), (7, 10**9), (7, 10**9 + 1)])
@pytest.mark.slow
def test_the_throughput_of_copies(copies: list[tuple[int, int]]) -> None:
    rows = [memcpy(1, i, i + duration, size) for i, (size, duration) in enumerate(copies)]
    traced = table("cuda_gpu_trace", *rows)
    assert traced["size_bytes"] == [size for size, _ in copies]
    assert traced["throughput_bytes_per_s"] == [nsys_throughput(*copy) for copy in copies]


PAGES = st.sampled_from([0, 4096, 8192, 12288])
MIGRATIONS = st.tuples(PAGES, st.sampled_from([11, 12]), st.integers(0, 10**8), DURATIONS)


@FILES
@given(
    st.lists(MIGRATIONS, min_size=1, max_size=10), st.lists(PAGES, min_size=1), st.lists(PAGES, min_size=1)
)
@pytest.mark.slow
def test_migrations_and_faults_of_each_page(
    copies: list[tuple[int, int, int, int]], on_cpu: list[int], on_gpu: list[int]
) -> None:
    made = table(
        "um_sum",
        *(memcpy(way, 0, duration, size, virtualAddress=page) for page, way, size, duration in copies),
        *(um_cpu_fault(page, 0) for page in on_cpu),
        *(um_gpu_fault(page, 0, 1, faults=3) for page in on_gpu),
        rows=-1,
    )
    assert sorted(made["address"]) == sorted({page for page, *_ in copies} | set(on_cpu) | set(on_gpu))
    for row, page in enumerate(made["address"]):
        to_device, to_host = ([c for c in copies if c[:2] == (page, way)] for way in (11, 12))
        moved = [*to_device, *to_host]
        assert made["to_device_bytes"][row] == (sum(copy[2] for copy in to_device) if to_device else None)
        assert made["to_host_bytes"][row] == (sum(copy[2] for copy in to_host) if to_host else None)
        assert made["cpu_faults"][row] == (on_cpu.count(page) or None)
        assert made["gpu_faults"][row] == (on_gpu.count(page) * 3 or None)
        spent = sum(copy[3] for copy in moved)
        assert made["throughput_bytes_per_s"][row] == nsys_throughput(sum(copy[2] for copy in moved), spent)

"""How values are written: for machines as nsys writes them, for people in three figures or so."""

import math

import pytest

from nsyswrap.base.units import (
    Rounding,
    TimeUnit,
    Unit,
    csv_cell,
    csv_label,
    duration_of,
    human,
    percent,
    round_tenth,
)


@pytest.mark.parametrize(
    ("value", "newest", "legacy"),
    [
        (13408.05, 13408.0, 13408.1),  # the double is just below the tie
        (0.25, 0.3, 0.3),  # a tie in binary too: away from zero
        (0.35, 0.3, 0.4),  # 0.34999…
        (0.45, 0.5, 0.5),  # 0.45000…01
        (-0.25, -0.3, -0.3),
        (2.0, 2.0, 2.0),
    ],
)
def test_tenths_are_rounded_half_away_from_zero_as_sqlite_did(
    value: float, newest: float, legacy: float
) -> None:
    assert round_tenth(value, "2025") == newest
    assert round_tenth(value, "legacy") == legacy


@pytest.mark.parametrize(
    ("value", "unit", "cell"),
    [
        (None, Unit.NS, ""),
        (math.nan, Unit.NS, ""),
        (math.nan, Unit.BYTES, ""),
        (98452126, Unit.NS, "98452126"),
        (98452126.0, Unit.NS, "98452126.0"),
        (12.25, Unit.NS, "12.3"),
        (33.333, Unit.PERCENT, "33.3"),
        (1_500_000, Unit.BYTES, "1.500"),
        (499, Unit.BYTES, "0.000"),
        (1048576.0, Unit.BYTES, "1.049"),  # a MB is 10^6 bytes
        (7, Unit.COUNT, "7"),
        (1_000_000, Unit.COUNT, "1000000"),
        (4194303, Unit.ID, "4194303"),
        ("k<int>", Unit.TEXT, "k<int>"),
    ],
)
def test_cells_of_a_csv(value: object, unit: Unit, cell: str) -> None:
    assert csv_cell(value, unit, "2025", "ns") == csv_cell(value, unit, "2025", "auto") == cell


@pytest.mark.parametrize(
    ("time_unit", "label", "whole", "tie", "rounded_first"),
    [
        ("ns", " (ns)", "123456789", "4.5", "13408.0"),
        ("us", " (us)", "123456.789", "0.005", "13.408"),
        ("ms", " (ms)", "123.4568", "0.0000", "0.0134"),
        ("s", " (sec)", "0.1235", "0.0000", "0.0000"),
    ],
)
def test_time_units_as_nsys_writes_them(
    time_unit: TimeUnit, label: str, whole: str, tie: str, rounded_first: str
) -> None:
    assert csv_label(Unit.NS, time_unit) == label
    assert csv_cell(123456789, Unit.NS, "2025", time_unit) == whole
    assert csv_cell(4.5, Unit.NS, "2025", time_unit) == tie
    assert csv_cell(13408.05, Unit.NS, "2025", time_unit) == rounded_first


@pytest.mark.parametrize(("rounding", "cell"), [("2025", "0.3"), ("legacy", "0.4")])
def test_the_era_of_rounding_reaches_the_cell(rounding: Rounding, cell: str) -> None:
    assert csv_cell(0.35, Unit.NS, rounding, "ns") == cell


@pytest.mark.parametrize("time_unit", ["ns", "us", "ms", "s"])
def test_only_times_change_with_the_time_unit(time_unit: TimeUnit) -> None:
    assert csv_label(Unit.PERCENT, time_unit) == " (%)"
    assert csv_label(Unit.BYTES, time_unit) == " (MB)"
    assert csv_label(Unit.BYTES_PER_S, time_unit) == " (MB/s)"
    assert csv_label(Unit.COUNT, time_unit) == csv_label(Unit.TEXT, time_unit) == ""
    assert csv_cell(33.35, Unit.PERCENT, "legacy", time_unit) == "33.4"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.NS, "-"),
        (math.nan, Unit.BYTES_PER_S, "-"),
        (0, Unit.NS, "0 ns"),
        (0.0, Unit.NS, "0 ns"),
        (640.5, Unit.NS, "640 ns"),
        (640, Unit.NS, "640 ns"),
        (1230, Unit.NS, "1.23 µs"),
        (12345, Unit.NS, "12.3 µs"),
        (123456, Unit.NS, "123 µs"),
        (-1500, Unit.NS, "-1.50 µs"),
        (98_452_126, Unit.NS, "98.5 ms"),
        (999.7, Unit.NS, "1.00 µs"),  # rounding carries into the next unit
        (999_499, Unit.NS, "999 µs"),
        (999_600, Unit.NS, "1.00 ms"),
        (-999_600, Unit.NS, "-1.00 ms"),
        (9_996, Unit.NS, "10.0 µs"),
        (99_960, Unit.NS, "100 µs"),
        (999_600_000_000_000, Unit.NS, "999600 s"),
        (999_700, Unit.BYTES, "1.00 MB"),
        (3_600_000_000_000, Unit.NS, "3600 s"),
        (999, Unit.BYTES, "999 B"),
        (4096, Unit.BYTES, "4.10 kB"),
        (8_388_608, Unit.BYTES, "8.39 MB"),
        (2.5e12, Unit.BYTES_PER_S, "2.50 TB/s"),
        (137438953472, Unit.FLOP, "137 GFLOP"),
        (9.894e14, Unit.FLOP_PER_S, "989 TFLOP/s"),
        (5562.4, Unit.JOULES, "5.56 kJ"),
        (1234567, Unit.COUNT, "1,234,567"),
        (12.349, Unit.PERCENT, "12.3"),
        (99.94, Unit.PERCENT, "99.9"),
        (99.988, Unit.PERCENT, "99.9"),
        (100 - 1e-12, Unit.PERCENT, "100.0"),
        (100.04, Unit.PERCENT, "100.0"),
        (1.0, Unit.RATIO, "1.00"),
        (4194303, Unit.ID, "4194303"),
        ("name", Unit.TEXT, "name"),
    ],
)
def test_values_for_people(value: object, unit: Unit, text: str) -> None:
    assert human(value, unit) == text


@pytest.mark.parametrize(
    ("time_unit", "text"),
    [("ns", "1,234,567 ns"), ("us", "1,234.567 µs"), ("ms", "1.2346 ms"), ("s", "0.0012 s")],
)
def test_times_for_people_in_one_unit(time_unit: TimeUnit, text: str) -> None:
    assert human(1_234_567, Unit.NS, time_unit) == text


def test_every_unit_has_a_way_to_be_written() -> None:
    for unit in Unit:
        assert human(1, unit)
        assert csv_cell(1, unit, "2025", "ns")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0 %"),
        (0.04, "under 0.1 %"),
        (0.06, "0.1 %"),
        (99.94, "99.9 %"),
        (99.96, "over 99.9 %"),
        (100, "100.0 %"),
    ],
)
def test_a_share_is_nothing_or_all_only_where_it_is(value: float, text: str) -> None:
    assert percent(value) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(1e6, 2e6, "1.00 of 2.00 ms"), (999_600, 2e6, "1.00 of 2.00 ms"), (999, 2e6, "999 ns of 2.00 ms")],
)
def test_a_part_of_a_duration_has_its_unit_if_that_is_another(part: float, whole: float, text: str) -> None:
    assert duration_of(part, whole) == text

"""Which rows of two sides are one: modes of kernels that differ between runs, and renamed kernels."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from made_runs import exact_row, side_of

from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.model import WHOLE_RUN, Key, RowFigures, Side
from nsyswrap.analysis.compare.pairing import (
    MOST_DURATIONS,
    have_same_steps,
    merge_durations,
    pair_rows,
    plain_name,
)
from nsyswrap.reports.wording.notes import joined

GRID = "1x1x1 32x1x1"
SHORT, LONG, WHOLE = (Key("kernel", "gemm", GRID, mode) for mode in (1, 2, 0))


def modes(counts: Sequence[tuple[int, int]], name: str = "base") -> Side:
    """Return a side whose runs have so many launches of 10 µs and of 30 µs."""
    return side_of(
        name,
        {
            SHORT: [exact_row(10_000, short) if short else None for short, _ in counts],
            LONG: [exact_row(30_000, long) if long else None for _, long in counts],
        },
    )


def test_modes_with_the_same_shares_stay_apart() -> None:
    rows = pair_rows(modes([(50, 50), (51, 49)]), modes([(52, 48), (100, 100)], "new"))
    assert [(row.key, row.is_merged) for row in rows] == [(SHORT, False), (LONG, False)]


@pytest.mark.parametrize("new", [[(50, 50), (70, 30)], [(100, 0), (50, 50)]], ids=["shares", "number"])
def test_modes_that_differ_in_one_run_are_one_row_in_all(new: list[tuple[int, int]]) -> None:
    (row,) = pair_rows(modes([(50, 50), (50, 50)]), modes(new, "new"))
    assert (row.key, row.is_merged) == (WHOLE, True)
    assert row.base[0] == RowFigures(100, 2_000_000.0, 20_000.0)
    totals = [short * 10_000 + long * 30_000 for short, long in new]
    assert [entry.total_ns for entry in row.new if entry] == totals
    assert [entry.typical_ns for entry in row.new if entry] == [total / 100 for total in totals]


def test_a_merged_row_weighs_clocks_errors_and_durations() -> None:
    short = exact_row(
        10_000, 60, error=0.01, clock_mhz=1000.0, clock_samples=1, durations=((9_000, 30), (11_000, 30))
    )
    long = exact_row(30_000, 20, error=0.02, clock_mhz=2000.0, clock_samples=3, durations=((30_000, 20),))
    sides = side_of("base", {SHORT: [short, short], LONG: [long, None]}), modes([(1, 1)], "new")
    row = pair_rows(*sides)[0].base[0]
    assert row is not None
    assert (row.count, row.typical_ns, row.clock_mhz, row.clock_samples) == (80, 15_000.0, 1750.0, 4)
    # 60 of 10 µs with 1 % and 20 of 30 µs with 2 %: the root of 6,000² + 12,000², of 1,200,000
    assert row.error == pytest.approx((6_000**2 + 12_000**2) ** 0.5 / 1_200_000)
    assert row.durations == ((9_000, 30), (11_000, 30), (30_000, 20))


def test_merged_durations_keep_counts_and_total() -> None:
    pairs = [(number * number, 2) for number in range(1, 50)]
    merged = merge_durations([*pairs, (4, 1)])
    assert len(merged) == MOST_DURATIONS
    assert sum(count for _, count in merged) == 99
    assert sum(ns * count for ns, count in merged) == pytest.approx(
        4 + sum(2 * ns for ns, _ in pairs), rel=1e-3
    )
    assert merged[-1] == (49 * 49, 2)  # the widest gaps stay


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("void gemm<float, Tile<8, (int)4>>(float*, void (*)(int))", "gemm"),
        ("triton_poi_fused_add_relu_12", "triton_poi_fused_add_relu"),
        ("triton_mm_1a2b3c4d5e", "triton_mm"),
        ("kernel_0d1d2d3de", "kernel"),
        ("cutlass::decade", "cutlass::decade"),
    ],
)
def test_plain_names_have_nothing_that_a_build_changes(name: str, plain: str) -> None:
    assert plain_name(name) == plain


def suggestions(
    base: dict[tuple[str, str], tuple[float, int]], new: dict[tuple[str, str], tuple[float, int]]
) -> dict[str, str]:
    sides = [
        side_of(name, {Key("kernel", *names): [exact_row(*times)] * 3 for names, times in kernels.items()})
        for name, kernels in (("base", base), ("new", new))
    ]
    return {
        f"{new.name} {new.detail}": f"{old.name} {old.detail}"
        for new, old in ((row.key, row.base_key) for row in pair_rows(*sides) if row.base_key)
    }


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ({("gemm<1>(int)", "g"): (9e3, 100)}, {("gemm<2>(int)", "g"): (5e4, 100)}),
        ({("triton_add_3", "g"): (9e3, 100)}, {("triton_add_4", "h"): (9e3, 100)}),
        ({("old", "g"): (9e3, 100)}, {("new", "g"): (1e4, 100)}),
        ({("kern(float*)", "g"): (9e3, 100)}, {("void kern<64>(float*)", "g"): (3e4, 100)}),
    ],
    ids=["template", "suffix", "duration", "now a template"],
)
def test_renamed_kernels_are_one_row(
    base: dict[tuple[str, str], tuple[float, int]], new: dict[tuple[str, str], tuple[float, int]]
) -> None:
    old, name = " ".join(next(iter(base))), " ".join(next(iter(new)))
    assert suggestions(base, new) == {name: old}


def test_a_kernel_with_another_grid_is_one_row() -> None:
    old, new, other = (Key("kernel", "add", grid) for grid in ("grid 1", "grid 4096", "grid 2"))
    first = RowFigures(1, 2e6)  # launched once in each run
    sides = side_of("base", {old: [first] * 3}), side_of("new", {new: [replace(first, total_ns=1e6)] * 3})
    (row,) = pair_rows(*sides)
    assert (row.key, row.base_key, row.in_both, row.all_first) == (new, old, True, True)
    (pair,) = compare(*sides).pairs
    assert (pair.is_relaunched, pair.is_renamed, pair.renamed_from) == (True, False, old)
    assert pair.judgement.outcome == "faster"
    assert pair.judgement.ratio == pytest.approx(0.5)
    assert joined(pair.judgement.why) == "base: grid 1; first launches alone"
    ambiguous = side_of("new", {new: [first] * 3, other: [first] * 3})
    assert {row.base_key for row in pair_rows(sides[0], ambiguous)} == {None}


@pytest.mark.parametrize(("steps", "same"), [(20, True), (22, True), (23, False)])
def test_steps_with_another_label_are_the_same_if_there_are_as_many(steps: int, *, same: bool) -> None:
    old, new = (Key("step", f"a sequence of {number} GPU operations") for number in (40, 38))
    state, whole = Key("budget", "idle_host"), Key("budget", "idle_host", WHOLE_RUN)
    sides = (
        side_of("base", {old: [1e6] * 3, state: [1e3] * 3, whole: [2e6] * 3}),
        side_of("new", {new: [1e6] * 3, state: [1e3] * 3, whole: [2e6] * 3}, steps=steps),
    )
    assert have_same_steps(*sides) == same
    rows = {row.key: row for row in pair_rows(*sides)}
    assert rows.keys() == ({new, state} if same else {old, new, whole})
    assert rows[new].in_both == same


@pytest.mark.parametrize(("base", "new", "same"), [(4, 4, True), (5, 6, True), (5, 3, False), (1, 3, False)])
def test_of_few_steps_fewer_may_differ(base: int, new: int, *, same: bool) -> None:
    sides = (
        side_of(name, {Key("step", name): [1e6] * 3}, steps=steps)
        for name, steps in (("a", base), ("b", new))
    )
    assert have_same_steps(*sides) == same


@pytest.mark.parametrize(
    ("base", "new"),
    [
        ({("gemm<1>", "g"): (9e3, 100)}, {("gemm<2>", "g"): (9e3, 101)}),
        ({("old", "g"): (9e3, 100)}, {("new", "h"): (9e3, 100)}),
        ({("old", "g"): (9e3, 100)}, {("new", "g"): (2e4, 100)}),
        ({("old", "g"): (9e3, 100), ("older", "g"): (9e3, 100)}, {("new", "g"): (9e3, 100)}),
        ({("same", "g"): (9e3, 100)}, {("same", "g"): (9e3, 100), ("new", "g"): (9e3, 100)}),
    ],
    ids=["count", "grid", "duration", "two could be it", "nothing removed"],
)
def test_unclear_kernels_are_not(
    base: dict[tuple[str, str], tuple[float, int]], new: dict[tuple[str, str], tuple[float, int]]
) -> None:
    assert suggestions(base, new) == {}


def test_of_several_alike_the_grid_decides() -> None:
    base = {("k_1", "g"): (9e3, 100), ("k_2", "h"): (9e3, 100)}
    new = {("k_3", "h"): (9e3, 100), ("k_4", "g"): (9e3, 100)}
    assert suggestions(base, new) == {"k_3 h": "k_2 h", "k_4 g": "k_1 g"}

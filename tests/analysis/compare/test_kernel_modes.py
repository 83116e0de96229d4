"""Modes of duration that are clearly apart, and tables of durations."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from nsyswrap.analysis.compare.kernel_rows import MOST_PAIRS, duration_tables, mode_cuts

DICE = np.random.default_rng(3)


def around(ns: float, count: int, spread: float = 0.01) -> list[int]:
    return (ns * np.exp(DICE.normal(0, spread, count))).astype(int).tolist()  # type: ignore[no-any-return]


def cuts(*groups: list[int]) -> dict[int, list[int]]:
    codes = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    ns = np.array([value for group in groups for value in sorted(group)], np.int64)
    return {group: edges.tolist() for group, edges in mode_cuts(codes, ns, len(groups)).items()}


@pytest.mark.parametrize(
    ("durations", "modes"),
    [
        (around(10_000, 200), 1),
        (around(10_000, 100) + around(20_000, 100), 2),
        (around(10_000, 100) + around(12_000, 100), 2),
        (around(10_000, 100) + around(20_000, 100) + around(80_000, 30), 3),
        (around(10_000, 100) + around(10_700, 100), 1),  # 7 % is no gap
        (around(10_000, 195) + around(20_000, 5), 1),  # stragglers
        ([*around(10_000, 100), 14_000, *around(20_000, 100)], 2),  # one straggler between
        (around(10_000, 100, 0.3) + around(40_000, 100, 0.3), 1),  # as wide as they are apart
        (around(10_000, 500, 1.0), 1),
        (around(10_000, 12, 1.0), 1),
        ([10_000] * 8 + [20_000] * 8, 2),
        ([10_000] * 7 + [20_000] * 8, 1),  # too few launches
        ([320] * 50 + [384] * 50, 1),  # two steps of the GPU's timer
        ([0] * 50 + [1000] * 50, 2),
        ([], 1),
    ],
)
def test_modes(durations: list[int], modes: int) -> None:
    assert len(cuts(durations).get(0, [])) + 1 == modes


def test_each_kernel_has_its_own_modes() -> None:
    two = [10_000] * 20 + [30_000] * 20
    assert cuts([10_000] * 40, two, [], [30_000] * 40, two) == {1: [30_000], 4: [30_000]}


def tables(*groups: list[int]) -> list[tuple[tuple[int, int], ...]]:
    codes = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    ns: NDArray[Any] = np.array([value for group in groups for value in sorted(group)], np.int64)
    return duration_tables(codes, ns, len(groups))


def test_few_durations_are_exact() -> None:
    assert tables([5, 3, 5], [], [7]) == [((3, 1), (5, 2)), (), ((7, 1),)]


def test_many_durations_are_shortened_and_keep_their_number_and_sum() -> None:
    many = around(1_000_000, 5_000, 0.5)
    few, made = tables([9], many)
    assert few == ((9, 1),)
    assert len(made) <= MOST_PAIRS
    assert list(made) == sorted(made)
    assert sum(count for _, count in made) == len(many)
    assert sum(ns * count for ns, count in made) == pytest.approx(sum(many), abs=len(many))

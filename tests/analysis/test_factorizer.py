"""Values are numbered block by block as all at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from nsyswrap.analysis.arrays.codes import Factorizer
from nsyswrap.base.constants import MISSING


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


def test_values_that_share_a_place_stay_apart() -> None:
    factorizer = Factorizer()
    rows = np.array([5, 5 + 2**16, 5 + 2**17, 5])
    numbers = np.concatenate([factorizer.of(rows), factorizer.of(rows[::-1].copy())])
    ranked, codes = factorizer.ranked(numbers)
    assert ranked[codes].tolist() == [*rows.tolist(), *rows[::-1].tolist()]
    assert codes.dtype == np.uint8


def test_nothing_has_no_numbers() -> None:
    factorizer = Factorizer()
    ranked, codes = factorizer.ranked(factorizer.of(np.empty(0, np.int64)))
    assert len(ranked) == len(codes) == 0

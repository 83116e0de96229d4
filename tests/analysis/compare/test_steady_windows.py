"""Times per step of events of several processes."""

import numpy as np
import pytest
from tiny_export import global_id

from nsyswrap.analysis.compare.rows import SteadyWindows
from nsyswrap.capture.intervals import IntervalSet


def stretches(*spans: tuple[int, int]) -> IntervalSet:
    return IntervalSet(*np.array(spans).T)


ONE, TWO, OTHER = (global_id(pid) for pid in (7, 8, 9))


def test_each_process_has_its_own_steps() -> None:
    # Process 7 has 5 steps from 100 to 200, process 8 has 2 steps from 0 to 50.
    windows = SteadyWindows({ONE: (stretches((100, 200)), 5), TWO: (stretches((0, 50)), 2)})
    events = [(ONE, 90, 110, 2), (ONE, 150, 160, 2), (ONE, 0, 100, 0), (TWO, 40, 90, 5), (OTHER, 0, 300, 0)]
    owner, start, end, expected = (np.array(part) for part in zip(*events, strict=True))
    threads = owner | 3  # ids of threads will do
    for ids in (owner, threads):
        assert windows.per_step(ids, start, end) == pytest.approx(expected)


def test_the_time_between_steps_is_left_out() -> None:
    windows = SteadyWindows({ONE: (stretches((0, 100), (200, 300)), 4)})
    (per_step,) = windows.per_step(*(np.array([value]) for value in (ONE, 50, 250)))  # type: ignore[misc]
    assert per_step == 25


def test_without_steps_nothing_is_per_step() -> None:
    nothing = np.empty(0, np.int64)
    assert SteadyWindows.of([]).per_step(nothing, nothing, nothing) is None

"""How often comparisons find what is not there, and miss what is: drawn with fixed seeds, judged at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from nsyswrap.analysis.compare.judgement import Verdicts
from nsyswrap.analysis.compare.model import SlowdownLimits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Draw = Callable[[np.random.Generator, tuple[int, ...]], NDArray[Any]]

DRAWS = 1000
LIMITS = SlowdownLimits()


def judged(base: NDArray[Any], new: NDArray[Any], within: float = 0.002) -> NDArray[Any]:
    """Return the outcomes of comparisons from logs of shape (draws, rows, runs), of shape (draws, rows)."""
    return verdicts(base, new, within)[0]


def verdicts(base: NDArray[Any], new: NDArray[Any], within: float) -> tuple[NDArray[Any], Verdicts]:
    draws, rows = base.shape[:2]
    sides = [side.reshape(draws * rows, -1) for side in (base, new)]
    values = [(side, np.full(side.shape, within)) for side in sides]
    rates = np.full(draws * rows, LIMITS.error_rate / rows)
    result = Verdicts(values[0], values[1], np.repeat(np.arange(draws), rows), rates, LIMITS)
    return np.array(result.outcomes).reshape(draws, rows), result


def alarms(outcomes: NDArray[Any]) -> tuple[float, float]:
    """Return the shares of comparisons in which something is slower, and in which something is faster."""
    return (outcomes == "slower").any(axis=1).mean(), (outcomes == "faster").any(axis=1).mean()


def two_speeds(draws: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Each run has one of two speeds, 13 % apart, and 0.2 % of noise."""
    return np.log(np.where(draws.random(shape) < 0.5, 22.5, 25.5)) + 0.002 * draws.standard_normal(shape)


def one_of_two_speeds(draws: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """Only the first row has two speeds: the noise of the others must not make it certain."""
    logs = noise(0.005)(draws, shape)
    logs[:, 0] = two_speeds(draws, (shape[0], shape[2]))
    return logs


def common(draws: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """The runs differ, all rows of a run together: rows do not tell more than one."""
    return noise(0.05)(draws, (shape[0], 1, shape[2])) + noise(0.002)(draws, shape)


def unequal(draws: np.random.Generator, shape: tuple[int, ...]) -> NDArray[Any]:
    """The rows have noise from 0.1 % to 10 %."""
    return draws.standard_normal(shape) * np.geomspace(0.001, 0.1, shape[1])[:, None]


def noise(spread: float) -> Draw:
    return lambda draws, shape: spread * draws.standard_normal(shape)


@pytest.mark.parametrize(
    ("draw", "rows"),
    [
        (two_speeds, 1),
        (noise(0.005), 20),
        (noise(0.05), 20),
        (one_of_two_speeds, 20),
        (common, 20),
        (unequal, 20),
    ],
    ids=["two speeds", "0.5 %", "5 %", "one of 20 with two speeds", "common", "unequal"],
)
def test_the_same_program_is_hardly_ever_slower_or_faster(draw: Draw, rows: int) -> None:
    draws = np.random.default_rng(23)
    outcomes = judged(draw(draws, (DRAWS, rows, 5)), draw(draws, (DRAWS, rows, 5)))
    assert sum(alarms(outcomes)) < 0.01


def test_unequal_numbers_of_runs_make_no_alarms() -> None:
    draws = np.random.default_rng(7)
    outcomes = judged(noise(0.03)(draws, (DRAWS, 20, 3)), noise(0.03)(draws, (DRAWS, 20, 8)))
    assert sum(alarms(outcomes)) < 0.01


def test_little_noise_is_the_same() -> None:
    draws = np.random.default_rng(11)
    outcomes = judged(noise(0.005)(draws, (DRAWS, 20, 5)), noise(0.005)(draws, (DRAWS, 20, 5)))
    assert (outcomes == "same").mean() > 0.99


def of_launches(
    draws: np.random.Generator, runs: int, spread: float, factor: float = 1.0, number: int = DRAWS
) -> NDArray[Any]:
    """20 kernels of 200 launches with 5 % jitter; the first is slower by ``factor``."""
    spread = float(np.hypot(spread, 0.05 / np.sqrt(200)))
    logs = spread * draws.standard_normal((number, 20, runs))
    logs[:, 0] += np.log(factor)
    return logs


def test_a_kernel_slower_by_8_percent_is_found_and_only_it() -> None:
    draws = np.random.default_rng(5)
    outcomes = judged(
        of_launches(draws, 5, 0.005), of_launches(draws, 5, 0.005, 1.08), within=0.05 / np.sqrt(200)
    )
    assert (outcomes[:, 0] == "slower").mean() > 0.95
    assert sum(alarms(outcomes[:, 1:])) < 0.01


def test_with_much_noise_it_cannot_be_told_before_there_are_as_many_runs_as_it_says() -> None:
    draws = np.random.default_rng(6)
    base, new = (of_launches(draws, 5, 0.05, number=200) for _ in range(2))
    # What the runs show decides the advice, so let the first kernel show just what is so.
    for side, factor in ((base, 1.0), (new, 1.08)):
        side[:, 0] += np.log(factor) - side[:, 0].mean(axis=1, keepdims=True)
    outcomes, result = verdicts(base, new, 0.05 / np.sqrt(200))
    assert (outcomes[:, 0] == "cannot tell").mean() > 0.99
    more = [result.of(20 * draw).more_runs for draw in range(len(base))]
    advised = int(np.median([number or 100 for number in more]))
    assert 60 < advised <= 100
    runs = 5 + advised
    outcomes = judged(of_launches(draws, runs, 0.05, number=200), of_launches(draws, runs, 0.05, 1.08, 200))
    assert (outcomes[:, 0] == "slower").mean() > 0.7
    assert sum(alarms(outcomes[:, 1:])) <= 0.01


def test_what_no_number_of_runs_decides_gets_no_advice() -> None:
    logs = np.array([[[-0.05, 0.0, 0.05, -0.02, 0.02]]])
    _, result = verdicts(logs, logs + np.log(1.0501), 0.002)
    assert result.of(0).outcome == "cannot tell"
    assert result.of(0).more_runs is None

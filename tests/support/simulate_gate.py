"""How often a gate is wrong: equal programs that it calls slower, and slower ones that it passes.

``python tests/support/simulate_gate.py`` draws 10,000 comparisons of equal programs and 3,000 of a program
that costs 15 % more, for each model and for 3, 4 and 5 runs a side; ``--share 0.01`` draws a hundredth of
them. The true cost of both sides is that of the model, which is known before anything is drawn.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nsyswrap.analysis.arrays.groups import GroupBy
from nsyswrap.analysis.compare.compare import compare
from nsyswrap.analysis.compare.gate import GateLimits, gate
from nsyswrap.analysis.compare.model import ExcludedSteps, Key, RowFigures, RunFigures, Setup, Side
from nsyswrap.analysis.compare.step_rows import SPAN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Steps = NDArray[np.float64]  # of shape (comparisons, runs, steps), in ns

EQUAL, SLOWED, RUNS, MORE = 10_000, 3_000, (3, 4, 5), 0.15  # MORE: three times the tolerance
STEPS, STEP_NS, LONG, FEW = 60, 1_000_000.0, 1.5, 0.25  # as in analysis/steps
SETUP = Setup(("GPU",), "1", "1", "1", "graph", ("program",), other_processes=0, throttled_percent=0.0)
BLOCK = 500  # comparisons that are drawn at once
KERNELS = (0.3, 0.25, 0.2, 0.15, 0.1)  # shares of a step


@dataclass(frozen=True)
class Model:
    """A program by its noise. ``spread`` is that of runs, ``jitter`` that of steps, relative.

    ``stalls`` returns the time that steps lose beside, whose mean is its last argument; ``always`` both sides
    have such stalls, and the slowdown comes to all steps, else it comes as stalls. ``new_steps`` is their
    number on the new side. ``changed`` says what becomes of the kernels, of which the gate then looks at all.
    """

    name: str
    spread: float = 0.005
    jitter: float = 0.02
    stalls: Callable[[np.random.Generator, tuple[int, ...], float], Steps] | None = None
    always: bool = False
    base_stalls: float = 0.0
    memory: float = 0.0
    new_steps: int = STEPS
    changed: str = ""


def each_tenth(_: np.random.Generator, shape: tuple[int, ...], mean: float) -> Steps:
    stalls = np.zeros(shape)
    stalls[..., 9::10] = 10 * mean
    return stalls


def at_random(draws: np.random.Generator, shape: tuple[int, ...], mean: float) -> Steps:
    return np.where(draws.random(shape) < 0.1, 10 * mean, 0.0)


def at_the_start(_: np.random.Generator, shape: tuple[int, ...], mean: float) -> Steps:
    stalls = np.zeros(shape)
    stalls[..., :6] = shape[-1] / 6 * mean
    return stalls


def pareto(draws: np.random.Generator, shape: tuple[int, ...], mean: float) -> Steps:
    """One step in twenty loses a time of a Pareto distribution with the exponent 3, whose mean is 1.5."""
    lost = 1 + draws.pareto(3.0, shape)
    return np.where(draws.random(shape) < 0.05, 20 * mean / 1.5 * lost, 0.0)


def slow_mode(draws: np.random.Generator, shape: tuple[int, ...], mean: float) -> Steps:
    return np.where(draws.random(shape) < 0.3, mean / 0.3, 0.0)


MODELS = (
    Model("Gaussian"),
    Model("3 % run noise", spread=0.03),
    Model("Pareto stalls", stalls=pareto, always=True, base_stalls=0.05),
    Model("slow mode", stalls=slow_mode, always=True, base_stalls=0.06),
    Model("mixture", spread=0.01, jitter=0.05, stalls=pareto, always=True, base_stalls=0.02),
    Model("stalls each 10th", stalls=each_tenth),
    Model("stalls at random", stalls=at_random),
    Model("stalls at the start", stalls=at_the_start),
    Model("asynchronous", jitter=0.05, memory=0.9),
    Model("unequal steps", new_steps=90),
    Model("renamed kernel", changed="renamed"),
    Model("added kernel", changed="added"),
    Model("removed kernel", changed="removed"),
)


def steps_of(model: Model, draws: np.random.Generator, runs: int, *, is_new: bool, more: float) -> Steps:
    """Return the steps of many runs. Their mean is STEP_NS, with base stalls, times ``1 + more``."""
    shape = (BLOCK, runs, model.new_steps if is_new else STEPS)
    jitter = draws.standard_normal(shape)
    for step in range(1, shape[-1] if model.memory else 0):
        jitter[..., step] = (
            model.memory * jitter[..., step - 1] + (1 - model.memory**2) ** 0.5 * jitter[..., step]
        )
    level = np.exp(model.spread * draws.standard_normal((*shape[:2], 1)) - model.spread**2 / 2)
    steps = 1 + model.jitter * jitter
    if model.stalls and model.always:
        steps = (1 + more) * (steps - model.base_stalls + model.stalls(draws, shape, model.base_stalls))
    elif model.stalls and more:
        steps += model.stalls(draws, shape, more)
    else:
        steps *= 1 + more
    return np.rint(STEP_NS * level * np.maximum(steps, 0.01))


def rows_of(steps: Steps) -> Iterator[list[RowFigures]]:
    """Yield the rows of the runs of each comparison, as they are made of a capture."""
    comparisons, runs, number = steps.shape
    usual = np.median(steps, axis=2, keepdims=True)
    long = steps > LONG * usual
    warm_up = np.cumprod(long & (np.arange(number) < number // 2), axis=2).astype(bool)
    outlier = long & ~warm_up
    outlier &= outlier.mean(axis=2, keepdims=True) <= FEW
    codes = np.repeat(np.arange(comparisons * runs), number)
    flat, after, kept = steps.ravel().astype(np.int64), ~warm_up.ravel(), ~(warm_up | outlier).ravel()
    typical, error, _ = GroupBy(codes[kept], comparisons * runs).trimmed(flat[kept])
    every = GroupBy(codes[after], comparisons * runs)
    figures, of_mean = every.of(flat[after]), every.mean_error(flat[after])
    sums = [(mark.sum(axis=2).ravel(), (steps * mark).sum(axis=2).ravel()) for mark in (warm_up, outlier)]
    made = [
        RowFigures(
            int(figures.count[i]),
            float(figures.total[i]),
            float(typical[i]),
            float(error[i] / typical[i]),
            mean_error=float(of_mean[i] / figures.avg[i]),
            aside=ExcludedSteps(int(sums[0][0][i]), sums[0][1][i], int(sums[1][0][i]), sums[1][1][i]),
        )
        for i in range(comparisons * runs)
    ]
    for first in range(0, len(made), runs):
        yield made[first : first + runs]


def sides(model: Model, draws: np.random.Generator, runs: int, more: float) -> Iterator[tuple[Side, Side]]:
    """Yield the sides of BLOCK comparisons; the new one costs ``1 + more`` times as much."""
    base = steps_of(model, draws, runs, is_new=False, more=0)
    if not model.changed:
        new = steps_of(model, draws, runs, is_new=True, more=more)
        key = Key("step", "step")
        for both in zip(*(rows_of(side) for side in (base, new)), strict=True):
            yield _side("base", key, both[0]), _side("new", key, both[1])
        return
    for _ in range(BLOCK):
        yield tuple(_kernels(model, draws, runs, name, more) for name in ("base", "new"))  # type: ignore[misc]


def _side(name: str, key: Key, rows: list[RowFigures]) -> Side:
    runs = []
    for row in rows:
        span = row.with_warm_up.total_ns * 1.01
        of_run: dict[Key, RowFigures] = {key: row, Key("total", SPAN): RowFigures(1, span, span)}
        runs.append(RunFigures(name, SETUP, of_run, STEPS))
    return Side(name, tuple(runs))


def _kernels(model: Model, draws: np.random.Generator, runs: int, name: str, more: float) -> Side:
    """Return a side whose first kernel is renamed, or goes, or beside which one is added, in the new one."""
    is_new, made = name == "new", []
    for _ in range(runs):
        times = {
            Key("kernel", f"void kernel_{'abcde'[i]}<32>(float*)", f"grid {i}"): share
            for i, share in enumerate(KERNELS)
        }
        first, last = next(iter(times)), list(times)[-1]
        if is_new and model.changed == "renamed":
            times = {first._replace(name=first.name.replace("32", "64")): KERNELS[0] + more, **times}
            del times[first]
        elif is_new and model.changed == "added" and more:
            times[Key("kernel", "another(float*)", "grid 9")] = more
        elif is_new and model.changed == "removed" and more:
            times[first] += more + times.pop(last)
        level = np.exp(model.spread * draws.standard_normal())
        rows = {}
        for key, share in times.items():
            mean = level * share * STEP_NS * (1 + model.jitter * draws.standard_normal() / STEPS**0.5)
            error = model.jitter / STEPS**0.5
            rows[key] = RowFigures(STEPS, mean * STEPS, mean, error, mean_error=error)
        span = sum(row.total_ns for row in rows.values()) * 1.01
        made.append(RunFigures(name, SETUP, {**rows, Key("total", SPAN): RowFigures(1, span, span)}))
    return Side(name, tuple(made))


def simulated(model: Model, runs: int, number: int, more: float, seed: int = 48) -> Counter[str]:
    """Return how often the gate gave which verdict."""
    limits = GateLimits(metrics=("kernels",) if model.changed else ())
    draws = np.random.default_rng([seed, runs, *model.name.encode(), round(100 * more)])
    verdicts: Counter[str] = Counter()
    while verdicts.total() < number:
        for base, new in sides(model, draws, runs, more):
            if verdicts.total() < number:
                verdicts[gate(compare(base, new, limits.limits), limits).verdict] += 1
    return verdicts


def rates(model: Model, runs: int, share: float = 1.0) -> dict[str, float]:
    """Return the shares of wrong and of open verdicts."""
    numbers = max(1, round(EQUAL * share)), max(1, round(SLOWED * share))
    equal, slowed = (
        simulated(model, runs, number, more) for number, more in zip(numbers, (0.0, MORE), strict=True)
    )
    return {
        "equal called slower": equal["slower"] / numbers[0],
        "equal not judged": equal["cannot tell"] / numbers[0],
        "slower passed": slowed["passed"] / numbers[1],
        "slower not judged": slowed["cannot tell"] / numbers[1],
    }


def _line(job: tuple[Model, int, float]) -> str:
    model, runs, share = job
    figures = "  ".join(f"{100 * value:6.2f} %" for value in rates(model, runs, share).values())
    return f"{model.name:20}  {runs}  {figures}"


def main() -> None:
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - tests need none

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    print("model                runs  equal: FAIL, NOT JUDGED  15 % slower: PASS, NOT JUDGED")
    jobs = [(model, runs, options.share) for model in MODELS for runs in RUNS]
    with ProcessPoolExecutor(options.processes) as pool:
        for line in pool.map(_line, jobs):
            print(line, flush=True)


if __name__ == "__main__":
    main()

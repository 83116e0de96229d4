"""Runs made of numbers, for tests of comparisons: a program of kernels, steps, calls, copies.

``made_side("base")`` has five runs of KERNELS; ``made_side("new", seed=2, factors={"gemm": 1.08})`` has a
slower one. Draws are the same for the same seed; give both sides different seeds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.compare.model import WHOLE_RUN, Key, RowFigures, RunFigures, Setup, Side

SETUP = Setup(
    gpus=("NVIDIA H200",),
    driver="570.124.06",
    nsys="2025.3.1.90",
    options="--trace=cuda,nvtx",
    graphs="graph",
    command=("python", "train.py"),
    other_processes=0,
    throttled_percent=0.0,
    sm_clock_mhz=1980.0,
    started="2026-11-02T10:00:00+00:00",
    node="node1",
    commit="4f2a91c03bd7",
    versions={"torch": "2.9.1"},
)
FACTOR_SPREAD, LAUNCH_US, HOST_US, CALL_US, COPY_US = 0.005, 6.0, 90.0, 3.5, 40.0
COPY_BYTES = 1 << 20
BINS = 32  # most pairs in RowFigures.durations
TRIM = 0.1  # share left out at each end for the typical time


@dataclass(frozen=True)
class MadeKernel:
    """A kernel: ``spread`` and ``jitter`` are standard deviations, relative, between runs and launches."""

    name: str
    us: float = 100.0
    launches: int = 200
    grid: str = "128x1x1 256x1x1"
    jitter: float = 0.05
    spread: float = 0.005
    clock_samples: int = 20
    mode: int = 0


KERNELS = (
    MadeKernel("void gemm<float, 128>(float*, float const*)", 400.0, 200),
    MadeKernel("void attention<64>(float*)", 250.0, 200, grid="64x8x1 128x1x1"),
    MadeKernel("void softmax(float*)", 60.0, 200, grid="512x1x1 256x1x1"),
    MadeKernel("void add<4>(float*, float*)", 12.0, 400, grid="1024x1x1 256x1x1"),
)


def made_side(  # noqa: PLR0913 - a test names the few that matter to it
    name: str = "base",
    runs: int = 5,
    *,
    kernels: Sequence[MadeKernel] = KERNELS,
    seed: int = 0,
    steps: int = 20,
    factors: Mapping[str, float] | None = None,
    setup: Setup = SETUP,
    **more: Any,
) -> Side:
    """Return a side of runs with random draws; see ``made_run`` for the rest."""
    draws = np.random.default_rng([seed, len(name), *name.encode()])
    made = (
        made_run(
            f"{name}-{number}",
            kernels=kernels,
            steps=steps,
            draws=draws,
            factors=factors,
            setup=replace(setup, started=f"2026-11-02T10:{number:02d}:00+00:00") if setup.started else setup,
            **more,
        )
        for number in range(runs)
    )
    return Side(name, tuple(made))


def made_run(  # noqa: PLR0913 - as above
    label: str = "run",
    *,
    kernels: Sequence[MadeKernel] = KERNELS,
    steps: int = 20,
    draws: np.random.Generator | None = None,
    factors: Mapping[str, float] | None = None,
    setup: Setup = SETUP,
    spread: float = FACTOR_SPREAD,
    launch_us: float = LAUNCH_US,
    host_us: float = HOST_US,
) -> RunFigures:
    """Return a run in which each kernel ran ``launches`` times in ``steps`` equal steps.

    ``factors`` makes kernels slower whose names contain a text: ``{"gemm": 1.08}``. ``spread`` is that of
    launches, calls, copies and host code between runs. ``launch_us`` and ``host_us`` are the idle time of a
    launch and of host code in a step.
    """
    draws = draws or np.random.default_rng(0)
    slower = factors or {}
    rows: dict[Key, RowFigures] = {}
    for kernel in kernels:
        factor = float(np.prod([value for text, value in slower.items() if text in kernel.name]))
        rows[Key("kernel", kernel.name, kernel.grid, kernel.mode)] = made_kernel_row(
            kernel, draws, factor, steps, setup.sm_clock_mhz
        )
    vary: Callable[[], float] = lambda: float(np.exp(spread * draws.standard_normal()))  # noqa: E731
    count = sum(row.count for row in rows.values())
    busy = sum(row.total_ns for row in rows.values())
    launch, host = launch_us * 1e3 * count * vary(), host_us * 1e3 * max(steps, 1) * vary()
    copy = COPY_US * 1e3 * max(steps, 1) * vary()
    step = (busy + launch + host + copy) / max(steps, 1)
    rows |= {
        Key("total", "GPU busy"): RowFigures(1, busy + copy, busy + copy),
        Key("total", "GPU idle"): RowFigures(1, launch + host, launch + host),
        Key("launch", "first launches"): RowFigures(len(kernels), 3e6 * vary(), None),
        Key("launch", "repeat launches"): _rows_of(count, launch, steps),
        Key("api", "cudaLaunchKernel"): _rows_of(count, CALL_US * 1e3 * count * vary(), steps),
        Key("api", "cudaMemcpyAsync"): _rows_of(max(steps, 1), copy * 1.1, steps),
        Key("copy", "H2D pinned"): _rows_of(max(steps, 1), copy, steps, size=COPY_BYTES * max(steps, 1)),
    }
    if steps:
        rows |= {
            Key("step", "step"): RowFigures(steps, step * steps, step, 0.001, step),
            Key("budget", "gemm_kernel"): _rows_of(steps, busy, steps),
            Key("budget", "memcpy"): _rows_of(steps, copy, steps),
            Key("budget", "idle_launch"): _rows_of(steps, launch, steps),
            Key("budget", "idle_host"): _rows_of(steps, host, steps),
            Key("range", "step"): _rows_of(steps, step * steps, steps),
            Key("range", "step/forward"): _rows_of(steps, step * steps * 0.6, steps),
        }
    rows |= {
        Key("budget", state, WHOLE_RUN): RowFigures(1, total, total)
        for state, total in (
            ("gemm_kernel", busy),
            ("memcpy", copy),
            ("idle_launch", launch),
            ("idle_host", host),
        )
    }
    return RunFigures(label, setup, rows, steps)


def made_kernel_row(
    kernel: MadeKernel,
    draws: np.random.Generator,
    factor: float = 1.0,
    steps: int = 20,
    clock_mhz: float | None = 1980.0,
) -> RowFigures:
    """Return the row of one run: its level is drawn once, then each launch around it."""
    level = kernel.us * 1e3 * factor * np.exp(kernel.spread * draws.standard_normal())
    launches = level * (1 + kernel.jitter * draws.standard_normal(kernel.launches))
    launches = np.sort(launches.clip(1).round())
    total = float(launches.sum())
    cut = int(TRIM * len(launches))
    kept = launches[cut : len(launches) - cut]
    return RowFigures(
        count=len(launches),
        total_ns=total,
        typical_ns=float(kept.mean()),
        error=float(launches.std() / launches.mean() / np.sqrt(len(launches))),
        per_step_ns=total / steps if steps else None,
        clock_mhz=clock_mhz if kernel.clock_samples else None,
        clock_samples=kernel.clock_samples if clock_mhz else 0,
        durations=binned(launches),
        mean_error=float(launches.std() / launches.mean() / np.sqrt(len(launches))),
    )


def binned(launches: NDArray[np.float64]) -> tuple[tuple[int, int], ...]:
    """Return at most BINS pairs of duration and count, ascending."""
    parts = np.array_split(np.sort(launches), min(BINS, len(launches)))
    pairs: dict[int, int] = {}
    for part in parts:
        pairs[round(part.mean())] = pairs.get(round(part.mean()), 0) + len(part)
    return tuple(sorted(pairs.items()))


def side_of(
    name: str,
    rows: Mapping[Key, Sequence[RowFigures | float | None]],
    *,
    setup: Setup = SETUP,
    setups: Sequence[Setup] = (),
    steps: int = 20,
) -> Side:
    """Return a side of exact rows: one entry a run; a number is the typical time of 100 launches in ns.

    None: the run lacks the row. ``setups`` has the Setup of each run where they differ.
    """
    number = max(map(len, rows.values()))
    runs = tuple(
        RunFigures(
            f"{name}-{run}",
            setups[run] if setups else setup,
            {
                key: entry if isinstance(entry, RowFigures) else exact_row(entry)
                for key, entries in rows.items()
                if (entry := entries[run]) is not None
            },
            steps,
        )
        for run in range(number)
    )
    return Side(name, runs)


def exact_row(typical_ns: float, count: int = 100, steps: int = 20, **more: Any) -> RowFigures:
    """Return a row of equal launches; ``more`` are fields of Row."""
    total = typical_ns * count
    more = {"mean_error": more.get("error", 0.0), **more}
    return replace(RowFigures(count, total, typical_ns, per_step_ns=total / steps if steps else None), **more)


def _rows_of(count: int, total_ns: float, steps: int, size: int | None = None) -> RowFigures:
    return RowFigures(
        count,
        total_ns,
        total_ns / count,
        error=0.002,
        per_step_ns=total_ns / steps if steps else None,
        size_bytes=size,
        mean_error=0.002,
    )

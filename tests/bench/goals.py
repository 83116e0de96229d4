"""What is held against what, and how it should be: all goals of the bench."""

from dataclasses import dataclass
from importlib.util import find_spec

from contenders import (
    ADVICE,
    ALL,
    COLLECT,
    COLLECT_AGAIN,
    COMPARE,
    COMPARE_RANGES,
    HELP,
    IMPORT_CLICK,
    IMPORT_PANDAS,
    NEWEST,
    NSYS,
    NSYS_AI,
    NSYS_PROFILE,
    NVTX,
    OURS,
    OURS_ALONE,
    PANDAS,
    PERFETTO,
    PROFILE,
    REPORT,
    RUNS,
    SCREEN,
    SCREEN_WINDOWS,
    TAB,
    TRACES,
    VIEW,
    WINDOW,
    both,
)

_M = 10**6  # kernels
_10M, _100M = 10 * _M, 100 * _M
SCREEN_GROWTH = 1.1  # of its time, beside that of the kernels


@dataclass(frozen=True)
class Goal:
    """``one`` over ``other`` in time or memory; without another ``one`` alone, in MB of memory.

    A bound holds from so many kernels on; with fewer, or without a bound, the ratio is only said.
    ``more_s``: not the ratio of the times, but by how many seconds one takes longer. ``cpu``: of CPU times.
    """

    one: str
    other: str = ""
    memory: bool = False
    at_least: float | None = None
    at_most: float | None = None
    kernels: int = 0
    more_s: bool = False
    cpu: bool = False


def goals(kernels: int) -> list[Goal]:
    """Return those for an export of so many kernels; 0: of the short commands."""
    return _on_export(kernels) if kernels else _SHORT


def _on_export(kernels: int) -> list[Goal]:
    return [
        Goal(NSYS, OURS, at_least=30 if kernels >= _10M else 15, kernels=_M),
        Goal(OURS, NSYS, memory=True, at_most=0.5, kernels=_M),
        Goal(OURS, memory=True, at_most=4_000, kernels=_100M),
        *(Goal(*both(report), at_least=10 if find_spec("pyarrow") else 6, kernels=_M) for report in TRACES),
        *(Goal(*both(report)[::-1], memory=True, at_most=1, kernels=_M) for report in TRACES),
        *(Goal(*both(report), at_least=10, kernels=_M) for report in NVTX),
        *(Goal(*both(report)[::-1], memory=True) for report in NVTX),
        Goal(ALL, OURS, at_most=12, kernels=_M),
        Goal(ALL, memory=True, at_most=1_000 if kernels < _10M else None, kernels=_M),
        *_of_screens(kernels),
        Goal(WINDOW, OURS, at_most=0.1, kernels=_10M),
        Goal(WINDOW, OURS, memory=True, at_most=0.1, kernels=_10M),
        Goal(PERFETTO, OURS, at_most=4, kernels=_M),
        Goal(PERFETTO, memory=True, at_most=400 if kernels < _10M else None, kernels=_M),
        *(Goal(one, REPORT, at_most=3, kernels=_M // 10) for one in (COMPARE, COMPARE_RANGES)),
        *(Goal(one, REPORT, memory=True, at_most=2, kernels=_M // 10) for one in (COMPARE, COMPARE_RANGES)),
        *(Goal(other, OURS_ALONE) for other in (PANDAS, NSYS_AI)),
        *_in_cpu_time(kernels),
    ]


def _in_cpu_time(kernels: int) -> list[Goal]:
    """Return what people wait for, in CPU time: on a machine with other work the ratios are the same."""
    screens = {REPORT: 3.0, ADVICE: 3.0, VIEW: 5.0}
    return [
        *(Goal(screen, OURS, at_most=most, kernels=_M, cpu=True) for screen, most in screens.items()),
        *(Goal(one, REPORT, at_most=0.2, kernels=_M, cpu=True) for one in SCREEN_WINDOWS),
        *(Goal(one, REPORT, memory=True, at_most=0.4, kernels=_M) for one in SCREEN_WINDOWS),
        *([Goal(REPORT, memory=True, at_most=4_000, kernels=_10M)] if kernels >= _10M else []),
        Goal(COMPARE, REPORT, at_most=2.2, kernels=_M, cpu=True),
        Goal(COMPARE, REPORT, memory=True, at_most=1.5, kernels=_M),
        Goal(COLLECT, OURS, at_most=50, kernels=_M, cpu=True),
        Goal(COLLECT_AGAIN, OURS, at_most=6, kernels=_M, cpu=True),
    ]


def _of_screens(kernels: int) -> list[Goal]:
    times = {REPORT: 1.0, ADVICE: 1.3, VIEW: 2.0}
    held = 350 if kernels < _10M else None
    return [
        *(Goal(screen, OURS, at_most=times[screen], kernels=_M) for screen in times),
        *(Goal(screen, memory=True, at_most=held, kernels=_M) for screen in times),
    ]


_SHORT = [
    Goal(PROFILE, NSYS_PROFILE, at_most=0.4, more_s=True),
    Goal(SCREEN, IMPORT_PANDAS, at_most=0.8),
    Goal(HELP, IMPORT_CLICK, at_most=1.3),
    Goal(TAB, IMPORT_CLICK, at_most=1.3),
    Goal(SCREEN, IMPORT_PANDAS, at_most=0.6, cpu=True),
    Goal(NEWEST, IMPORT_PANDAS, at_most=2, cpu=True),
    Goal(RUNS, IMPORT_PANDAS, at_most=4, cpu=True),
]

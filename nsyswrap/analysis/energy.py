"""Estimate the energy of GPUs in the part that is judged, and in a run: mean power times time.

The samples of a run have the power of each GPU: on newer GPUs the mean of the last second, by which that of a
part of the run is known all the same. Captures without a run folder can have the power that nsys' NVML plugin
sampled: on an H200 that of the moment. The energy of the run is that by the counter of the GPU, which is read
before and after it: a reading takes milliseconds. Power and energy are of the whole GPU, idle power included.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.judged_process import JudgedProcess
from nsyswrap.analysis.usage import nvml_curves_of
from nsyswrap.base.constants import NS_PER_S
from nsyswrap.base.records import dataclass
from nsyswrap.capture.capture import Capture

LEAST_S = 2.0  # of samples: the power of a GPU can be a mean of the last second
_FEWEST = 2  # samples
_A_SECOND = 10  # samples, as many as the recorder takes
_LAST_OF_MOMENT = (8, 0)  # compute capability
_COVERED = 0.9  # of the time judged
_LONGEST_S = 2.0  # between two samples: the recorder takes ten a second


@dataclass(frozen=True)
class Energy:
    """The energy of the GPUs that worked, in J, and their mean power in the part that is judged, in W.

    ``step_joules`` is that of a steady step, None without steps. ``run_joules`` is from the first sample to
    the last, by the counters of the GPUs if it is ``counted``.
    """

    mean_power_w: float
    step_joules: float | None
    run_joules: float
    counted: bool


class _Spent(NamedTuple):
    """The energy in J that a GPU has spent at each time in order, by its power, and in all by its counter."""

    seconds: NDArray[Any]
    joules: NDArray[Any]
    counted: float | None

    @classmethod
    def of(cls, seconds: NDArray[Any], power_w: NDArray[Any], counted: float | None = None) -> _Spent | None:
        """Return the energy by samples of the power of the moment; None with too few of them."""
        if not _in_order(seconds):
            return None
        between = np.diff(seconds) * (power_w[1:] + power_w[:-1]) / 2
        return cls(seconds, np.concatenate(([0.0], np.cumsum(between))), counted)

    @classmethod
    def of_means(cls, seconds: NDArray[Any], power_w: NDArray[Any], counted: float | None) -> _Spent | None:
        """Return the energy by samples of the mean power of the last second; None with too few of them.

        Each mean is the difference of the energy at its time and a second before. How a second was spent
        that begins such a row is not known: it is the one in which the means differ least, and is taken
        to have had the same power all the time. As the recording begins, another program can just end.
        """
        if not _in_order(seconds):
            return None
        at = np.arange(seconds[0], seconds[-1], 1 / _A_SECOND)
        means = np.interp(at, seconds, power_w)
        by_second = np.pad(means, (0, -len(means) % _A_SECOND)).reshape(-1, _A_SECOND).cumsum(axis=0)
        # The second of means that differ least, the first one if several do.
        windows = np.lib.stride_tricks.sliding_window_view(means, min(_A_SECOND + 1, len(means)))
        last = int(np.ptp(windows, axis=1).argmin()) + windows.shape[1] - 1
        joules, steady = by_second.ravel()[: len(means)], np.arange(max(last - _A_SECOND + 1, 0), last + 1)
        since = joules[steady] - joules[steady[-1]] - means[steady[-1]] * (steady - steady[-1]) / _A_SECOND
        shift = np.zeros(_A_SECOND)
        shift[steady % _A_SECOND] = since
        joules = joules - shift[np.arange(len(means)) % _A_SECOND]
        return cls(at, joules - joules[0], counted)

    def within(self, start: NDArray[Any], end: NDArray[Any]) -> float:
        """Return the energy in these intervals."""
        from_start, to_end = (np.interp(times, self.seconds, self.joules) for times in (start, end))
        return float((to_end - from_start).sum())

    def sampled_s(self, start: NDArray[Any], end: NDArray[Any]) -> float:
        """Return the time of these intervals that lies between samples."""
        clipped = (np.clip(times, *self.seconds[[0, -1]]) for times in (end, start))
        return float(np.subtract(*clipped).sum())


def _in_order(seconds: NDArray[Any]) -> bool:
    """Return True if these are enough times of samples, none after a pause or of a clock that was set."""
    between = np.diff(seconds)
    return len(seconds) >= _FEWEST and bool(((between > 0) & (between <= _LONGEST_S)).all())


def energy_of(capture: Capture, main: JudgedProcess) -> Energy | None:
    """Return the energy of a capture whose main process is given; None if too little of it was sampled."""
    spent = _spent(capture)
    start, end = (times / NS_PER_S for times in main.window)
    sampled_s = min((gpu.sampled_s(start, end) for gpu in spent), default=0.0)
    if sampled_s < max(LEAST_S, _COVERED * main.window_ns / NS_PER_S):
        return None
    power_w, steps = sum(gpu.within(start, end) / gpu.sampled_s(start, end) for gpu in spent), main.steps
    step_s = float(steps.duration_ns[steps.steady].mean()) / NS_PER_S if steps.has_steady else None
    counters = [gpu.counted for gpu in spent if gpu.counted and gpu.counted > 0]  # else it stood still
    counted = len(counters) == len(spent)
    run_joules = sum(counters) if counted else sum(float(gpu.joules[-1]) for gpu in spent)
    return Energy(power_w, None if step_s is None else power_w * step_s, run_joules, counted)


def _spent(capture: Capture) -> list[_Spent]:
    """Return what each GPU that worked has spent; nothing if it is not known of one of them."""
    conditions = run_conditions_of(capture)
    if conditions and conditions.gpus:
        are_means = _samples_are_means(capture.whole)
        if len(are_means) > 1:  # which GPU is of which kind is not known
            return []
        of, made = _Spent.of if False in are_means else _Spent.of_means, []
        for one in conditions.gpus:
            power_w = one.samples["power_mw"] / 1000
            known = ~np.isnan(power_w) & (not one.gpu.mig)
            made.append(of(one.seconds[known], power_w[known], one.gpu.joules))
    else:
        curves = [curve for curve in nvml_curves_of(capture.whole) if curve.name == "power"]
        if len(curves) != 1 or len(gpu_operations_of(capture).rows_of) != 1:  # which GPU is not recorded
            return []
        made = [_Spent.of(curves[0].times_ns / NS_PER_S, curves[0].values.astype(np.float64))]
    every = [one for one in made if one]
    return every if len(every) == len(made) else []


def _samples_are_means(whole: Capture) -> set[bool]:
    """Return whether NVML's power is a mean, for each kind of GPU. Of GA100 and older it is of the moment."""
    if not whole.has("gpu"):
        return set()
    versions = zip(*whole.columns("gpu", "compute_major", "compute_minor").values(), strict=True)
    return {version > _LAST_OF_MOMENT for version in versions}

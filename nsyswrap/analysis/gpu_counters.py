"""What the counters of a GPU say of its work: means of the samples that lie wholly inside.

nsys samples the counters of a GPU at a fixed rate. A value is the mean over the time from its timestamp to
the next one. It counts for a group of operations, such as the kernels of one name, if nothing else ran on the
GPU in that time and the group ran in nearly all of it. Fewer than LEAST_SAMPLES give no mean.

Counters are of the GPU, not of a process. Work that nsys did not record is in them, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, check_pairs, repeated
from nsyswrap.analysis.gpu_operations import gpu_operations_of, windows
from nsyswrap.analysis.known_work import COMPUTE_ROOF, MEMORY_ROOF
from nsyswrap.analysis.usage import Metric, gpu_metrics_of
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.intervals import union
from nsyswrap.capture.per_capture import per_capture
from nsyswrap.capture.schema import METRIC_GPU
from nsyswrap.capture.selection import process_ids

Ints = NDArray[Any]
Figures = Mapping[str, NDArray[Any]]

LEAST_SAMPLES = 30
_COVERED = 0.95  # of the time of a sample: launches in a row leave about 1 us between kernels
_LATE = 1.5  # times the period: then samples are missing
_ROOF_PERCENT = 60.0  # Nsight Compute calls a unit with more a bottleneck
LEAST_ELSEWHERE = 5.0  # percent of the time: then another program uses the GPU, too
_MOST_PERCENT = 100.0  # of the peak
NEITHER = "neither"  # roof
# Our names of counters, and what nsys calls them; of GPUs before Ampere and after.
COUNTERS = {
    "sm_active": r"SMs? Active",
    "sm_issue": r"SMs? Issue",
    "tensor_active": r"Tensor Active.*",
    "dram_read": r"DRAM Read (?:Bandwidth|Throughput)",
    "dram_write": r"DRAM Write (?:Bandwidth|Throughput)",
    "pcie_rx": r"PCIe RX (?:Bandwidth|Throughput)",
    "pcie_tx": r"PCIe TX (?:Bandwidth|Throughput)",
}


class SampledGpu(NamedTuple):
    """The samples of one GPU in order of time, in ns and percent of the peak.

    ``percent`` has an array for each of COUNTERS, NaN for what is not sampled, and for ``busy``: the share of
    the sample in which an operation ran. ``owners`` are the pairs of global process id and device id of the
    GPU. ``impossible`` values were below 0 % or above 100 %: they are not known either.
    """

    start_ns: Ints
    end_ns: Ints
    percent: Figures
    owners: frozenset[tuple[int, ...]]
    impossible: int

    def inside(self, start_ns: Ints, end_ns: Ints) -> Ints:
        """Return the interval that each sample lies wholly inside, of these in order of time; -1: none."""
        at = np.searchsorted(start_ns, self.start_ns, "right") - 1
        return np.where((at >= 0) & (self.end_ns <= end_ns[at]), at, -1)

    def elsewhere(self) -> Ints:
        """Return 0 for the samples during which, as before and after, no recorded operation ran; else -1."""
        idle = np.pad(self.percent["busy"] == 0, 1)
        return np.where(idle[:-2] & idle[1:-1] & idle[2:], 0, -1)


@per_capture
def sampled_gpus(whole: Capture) -> list[SampledGpu]:
    """Return the GPUs of a capture whose counters were sampled; without work if its GPU is not known."""
    metrics: dict[int, dict[str, Metric]] = {}
    for metric in gpu_metrics_of(whole):
        for name, pattern in COUNTERS.items():
            if metric.unit == "%" and re.fullmatch(pattern, metric.name):
                metrics.setdefault(metric.gpu, {}).setdefault(name, metric)
    only = [*metrics] if len(metrics) == 1 and (not whole.has("gpu") or whole.count("gpu") == 1) else [None]
    owners: dict[int | None, list[tuple[int, ...]]] = {}
    for process, device in gpu_operations_of(whole).rows_of:
        pid = int(process_ids(np.array([process]))[0])
        gpu = whole.gpu_ids.get((pid, device))
        owners.setdefault(only[0] if gpu is None else gpu & METRIC_GPU, []).append((process, device))
    return [_sampled(whole, of_gpu, owners.get(gpu, [])) for gpu, of_gpu in sorted(metrics.items())]


def _sampled(whole: Capture, metrics: Mapping[str, Metric], owners: list[tuple[int, ...]]) -> SampledGpu:
    """Return the samples of several counters, which nsys takes at the same times."""
    start = ascending(max((metric.times_ns for metric in metrics.values()), key=len))
    period = int(np.median(np.diff(start))) if len(start) > 1 else 0
    end = np.append(start[1:], start[-1:] + period)
    end = np.where(end - start > _LATE * period, start + period, end)
    percent = {name: np.full(len(start), np.nan) for name in COUNTERS}
    for name, metric in metrics.items():
        at = np.minimum(np.searchsorted(start, metric.times_ns), len(start) - 1)
        same = start[at] == metric.times_ns
        percent[name][at[same]] = metric.values[same]
    impossible = 0
    for values in percent.values():
        wrong = (values < 0) | (values > _MOST_PERCENT)
        impossible += int(np.count_nonzero(wrong))
        values[wrong] = np.nan
    operations = gpu_operations_of(whole)
    rows = np.concatenate([np.empty(0, np.int64), *(operations.rows_of[pair] for pair in owners)])
    begin, finish = operations.start_ns[rows], operations.end_ns[rows]
    percent["busy"] = 100 * union(begin, finish).within(start, end) / np.maximum(end - start, 1)
    return SampledGpu(start, end, percent, frozenset(owners), impossible)


def groups(whole: Capture, gpu: SampledGpu, code: Ints) -> Ints:
    """Return the group that each sample counts for, by the code of each operation; -1: for none."""
    sample, operation = _overlaps(whole, gpu.owners)
    mine = code[operation]
    group = np.full(len(gpu.start_ns), -1)
    group[sample] = mine
    mixed = np.bincount(sample, mine != group[sample], len(group)) > 0
    return np.where(mixed | (gpu.percent["busy"] < 100 * _COVERED), -1, group)


@per_capture
def _overlaps(whole: Capture, owners: frozenset[tuple[int, ...]]) -> tuple[Ints, Ints]:
    """Return each pair of a sample and an operation at the same time: positions of both."""
    gpu = next(one for one in sampled_gpus(whole) if one.owners == owners)
    operations = gpu_operations_of(whole)
    rows = np.concatenate([operations.rows_of[pair] for pair in owners])
    begin, finish = operations.start_ns[rows], operations.end_ns[rows]
    first = np.searchsorted(gpu.end_ns, begin, "right")
    count = np.maximum(np.searchsorted(gpu.start_ns, np.maximum(finish, begin + 1)) - first, 0)
    check_pairs(int(count.sum()), len(rows) + len(gpu.start_ns), "samples and operations", whole.source)
    at, nth = repeated(count)
    return first[at] + nth, rows[at]


def means(views: Sequence[Capture], group: Callable[[SampledGpu], Ints], count: int) -> Figures:
    """Return the means of groups of samples by COUNTERS and ``busy``, and ``samples``: their number.

    ``group`` returns the group of each sample of a GPU; -1: none. Those count that lie wholly in what is
    selected, on a GPU that works in it. A mean of fewer than LEAST_SAMPLES is NaN. ``dram`` is reads and
    writes together.
    """
    names = (*COUNTERS, "busy")
    sums, known = ({name: np.zeros(count) for name in names} for _ in range(2))
    samples = np.zeros(count, np.int64)
    for gpu in sampled_gpus(views[0].whole):
        inside = np.zeros(len(gpu.start_ns), bool)  # of any view: processes can share a GPU
        for view in views:
            selected = gpu_operations_of(view)
            if not gpu.owners.isdisjoint(selected.rows_of):
                inside |= gpu.inside(*windows(view, selected)) >= 0
        if not inside.any():
            continue
        code = group(gpu)
        rows = np.flatnonzero((code >= 0) & inside)
        samples += np.bincount(code[rows], minlength=count)
        for name in names:
            there = rows[~np.isnan(gpu.percent[name][rows])]
            sums[name] += np.bincount(code[there], gpu.percent[name][there], count)
            known[name] += np.bincount(code[there], minlength=count)
    figures = {
        name: sums[name] / np.where(known[name] < LEAST_SAMPLES, np.nan, known[name]) for name in names
    }
    return {"samples": samples, **figures, "dram": figures["dram_read"] + figures["dram_write"]}


def near_roof(figures: Figures) -> list[str]:
    """Return what counters are close to: compute, memory or NEITHER; empty if they are not known."""
    compute = np.fmax(figures["tensor_active"], figures["sm_issue"])
    both = [compute, figures["dram"]]
    which = [np.isnan(np.add(*both)), np.fmax(*both) < _ROOF_PERCENT, figures["dram"] > compute]
    return np.select(which, ["", NEITHER, MEMORY_ROOF], COMPUTE_ROOF).tolist()  # type: ignore[no-any-return]


def busy_counters(view: Capture) -> dict[str, float]:
    """Return the means over the busy time of a view by COUNTERS and ``dram``; empty without enough samples.

    ``elsewhere`` is the activity of SMs while no recorded operation ran: that of other programs.
    """
    every = means([view], lambda gpu: np.zeros(len(gpu.start_ns), np.int64), 1)
    if not every["busy"][0] > 0:
        return {}
    # Counters of an idle GPU are 0, so what is active is active in the busy time.
    shares = {name: every[name][0] / every["busy"][0] for name in (*COUNTERS, "dram")}
    other = means([view], SampledGpu.elsewhere, 1)["sm_active"][0]
    return {
        **{name: min(100 * float(share), 100.0) for name, share in shares.items()},
        "elsewhere": float(other),
    }

"""Match the NVTX ranges of several ranks by name and occurrence, with the GPU time of each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nsyswrap.analysis.nvtx_ranges import ALL, own_texts
from nsyswrap.analysis.range_tree.range_texts import of_an_operation
from nsyswrap.base.missing import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from nsyswrap.analysis.ranks.job import GpuTimes, Job
    from nsyswrap.capture.capture import Capture

_LIBRARY = re.compile(r"nccl[A-Z]")  # NCCL marks its own calls
_FEWEST_RANKS = 2


@dataclass(frozen=True)
class Steps:
    """The ranges of one name: arrays with one row per member in ``ranks``, one column per occurrence; in ns.

    ``own_ns`` and ``waiting_ns`` cover the operations that any thread of the process launched during the
    range, on any device: PyTorch's autograd launches the backward pass from its own threads.
    """

    name: str
    ranks: tuple[int, ...]
    range_ns: NDArray[Any]
    own_ns: NDArray[Any]
    waiting_ns: NDArray[Any]

    @property
    def on_gpu(self) -> bool:
        """Whether a rank launched its own GPU work in these ranges."""
        return bool(self.own_ns.any())

    @property
    def judged_ns(self) -> NDArray[Any]:
        """The time that tells slow ranks from fast ones, in ns.

        Ranges last equally long on ranks that wait for each other, so own GPU time counts if there is any.
        """
        return self.own_ns if self.on_gpu else self.range_ns


def steps(job: Job) -> tuple[list[Steps], list[str]]:
    """Return the ranges that several ranks have, by first appearance, and notes on unmatched ones."""
    by_member = [_of(member.capture, times) for member, times in zip(job.members, job.all_times, strict=True)]
    matched: list[Steps] = []
    alone, uneven = 0, []
    for name in dict.fromkeys(name for ranges in by_member for name in ranges):
        having = tuple(number for number, ranges in enumerate(by_member) if name in ranges)
        counts = [by_member[number][name].shape[1] for number in having]
        if len(having) < _FEWEST_RANKS:
            alone += 1
            continue
        if len(set(counts)) > 1:
            uneven.append(name)
        cut = np.array([by_member[number][name][:, : min(counts)] for number in having])
        matched.append(Steps(name, having, cut[:, 0], cut[:, 1], cut[:, 2]))
    return matched, _notes(alone, uneven)


def slowest(times: NDArray[Any]) -> NDArray[Any]:
    """Return the row with the longest time of each column; -1 if several are equally long."""
    longest = times == times.max(axis=0)
    return np.where(longest.sum(axis=0) == 1, longest.argmax(axis=0), -1)


def _notes(alone: int, uneven: list[str]) -> list[str]:
    notes = [f"range names on only one rank are not matched: {alone}"] if alone else []
    if uneven:
        more = f" and {len(uneven) - 1} more" if len(uneven) > 1 else ""
        notes.append(
            f"range {uneven[0]!r}{more}: the number of instances differs between ranks; the "
            "first ones are matched"
        )
    return notes


def _of(capture: Capture, times: GpuTimes) -> Mapping[str, NDArray[Any]]:
    """Return for each name the range, own and waiting times of its ranges by start, in ns: three rows."""
    if not capture.has("nvtx"):
        return {}
    events = capture.columns("nvtx", "start_ns", "end_ns", "event_type")
    rows = np.flatnonzero(np.isin(events["event_type"], ALL) & (events["end_ns"] != MISSING))
    rows = rows[np.argsort(events["start_ns"][rows], kind="stable")]
    codes, names = own_texts(capture, rows)
    start, end = events["start_ns"][rows], events["end_ns"][rows]
    columns = np.array([end - start, *_launched_inside(start, end, times)])
    order = np.argsort(codes, kind="stable")
    parts = np.split(columns[:, order], np.cumsum(np.bincount(codes, minlength=len(names)))[:-1], axis=1)
    return {
        name: part
        for name, part in zip(names, parts, strict=False)
        if name and not _LIBRARY.match(name) and not of_an_operation(name)
    }


def _launched_inside(start: NDArray[Any], end: NDArray[Any], times: GpuTimes) -> list[NDArray[Any]]:
    """Return own and waiting time of the operations launched in each range, in ns."""
    order = np.argsort(times.launched_ns, kind="stable")
    launched = times.launched_ns[order]
    first, last = (np.searchsorted(launched, ends, "left") for ends in (start, end))
    running = (np.concatenate(([0], np.cumsum(part[order]))) for part in (times.own_ns, times.waiting_ns))
    return [sums[last] - sums[first] for sums in running]

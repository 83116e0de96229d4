"""Find the NVTX range that marks the steps of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.arrays.intervals import union
from nsyswrap.analysis.arrays.spans import Spans, tree
from nsyswrap.analysis.nvtx_ranges import MAIN_DOMAIN, closed_ranges, range_labels
from nsyswrap.analysis.steps.occurrences import Occurrences
from nsyswrap.capture.schema import PROCESS_MASK

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nsyswrap.analysis.steps.occurrences import Calls
    from nsyswrap.capture.capture import Capture

_LEAST, _MANY = 3, 10  # occurrences; an outer range with many is the step, else an inner one with many
_LEAST_PART = 0.25  # of the launches, or of the time with GPU work, between its first and its last occurrence
_OWN_PART = 0.1  # of the process' launches: a thread with fewer does not mark steps


class _Candidate(NamedTuple):
    """A range name on one thread: its spans by start, mean depth, and the launches inside."""

    label: str
    start_ns: NDArray[Any]
    end_ns: NDArray[Any]
    depth: float
    launches: int


def repeated_range(whole: Capture, process: int, calls: Calls) -> Occurrences | None:
    """Return the occurrences of the range that marks steps, or None if there is none.

    It repeats on a thread that launches GPU work, in the program's own domain, and spans a good part of the
    launches. Of several the outermost one with many occurrences counts; of these the one with most launches
    inside; of these the earliest.
    """
    candidates = [one for one in _candidates(whole, process, calls) if len(one.start_ns) >= _LEAST]
    many = [one for one in candidates if len(one.start_ns) >= _MANY]
    launches = calls.start_ns[calls.works]
    for group in (many, candidates):
        wide = [one for one in group if _spans_much(one, launches)]
        if wide:
            best = min(wide, key=lambda one: (round(one.depth), -one.launches, one.start_ns[0]))
            return _occurrences(best, calls)
    return None


def named_range(whole: Capture, process: int, calls: Calls, name: str) -> Occurrences | None:
    """Return the occurrences of a range of this name, with ``@DOMAIN`` if it is not the default domain."""
    named = [one for one in _candidates(whole, process, calls, every=True) if one.label == name]
    if not named:
        return None
    return _occurrences(max(named, key=lambda one: (one.launches, len(one.start_ns))), calls)


def range_names(whole: Capture) -> list[str]:
    """Return the names of the NVTX ranges, with ``@DOMAIN`` if it is not the default domain."""
    if not whole.has("nvtx"):
        return []
    rows, _ = closed_ranges(whole)
    return [text for text in range_labels(whole, rows)[1] if text is not None]


def _candidates(whole: Capture, process: int, calls: Calls, *, every: bool = False) -> list[_Candidate]:
    """Return each name on each launching thread, without ranges inside a range of the same name."""
    if not whole.has("nvtx"):
        return []
    rows, spans = closed_ranges(whole)
    mine = spans.thread & PROCESS_MASK == process
    if not every:
        mine &= np.isin(whole.columns("nvtx", "domain_id")["domain_id"][rows], MAIN_DOMAIN)
        threads, launches = np.unique(calls.thread[calls.works], return_counts=True)
        mine &= np.isin(spans.thread, threads[launches >= _OWN_PART * launches.sum()])
    rows, spans = rows[mine], Spans(*(field[mine] for field in spans))
    if not len(rows):
        return []
    names, texts = range_labels(whole, rows)
    depth = np.maximum(tree(spans).depth, 0)  # MISSING if two ranges have the same times
    codes, (_, text) = group_keys(spans.thread, names)
    launches = calls.start_ns[calls.works]
    candidates = []
    often = np.bincount(codes) >= (1 if every else _LEAST)  # each operation of PyTorch has its own text
    for code in np.flatnonzero(often).tolist():
        label, which = int(text[code]), codes == code
        if texts[label] is None:
            continue
        start, end = spans.start[which], spans.end[which]
        outer = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])
        start, end = start[outer], end[outer]
        cover = union(start, end)
        inside = np.searchsorted(launches, cover.end) - np.searchsorted(launches, cover.start)
        candidates.append(
            _Candidate(str(texts[label]), start, end, float(depth[which].mean()), int(inside.sum()))
        )
    return candidates


def _spans_much(one: _Candidate, start: NDArray[Any]) -> bool:
    """Return True if the occurrences span a good part of the launches or of the time with GPU work.

    ``start`` has the starts of the launches, in order.
    """
    first, last = one.start_ns[0], one.end_ns[-1]
    launches = int(np.diff(np.searchsorted(start, (first, max(first, last))))[0])
    time = min(last, start[-1]) - max(first, start[0])
    part = max(launches / len(start), time / max(start[-1] - start[0], 1))
    return bool(launches > 0 and part >= _LEAST_PART)


def _occurrences(one: _Candidate, calls: Calls) -> Occurrences:
    start = one.start_ns
    last = calls.works & (calls.start_ns >= start[-1]) & (calls.start_ns < one.end_ns[-1])
    work_end = int(calls.gpu_end_ns[last].max(initial=0))
    ends = np.append(start[1:], max(int(one.end_ns[-1]), work_end))
    firsts = np.sort(calls.start_ns[calls.first])
    first_uses = np.searchsorted(firsts, ends) > np.searchsorted(firsts, start)
    return Occurrences(
        f"'{one.label}'",
        start,
        ends,
        drains=work_end > one.end_ns[-1],
        differs=np.zeros(len(start), bool),
        first_uses=first_uses,
        is_range=True,
    )

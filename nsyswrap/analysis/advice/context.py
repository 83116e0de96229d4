"""The quantities of a judged part that several checks share.

Each is computed on first use, so checks can ask in any order, with one exception: ``claimed``. A check that
counts the time of operations marks them with ``claim``, and later ones leave them out: the order of CHECKS.

``GapKinds`` marks the gaps of the part: those of ``loading``, of the others those of ``allocating``, of the
others by the operation that ends the gap those of ``copying`` and ``launching``. No gap has two of these four
marks, and one before a memset can have none. ``waited`` goes with the last two or with none, ``graph`` and
``long_host`` with any.

Times are IntervalSets, so that gaps of several GPUs at the same time count once. ``of_typical`` leaves out
outlier steps; ``most_saved_ns`` what other processes do and what the GPU that computes longest needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.arrays.groups import ascending, median
from nsyswrap.analysis.finding import Finding, FindingKind, Status
from nsyswrap.analysis.gpu_gaps import Gaps, gaps_of
from nsyswrap.analysis.gpu_operations import (
    KERNEL,
    KINDS,
    MEMCPY,
    GpuOperations,
    communicating,
    gpu_operations_of,
    owners_of_gpus,
)
from nsyswrap.analysis.judged_process import JudgedProcess
from nsyswrap.analysis.launch_bound import back_to_back, ended_by
from nsyswrap.analysis.launches import Launches, launches_of
from nsyswrap.analysis.names import full_names, load_calls
from nsyswrap.capture.intervals import NOTHING, IntervalSet, difference, intersection, union
from nsyswrap.capture.schema import PAGEABLE, TINY_BYTES, TO_HOST

WORTH_PERCENT = 5.0  # of the time judged; less is not worth a finding
_LAUNCHES, _SHORT_NS = 3, 10_000  # durations of kernels that launching limits, the former in launches


class NamedKernels(NamedTuple):
    """The kernels that begin in the typical time: positions in ``AdviceContext.operations``, and names.

    ``code`` is the position of each one's name in ``names``, whole names. ``total_ns`` has the time of all
    kernels of each name.
    """

    rows: NDArray[Any]
    code: NDArray[Any]
    names: list[str]
    total_ns: NDArray[Any]


class AdviceContext:
    """A judged part, with the quantities that several checks use, each computed on first use.

    Outlier steps are a finding of their own. Only loading and allocating, which explain them, count there.
    """

    def __init__(self, process: JudgedProcess, least_percent: float = WORTH_PERCENT) -> None:
        """Take the smallest share of the window, in percent, that is worth a finding."""
        self.judged, self.least_percent = process, least_percent
        self.capture = process.view
        self.window_ns = process.window_ns

    @cached_property
    def operations(self) -> GpuOperations:
        """The operations of the part."""
        return gpu_operations_of(self.capture)

    @cached_property
    def gaps(self) -> Gaps:
        """The gaps of the part."""
        return gaps_of(self.capture)

    @cached_property
    def launches(self) -> Launches:
        """The launches of the part."""
        return launches_of(self.capture)

    @cached_property
    def median_launch_ns(self) -> float | None:
        """The median time in repeated launch calls in ns; None without any."""
        repeats = self.launches.narrow_api_ns[~self.launches.first]
        return median(repeats) if len(repeats) else None

    @cached_property
    def typical(self) -> IntervalSet:
        """The time judged without outlier steps."""
        return union(*self.judged.typical)

    @cached_property
    def compute(self) -> IntervalSet:
        """The time in which a kernel or a whole graph ran on some device."""
        return self.running(self.operations.computes)

    def running(self, rows: NDArray[Any]) -> IntervalSet:
        """Return the typical time in which operations ran; ``rows`` has their positions, or marks them."""
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)  # positions take a fraction of the time of marks
        return self.of_typical(union(self.operations.start_ns.take(rows), self.operations.end_ns.take(rows)))

    def marks(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Mark the operations at these positions."""
        marks = np.zeros(len(self.operations), dtype=bool)
        marks[rows] = True
        return marks

    def of_typical(self, cover: IntervalSet) -> IntervalSet:
        """Return the part of a cover that is not in outlier steps."""
        return intersection(cover, self.typical)

    def idle(self, gaps: NDArray[Any], causes: Iterable[str], *, outliers: bool = False) -> IntervalSet:
        """Return the time in which some device was idle in these gaps by one of these causes.

        Outlier steps count only if ``outliers`` says so.
        """
        segments, rows = self.gaps.segments, self.gaps.segments_in(gaps, causes)
        cover = union(segments.start_ns.take(rows), segments.end_ns.take(rows))
        return intersection(cover, self.judged.window) if outliers else self.of_typical(cover)

    @cached_property
    def kernels(self) -> NamedKernels:
        """The kernels of the part, by name."""
        operations, whole = self.operations, self.capture.whole
        rows = np.flatnonzero(
            (operations.kind == KINDS.index(KERNEL)) & self.typical.holds(operations.start_ns)
        )
        if not len(rows):
            return NamedKernels(rows, rows, [], rows)
        codes, names = full_names(whole)
        code = codes.take(operations.row.take(rows))
        total = np.bincount(code, (operations.end_ns - operations.start_ns)[rows], len(names))
        return NamedKernels(rows, code, names, total)

    @cached_property
    def claimed(self) -> NDArray[np.bool_]:
        """Marks of the operations whose time a finding already counts; others leave them out."""
        return np.zeros(len(self.operations), dtype=bool)

    def claim(self, rows: NDArray[Any]) -> None:
        """Mark the operations at these positions as counted by a finding."""
        self.claimed[rows] = True

    def duration_ns(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the durations of the operations at these positions."""
        return (self.operations.end_ns - self.operations.start_ns)[rows]  # type: ignore[no-any-return]

    def by_name(self, rows: NDArray[Any]) -> dict[str, int]:
        """Return the time in ns of kernels at these positions, all in ``kernels``, by name."""
        code = self.kernels.code[np.searchsorted(self.kernels.rows, rows)]
        total = np.bincount(code, self.duration_ns(rows)).astype(np.int64).tolist()
        return {self.kernels.names[code]: ns for code, ns in enumerate(total) if ns}

    @cached_property
    def most_ns(self) -> int:
        """The most that can be saved without faster kernels: what the GPU that computes longest leaves.

        What other processes compute on it counts, too.
        """
        whole = self.capture.whole
        every = gpu_operations_of(whole)
        computes = every.computes & ~communicating(whole, every)
        busy = [0]
        for process, device, _ in self.operations.by_device():
            sharing = owners_of_gpus(whole)[process, device]
            rows = np.concatenate([every.rows_of[owner] for owner in sharing])
            rows = rows[computes[rows]]
            cover = union(every.start_ns[rows], every.end_ns[rows])
            busy.append(intersection(cover, self.judged.window).length)
        return self.window_ns - max(busy)

    @cached_property
    def others(self) -> IntervalSet:
        """The time in which other processes use each GPU of this one: no change of this one saves it."""
        whole, cover = self.capture.whole, None
        every = gpu_operations_of(whole)
        for process, device, _ in self.operations.by_device():
            sharing = [pair for pair in owners_of_gpus(whole)[process, device] if pair != (process, device)]
            rows = np.concatenate([np.empty(0, np.int64), *(every.rows_of[pair] for pair in sharing)])
            used = union(every.start_ns[rows], every.end_ns[rows])
            cover = used if cover is None else intersection(cover, used)
        return NOTHING if cover is None else cover

    def most_saved_ns(self, cover: IntervalSet) -> int:
        """Return the most that a change can save of this time."""
        return min(difference(cover, self.others).length, self.most_ns)

    @cached_property
    def most_saved_idle_ns(self) -> int:
        """The most that a change can save of all idle time, outlier steps included."""
        idle = union(self.gaps.start_ns, self.gaps.end_ns)
        return self.most_saved_ns(intersection(idle, self.judged.window))

    @cached_property
    def copies(self) -> ExplicitCopies:
        """The explicit copies of the part."""
        return ExplicitCopies(self)

    @cached_property
    def long_kernels(self) -> NDArray[Any]:
        """The positions of the kernels of the typical time that launching does not limit.

        They take three times as long as the shortest launch, as others wait for room in the queue; in graphs,
        and where launches are not recorded, 10 us.
        """
        operations, launches = self.operations, self.launches
        calls_ns = launches.narrow_api_ns[~launches.of_graph & ~launches.first]
        short = _LAUNCHES * int(calls_ns.min()) if len(calls_ns) else _SHORT_NS
        marks = (operations.kind == KINDS.index(KERNEL)) & self.typical.holds(operations.start_ns)
        return np.flatnonzero(marks & (operations.end_ns - operations.start_ns >= short))

    @cached_property
    def kinds(self) -> GapKinds:
        """What the gaps are about."""
        return GapKinds(self)

    @cached_property
    def copy_kind(self) -> NDArray[Any]:
        """The kind of the copy that ends each gap; only that of gaps that a copy ends has a meaning."""
        gaps, copying = self.gaps, self.kinds.copying
        kind = np.zeros(len(gaps), np.int64)
        if copying.any():
            rows = gaps.operations.row[gaps.after[copying]]
            kind[copying] = self.capture.whole.columns(MEMCPY, "copy_kind")["copy_kind"][rows]
        return kind

    def worth(self, ns: int) -> bool:
        """Return True if a time is a large enough share of the window for a finding."""
        return ns > 0 and 100.0 * ns >= self.least_percent * self.window_ns

    def finding(
        self,
        kind: FindingKind,
        evidence: IntervalSet,
        source: str,
        *,
        ceiling_ns: int | None = None,
        status: Status = "bound",
        **numbers: Any,
    ) -> Finding:
        """Return a finding about this part; its ceiling is what can be saved of the evidence, unless given.

        The steady steps are counted in its numbers; 0 without any.
        """
        steps = self.judged.steps
        counted = {"steps": int(steps.steady.sum()) if steps.has_steady else 0, **numbers}
        ceiling = self.most_saved_ns(evidence) if ceiling_ns is None else ceiling_ns
        return Finding(kind, counted, evidence, ceiling, status, source, self.window_ns)

    def fact(self, kind: FindingKind, evidence: IntervalSet, source: str, **numbers: Any) -> Finding:
        """Return a fact about this part, which names no cost."""
        return Finding(kind, numbers, evidence, None, "measured", source, self.window_ns)


class ExplicitCopies:
    """The explicit copies of a part: positions in ``context.operations``, sizes, and marks."""

    def __init__(self, context: AdviceContext) -> None:
        operations = context.operations
        self.rows = np.flatnonzero((operations.kind == KINDS.index(MEMCPY)) & ~operations.migration)
        fields = ("bytes", "src_kind", "dst_kind", "copy_kind")
        whole = context.capture.whole
        row = operations.row[self.rows]
        columns = whole.columns(MEMCPY, *fields) if len(row) else dict.fromkeys(fields, row)
        self.size, source, target, kind = (columns[field][row] for field in fields)
        self.kind = kind
        self.tiny = (self.size <= TINY_BYTES) & (kind != TO_HOST)
        self.pageable = ((source == PAGEABLE) | (target == PAGEABLE)) & (self.size > TINY_BYTES)


class GapKinds:
    """Marks of the gaps, one entry each, for the story that a gap belongs to.

    ``loading``: at least a tenth of it is loading. In steps that repeat a single loading call is enough:
    compiling on the host comes before it.
    ``allocating``: at least a tenth of it is allocating or freeing.
    ``waited``: the thread waited for the GPU before it launched what ended the gap.
    ``copying``: the operation that ends it is a copy. ``launching``: it is a launch. ``graph``: that of a
    graph, before which any host code is none that a graph could save.
    ``long_host``: host code takes more than ten times the median call that launches or copies.
    """

    _PART = 0.1  # of a gap
    _LONG_HOST = 10  # times the median launch call

    def __init__(self, context: AdviceContext) -> None:
        gaps, whole = context.gaps, context.capture.whole
        duration, parts = gaps.duration_ns, gaps.parts
        launches = launches_of(whole)
        ended = ended_by(launches, gaps)
        launched = ended >= 0
        close = np.append(back_to_back(whole, or_first=True), False)[ended] if len(launches) else launched
        self.loading = parts["load"] > self._PART * duration
        if context.judged.steps.has_steady:
            self.loading |= loads_in_gaps(context) > 0
        self.allocating = ~self.loading & (parts["allocate"] > self._PART * duration)
        plain = ~self.loading & ~self.allocating
        self.waited = plain & np.where(launched, ~close, parts["synchronise"] > 0)
        after = context.gaps.operations.kind[gaps.after] if len(gaps.operations) else gaps.after
        self.copying = plain & ~launched & (gaps.after >= 0) & (after == KINDS.index(MEMCPY))
        self.launching = plain & launched
        self.graph = np.append(launches.of_graph, False)[ended]
        self.long_host = self.graph | (parts["host"] > self._LONG_HOST * _launch_call_ns(context))


def _launch_call_ns(context: AdviceContext) -> float:
    """Return the median time in repeated launch calls; without any, in calls that start GPU work; in ns."""
    if context.median_launch_ns is not None:
        return context.median_launch_ns
    calls = ascending(context.operations.call[context.operations.call >= 0])
    if not len(calls):
        return 0.0
    api = context.capture.whole.columns("api", "start_ns", "end_ns")
    return float(np.median((api["end_ns"] - api["start_ns"])[calls]))


def loads_in_gaps(context: AdviceContext, behind: float = 0.0) -> NDArray[Any]:
    """Return the number of calls in each gap with which its thread loaded a module or library.

    Those ``behind`` it, within that share of its length, count too.
    """
    gaps, whole = context.gaps, context.capture.whole
    loads = np.zeros(len(gaps), np.int64)
    if not whole.has("api"):
        return loads
    calls = load_calls(whole)
    api = whole.columns("api", "start_ns", "global_tid")
    start, caller = (api[field][calls] for field in ("start_ns", "global_tid"))
    for thread in ascending(caller).tolist():
        mine, times = gaps.thread == thread, np.sort(start[caller == thread])
        end_ns = gaps.end_ns[mine] + (behind * gaps.duration_ns[mine]).astype(np.int64)
        loads[mine] = np.searchsorted(times, end_ns) - np.searchsorted(times, gaps.start_ns[mine])
    return loads

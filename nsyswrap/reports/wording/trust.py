"""Make the trust line of the summary screen, from columns that the screen reads anyway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.diagnostics.capture_checks import silent_nvtx
from nsyswrap.analysis.diagnostics.check import marked
from nsyswrap.analysis.diagnostics.launch_checks import check_launches
from nsyswrap.analysis.no_gpu_work import has_gpu_work, missing_processes
from nsyswrap.base.constants import MISSING
from nsyswrap.base.text import wrap
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.reports.wording.checks import doubt_texts, events_counted, finding_text, worded

_MOST_MESSAGES = 2
_LINE_WIDTH = 78  # of a doubt: the screen indents it by 2


class Trust(NamedTuple):
    """Whether the figures hold: the contents of the capture, and a line per remark.

    ``has_more``: the report ``diagnostics`` has details.
    """

    contents: str
    has_more: bool
    remarks: list[str]

    @property
    def lines(self) -> list[str]:
        """The lines of a screen. The first names the report with the details."""
        return [f"{self.contents}{' (-r diagnostics)' if self.has_more else ''}", *self.remarks]


def trust(capture: Capture) -> Trust:
    """Return the trust line, then one line per remark.

    The line counts the kernels, copies and memsets, and says whether the trace is complete: it has GPU work,
    nsys reported no warning, no kernel or launch lacks its partner, no graph hides kernels. If not, or if a
    GPU was throttled, shared or not steady, it names the report with the details.
    """
    remarks = [
        f"  nsys: {' '.join(diagnostic.text.split())}" for diagnostic in capture.diagnostics[:_MOST_MESSAGES]
    ]
    missing = [f"  {worded(check).text}" for check in check_launches(capture) if check.level == "note"]
    remarks += [*missing, *_clocks(capture), *_graphs(capture), *_processes(capture)]
    lost = _joined(capture) and len(_launched(capture)[0]) < capture.count("kernel")
    is_complete = has_gpu_work(capture) and not (remarks or lost)
    diagnosis = _diagnosis(capture, is_complete=is_complete)
    remarks += [f"  {line}" for text in doubt_texts(capture) for line in wrap(text, _LINE_WIDTH, "  ")]
    remarks += [f"  {finding_text(silent)}" for silent in [silent_nvtx(capture)] if silent]
    return Trust(f"{', '.join(_event_counts(capture))}; {diagnosis}", bool(remarks or lost), remarks)


def _clocks(capture: Capture) -> Iterator[str]:
    """Count the kernels that began before the call that launched them."""
    if not _joined(capture):
        return
    kernels, calls = _launched(capture)
    begun = capture.whole.columns("kernel", "start_ns")["start_ns"][kernels]
    called = capture.whole.columns("api", "start_ns")["start_ns"][calls]
    early = np.flatnonzero((called > begun) & (begun != MISSING))
    if len(early):
        most = duration(int((called[early] - begun[early]).max()))
        yield f"  {events_counted('kernel', len(early))} began up to {most} before the launch call"


def _graphs(capture: Capture) -> Iterator[str]:
    if count := capture.count("graph"):
        hidden = "hides its kernels" if count == 1 else "hide their kernels"
        yield f"  {events_counted('graph', count)} {hidden}; profile with --graphs node"


def _processes(capture: Capture) -> Iterator[str]:
    """Say which processes of the run used the GPU but are not in a capture with GPU work."""
    if has_gpu_work(capture):
        for cause in map(worded, missing_processes(capture)):
            yield from (f"  {cause.text}", f"    {cause.cure}")


def _joined(capture: Capture) -> bool:
    return capture.has("kernel") and capture.whole.has("api")


def _launched(capture: Capture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the selected kernels with a recorded launch, and the outermost call that launched each.

    The call of a selected kernel can lie outside the selected time. Both are positions in the whole capture.
    """
    pairs = launch_pairs_of(capture.whole)
    kernels, calls = pairs.operation, pairs.api
    if capture.view.selection.narrows:
        mine = np.isin(kernels, capture.columns("kernel", "row")["row"] - 1)
        kernels, calls = kernels[mine], calls[mine]
    first = np.flatnonzero(np.diff(kernels, prepend=-1))
    if len(first) == len(kernels):
        return kernels, calls
    start = capture.whole.columns("api", "start_ns")["start_ns"][calls]
    order = np.lexsort((start, kernels))
    return kernels[first], calls[order][first]


def _event_counts(capture: Capture) -> list[str]:
    kernels = events_counted("kernel", capture.count("kernel")) + _launch_note(capture)
    others = ("memcpy", "memset", *(() if capture.has("kernel") else ("api",)))
    return [kernels, *(events_counted(kind, count) for kind in others if (count := capture.count(kind)))]


def _launch_note(capture: Capture) -> str:
    if not capture.has("kernel"):
        return ""
    if not capture.whole.has("api"):
        return " (no launch calls recorded)"
    kernels, calls = _launched(capture)
    launching = np.zeros(capture.whole.count("api"), dtype=bool)
    launching[calls] = True  # much faster than sorting a million calls
    count, without = marked(launching), capture.count("kernel") - len(kernels)
    if without:
        return f" ({without:,} without a launch call)"
    return "" if count == len(kernels) else f" from {count:,} launch{'' if count == 1 else 'es'}"


def _diagnosis(capture: Capture, *, is_complete: bool) -> str:
    if not capture.whole.has("diagnostic"):
        return "nsys did not say whether events were lost"
    if is_complete:
        return "trace complete"
    losses = sum(diagnostic.loss for diagnostic in capture.diagnostics)
    count = len(capture.diagnostics)
    warnings = f"{count} nsys warning{'' if count == 1 else 's'}" if count else "no nsys warnings"
    if losses:
        return f"{warnings}, {losses} about missing events"
    complete = capture.all_cuda_events if count else None
    here = f"all {complete:,} CUDA events are here" if complete else "no dropped events reported"
    return f"{warnings}, {here}"

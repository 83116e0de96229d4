"""The summary of a capture: the answer, what ran where, whether the figures hold, and four tables.

The parts are not made in the order in which they are shown, so that large columns are freed early:

1. ``read_ahead`` reads what tables and answer take, each table of the export in one pass
2. ``prepare`` computes what the answer takes of the largest columns, and frees those that no table needs
3. the four tables and ``trust`` are made, and ``release_tables`` frees what only they needed
4. the answer comes last, without the columns of the tables

Steps 2 and the freeing in 3 are for a screen that is ``alone``; other reports would read the columns again.
A million kernels with 5,000 names take 379 MB.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from nsyswrap.analysis.advice import READS, prepare, release_tables
from nsyswrap.analysis.answer import Answer, answer_of
from nsyswrap.analysis.correlation import LaunchPairs, launch_pairs_of
from nsyswrap.analysis.diagnostics.capture_checks import silent_nvtx
from nsyswrap.analysis.diagnostics.check import marked
from nsyswrap.analysis.diagnostics.launch_checks import check_launches
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.no_gpu_work import has_gpu_work, missing_processes
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import printable, wrap
from nsyswrap.base.units import duration
from nsyswrap.capture.capture import Capture
from nsyswrap.reports import ReportRequest, find_report
from nsyswrap.reports.answer import AnswerLine, answer_lines
from nsyswrap.reports.make import make_reports
from nsyswrap.reports.table import Table, read_ahead
from nsyswrap.reports.wording.checks import doubt_texts, events_counted, finding_text, worded

# Each report with the number of rows that are shown.
SECTIONS = (("cuda_gpu_sum", 5), ("memcpy_bandwidth", 3), ("launch_overhead", 3), ("cuda_api_sum", 3))


@dataclass(frozen=True)
class SummaryScreen:
    """The parts of the summary screen, in order: lines of text, then tables with the number of rows to show.

    ``ending`` tells how the run ended; it is empty after success. ``answer`` is None if the capture lacks
    what it takes: then ``lines`` say so. ``more`` says how to see all of a table.
    """

    ending: str
    command: str
    answer: Answer | None
    lines: Sequence[AnswerLine]
    origin: str
    trust: Trust
    more: Sequence[AnswerLine]
    tables: Sequence[tuple[Table, int | None]]


def summarize(
    capture: Capture,
    *,
    alone: bool = False,
    sections: Sequence[tuple[str, int | None]] = SECTIONS,
    with_gaps: bool = False,
) -> SummaryScreen:
    """Make the summary of a capture. A report that it cannot answer is left out; ``trust`` says why.

    ``alone``: nothing else is made of the capture, so that its columns are freed as early as possible.
    ``sections`` are the reports with the number of rows that are shown, None for all; tables can have more.
    ``with_gaps``: the caller needs the gaps of the whole. They come first, as those of a process are in them.

    All parts are of the same selection: all NVTX ranges of a name, and rows clipped at their ends, unless the
    selection says otherwise. The tables have no verdicts of their own: the answer has the conclusions.
    """
    capture = capture.decided()
    reports = [replace(find_report(name), conclude=None).top(rows) for name, rows in sections]
    # Each table of the export is read once.
    read_ahead(capture, [replace(find_report(SECTIONS[0][0]), reads=READS), *reports])
    if alone:
        with suppress(NotInCapture):  # the answer says why
            prepare(capture)
    made = make_reports({"": capture}, [ReportRequest(report) for report in reports])
    tables = [(table, rows) for name, rows in sections for table in made.tables.get(name, {}).values()]
    trusted = trust(capture)
    if alone:
        release_tables(capture.whole)
    if with_gaps and has_gpu_work(capture):
        gaps_of(capture)
    answer, lines = answer_with_lines(capture)
    refused = [
        f"no {report.label}: {report.text(capture.source)}"
        for report in made.missing
        if not find_report(report.schema.name).lacks(capture)
    ]
    trusted = trusted._replace(remarks=[*trusted.remarks, *refused])
    return SummaryScreen(
        ending=capture.ending,
        command=_command(capture),
        answer=answer,
        lines=lines,
        origin=_origin(capture),
        trust=trusted,
        more=[_more(tables[0][0], answer)] if tables else [],
        tables=tables,
    )


def answer_with_lines(capture: Capture) -> tuple[Answer | None, Sequence[AnswerLine]]:
    """Return the answer of a capture and its lines; None and why if the capture lacks what it takes."""
    try:
        answer = answer_of(capture)
        return answer, answer_lines(capture, answer)
    except NotInCapture as error:
        return None, [AnswerLine(printable(error.message), "verdict", "bad", heading="No verdict")]


def _more(table: Table, answer: Answer | None) -> AnswerLine:
    """Return how to see all of a table, and that the tables are not limited to the steady part."""
    include = ""
    if answer is not None and answer.scope == "steady part":
        has_start_up = answer.start_up is not None and answer.start_up.duration_ns
        include = f"Tables include {'start-up' if has_start_up else 'all steps'}. "
    return AnswerLine(f"{include}More rows and columns", "note", typed=f"-r {table.label}")


def _command(capture: Capture) -> str:
    program, *arguments = capture.info.command or ("",)
    return shlex.join([program.rpartition("/")[2], *arguments]) if program else ""


def _origin(capture: Capture) -> str:
    info = capture.info
    parts = [
        _gpus(capture),
        f"driver {info.driver_version}" if info.driver_version else "",
        f"CUDA {info.cuda_version}" if info.cuda_version else "",
        f"nsys {info.exporter_version}" if info.exporter_version else "nsys before 2022",
    ]
    return " · ".join(part for part in parts if part)


def _gpus(capture: Capture) -> str:
    """Return the names of the machine's GPUs, and how many of them were used."""
    names = capture.info.gpus
    if not names:
        return "GPU unknown"
    counts = Counter(names)
    listed = " + ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())
    operations = gpu_operations_of(capture)
    used = [device for _, device in operations.rows_of]
    if len(set(used)) < len(used) or not 0 < len(used) < len(names):  # the processes number GPUs differently
        return listed
    return f"{len(used)} of {listed}" if len(counts) == 1 else f"{len(used)} of {len(names)} GPUs: {listed}"


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
    launched = _launched(capture) if capture.has("kernel") and capture.whole.has("api") else None
    remarks += [*missing, *(_clocks(capture, launched) if launched else ())]
    remarks += [*_graphs(capture), *_processes(capture)]
    lost = launched is not None and len(launched.operation) < capture.count("kernel")
    is_complete = has_gpu_work(capture) and not (remarks or lost)
    diagnosis = _diagnosis(capture, is_complete=is_complete)
    remarks += [f"  {line}" for text in doubt_texts(capture) for line in wrap(text, _LINE_WIDTH, "  ")]
    remarks += [f"  {finding_text(silent)}" for silent in [silent_nvtx(capture)] if silent]
    counts = ", ".join(_event_counts(capture, launched))
    return Trust(f"{counts}; {diagnosis}", bool(remarks or lost), remarks)


def _clocks(capture: Capture, launched: LaunchPairs) -> Iterator[str]:
    """Count the kernels that began before the call that launched them."""
    begun = capture.whole.columns("kernel", "start_ns")["start_ns"][launched.operation]
    called = capture.whole.columns("api", "start_ns")["start_ns"][launched.api]
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


def _launched(capture: Capture) -> LaunchPairs:
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
        return LaunchPairs(kernels, calls)
    start = capture.whole.columns("api", "start_ns")["start_ns"][calls]
    order = np.lexsort((start, kernels))
    return LaunchPairs(kernels[first], calls[order][first])


def _event_counts(capture: Capture, launched: LaunchPairs | None) -> list[str]:
    kernels = events_counted("kernel", capture.count("kernel")) + _launch_note(capture, launched)
    others = ("memcpy", "memset", *(() if capture.has("kernel") else ("api",)))
    return [kernels, *(events_counted(kind, count) for kind in others if (count := capture.count(kind)))]


def _launch_note(capture: Capture, launched: LaunchPairs | None) -> str:
    if launched is None:
        return " (no launch calls recorded)" if capture.has("kernel") else ""
    kernels = len(launched.operation)
    launching = np.zeros(capture.whole.count("api"), dtype=bool)
    launching[launched.api] = True  # much faster than sorting a million calls
    count, without = marked(launching), capture.count("kernel") - kernels
    if without:
        return f" ({without:,} without a launch call)"
    return "" if count == kernels else f" from {count:,} launch{'' if count == 1 else 'es'}"


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

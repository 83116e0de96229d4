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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from nsyswrap.analysis.advice import READS, prepare, release_tables
from nsyswrap.analysis.answer import Answer, answer_of
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.base.errors import NotInCapture
from nsyswrap.base.text import printable
from nsyswrap.capture.capture import Capture
from nsyswrap.reports import ReportRequest, find_report
from nsyswrap.reports.answer import AnswerLine, answer_lines
from nsyswrap.reports.make import make_reports
from nsyswrap.reports.table import Table, read_ahead
from nsyswrap.reports.wording.trust import Trust, trust

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
    capture: Capture, *, alone: bool = False, sections: Sequence[tuple[str, int | None]] = SECTIONS
) -> SummaryScreen:
    """Make the summary of a capture. A report that it cannot answer is left out; ``trust`` says why.

    ``alone``: nothing else is made of the capture, so that its columns are freed as early as possible.
    ``sections`` are the reports with the number of rows that are shown, None for all.

    All parts are of the same selection: all NVTX ranges of a name, and rows clipped at their ends, unless the
    selection says otherwise. The tables have no verdicts of their own: the answer has the conclusions.
    """
    capture = capture.decided()
    reports = [replace(find_report(name), conclude=None) for name, _ in sections]
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
        chosen = answer.steps is not None and answer.steps.chosen
        include = f"Tables include {'all steps' if chosen else 'start-up'}. "
    return AnswerLine(f"{include}More rows and columns", "note", typed=f"-r {table.label}")


def _command(capture: Capture) -> str:
    """Return the command line without the folder of its program."""
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

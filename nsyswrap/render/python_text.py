"""What `print(table)`, `repr(capture)` and `repr(capture.answer)` show in Python."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable

from nsyswrap.analysis.answer import answer_of
from nsyswrap.base.text import ascii_layout, counted, is_utf8, printable, shorten
from nsyswrap.base.units import percent
from nsyswrap.capture.capture import Capture
from nsyswrap.render.formats.text import paragraph_lines, styled, table_lines, wrapped
from nsyswrap.render.notebook import WHOLE
from nsyswrap.reports.answer import AnswerLine, screen_texts
from nsyswrap.reports.table import Table

_TOP = 20  # rows
_PROGRAM_WIDTH = 40  # columns
_MOST_EVENTS = 100_000  # a larger capture takes too long to judge for a line of text


def table_text(table: Table) -> str:
    """Return title, first rows, verdict and notes of a table, as wide as the terminal."""
    width = shutil.get_terminal_size((100, 24)).columns
    with ascii_layout(active=not is_utf8(sys.stdout)):
        if table.schema.layout == "paragraphs":
            lines, _ = paragraph_lines(table, width, top=_TOP)
        else:
            lines = table_lines(table, width, top=_TOP, whole=WHOLE)
        lines += [line for note in table.notes for line in wrapped(f"note: {note}", width, "")]
        return printable(styled(lines, color=False).rstrip("\n"), "\n")


def answer_text(lines: Iterable[AnswerLine]) -> str:
    """Return the lines of an answer as a terminal shows them, without bars."""
    with ascii_layout(active=not is_utf8(sys.stdout)):
        return printable("\n".join(text for line in lines for text in screen_texts(line)), "\n")


def capture_line(capture: Capture) -> str:
    """Return program, GPU, kernels and how busy the GPU was, in one line. Says so if the file is damaged."""
    with ascii_layout(active=not is_utf8(sys.stdout)):
        try:
            about = ", ".join(filter(None, _facts(capture)))
        except Exception as error:  # noqa: BLE001 - a debugger shows this line: it never raises
            about = f"cannot be shown: {getattr(error, 'message', error)}"
        return f"<Capture {printable(str(capture.source))}: {printable(about)}>"


def _facts(capture: Capture) -> list[str]:
    program, *arguments = capture.info.command or ("",)
    command = shlex.join([program.rpartition("/")[2], *arguments]) if program else ""
    gpus = capture.info.gpus
    names = dict.fromkeys(gpus)
    kernels = capture.count("kernel")
    return [
        shorten(command, _PROGRAM_WIDTH),
        " + ".join(f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in names),
        counted(kernels, "kernels"),
        _busy(capture, kernels + capture.count("api")),
        f"selected: {capture.selected}" if capture.selected else "",
    ]


def _busy(capture: Capture, events: int) -> str:
    if events > _MOST_EVENTS:
        return "GPU busy: see .answer"
    answer = answer_of(capture)
    if not answer.devices:
        return "no GPU work"
    return f"GPU busy {percent(answer.share(sum(answer.busy_ns.values())))} of the {answer.scope}"

"""Captures of a repeated step, and their findings, each checked for what must hold for all findings."""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from tiny_export import PID, Row, call, changed, global_id, kernel, nvtx, opened

from nsyswrap.analysis.advice import WORTH_PERCENT, advise_processes
from nsyswrap.analysis.advice.context import AdviceContext
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.api import CaptureReader
from nsyswrap.reports import NAMES, ranks
from nsyswrap.reports.wording.advice import words

STEP_NS = 1000
STEADY_NS = 3 * STEP_NS  # of four steps the first one is warm-up: it launches each kernel for the first time
LINE = 78  # characters of a headline
_NUMBERS = 1000  # correlation ids of a step
_UNRANKED = {"lost_events", "timed_launch_only", "timed_earlier_work"}


def looped(
    *rows: Row, steps: int = 4, every: int = STEP_NS, longer: Mapping[int, int] | None = None, pid: int = PID
) -> list[Row]:
    """Repeat the rows of a step, each time inside an NVTX range; ``longer`` is added to some steps."""
    again, at = [], 0
    for number in range(steps):
        until = at + every + (longer or {}).get(number, 0)
        again.append(nvtx("step", at, until, globalTid=global_id(pid, pid)))
        again += [moved(one, at, _NUMBERS * number) for one in rows]
        at = until
    return again


def moved(one: Row, by: int, numbers: int = 0) -> Row:
    """Return a row with later times, and with another correlation id if it has one."""
    cells: dict[str, object] = {}
    for name in ("start", "end"):
        time = one.cells[name]
        assert isinstance(time, int)
        cells[name] = time + by
    if one.cells.get("correlationId"):
        number = one.cells["correlationId"]
        assert isinstance(number, int)
        cells["correlationId"] = number + numbers
    return changed(one, **cells)


def launched(gap: int, *, host: int = 0, length: int = 8) -> list[Row]:
    """A step that is idle for ``gap`` ns: host code, then a launch of a kernel that runs until the end."""
    return [call("cudaLaunchKernel", host, host + length, 1), kernel("k", gap, STEP_NS, 1)]


def new(folder: Path, *rows: Row) -> CaptureReader:
    """Open an export with these rows in a folder of its own."""
    return opened(Path(tempfile.mkdtemp(dir=folder)), *rows)


def context_of(capture: CaptureReader) -> AdviceContext:
    """Return the context of the only judged part."""
    [part] = judged_processes(capture)
    return AdviceContext(part)


def findings_of(capture: CaptureReader, least_percent: float = WORTH_PERCENT) -> dict[str, Finding]:
    """Return the findings by name, in order, after a look at what must hold for each."""
    findings = advise_processes(capture, judged_processes(capture), least_percent).findings
    for one in findings:
        check(one)
    assert len({one.kind for one in findings}) == len(findings)
    return {one.kind: one for one in findings}


def check(one: Finding) -> None:
    """Assert what must hold for every finding."""
    assert all(is_plain(value) for value in one.numbers.values()), one.numbers
    wording = words(one)
    assert 0 < len(wording.what) <= LINE, wording.what
    assert wording.what[0].isupper()
    assert all((wording.evidence, wording.remedy, wording.do, wording.example, wording.unless))
    assert "\n" not in wording.example
    assert one.source in (*NAMES, *ranks.NAMES)
    assert one.kind not in one.shares
    assert (one.ceiling_ns is None) == (one.kind in _UNRANKED)
    if one.ceiling_ns is not None:
        assert 0 < one.ceiling_ns <= one.window_ns
        assert one.evidence.length <= one.window_ns


def is_plain(value: object) -> bool:
    """Return True for a number, a text, None, or a tuple of these: not for values of numpy."""
    if isinstance(value, tuple):
        return all(is_plain(part) for part in value)
    return type(value) in (int, float, bool, str, type(None))


def stakes(folder: Path, *rows: Row) -> dict[str, int | None]:
    """Return what is at stake in ns, by finding in order, in a capture of these rows."""
    return {name: one.ceiling_ns for name, one in findings_of(new(folder, *rows)).items()}

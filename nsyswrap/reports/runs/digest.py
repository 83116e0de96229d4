"""Digest one run for `collect`: its totals, its summaries, and the durations of its kernels.

The durations are counted, (kernel, duration, count), and not averaged: figures merged from them are exact.
The digest of the ranks of a run says how long each waited for the others, and the verdict on them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from nsyswrap.analysis.answer import Answer
from nsyswrap.analysis.arrays.groups import group_keys
from nsyswrap.analysis.compare.setup import setup_of, used_uuids
from nsyswrap.analysis.conditions import run_conditions_of
from nsyswrap.analysis.diagnostics.run_checks import other_processes
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.ranks.members import RankCapture, check_different, places
from nsyswrap.base import paths
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import CaptureError, NotInCapture, OutputError, Unreadable, UsageError
from nsyswrap.base.files import LARGE_BYTES, json_of, read_json, small_file, typed, why
from nsyswrap.base.recent_runs import program_of
from nsyswrap.base.records import dataclass
from nsyswrap.base.run_facts import checksum
from nsyswrap.base.run_folder import DIGEST, RunFolder
from nsyswrap.base.units import Number, Unit
from nsyswrap.base.version import version
from nsyswrap.capture.capture import Capture, open_capture
from nsyswrap.capture.open import identity_of
from nsyswrap.capture.shared import shared_command
from nsyswrap.reports import SUMMARIES, find_report, ranks
from nsyswrap.reports.answer.line import AnswerLine
from nsyswrap.reports.ranks import rank_waiting
from nsyswrap.reports.scenario_tables import SCENARIO_RUNS, gpu_totals
from nsyswrap.reports.summaries import kernels
from nsyswrap.reports.summary import answer_with_lines
from nsyswrap.reports.table import Column, Report, read_ahead
from nsyswrap.reports.wording.ranks import missing_ranks
from nsyswrap.reports.wording.states import IDLE_NAMES

# Increases with the first change of the content after a release: a digest of another format is made again.
FORMAT = 3
_LINES = b"lines of nsyswrap collect: "  # then their checksum
_OF_TOTALS = "gpu_time"  # the report of which totals are made
_MOST_EXECUTIONS = 2**40  # of all kernels: those of many runs have a sum in 64 bits
_WITHOUT_CHECKSUM = (1, 2)  # 0.1 and 0.2
_WITHOUT_VERSION = (*_WITHOUT_CHECKSUM, 3, 4, 5)  # and development versions; what they lack is missing
WORK = (
    *(column for column in SCENARIO_RUNS.columns if column.unit is not Unit.TEXT),
    Column(
        "busy_ns",
        "GPU Busy",
        "time with any GPU operation (-r gpu_time), summed over the GPUs; missing without GPU work, 0 "
        "for less than 1 ns",
    ),
    Column(
        "busy_percent",
        "GPU Busy of Whole Runs",  # the screen's is of the judged part
        "GPU busy time as a share of the time from first to last operation of each GPU, over all GPUs",
    ),
    Column("recorded_ns", "Recording Time", "recording time of nsys, if the export has it"),
    Column.count("loss_warnings", "Loss Warnings", "nsys messages about lost events; figures are too low"),
)
# The conditions of the run while its GPUs worked; missing for a run without them.
CONDITIONS = (
    Column.number(
        "sm_clock_mhz", "SM Clock", "median SM clock in MHz while the GPU worked; the lowest of several GPUs"
    ),
    Column(
        "throttled_percent",
        "Throttled",
        "share of the samples while the GPU worked in which it was throttled; the highest of several GPUs",
    ),
    Column.number("power_w", "Power", "median power in W while the GPUs worked, summed over the GPUs"),
    Column.number("temperature_c", "Temperature", "highest temperature in degrees Celsius"),
    Column.count(
        "other_processes", "Other Processes", "processes of others with a CUDA context on the GPUs of the run"
    ),
)
# The answer of the capture. Without steady steps it is about the whole capture, as ``judged`` says.
JUDGED = (
    Column("step_count", "Steps", "steady steps that are judged"),
    Column("step_ns", "Step Time", "median of these steps"),
    Column(
        "judged_busy_percent",
        "Busy",
        "share of the judged time in which a GPU worked, over all GPUs: that of the first line of the screen",
    ),
    Column("idle_cause_percent", "Idle by Cause", "share of the judged time that it took"),
    Column("finding_percent", "Finding Saves", "what the first finding saves of the judged time"),
    Column("step_joules", "Step Energy", "energy of a step on the GPUs that worked"),
    Column("run_joules", "Run Energy", "energy of these GPUs from the first to the last sample"),
)
TOTALS = (*WORK, *CONDITIONS, *JUDGED)
# Texts of the capture, of which the run folder has some, and texts of its answer.
FACTS = ("gpus", "gpu_uuids", "driver", "started", "nsys", "program", "command")
ANSWER_FACTS = ("judged", "idle_cause", "finding", "heading", "first_finding")  # heading: on the screen

AnswerWithLines = tuple[Answer | None, Sequence[AnswerLine]]
Kernel = tuple[str | None, list[int], list[int]]  # full name, distinct durations in ns, count of each
# Rows of a report: a column and its text, or columns of numbers as one text, such as "count,3;total_ns,5".
CellRows = list[list[str | tuple[str, str]]]
KeptTotals = tuple[Mapping[str, Number | None], Sequence[str], Mapping[str, str]]


@dataclass(frozen=True)
class ReportSummary:
    """The rows of one report: machine names of its columns, and each column's unrounded values."""

    columns: list[str]
    values: list[list[int | float | str | None]]

    def __post_init__(self) -> None:
        """Raise ValueError unless each column has a value for each row."""
        if len(self.columns) != len(self.values) or len(set(map(len, self.values))) > 1:
            raise ValueError("a summary has columns of different lengths")


@dataclass(frozen=True)
class Digest:
    """The digest of one capture.

    ``source`` is its identity. In older formats it is the size and the time of change: they are made again.
    ``facts`` are the texts of FACTS and ANSWER_FACTS that the capture has. ``nsyswrap`` is the version that
    made it; empty in older formats.
    """

    source: tuple[int, int | str]
    totals: Mapping[str, Number | None]
    kernels: Sequence[Kernel]
    summaries: Mapping[str, ReportSummary]
    facts: Mapping[str, str] = field(default_factory=dict)
    nsyswrap: str = ""


def digest(path: Path, reports: Collection[str] = SUMMARIES, *, identified: bool = True) -> Digest:
    """Digest a .sqlite, a .nsys-rep or a run folder, with the rows of these reports.

    ``identified``: with the identity of the capture, which only stored digests need. Raises CaptureError if
    it cannot be read.
    """
    # Before it is read: one that changes meanwhile is digested again.
    source = identity_of(path) if identified else None
    capture = open_capture(path)
    wanted = [find_report(name) for name in SUMMARIES if name in reports or name == _OF_TOTALS]
    made = [report for report in wanted if not report.lacks(capture)]
    read_ahead(capture, made)
    summaries = {report.name: _summary(capture, report.name) for report in made}
    answer = answer_with_lines(capture.decided())
    return Digest(
        source or (0, ""),
        _totals(capture, summaries.get(_OF_TOTALS), answer),
        _kernel_durations(capture),
        {name: summary for name, summary in summaries.items() if summary and name in reports},
        _facts(capture, answer),
        version(),
    )


def _facts(capture: Capture, answer: AnswerWithLines) -> dict[str, str]:
    """Return the texts of FACTS and ANSWER_FACTS that the capture and its run.json have."""
    setup = setup_of(capture, capture.run_facts)
    facts = (
        *(", ".join(setup.gpus), ", ".join(used_uuids(capture))),
        *(setup.driver, setup.started, setup.nsys),
        program_of({"command": list(setup.command)}) or _processes(capture),
        shlex.join(shared_command(setup.command)) if setup.command else "",
        *_answer_facts(*answer),
    )
    return {name: text for name, text in zip((*FACTS, *ANSWER_FACTS), facts, strict=True) if text}


def _processes(capture: Capture) -> str:
    """Return the names of the processes with GPU work: exports before nsys 2023 have no command."""
    names = (capture.process_names.get(process) for process, *_ in gpu_operations_of(capture).by_device())
    return ", ".join(dict.fromkeys(filter(None, names)))


def _answer_facts(answer: Answer | None, lines: Sequence[AnswerLine]) -> tuple[str, ...]:
    """Return the texts of ANSWER_FACTS: what is judged, why it was idle, and what the screen finds first."""
    line = next((line for line in lines if line.kind == "finding"), lines[0])
    text = f"{line.begin} {line.sentence}".strip()
    if not answer or not answer.devices:
        return "", "", "", "", text
    cause, first = IDLE_NAMES.get(next(iter(answer.idle_ns), ""), ""), _first_finding(answer)
    heading = line.heading if first or answer.withheld else ""
    return answer.scope, cause, first.kind if first else "", heading, text


def _judged(answer: Answer | None) -> dict[str, Number | None]:
    """Return the figures of JUDGED."""
    figures: dict[str, Number | None] = {column.name: None for column in JUDGED}
    if answer and answer.devices:
        first = _first_finding(answer)
        figures["judged_busy_percent"] = answer.share(sum(answer.busy_ns.values()))
        figures["idle_cause_percent"] = answer.share(next(iter(answer.idle_ns.values()), 0))
        figures["finding_percent"] = first.saved_percent if first else None
        if answer.steps:
            figures |= {"step_count": answer.steps.count, "step_ns": answer.steps.median_ns}
        if answer.energy:
            figures |= {name: getattr(answer.energy, name) for name in ("step_joules", "run_joules")}
    return figures


def _first_finding(answer: Answer) -> Finding | None:
    return next((finding for finding in answer.findings if finding.ceiling_ns is not None), None)


def totals(capture: Capture) -> dict[str, Number | None]:
    """Return the totals of one capture, as its digest has them."""
    read_ahead(capture, [find_report(_OF_TOTALS)])
    return _totals(capture, _summary(capture, _OF_TOTALS), answer_with_lines(capture.decided()))


def write_digest(folder: Path) -> None:
    """Store the digest of a run folder's capture in the folder. Raises CaptureError or OutputError."""
    write(digest(folder), folder / DIGEST)


def write(result: Digest, path: Path) -> None:
    """Store a digest as compact JSON, by way of a temporary file: a reader never sees a part of it."""
    content = vars(result) | {
        "summaries": {name: vars(summary) for name, summary in result.summaries.items()}
    }
    facts = {"format": FORMAT, "sha256": checksum(content), **content}
    RunFolder(path.parent).write(path.name, _compact(facts))


def write_lines(result: Digest, path: Path, kept: Path | None = None) -> None:
    """Store what `collect` needs of a digest, as lines of which it parses some.

    They are stored at ``kept``, too, if they can be written there.
    """
    head = result.totals, list(result.summaries), result.facts
    lines = "".join(map(_compact, (*head, result.kernels, *map(cell_rows, result.summaries.values()))))
    text = f"{_LINES.decode()}{sha256(lines.encode('utf-8', 'surrogateescape')).hexdigest()}\n{lines}"
    with paths.writing(path):  # of this collect alone, which reads it later
        path.write_text(text, encoding="utf-8", errors="surrogateescape", newline="\n")
    if kept:
        with suppress(OutputError, Unreadable):
            RunFolder(kept.parent).write(kept.name, text)


def cell_rows(summary: ReportSummary) -> CellRows:
    """Return the cells of each row that are not missing, so that they are soon written as CSV."""
    rows: CellRows = []
    for values in zip(*summary.values, strict=True):
        row: list[str | tuple[str, str]] = []
        numbers: list[str] = []
        for column, value in zip(summary.columns, values, strict=True):
            if isinstance(value, str):
                row += [";".join(numbers)] if numbers else []
                row.append((column, value))
                numbers = []
            elif value is not None:
                numbers.append(f"{column},{value}")
        rows.append([*row, ";".join(numbers)] if numbers else row)
    return rows


_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _compact(content: object) -> str:
    return _ENCODER.encode(content) + "\n"


def read_digest(path: Path) -> Digest:
    """Read a stored digest. Raises CaptureError if it is damaged, altered or of another format."""
    try:
        content = read_json(path, LARGE_BYTES)
        made = content.pop("format", None) if isinstance(content, dict) else None
        if type(made) is not int or made not in ((FORMAT,) if content.get("nsyswrap") else _WITHOUT_VERSION):
            raise CaptureError(f"{path} was written by another version of nsyswrap")
        if made not in _WITHOUT_CHECKSUM and content.pop("sha256", None) != checksum(content):
            raise CaptureError(f"{path} is damaged: its content is not what nsyswrap wrote")
        read = typed(Digest, content)
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot read {path}: {why(error)}") from None
    if not all(len(each) == len(counts) and min(counts, default=1) > 0 for _, each, counts in read.kernels):
        raise CaptureError(f"{path} is damaged: a kernel has other counts than durations")
    if sum(sum(counts) for *_, counts in read.kernels) > _MOST_EXECUTIONS:
        raise CaptureError(f"{path} is damaged: its kernels ran more often than a capture can hold")
    return read


def read_kept(path: Path) -> KeptTotals:
    """Read the totals, the names of the reports and the facts of a digest in the user's cache.

    Its checksum is that of the file: this version wrote it, so that its types are known. Raises CaptureError
    if it is damaged.
    """
    try:
        mark, _, lines = small_file(path, LARGE_BYTES).partition(b"\n")
        if mark != _LINES + sha256(lines).hexdigest().encode():
            raise CaptureError(f"{path} is damaged: its content is not what nsyswrap wrote")
        totals, reports, facts = json_of(b"[%b]" % b",".join(lines.split(b"\n", 3)[:3]))
    except (OSError, ValueError) as error:
        raise CaptureError(f"cannot read {path}: {why(error)}") from None
    return totals, reports, facts


def reread(path: Path, reports: Sequence[str]) -> tuple[Sequence[Kernel], dict[str, CellRows]]:
    """Read the kernels and these reports of a digest that was read before, or just made. Nothing is checked.

    Raises CaptureError if it was removed or replaced by a file that is none.
    """
    try:
        content = small_file(path, LARGE_BYTES)
        if content.startswith(_LINES):
            _, _, names, _, kernels, *lines = content.splitlines()
            line_of = dict(zip(json_of(names), lines, strict=True))
            wanted = {name: line_of[name] for name in reports if name in line_of}
            of_run, *rows = json_of(b"[%b]" % b",".join((kernels, *wanted.values())))
            return of_run, dict(zip(wanted, rows, strict=True))
        facts = json_of(content)
        summaries = {name: facts["summaries"][name] for name in reports if name in facts["summaries"]}
        return facts["kernels"], {name: cell_rows(ReportSummary(**one)) for name, one in summaries.items()}
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise CaptureError(
            f"cannot read {path}: {why(error) if isinstance(error, OSError) else error}"
        ) from None


def stored(folder: Path) -> Digest | None:
    """Return the digest in a run folder, or None if it has to be made from the folder's capture.

    Raises CaptureError for a digest that cannot be read if the capture was removed.
    """
    if not paths.exists(folder / DIGEST, follow=False):
        return None
    capture = identity_of(folder)
    try:
        digest = read_digest(folder / DIGEST)
    except CaptureError as error:
        if capture is None:
            raise CaptureError(f"{error.message}; its capture is gone", "profile again") from None
        return None
    return digest if capture in (None, digest.source) else None


@cache
def _without_sentence(name: str) -> Report:
    """Return a report without its sentence, which is not stored, and without what ``read_ahead`` reads."""
    return replace(find_report(name), conclude=None, reads={})


def _summary(capture: Capture, name: str) -> ReportSummary | None:
    """Return the rows of a report, or None if the export lacks events that it needs."""
    try:
        table = _without_sentence(name).make(capture)
    except NotInCapture:
        return None
    columns = table.columns
    values: list[list[Any]] = [list(table.plain(column, slice(None))) for column in columns]
    return ReportSummary([column.name for column in columns], values)


def _totals(
    capture: Capture, gpu_time: ReportSummary | None, answer: AnswerWithLines
) -> dict[str, Number | None]:
    return {
        **gpu_totals(capture),
        **_busy(gpu_time),
        "recorded_ns": capture.info.duration_ns,
        "loss_warnings": sum(message.loss for message in capture.diagnostics),
        **_conditions(capture),
        **_judged(answer[0]),
    }


def _conditions(capture: Capture) -> dict[str, Number | None]:
    """Return the figures of CONDITIONS. One that a GPU does not report is missing for the run."""
    run = run_conditions_of(capture)
    gpus = run.gpus if run else ()
    clocks, powers, temperatures = (
        [getattr(gpu, name) for gpu in gpus] for name in ("sm_mhz", "power_w", "temperature_c")
    )
    throttled = [gpu.throttled_percent for gpu in gpus]
    return {
        "sm_clock_mhz": _of_all(min, [clock and clock.median for clock in clocks]),
        "throttled_percent": _of_all(max, throttled),
        "power_w": _of_all(sum, [power and power.median for power in powers]),
        "temperature_c": _of_all(max, [temperature and temperature.most for temperature in temperatures]),
        "other_processes": other_processes(run) if run else None,
    }


def _of_all(combine: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    """Combine the values of all GPUs; None without GPUs, or if one is not known."""
    known = [value for value in values if value is not None]
    return combine(known) if known and len(known) == len(values) else None


def _busy(gpu_time: ReportSummary | None) -> dict[str, Number | None]:
    """Sum the gpu_time report over devices. Of a device with several processes, take the row of all."""
    if gpu_time is None:
        return {"busy_ns": None, "busy_percent": None}
    of: dict[str, list[Any]] = dict(zip(gpu_time.columns, gpu_time.values, strict=True))
    devices = list(zip(of["device_id"], of["process_id"], of["busy_ns"], of["window_ns"], strict=True))
    shared = {device for device, process, *_ in devices if process is None}
    alone = [row for row in devices if row[1] is None or row[0] not in shared]
    busy_ns, window_ns = (sum(row[i] for row in alone) for i in (2, 3))
    return {"busy_ns": busy_ns, "busy_percent": 100 * busy_ns / window_ns if window_ns else None}


def _kernel_durations(capture: Capture) -> list[Kernel]:
    if not capture.has("kernel"):
        return []
    rows = kernels(capture)
    pairs, (codes, durations_ns) = group_keys(rows.codes, rows.values)
    counts = np.bincount(pairs, minlength=len(codes))
    firsts = np.flatnonzero(np.diff(codes, prepend=MISSING))
    return [
        (rows.labels[int(codes[part[0]])], durations_ns[part].tolist(), counts[part].tolist())
        for part in np.split(np.arange(len(codes)), firsts[1:])
    ]


_FIGURES = ("collectives", "last", "waiting_ns", "exposed_ns")
RANK_COLUMNS = tuple(column for column in rank_waiting.SCHEMA.columns if column.name in _FIGURES)
_CANNOT_TELL = "cannot tell which rank delays the others"


@dataclass(frozen=True)
class RankDigest:
    """The figures of RANK_COLUMNS by rank, and the verdict.

    ``refusal``: why the captures are not those of the ranks of one run; empty if they are.
    """

    figures: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    verdict: str = ""
    refusal: str = ""

    def of(self, rank: int | None) -> Mapping[str, int | None]:
        """Return the figures of one rank."""
        return self.figures.get(str(rank), {})


def rank_digest(paths: Sequence[Path]) -> RankDigest:
    """Compare the captures of the ranks of one run. Raises CaptureError if one cannot be read."""
    try:
        wanted = places(paths)
        try:
            check_different(wanted)
        except UsageError as error:
            return RankDigest(refusal=error.message)
        members = [
            RankCapture(place.label, place.number, open_capture(place.path), place.host) for place in wanted
        ]
        table = ranks.make(ranks.make_job(members), rank_waiting.SCHEMA.name)
    except UsageError as error:
        return RankDigest(verdict=f"{_CANNOT_TELL}: {error.message}")
    except NotInCapture:  # no kernel on any rank
        return RankDigest(verdict=f"{_CANNOT_TELL}: no rank has kernels")
    figures = {str(row["rank"]): {name: row[name] for name in _FIGURES} for row in table.records()}
    why = "" if table.verdict else f"{_CANNOT_TELL}: {table.notes[-1]}"
    return RankDigest(figures, "; ".join(filter(None, (table.verdict, why, missing_ranks(wanted)))))


def damaged(error: CaptureError | str) -> RankDigest:
    """Return the digest of ranks of which one cannot be read."""
    text = error if isinstance(error, str) else error.message
    return RankDigest(verdict=f"{_CANNOT_TELL}: {text}")

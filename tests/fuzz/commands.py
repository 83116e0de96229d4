"""The command of a case, and what its answer is held against."""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz import oracle
from fuzz.case import Case
from nsyswrap import reports

if TYPE_CHECKING:
    Other = tuple[list[str], Sequence[Path], Callable[[int, str, str], str]]

SUMMARIES = (
    "cuda_gpu_kern_sum",
    "cuda_gpu_mem_time_sum",
    "cuda_gpu_mem_size_sum",
    "cuda_api_sum",
    "nvtx_sum",
)
_MORE = ("cuda_gpu_sum", "osrt_sum", "nvtx_pushpop_sum")
_MOSTLY = 0.75  # of the cases are the summaries
_SELECTIONS = (
    *(
        ("--time", "1ms/1.1ms"),
        ("--time", "0/"),
        ("--time", "/5000"),
        ("--device", "0"),
        ("--process", "100"),
    ),
    *(("--nvtx", "step"), ("--nvtx", "step/1-2"), ("--nvtx", "part 1@library"), ("--device", "7")),
)
_MORE_CODES = {"redact --check": (1,), "redact x.sqlite": (73,)}  # secrets; a view cannot be written
_JOURNALS = ("-wal", "-journal")
csv.field_size_limit(10**7)  # some names are long


def command(  # noqa: PLR0913 - what a case is made of
    random: random.Random,
    export: Path,
    made: str,
    *,
    harmless: bool = False,
    codes: tuple[int, ...] = (0, 65),
    after: Callable[[], object] = lambda: None,
) -> Case:
    """Return the case of a random command on ``export``. ``harmless`` mutations must be answered."""
    inputs = sorted(export.parent.iterdir())
    if random.random() < _MOSTLY:
        names = SUMMARIES if random.random() < 0.8 else _MORE
        argv = ["report", export.name, *(word for name in names for word in ("-r", name)), "--format", "csv"]
        return Case(
            argv,
            inputs,
            lambda code, stdout, stderr: summaries_problem(export, names, code, stdout, stderr),
            made,
            codes=codes,
            must_answer=harmless,
            after=after,
        )
    argv, outputs, problem = random.choice(_OTHERS)(random, export)
    if argv[0] in ("report", "view", "export", "plot") and random.random() < 0.3:
        argv += random.choice(_SELECTIONS)
    codes = (*codes, *_MORE_CODES.get(" ".join(argv[:2]), ()))
    return Case(argv, inputs, problem, made, tuple(outputs), codes, after=after)


def _report(random: random.Random, export: Path) -> Other:
    name = random.choice(reports.NAMES)
    form = random.choice(("csv", "csv", "json", "text", "markdown", "tsv"))
    return ["report", export.name, "-r", name, "--format", form], (), _parsed(form)


def _all_reports(_random: random.Random, export: Path) -> Other:
    return ["report", export.name, "-r", "all", "--format", "json"], (), _parsed("json")


def _screen(random: random.Random, export: Path) -> Other:
    options = random.choice(((), ("--readable",), ("--names", "base"), ("--advice",), ("--timeunit", "us")))
    return ["report", export.name, *options], (), _parsed("text")


def _view(_random: random.Random, export: Path) -> Other:
    page = export.parent / "page.html"
    return ["view", export.name, "-o", page.name], [page], _written(page, lambda text: "</html>" in text)


def _trace(_random: random.Random, export: Path) -> Other:
    trace = export.parent / "trace.json"
    return ["export", export.name, "--perfetto", trace.name], [trace], _written(trace, json.loads)


def _plot(random: random.Random, export: Path) -> Other:
    folder = export.parent / "plots"
    kind = random.choice(("top-kernels", "histogram", "timeline", "launch", "copies", "roofline"))
    argv = ["plot", export.name, "-o", folder.name, "--kind", kind, "--format", "svg"]
    return argv, [folder], _parsed("text")


def _check(_random: random.Random, export: Path) -> Other:
    return ["redact", "--check", export.name], (), _parsed("text")


def _redact(_random: random.Random, export: Path) -> Other:
    copy = export.parent / "shared.sqlite"

    def problem(code: int, _stdout: str, _stderr: str) -> str:
        if code:
            return ""
        before, behind = (_compared(expected(path, oracle.TABLES)) for path in (export, copy))
        return "" if before == behind else "the redacted copy has other reports"

    return ["redact", export.name, "-o", copy.name], [copy], problem


_OTHERS = (
    *(_report,) * 12,
    *(_screen, _screen, _screen, _view, _view, _trace, _trace, _trace, _check, _check),
    *(_redact, _redact, _redact, _redact, _all_reports, _all_reports, _plot),
)


def _compared(tables: dict[str, oracle.Table | str]) -> dict[str, oracle.Table | str]:
    return {
        name: table.partition(":")[0] if isinstance(table, str) else table for name, table in tables.items()
    }


def _parsed(form: str) -> Callable[[int, str, str], str]:
    def problem(code: int, stdout: str, _stderr: str) -> str:
        if code:
            return ""
        if form == "json":
            try:
                json.loads(stdout)
            except ValueError as error:
                return f"invalid JSON: {error}"
        return "" if stdout or form == "text" else "printed nothing"

    return problem


def _written(path: Path, good: Callable[[str], object]) -> Callable[[int, str, str], str]:
    def problem(code: int, _stdout: str, _stderr: str) -> str:
        if code:
            return ""
        try:
            return "" if good(path.read_text(encoding="utf-8")) else f"{path.name} is not complete"
        except (OSError, ValueError) as error:
            return f"{path.name}: {error}"

    return problem


def expected(export: Path, names: Iterable[str]) -> dict[str, oracle.Table | str]:
    """Return what the oracle says, of a copy with the journal taken in if there is one."""
    journals = [path for kind in _JOURNALS if (path := export.with_name(export.name + kind)).exists()]
    if not journals:
        return oracle.expected(export, names)
    with tempfile.TemporaryDirectory(dir=export.parent.parent) as folder:
        copy, *_ = [Path(shutil.copy(path, folder)) for path in (export, *journals)]
        with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as db:
            db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            db.execute("PRAGMA journal_mode = DELETE").fetchone()
        return oracle.expected(copy, names)


def summaries_problem(export: Path, names: Sequence[str], code: int, stdout: str, stderr: str) -> str:
    """Compare printed tables with the oracle's, cell by cell."""
    if code:
        return ""
    answers = expected(export, names)
    try:
        printed = _tables(stdout)
    except csv.Error as error:
        return f"invalid CSV: {error}"
    for name, want in answers.items():
        found = [table for table in printed if table[0] == oracle.HEADERS[name]]
        if isinstance(want, str):
            if want.startswith("inexact") and any(len(table) > 1 for table in found):
                return f"{name}: an answer where none is exact: {want}"
            continue
        if len(found) != 1 and want:
            return f"{name} is left out: {stderr.strip()[-300:]}"
        if found and (different := _difference(want, found[0][1:])):
            return f"{name}: {different}"
    return ""


def _difference(cells: Sequence[oracle.Cells], printed: Sequence[Sequence[str]]) -> str:
    if len(cells) != len(printed):
        return f"{len(printed)} rows instead of {len(cells)}"
    for number, (row, texts) in enumerate(zip(cells, printed, strict=True), 1):
        for column, (want, text) in enumerate(zip(row, texts, strict=False), 1):
            if not (want == text if isinstance(want, str) else want.equals(text)):
                return f"row {number}, column {column}: {text!r:.60} instead of {want!r:.60}"
        if len(row) != len(texts):
            return f"row {number} has {len(texts)} cells"
    return ""


def _tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a CSV output, which empty lines separate: header and rows."""
    tables: list[list[list[str]]] = []
    begins = True
    for row in csv.reader(io.StringIO(text, newline=""), strict=True):
        if row and begins:
            tables.append([row])
        elif row:
            tables[-1].append(row)
        begins = not row
    return tables

"""Reports say what they will read, and captures end when nobody holds them."""

import gc
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tiny_export import everything, opened

from nsyswrap import reports
from nsyswrap.api import CaptureReader
from nsyswrap.capture.export import Export
from nsyswrap.capture.schema import FieldKind
from nsyswrap.render import page
from nsyswrap.reports.make import make_in_turn, make_reports
from nsyswrap.reports.summary import summarize

# Results of calls are streamed. They are read as a column only where launches lack their work, as here.
RESULTS = {("diagnostics", "api"): ("return_value",)}
_GRID = {f"grid_{axis}" for axis in "xyz"}
# Columns of kernels that only captures with few blocks need: this is none.
SOMETIMES = {"advice": _GRID}


def _advise(capture: CaptureReader) -> object:
    return make_reports({"": capture}, [reports.parse("advice")])


def columns_read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list to which each column that is read from now on is added: its table and its name."""
    read: list[tuple[str, str]] = []
    load = Export._load  # noqa: SLF001

    def noted(export: Export, table: str, wanted: Sequence[tuple[str, FieldKind]]) -> None:
        read.extend((table, name) for name, _ in wanted)
        load(export, table, wanted)

    monkeypatch.setattr(Export, "_load", noted)
    return read


@pytest.mark.parametrize("name", reports.NAMES)
def test_what_it_reads_ahead_is_what_it_asks_for(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, set[str]] = {}
    columns = CaptureReader.columns

    def noted(capture: CaptureReader, kind: str, *fields: str) -> object:
        asked.setdefault(kind, set()).update(fields)
        return columns(capture, kind, *fields)

    stream = CaptureReader.stream

    def streamed(
        capture: CaptureReader, kind: str, fields: Sequence[str], work: Callable[..., Any]
    ) -> object:
        asked.setdefault(kind, set()).update(fields)
        return stream(capture, kind, fields, work)

    report = reports.find_report(name)
    monkeypatch.setattr(CaptureReader, "columns", noted)
    monkeypatch.setattr(CaptureReader, "stream", streamed)
    replace(report, reads={}).make(opened(tmp_path, *everything()))
    for kind, fields in report.reads.items():  # a table that it does not name is small
        known = {*fields, *RESULTS.get((name, kind), ())}
        assert asked[kind] == known - (SOMETIMES.get(name, set()) if kind == "kernel" else set())


def test_reports_that_are_made_in_turn_free_what_no_later_one_reads(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())
    kernels = partial(capture._export.has_read, "CUPTI_ACTIVITY_KIND_KERNEL")  # noqa: SLF001
    requests = reports.parse_all(["cuda_gpu_trace,cuda_api_trace,cuda_gpu_kern_sum"])
    read = [(kernels("gridX"), kernels("start")) for _ in make_in_turn({"": capture}, requests)]
    assert read == [(True, True), (False, True), (False, True)]
    assert not kernels("start")
    assert capture.report("cuda_gpu_trace").frame.equals(
        CaptureReader(capture.path).report("cuda_gpu_trace").frame
    )


def test_reading_keeps_nothing_of_its_callers_in_memory(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())

    def caller() -> weakref.ref[set[int]]:
        values = {1}
        capture.count("memcpy")  # few rows, which raises an error inside
        return weakref.ref(values)

    gc.collect()
    gc.disable()
    try:
        assert caller()() is None
    finally:
        gc.enable()


def test_a_page_reads_few_columns_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = columns_read(monkeypatch)
    page.render({"x": opened(tmp_path, *everything())})
    kernels = [name for table, name in read if table == "CUPTI_ACTIVITY_KIND_KERNEL"]
    assert "gridX" in kernels
    again = {name for name in kernels if kernels.count(name) > 1}
    # Freed with the summary and the tables, so that less is held at a time, and read for the timeline.
    grid = {"gridX", "gridY", "gridZ"}
    efficiency = {"start", "end"}  # of a table that captures of many kernels do not have
    assert again <= {"correlationId", "demangledName", "globalPid", *grid, *efficiency}


def test_a_capture_and_its_views_end_with_the_last_of_them(tmp_path: Path) -> None:
    capture = opened(tmp_path, *everything())
    part = capture.select(time="5/50")
    gc.disable()  # thousands of captures in one process: none waits for the collector
    try:
        for report in ("cuda_gpu_kern_sum", "launch_overhead", "cuda_memcpy_async", "nvtx_kern_sum"):
            assert len(capture.report(report)) >= len(part.report(report, rounding="legacy"))
        export = weakref.ref(capture._export)  # noqa: SLF001
        del capture
        assert export() is not None
        del part
        assert export() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("made", [partial(summarize, alone=True), _advise])
def test_a_screen_frees_columns_that_it_does_not_read_again(
    made: Callable[[CaptureReader], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = columns_read(monkeypatch)
    capture = opened(tmp_path, *everything())
    made(capture)
    kernels = [name for table, name in read if table == "CUPTI_ACTIVITY_KIND_KERNEL"]
    assert sorted(kernels) == sorted(set(kernels))
    held = partial(capture._export.has_read, "CUPTI_ACTIVITY_KIND_KERNEL")  # noqa: SLF001
    assert not any(map(held, kernels))

"""What every report has to keep, those to come included."""

import csv
import importlib
import inspect
import io
import json
import pkgutil
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from pyarrow import parquet
from sampled import sampled
from tiny_export import Row, call, everything, kernel, memcpy, nvtx, opened, row

from nsyswrap import reports
from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.base.units import Rounding, Unit
from nsyswrap.capture import capture as capture_columns
from nsyswrap.capture import schema
from nsyswrap.render import formats
from nsyswrap.render.formats.text import NO_ADVICE
from nsyswrap.reports import insight, nsys
from nsyswrap.reports.table import ReportOption, Result, Table

EVERYTHING = everything()
TABLES = {event.table for event in EVERYTHING}
ELSEWHERE = row("TARGET_INFO_GPU", id=0, name="GPU")  # makes it an nsys export
SUFFIXES = {
    Unit.NS: "_ns",
    Unit.BYTES: "_bytes",
    Unit.BYTES_PER_S: "_bytes_per_s",
    Unit.FLOP: "_flop",
    Unit.FLOP_PER_S: "_flop_per_s",
    Unit.JOULES: "_joules",
    Unit.PERCENT: "_percent",
    Unit.ID: "_id",
    Unit.ADDRESS: "_address",
}
NOTHING = "no events in the selection"
MISSING = "none occurred, or they were not collected (collect with nsyswrap profile --trace {})"
# What records events of these kinds; of all others it is cuda,nvtx.
TRACES = {
    **{kind: f"cuda,nvtx,{kind}" for kind in ("osrt", "openmp", "openacc")},
    **dict.fromkeys(("mpi_collective", "mpi_p2p"), "cuda,nvtx,mpi"),
    **dict.fromkeys(("um_cpu_fault", "um_gpu_fault"), "cuda,nvtx --um-faults"),
    "memory_use": "cuda,nvtx --memory",
    **dict.fromkeys(("gpu_metric", "gpu_metric_name"), "cuda,nvtx --gpu-metrics"),
}
NOT_WRITTEN = "or newer writes it)"  # in the notes on fields and labels that an export lacks
NEWER = {
    (events.table, column)
    for events in schema.EVENTS.values()
    for field in events.fields.values()
    for column in field.columns
    if field.since
}
ENUM_TABLES = {table for table, _ in schema.ENUMS.values()}
# Everything, as an nsys before 2021 would have written it.
OLD = [
    Row(table, {column: cell for column, cell in cells.items() if (table, column) not in NEWER})
    for table, cells in EVERYTHING
    if table not in ENUM_TABLES
]
ABOUT_IDLE_TIME = {
    "step_budget",
    "gpu_time",
    "gpu_idle",
    "launch_exposure",
    "gpu_metrics",
    "nvtx_tree",
    "module_budget",
    "advice",
}
TOTALS = {"um_total_sum"}  # one row in any case: totals of nothing
# Columns without a value in everything(), and no others: nothing repeats in it, a lost event withholds the
# findings, no operation of PyTorch and no kernel of a library is in it, and its GPU has no sizes.
RATES = {"flop_per_s", "peak_percent"}
EMPTY = {
    "step_budget": {"step", "mark", "host_window_ns", "runs_ahead_ns"}
    | {f"idle_host_gil_{state}_ns" for state in ("holding", "waiting")},
    "loops": {"busy_percent", "gap_med_ns", "gap_p99_ns"},
    "gpu_idle": {"host_gil_holding_ns", "host_gil_waiting_ns"},
    "kernel_class_sum": {"input_types"},
    "kernel_efficiency": {"type", "blocks_per_sm", "limiter", "occupancy_percent", "waves", "tail_percent"}
    | {"avg_flop", "avg_bytes", "bytes_per_s", "intensity", "bandwidth_percent", "roof", *RATES},
    "gpu_metrics": {"roof"},
    "nvtx_tree": RATES,
    "module_kern_sum": {"phase", "operation", "shapes", *RATES},
    "module_budget": {"per_step_ns", *RATES},
    "advice": {"at_stake_ns", "at_stake_percent", "shares"},
}


def modules_of(package: ModuleType) -> set[str]:
    return {module.name for module in pkgutil.iter_modules(package.__path__)}


TABLE_FORMATS = {
    name: importlib.import_module(f"nsyswrap.render.formats.{name}")
    for name in formats.NAMES
    if not formats.find_format(name).without_reports
}


def _fields(content: str, delimiter: str) -> int:
    return len(list(csv.reader(io.StringIO(content, newline=""), delimiter=delimiter))) - 1


# How many rows of a report stand in what a format makes of it; what is for the eye cannot be counted.
ROWS: dict[str, Callable[[Any], int]] = {
    "csv": lambda content: _fields(content, ","),
    "tsv": lambda content: _fields(content, "\t"),
    "json": lambda content: len(json.loads(content)["reports"][0]["rows"]),
    "markdown": lambda content: sum(line.startswith("|") for line in content.splitlines()) - 2,
    "parquet": lambda content: int(parquet.read_metadata(io.BytesIO(content)).num_rows),
}

OF_RANGES = [name for name in reports.NSYS if name.startswith("nvtx_") and name != "nvtx_kern_sum"]
every_report = pytest.mark.parametrize("name", reports.NAMES)
every_rounding = sampled("rounding", get_args(Rounding), fast=1)
every_option = pytest.mark.parametrize(
    ("name", "option"),
    [(name, option) for name in reports.NAMES for option in reports.find_report(name).options],
    ids=lambda value: getattr(value, "name", value),
)


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> CaptureReader:
    """A capture of which every report has something to say, shared: no test may change it."""
    return opened(tmp_path_factory.mktemp("everything"), *EVERYTHING)


def test_every_module_is_listed_and_every_listed_one_is_there() -> None:
    assert modules_of(nsys) == set(reports.NSYS)
    assert modules_of(insight) == set(reports.INSIGHT)
    assert modules_of(formats) == set(formats.NAMES)
    assert len(set(reports.NAMES)) == len(reports.NAMES)


@every_report
def test_the_module_is_named_like_its_report(name: str) -> None:
    report = reports.module(name).REPORT
    assert report.name == name
    assert report.title
    assert (report.layer == "parity") == (name in reports.NSYS)
    assert reports.find_report(name) is report


def test_a_name_that_no_report_has() -> None:
    with pytest.raises(UsageError, match="no report named 'cuda_gpu_sun'") as caught:
        reports.find_report("cuda_gpu_sun")
    assert "cuda_gpu_sum" in caught.value.hint


@every_report
def test_columns_have_unique_names_that_carry_their_unit_and_say_what_they_are(name: str) -> None:
    columns = reports.find_report(name).columns
    names = [column.name for column in columns]
    assert len(set(names)) == len(names)
    for column in columns:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", column.name)
        assert column.header
        assert column.help.strip()
        assert column.kernels or not column.help.startswith("kernel name"), column.name
        name_ends = f"_{column.name}".endswith
        assert name_ends(SUFFIXES.get(column.unit, ""))
        for unit, suffix in SUFFIXES.items():
            assert column.unit is unit or not name_ends(suffix), column.name


@every_report
def test_the_order_is_over_columns_of_the_report(name: str) -> None:
    report = reports.find_report(name)
    assert {order.column for order in report.order} <= {column.name for column in report.columns}


@every_report
def test_it_is_computed_from_a_capture_and_its_own_options(name: str) -> None:
    report = reports.find_report(name)
    expected = ["capture", *(option.name for option in report.options)]
    assert list(inspect.signature(report.compute).parameters) == expected


@every_report
def test_the_values_are_those_of_the_columns(name: str, capture: CaptureReader) -> None:
    table = capture.report(name)
    assert {column.name for column in table.schema.columns} <= set(table.data)
    assert len({len(values) for values in table.data.values()}) == 1
    assert len(table.rows()) == len(table) > 0
    empty = set()
    for column, values in zip(table.columns, zip(*table.rows(), strict=True), strict=True):
        types = {type(value) for value in values} - {type(None)}
        expected = {str} if column.unit is Unit.TEXT else {int, float}
        assert types <= expected, column.name  # plain Python, nothing of numpy
        if not types:
            empty.add(column.name)
    assert empty == EMPTY.get(name, set())


def tables_of(group: Sequence[str]) -> set[str]:
    """Return the tables of these kinds of events."""
    return {table for kind in group for table in schema.EVENTS[kind].tables(TABLES)}


def refused(capture: CaptureReader, name: str, group: Sequence[str]) -> None:
    """Check that the report says what it lacks, and how to collect that."""
    with pytest.raises(NotInCapture, match=f"^{name}: .*tiny.sqlite holds no ") as caught:
        capture.report(name)
    assert caught.value.hint == MISSING.format(TRACES.get(group[0], "cuda,nvtx"))
    assert schema.EVENTS[group[0]].title in str(caught.value)


@every_report
def test_it_says_how_to_collect_what_is_missing(name: str, tmp_path: Path) -> None:
    needs = reports.find_report(name).needs
    for number, (group, rest) in enumerate(
        [*((group, EVERYTHING) for group in needs), *((group, []) for group in needs[:1])]
    ):
        missing = tables_of(group)
        (tmp_path / str(number)).mkdir()
        there = [event for event in rest if event.table not in missing]
        refused(opened(tmp_path / str(number), *there, ELSEWHERE), name, group)


@every_report
def test_an_empty_table_is_as_good_as_a_missing_one(name: str, tmp_path: Path) -> None:
    needs = reports.find_report(name).needs
    kinds = [kind for group in needs for kind in group]
    capture = opened(tmp_path, ELSEWHERE, empty=tables_of(kinds))
    if not kinds:  # it is about the capture itself
        assert len(capture.report(name))
        return
    if reports.find_report(name).empty_answers:  # as nsys takes it
        assert len(capture.report(name)) == (name in TOTALS)
        return
    refused(capture, name, needs[0])
    for number, group in enumerate(needs):
        empty = tables_of(group)
        (tmp_path / str(number)).mkdir()
        there = [event for event in EVERYTHING if event.table not in empty]
        refused(opened(tmp_path / str(number), *there, ELSEWHERE, empty=empty), name, group)


class Asked:
    """The fields, by kind, and the enums that were asked of captures."""

    def __init__(self) -> None:
        self.fields: set[tuple[str, str]] = set()
        self.enums: set[str] = set()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked, columns, labels = Asked(), capture_columns.Capture.columns, capture_columns.Capture.labels

    def recorded_columns(capture: CaptureReader, kind: str, *fields: str) -> dict[str, Any]:
        asked.fields |= {(kind, field) for field in fields}
        return columns(capture, kind, *fields)

    def recorded_labels(capture: CaptureReader, enum: str) -> Mapping[int, str]:
        asked.enums.add(enum)
        return labels(capture, enum)

    monkeypatch.setattr(capture_columns.Capture, "columns", recorded_columns)
    monkeypatch.setattr(capture_columns.Capture, "labels", recorded_labels)
    return asked


@every_report
@every_rounding
def test_its_notes_name_the_fields_and_labels_that_an_old_export_lacks(
    name: str, rounding: Rounding, tmp_path: Path, asked: Asked
) -> None:
    capture = opened(tmp_path, *OLD).viewed(rounding=rounding)
    notes = computed(name, capture).notes
    on_fields = {note for kind, field in asked.fields for note in capture.notes_on_fields(kind, field)}
    lacking = on_fields | set(capture.notes_on_labels(*asked.enums))
    assert {note for note in notes if NOT_WRITTEN in note} == lacking


def test_notes_do_not_depend_on_the_reports_made_before(tmp_path: Path) -> None:
    anonymous = [
        Row(table, {column: cell for column, cell in cells.items() if column != "globalPid"})
        for table, cells in OLD
    ]
    shared = opened(tmp_path, *anonymous)
    for name in reports.NAMES:
        alone = CaptureReader(shared.path)
        assert shared.report(name).notes == alone.report(name).notes
    assert any("have no process id" in note for note in shared.report("gpu_time").notes)


def computed(name: str, capture: CaptureReader) -> Result:
    """Compute a report with its default options, without reading ahead."""
    report = reports.find_report(name)
    return report.compute(capture, **{option.name: option.default for option in report.options})


@every_report
@every_rounding
def test_it_renders_in_every_format(name: str, rounding: Rounding, capture: CaptureReader) -> None:
    table = capture.report(name, rounding=rounding)
    for form, module in TABLE_FORMATS.items():
        [(file, content)] = module.render([table]).items()
        assert file.startswith(f"{name}."), form
        assert len(content.splitlines()) > 1, form
        assert form not in ROWS or ROWS[form](content) == len(table), form


@every_report
@every_rounding
def test_an_era_has_its_columns_and_those_of_both(
    name: str, rounding: Rounding, capture: CaptureReader
) -> None:
    table = capture.report(name, rounding=rounding)
    assert list(table.columns) == [c for c in table.schema.columns if c.era in (None, rounding)]
    header = TABLE_FORMATS["tsv"].render([table])[f"{name}.tsv"].partition("\n")[0]
    assert header.count("\t") == len(table.columns) - 1


@every_report
def test_no_rows_are_no_error(name: str, capture: CaptureReader) -> None:
    table = capture.report(name)
    nothing = Table(table.schema, {column: values[:0] for column, values in table.data.items()})
    assert len(nothing) == 0
    assert list(nothing.frame.columns) == list(table.frame.columns)
    for form, module in TABLE_FORMATS.items():
        [content] = module.render([nothing]).values()
        if form in ROWS:
            assert ROWS[form](content) == 0, form
        else:
            assert "no rows" in content or NO_ADVICE in content, form


@pytest.mark.parametrize(
    "name", ["cuda_kern_exec_sum", "launch_overhead", "nvtx_phases", "timing_audit", *OF_RANGES]
)
def test_events_that_do_not_meet_make_no_rows(name: str, tmp_path: Path) -> None:
    apart = (kernel("k", 20, 30, 1), call("launch", 0, 10, 2), nvtx("mark", 0, None, eventType=34))
    assert opened(tmp_path, *apart).report(name).rows() == []


@pytest.mark.parametrize("name", ["cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum", "memcpy_bandwidth"])
def test_copies_of_an_unknown_kind_make_no_rows(name: str, tmp_path: Path) -> None:
    assert opened(tmp_path, memcpy(77, 0, 1, 1)).report(name).rows() == []


@every_report
def test_the_frame_is_unrounded_and_named_for_machines(name: str, capture: CaptureReader) -> None:
    table = capture.report(name)
    frame = table.frame
    assert list(frame.columns) == [column.name for column in table.columns]
    for position, column in enumerate(table.columns):
        values = frame[column.name].astype(object).where(frame[column.name].notna(), None)
        assert values.tolist() == [row[position] for row in table.rows()]


@every_report
@sampled("clip", [False, True], fast=[True])
def test_selecting_all_there_is_changes_nothing(name: str, clip: bool, capture: CaptureReader) -> None:  # noqa: FBT001
    # The GPU is idle from the window's start to its end, and not only between operations.
    time = "" if name in ABOUT_IDLE_TIME else "-1h/1h"
    part = capture.select(time=time, device=0, process=100, clip=clip)
    assert part.report(name).rows() == capture.report(name).rows()


@every_report
def test_a_selection_that_leaves_nothing_has_no_rows_and_says_so(name: str, capture: CaptureReader) -> None:
    # Clipped: without, events that have no end are in every window, as in nsys.
    for part in (capture.select(time="1h/2h", clip=True), capture.select(process=5)):
        table = part.report(name)
        assert len(table) == (name in TOTALS)
        assert (NOTHING in table.notes) == (name not in TOTALS)


@every_report
def test_a_gpu_that_the_capture_lacks_has_no_rows(name: str, capture: CaptureReader) -> None:
    report = reports.find_report(name)
    is_of_gpus = any(all("device_id" in schema.EVENTS[kind].fields for kind in one) for one in report.needs)
    if is_of_gpus and not report.empty_answers:
        assert capture.select(device=3).report(name).rows() == []


@every_report
def test_the_columns_do_not_depend_on_the_selection(name: str, capture: CaptureReader) -> None:
    table = capture.report(name)
    for part in (
        capture.select(time="0/40"),
        capture.select(time="1h/", clip=True),
        capture.select(device=3),
    ):
        selected = part.report(name)
        assert selected.columns == table.columns
        assert {column.name for column in table.columns} <= set(selected.data)
        assert list(selected.frame.columns) == list(table.frame.columns)


@every_option
def test_an_option_out_of_range_is_a_wrong_usage(
    name: str, option: ReportOption, capture: CaptureReader
) -> None:
    report = reports.find_report(name)
    for limit, step in ((option.least, -1), (option.most, 1)):
        if limit is not None:
            assert report.make(capture, **{option.name: limit}).schema is report.schema
            with pytest.raises(UsageError, match=f"^{name}: {option.name}={limit + step} is out of range"):
                report.make(capture, **{option.name: limit + step})


@every_option
def test_an_option_is_a_whole_number(name: str, option: ReportOption, capture: CaptureReader) -> None:
    asked = f"{name}:{option.name}={option.default}"
    table = reports.parse(asked).make(capture)
    assert (table.rows(), table.label) == (capture.report(name).rows(), asked.replace(":", "_"))
    with pytest.raises(UsageError, match=r"'1\.5' is not a whole number"):
        reports.parse(f"{name}:{option.name}=1.5")


@every_report
def test_an_option_it_does_not_know_is_a_wrong_usage(
    name: str, capture: CaptureReader, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=f"{name} has no option 'colour'"):
        capture.report(name, colour=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match=f"{name} has no option 'colour'"):  # also where there are no events
        opened(tmp_path / "empty", ELSEWHERE).report(name, colour=1)
    for asked in (f"{name}:colour=1", f"{name}:colour", f"{name}:"):
        with pytest.raises(UsageError, match=f"{name} has no option "):
            reports.parse(asked)


@every_report
@pytest.mark.parametrize("qualifier", ["base", "mangled", "nvtx-name"])
def test_a_qualifier_is_taken_or_a_wrong_usage(name: str, qualifier: str, capture: CaptureReader) -> None:
    asked = f"{name}:{qualifier}"
    if qualifier in reports.find_report(name).qualifiers:
        assert reports.parse(asked).make(capture).label == f"{name}_{qualifier}"
    else:
        with pytest.raises(UsageError, match=f"has no option '{qualifier}'"):
            reports.parse(asked)

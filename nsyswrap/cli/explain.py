"""The texts of `report --list` and `report --explain`: the reports, and what their columns mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsyswrap.base.errors import CaptureError, exit_code_of
from nsyswrap.base.units import Unit, csv_label
from nsyswrap.capture import schema
from nsyswrap.capture.capture import Capture, open_capture
from nsyswrap.cli.options import newest_capture, open_all
from nsyswrap.cli.output import wrapped
from nsyswrap.render.formats.text import heading
from nsyswrap.reports import NAMES, find_report, module

if TYPE_CHECKING:
    from nsyswrap.reports.table import Column, Report

# The reports of `nsys stats` and `nsys analyze` that nsyswrap lacks, by the reason.
OUTSIDE = {
    "graphics and video": (
        "opengl_khr_range_sum opengl_khr_gpu_range_sum vulkan_api_sum vulkan_api_trace vulkan_gpu_marker_sum "
        "vulkan_marker_sum nvvideo_api_sum"
    ),
    "Windows": "dx11_pix_sum dx12_gpu_marker_sum dx12_pix_sum dx12_mem_ops wddm_queue_sum",
    "network hardware": "network_congestion",
    "only in nsys 2025 and newer": "mpi_msg_size_sum syscall_sum",
}
_QUALIFIERS = {
    "base": "kernels by their base name, without namespaces and template arguments",
    "mangled": "kernels by the name the compiler gave them",
    "nvtx-name": "the innermost NVTX range around the launch before each kernel's name",
}
_COLUMNS = {
    "parity": "Columns of nsys' CSV; in brackets: name in JSON and Python, unit, source",
    "analysis": "Columns of the screen; in brackets: name in CSV, JSON and Python, unit, source",
}
_MACHINE_UNITS = {Unit.BYTES_PER_S: "bytes/s", Unit.FLOP_PER_S: "flop/s", Unit.PERCENT: "%"}


def listing(paths: Sequence[Path]) -> tuple[str, int]:
    """Return the reports each capture can answer, and the commands that collect events for the rest.

    Without a capture, return all reports. The exit code tells if a capture cannot be read.
    """
    try:
        named = paths or (newest_capture(),)
    except CaptureError:
        sections = [*_section("Reports", ((name, find_report(name).title) for name in NAMES)), *_outside()]
        return "\n".join(sections), 0
    captures, left_out = open_all(named, open_capture)
    lines = [line for capture in captures.values() for line in _reports_of(capture)]
    return "\n".join([*lines, *_outside()]), exit_code_of(left_out)


def _reports_of(capture: Capture) -> list[str]:
    reports = [find_report(name) for name in NAMES]
    lacking = {report.name: report.lacks(capture) for report in reports}
    here = [(report.name, report.title) for report in reports if not lacking[report.name]]
    rest = [(report.name, _collect(report, capture)) for report in reports if lacking[report.name]]
    return [
        *_section(f"Reports with data in {capture.source}", here),
        *_section("No data in this capture for (it did not happen, or it was not collected)", rest),
    ]


def _collect(report: Report, capture: Capture) -> str:
    kinds = [[schema.EVENTS[kind] for kind in group] for group in report.lacks(capture)]
    lacking = " and ".join(" or ".join(events.title for events in group) for group in kinds)
    return f"{lacking}: {schema.collecting(*(group[0] for group in kinds))}"


def _outside() -> list[str]:
    return _section("Reports of nsys that nsyswrap does not have", OUTSIDE.items())


def _section(title: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0) + 4
    lines = wrapped(title)
    for name, text in rows:
        lines += wrapped(f"  {name:{width - 2}}{text}", width)
    return [*lines, ""] if rows else []


def explain(name: str) -> str:
    """Return the description of a report, its options, and its columns with unit and source."""
    report = find_report(name)
    lines = [f"{report.title}  {name}", ""]
    about = module(name).__doc__ or ""
    for paragraph in about.strip().replace("``", "").split("\n\n"):
        lines += [*wrapped(paragraph), ""]
    parity = report.layer == "parity"
    facts = [("numbers", "equal to nsys', cell by cell" if parity else "nsyswrap's own, not rounded")]
    for group in report.needs:
        events = [schema.EVENTS[kind] for kind in group]
        facts.append(("source", f"{' or '.join(kind.table for kind in events)} ({events[0].collect})"))
    facts += [(f":{qualifier}", _QUALIFIERS[qualifier]) for qualifier in report.qualifiers]
    facts += [(f":{o.name}=N", f"{o.help}; {o.default} if left out") for o in report.options]
    columns = [(_header(report, column), _meaning(report, column)) for column in report.columns]
    return "\n".join([*lines, *_section("Report", facts), *_section(_COLUMNS[report.layer], columns)])


def _header(report: Report, column: Column) -> str:
    """Return the header of a column: for nsys' reports that of its CSV, for others that of the screen."""
    parity = report.layer == "parity"
    return column.header.strip() + csv_label(column.unit, "ns") if parity else heading(column)


def _meaning(report: Report, column: Column) -> str:
    """Return the meaning of a column; in brackets its name and unit in JSON, and its source."""
    every = (schema.EVENTS[kind].fields for group in report.needs for kind in group)
    field = {name: spec for fields in every for name, spec in fields.items()}.get(column.name)
    source = f"column {field.columns[0]}" if field and field.kind != "string" else "computed"
    era = [f"only with --rounding {column.era}"] if column.era else []
    unit = _MACHINE_UNITS.get(column.unit, column.unit.value)
    return f"{column.help} [{', '.join([column.name, unit, source, *era])}]"

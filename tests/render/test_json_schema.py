"""JSON: every document fits the published schema."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from recorded import SHIPPED
from sampled import sampled
from tiny_export import call, everything, kernel, opened

from nsyswrap import __version__, open_capture
from nsyswrap.base.errors import NotInCapture
from nsyswrap.render.formats import json as json_format
from nsyswrap.reports import NAMES, find_report, parse
from nsyswrap.reports.answer import as_dict
from nsyswrap.reports.make import MissingReport, combine, make_reports
from nsyswrap.reports.table import Table

SCHEMA = json.loads(
    files("nsyswrap.render.formats").joinpath("reports.schema.json").read_text(encoding="utf-8")
)
CHECK = Draft202012Validator(SCHEMA)
LACKS = NotInCapture(
    "no kernels", "none happened, or none were collected (--trace=cuda)", source="x", holds=True
)
WHY = "x holds no kernels; none happened, or none were collected (--trace=cuda)"


def lacking_of(asked: str) -> MissingReport:
    request = parse(asked)
    return MissingReport(request.report.schema, request.suffix, "", LACKS)


def refuse(constant: str) -> None:
    pytest.fail(f"{constant} in JSON")


def checked(content: str) -> dict[str, Any]:
    """Return the document after checking that it fits the schema and has only valid JSON numbers."""
    document: dict[str, Any] = json.loads(content, parse_constant=refuse)
    CHECK.validate(document)
    for report in document["reports"]:
        names = [column["name"] for column in report["columns"]]
        assert all(list(row) == names for row in report["rows"])
    return document


def test_the_schema_is_one_and_says_no() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(json_format.as_one([]))
    CHECK.validate(document)
    for broken in ({**document, "version": 1}, {**document, "more": 1}, {**document, "reports": [{}]}, {}):
        assert not CHECK.is_valid(broken)


def test_the_schema_knows_every_unit() -> None:
    units = {column.unit.value for name in NAMES for column in find_report(name).columns}
    assert units <= set(SCHEMA["$defs"]["column"]["properties"]["unit"]["enum"])


@sampled("name", NAMES, fast=12)
@sampled("rounding", ["2025", "legacy"], fast=1)
def test_every_report_fits(name: str, rounding: Any, tmp_path: Path) -> None:  # noqa: ANN401 - an era
    table = opened(tmp_path, *everything()).report(name, rounding=rounding)
    [(file, content)] = json_format.render([table]).items()
    [report] = checked(content)["reports"]
    assert file == f"{name}.json"
    assert [tuple(row.values()) for row in report["rows"]] == table.rows()  # nothing is rounded
    assert (report["name"], report["title"], report["layer"]) == (
        name,
        table.schema.title,
        table.schema.layer,
    )
    assert report["rounding"] == rounding
    assert [column["header"] for column in report["columns"]] == [column.header for column in table.columns]


@pytest.mark.parametrize("name", ["add2/both", "add/grid"])
def test_real_captures_fit(name: str) -> None:
    capture = open_capture(SHIPPED / name).select(time="1s/")
    made = make_reports({name: capture}, [parse(report) for report in NAMES])
    tables, missing = made.combined(), made.missing
    document = checked(
        json_format.as_one(
            tables,
            captures={name: capture},
            selection=capture.view.selection,
            missing=missing,
            answers={name: (capture.answer, ())},
        )
    )
    assert {report["name"] for report in document["reports"]} == set(NAMES)
    assert tables
    assert missing
    [about] = document["captures"]
    assert about.pop("answer") == as_dict(capture.answer)
    assert about == (
        {
            "label": name,
            "path": str(SHIPPED / name),
            "exporter_version": "2025.3.2.0",
            "schema_version": capture.info.schema_version,
            "gpus": ["NVIDIA H200"],
            "driver_version": capture.info.driver_version,
            "cuda_version": "13.0",
            "started_utc": capture.info.started_utc,
        }
    )
    assert document["window"]["time"] == [10**9, None]
    assert document["notes"] == []


def test_the_envelope_is_always_the_same() -> None:
    assert json.loads(json_format.as_one([])) == {
        "format": "nsyswrap-reports",
        "version": 4,
        "tool": {"name": "nsyswrap", "version": __version__},
        "captures": [],
        "window": {"time": None, "nvtx": None, "devices": [], "processes": [], "clip": None},
        "reports": [],
        "notes": [],
        "not_read": [],
    }


def test_what_was_selected(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5)).select(nvtx="step@x/1", device=0, process=7, clip=True)
    document = checked(json_format.as_one([], selection=capture.view.selection))
    assert document["window"] == {
        "time": None,
        "nvtx": "step@x/1",
        "devices": [0],
        "processes": [7],
        "clip": True,
    }


def test_what_a_capture_does_not_say_is_null(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    [about] = checked(json_format.as_one([], captures={"x": capture}))["captures"]
    assert about.pop("path") == str(capture.source)
    assert about.pop("gpus") == []
    assert about.pop("label") == "x"
    assert set(about.values()) == {None}


def test_missing_is_null_and_not_collected_is_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("é\x1b", 100, 103, 1), call("l", 90, 200, 1))
    missing = [lacking_of("osrt_sum")]
    content = json_format.as_one([capture.report("cuda_kern_exec_sum")], missing=missing)
    made, lacking = checked(content)["reports"]
    [row] = made["rows"]
    assert row["queue_avg_ns"] is row["queue_min_ns"] is None
    assert row["queue_count"] == 0
    assert row["kernel_name"] == "é\x1b"
    assert "\x1b" not in content
    assert (lacking["label"], lacking["rows"], lacking["notes"]) == (
        "osrt_sum",
        [],
        [f"not collected: {WHY}"],
    )
    assert lacking["columns"]


def test_a_report_that_some_captures_could_not_answer(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    captures = {"a": capture, "b": capture}
    table = combine([("a", capture.report("cuda_gpu_kern_sum"))])
    missing = [
        MissingReport(find_report(name).schema, "", "b", LACKS)
        for name in ("cuda_gpu_kern_sum", "osrt_sum", "osrt_sum")
    ]
    document = checked(json_format.as_one([table], captures=captures, missing=missing))
    some, none = document["reports"]
    assert [about["label"] for about in document["captures"]] == ["a", "b"]
    assert [row["capture"] for row in some["rows"]] == ["a"]
    assert some["notes"] == [f"not collected: {WHY}"]
    assert none["columns"][0]["name"] == "capture"
    assert (none["rows"], len(none["notes"])) == ([], 2)


def test_options_are_in_the_label(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5))
    asked = [parse("cuda_gpu_kern_sum"), parse("cuda_gpu_kern_sum:base")]
    made = checked(json_format.as_one([request.make(capture) for request in asked]))["reports"]
    assert [report["label"] for report in made] == ["cuda_gpu_kern_sum", "cuda_gpu_kern_sum_base"]
    [lacking] = checked(json_format.as_one([], missing=[lacking_of("cuda_gpu_kern_sum:base")]))["reports"]
    assert lacking["label"] == "cuda_gpu_kern_sum_base"


def test_json_knows_no_infinity(tmp_path: Path) -> None:
    table = opened(tmp_path, kernel("k", 0, 5)).report("cuda_gpu_kern_sum")
    endless = Table(table.schema, {**table.data, "avg_ns": np.array([np.inf]), "std_ns": np.array([np.nan])})
    [report] = checked(json_format.as_one([endless]))["reports"]
    assert (report["rows"][0]["avg_ns"], report["rows"][0]["std_ns"]) == (None, None)
    assert report["rows"][0]["max_ns"] == 5


def test_a_row_is_a_line(tmp_path: Path) -> None:
    table = opened(tmp_path, *(kernel(f"k{i}", 0, 5) for i in range(9))).report("cuda_gpu_kern_sum")
    assert (
        sum(line.lstrip().startswith('{"time_percent"') for line in json_format.as_one([table]).splitlines())
        == 9
    )

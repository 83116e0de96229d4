"""The answers of real captures: short lines, and figures that equal those of the reports."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from recorded import ROOT, capture_names, run_folder
from rich.cells import cell_len

from nsyswrap.analysis.no_gpu_work import has_gpu_work
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.base.constants import MISSING
from nsyswrap.base.errors import NotInCapture
from nsyswrap.render import summary_screen as screen
from nsyswrap.reports import NAMES
from nsyswrap.reports.answer import answer_lines, as_dict, screen_texts
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.wording.advice import words

pytestmark = pytest.mark.slow

PUBLIC = ROOT.parents[0] / "shared" / "exports"
SCHEMA = json.loads((ROOT / "docs" / "answer.schema.json").read_text(encoding="utf-8"))
BRIEF = json.loads((ROOT / "docs" / "brief.schema.json").read_text(encoding="utf-8"))
EXPORTS = {path.stem: path for path in sorted(PUBLIC.glob("*.sqlite"))}
FIRST = 8  # lines of the screen hold the answer


@pytest.fixture(scope="module", params=[*capture_names(), *EXPORTS])  # one answer for all tests of it
def capture(request: pytest.FixtureRequest, scratch: Path) -> CaptureReader:
    name = request.param
    return open_capture(EXPORTS[name] if name in EXPORTS else run_folder(name, scratch))


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+) %", text)]


def rows_of(capture: CaptureReader, report: str) -> list[dict[str, Any]]:
    table = capture.report(report)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows()]


def test_the_first_lines_have_the_answer(capture: CaptureReader) -> None:
    shown = screen.render(summarize(capture), width=80).splitlines()
    assert len(shown) <= 60
    assert max(map(cell_len, shown)) <= 80
    first = shown[:FIRST]
    if not has_gpu_work(capture):
        assert any(line.startswith("No GPU work") for line in first)
        return
    answer = capture.answer
    assert any(re.match(r"GPUs? busy [\d.]+ % of ", line) for line in first)
    assert not answer.idle_ns or any(line.startswith("  idle ") for line in first)
    worth = [words(finding).what for finding in answer.findings if finding.ceiling_ns is not None]
    expected = (
        "No verdict: " if answer.withheld else worth[0][:60] if worth else r"(No single cause|Largest cause)"
    )
    assert any(re.match(expected if not worth else re.escape(expected), line) for line in first)


def test_the_brief_of_any_capture_is_small_and_adds_up(capture: CaptureReader) -> None:
    packet = capture.brief()
    assert len(json.dumps(packet, separators=(",", ":"))) <= 4096
    Draft202012Validator(BRIEF).validate(packet)
    answer = capture.answer
    kinds = [finding["kind"] for finding in packet["findings"]]
    assert kinds == [finding.kind for finding in answer.findings][: len(kinds)]
    assert len(kinds) + packet["findings_left_out"] == len(answer.findings)
    assert kinds or not answer.findings
    if not answer.devices:
        assert packet["judged"]["part"] is None
        return
    assert packet["busy_percent"] + packet["idle_percent"] == pytest.approx(100, abs=1e-3)
    steps = answer.steps.count if answer.steps else 1
    whole_ms = sum(packet["busy_ms"].values()) + sum(packet["idle_ms"].values())
    assert whole_ms == pytest.approx(answer.window_ns / steps / 1e6, rel=1e-4)


def test_shares_add_up_and_lines_are_short(capture: CaptureReader) -> None:
    answer = capture.answer
    lines = answer_lines(capture, answer)
    assert all(cell_len(text) <= 80 for line in lines for text in screen_texts(line))
    if not answer.devices:
        return
    [busy] = numbers(lines[0].text)[:1]
    idle = 100.0
    for line in lines:
        if line.kind == "shares":
            total, *parts = numbers(line.text)
            assert sum(parts) == pytest.approx(total)
            assert not line.bar or sum(line.bar) == pytest.approx(1)
            if line.text.startswith("idle"):
                idle = total
                assert busy + idle == pytest.approx(100)
            else:
                assert total == pytest.approx(busy)


def test_times_are_those_of_step_budget(capture: CaptureReader) -> None:
    answer = capture.answer
    if not answer.devices:
        return
    rows = rows_of(capture, "step_budget")
    judged = {(row["process_id"], row["device_id"]): row for row in rows if row["row"] == "capture"}
    judged |= {(row["process_id"], row["device_id"]): row for row in rows if row["row"] == "steady part"}
    for device in answer.devices:
        process = None if device.process_id == MISSING else device.process_id
        row = judged[process, device.device_id]
        if device.shared_with:
            busy = [judged[pid, device.device_id]["busy_ns"] for pid in (process, *device.shared_with)]
            assert max(busy) <= sum(device.busy_ns.values()) <= sum(busy)
            assert sum(device.busy_ns.values()) + sum(device.idle_ns.values()) == device.window_ns
            continue
        assert sum(device.busy_ns.values()) == row["busy_ns"]
        assert sum(device.idle_ns.values()) == row["idle_ns"]
        assert device.window_ns == row["duration_ns"]


def test_busy_time_of_a_whole_capture_is_that_of_gpu_time(capture: CaptureReader) -> None:
    answer = capture.answer
    if answer.scope != "whole capture" or not answer.devices:
        return
    rows = rows_of(capture, "gpu_time")
    busy_ns = {(row["process_id"], row["device_id"]): row["busy_ns"] for row in rows}
    for device in answer.devices:
        process = None if device.process_id == MISSING else device.process_id
        assert sum(device.busy_ns.values()) == busy_ns[process, device.device_id]


def test_findings_are_those_of_advice(capture: CaptureReader) -> None:
    answer = capture.answer
    try:
        table = capture.report("advice")
    except NotInCapture:
        assert not answer.findings
        return
    if not answer.withheld:
        assert [finding.kind for finding in answer.findings] == table.data["finding"]
        potentials = [MISSING if f.saved_ns is None else f.saved_ns for f in answer.findings]
        assert potentials == np.asarray(table.data["at_stake_ns"]).tolist()
    assert all(0 <= (finding.ceiling_percent or 0) <= 100 for finding in answer.findings)


def test_data_fits_the_schema(capture: CaptureReader) -> None:
    data = as_dict(capture.answer)
    Draft202012Validator(SCHEMA).validate(json.loads(json.dumps(data, allow_nan=False)))
    total = sum(data["busy_ns"].values()) + sum(data["idle_ns"].values())
    assert total == data["window_ns"] == sum(device["window_ns"] for device in data["devices"])
    assert {*data["sources"].values(), *(finding["report"] for finding in data["findings"])} <= {
        *NAMES,
        "rank_waiting",
    }


def test_the_schema_says_no() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    valid = Draft202012Validator(SCHEMA)
    assert not valid.is_valid({"format": "nsyswrap-answer", "version": 1})


def test_mean_and_median_are_of_the_same_steps(capture: CaptureReader) -> None:
    steps = capture.answer.steps
    if steps is None:
        return
    judged = [row for row in rows_of(capture, "step_budget") if row["row"] == "steady part"]
    assert steps.mean_ns * steps.count in [pytest.approx(row["duration_ns"]) for row in judged]
    assert steps.median_ns <= 2 * steps.mean_ns + 1  # half of the steps take the median or longer

"""A figure is one: on the screen, in JSON, Python and tables, on the page, in pictures, in a comparison."""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli
from labels import HERE
from sampled import sampled

from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.api import open_capture
from nsyswrap.base.units import duration
from nsyswrap.reports.answer import answer_lines

CAPTURES = HERE / "steps" / "captures"
# The host waits, runs one step ahead, ten, all; with warm-up, a trend, and without ranges.
NAMES = ("gpt2_numbered", "graph_in_steps", "queue_ten_ahead", "heat_all_ahead", "cholesky_panels")


@pytest.fixture
def recording(name: str, tmp_path: Path) -> Path:
    path = tmp_path / f"{name}.sqlite"
    path.write_bytes(lzma.decompress((CAPTURES / f"{name}.sqlite.xz").read_bytes()))
    return path


def answer_in_json(cli: Cli, recording: Path) -> dict[str, Any]:
    document = json.loads(cli("report", recording, "--format", "json").stdout)
    return document["captures"][0]["answer"] if "captures" in document else document["answer"]  # type: ignore[no-any-return]


@sampled("name", NAMES, fast=2)
def test_the_time_of_a_step_is_one_figure(cli: Cli, recording: Path) -> None:
    steps = answer_in_json(cli, recording)["steps"]
    capture = open_capture(recording)
    answer = capture.answer
    assert answer.steps is not None
    assert (answer.steps.mean_ns, answer.steps.median_ns) == (steps["mean_ns"], steps["median_ns"])

    rows = csv.DictReader(
        io.StringIO(cli("report", recording, "-r", "step_budget", "--format", "csv").stdout)
    )
    lasting = [
        int(row["duration_ns"]) for row in rows if row["row"] == "step" and row["mark"] in ("", "outlier")
    ]
    assert len(lasting) == steps["count"]
    assert (float(np.mean(lasting)), float(np.median(lasting))) == (steps["mean_ns"], steps["median_ns"])

    [row] = [row for key, row in run_figures(capture).rows.items() if key.group == "step"]
    assert row.total_ns / row.count == pytest.approx(steps["mean_ns"], rel=1e-9)

    each, mean = f"{duration(steps['mean_ns'])} each", f"mean {duration(steps['mean_ns'])}"
    screen = cli("report", recording).stdout
    assert each in screen or mean in screen


class Figures(HTMLParser):
    """The values of a page by the key of the figure."""

    def __init__(self) -> None:
        super().__init__()
        self.of_key: dict[str, set[float]] = defaultdict(set)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        having = dict(attrs)
        if key := having.get("data-figure"):
            self.of_key[key].add(float(having["value" if tag == "data" else "data-value"] or "nan"))


def figures_of_page(page: Path) -> dict[str, float]:
    figures = Figures()
    figures.feed(page.read_text(encoding="utf-8"))
    return {key: value for key, [value] in figures.of_key.items()}


def figures_of_picture(picture: Path) -> dict[str, float]:
    [keywords] = re.findall(r"<dc:subject>.*?<rdf:li>(.*?)</rdf:li>", picture.read_text(), re.DOTALL)
    return {key: float(value) for key, value in (one.split("=") for one in keywords.split(", "))}


def steps_of_trace(trace: Path) -> dict[str, float]:
    """Return the duration in ns of each step of the loop that is judged, the first of the tracks of steps."""
    events = json.loads(trace.read_text())["traceEvents"]
    named = {event["args"]["name"]: event for event in events if event["name"] == "process_name"}
    lanes = [event["tid"] for event in events if event["name"] == "thread_name"]
    own = [event for event in events if event["ph"] == "X" and event["pid"] == named["steps"]["pid"]]
    first = min((event["tid"] for event in own), key=lanes.index)
    return {event["name"]: 1000 * event["dur"] for event in own if event["tid"] == first}


@sampled("name", NAMES, fast=1)
def test_a_key_has_one_value_wherever_it_is(cli: Cli, recording: Path, tmp_path: Path) -> None:
    answer = answer_in_json(cli, recording)
    known: dict[str, float] = answer["figures"]
    for key, value in known.items():  # the key is the place in the answer
        place: Any = answer
        for part in key.split("."):
            place = place[int(part)] if part.isdigit() else place[part]
        assert place == value
    capture = open_capture(recording)
    on_screen = [
        (line.text, figure) for line in answer_lines(capture, capture.answer) for figure in line.figures
    ]
    assert on_screen
    for text, figure in on_screen:
        assert (figure.value, figure.text in text) == (known[figure.key], True)
    cli("view", recording, "-o", "page.html")
    cli("plot", recording, "--kind", "timeline", "--format", "svg", "-o", "pictures")
    on_page = figures_of_page(tmp_path / "page.html")
    in_picture = figures_of_picture(tmp_path / "pictures" / "timeline.svg")
    assert {"busy_percent", "steps.mean_ns"} <= on_page.keys() & known.keys()
    assert {"steps.count", "steps.mean_ns", "steps.median_ns"} == in_picture.keys() & known.keys()
    for found in (on_page, in_picture):
        assert {key: known[key] for key in found if key in known} == {
            key: value for key, value in found.items() if key in known
        }
    cli("export", recording, "--perfetto", "trace.json")
    lasting = steps_of_trace(tmp_path / "trace.json")
    steady = [lasting[f"step {i}"] for i in range(answer["steps"]["first"], answer["steps"]["last"] + 1)]
    assert len(steady) == known["steps.count"]
    assert float(np.mean(steady)) == pytest.approx(known["steps.mean_ns"])
    whole = json.loads(cli("report", recording, "-r", "gpu_time", "--format", "json").stdout)
    busy = [row["utilisation_percent"] for row in whole["reports"][0]["rows"]]
    assert on_page.get("whole.busy_percent", busy[0]) == pytest.approx(busy[0])
    # A tile has a figure of the first row of a report.
    for key, value in on_page.items():
        report, _, column = key.partition(".")
        if key not in known and key.count(".") == 1 and report not in ("timing_audit", "whole"):
            rows = json.loads(cli("report", recording, "-r", report, "--format", "json").stdout)
            assert rows["reports"][0]["rows"][0][column] == value, key


@sampled("name", NAMES[:2], fast=1)
def test_a_comparison_has_the_figures_of_both_sides(cli: Cli, recording: Path, tmp_path: Path) -> None:
    mean_ns = answer_in_json(cli, recording)["figures"]["steps.mean_ns"]
    other = tmp_path / "other.sqlite"
    other.write_bytes(recording.read_bytes())
    compared = cli(
        "compare", recording, other, "--format", "json", "--view", "page.html", "--plot", "one.svg"
    )
    figures = json.loads(compared.stdout)["figures"]
    assert figures["base.steps.mean_ns"] == figures["new.steps.mean_ns"] == pytest.approx(mean_ns, rel=1e-9)
    assert figures["change_percent"] == 0
    assert figures_of_page(tmp_path / "page.html") == figures_of_picture(tmp_path / "one.svg") == figures

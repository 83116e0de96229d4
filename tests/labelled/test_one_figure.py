"""The time of a step is one figure: on the screen, in JSON, Python, tables, on the page, in a comparison."""

from __future__ import annotations

import csv
import io
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Cli
from labels import HERE

from nsyswrap.analysis.compare.run_figures import run_figures
from nsyswrap.api import open_capture
from nsyswrap.base.units import duration

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


@pytest.mark.parametrize("name", NAMES)
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
    cli("view", recording, "-o", "page.html")
    page = (Path(recording).parent / "page.html").read_text(encoding="utf-8")
    for text in (cli("report", recording).stdout, page):
        assert each in text or mean in text

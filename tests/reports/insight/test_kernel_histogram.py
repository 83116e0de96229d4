import re
from pathlib import Path

import pytest
from recorded import PICTURED
from report_tables import csv_of
from tiny_export import kernel, nvtx, opened

from nsyswrap.api import open_capture
from nsyswrap.render.formats import text

REPORT = "kernel_histogram"
HEADER = "from_ns,to_ns,instances,instances_percent,total_ns,of_kernel_ns,name\n"


def test_classes_on_paper(tmp_path: Path) -> None:
    ends = (10, 15, 30, 0)
    rows = [*(kernel("a", 100 * i, 100 * i + ns) for i, ns in enumerate(ends)), kernel("b", 0, 99)]
    # three classes a decade, in whole ns: 10 to 21.5, 21.5 to 46.4; b has more time and a single duration
    assert csv_of(opened(tmp_path, *rows), REPORT) == (
        f"{HEADER}99,100,1,100.0,99,99,b\n0,1,1,25.0,0,55,a\n10,22,2,50.0,25,55,a\n22,47,1,25.0,30,55,a\n"
    )


def test_two_modes_that_differ_by_three_percent_are_two_classes(tmp_path: Path) -> None:
    rows = [kernel("a", 10_000 * i, 10_000 * i + (1000, 1030)[i % 2]) for i in range(20)]
    found = opened(tmp_path, *rows).report(REPORT).rows()
    assert [row[2] for row in found] == [10, 10]


@pytest.mark.parametrize(("longest", "ends"), [(15_000, 1259), (16_000, 2155)])
def test_a_kernel_has_at_most_thirteen_classes(tmp_path: Path, longest: int, ends: int) -> None:
    """Of 1 to 15 us ten classes a decade are twelve; of 1 to 16 us they could be fourteen: it has three."""
    rows = [kernel("a", 0, 1000), kernel("a", 20_000, 20_000 + longest)]
    first = opened(tmp_path, *rows).report(REPORT).rows()[0]
    assert first[:3] == (1000, ends, 1)


def test_a_selected_time_cuts_durations(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("a", 0, 100), kernel("a", 100, 130), nvtx("n", 90, 130))
    assert [row[2:5] for row in capture.select(nvtx="n").report(REPORT).rows()] == [(1, 50, 10), (1, 50, 30)]


def test_a_screen_has_bars(tmp_path: Path) -> None:
    rows = [kernel("a", 100 * i, 100 * i + 30) for i in range(3)] + [kernel("a", 400, 499)]
    (printed,) = text.render([opened(tmp_path, *rows).report(REPORT)]).values()
    assert [re.findall("[0-9.]+ █+", line) for line in printed.splitlines()[2:4]] == [
        [f"75.0 {'█' * 15}"],
        [f"25.0 {'█' * 5}"],
    ]


def test_a_recorded_capture_against_numpy() -> None:
    capture = open_capture(PICTURED)
    frame = capture.report(REPORT).frame
    kernels = capture.report("cuda_gpu_kern_sum").frame
    assert dict(frame.groupby("name").total_ns.sum()) == dict(
        zip(kernels.name, kernels.total_ns, strict=True)
    )
    trace = capture.report("cuda_gpu_trace").frame
    for name, mine in frame.groupby("name"):
        durations = trace[trace.name == name].duration_ns
        assert list(mine.instances) == [
            int(((durations >= low) & (durations < high)).sum())
            for low, high in zip(mine.from_ns, mine.to_ns, strict=True)
        ]
        assert len(mine) <= 13

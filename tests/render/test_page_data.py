"""The data of the page: bins add up, the right events are kept, and sums equal the reports."""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from recorded import run_folder
from tiny_export import call, kernel, memcpy, nvtx, opened, write

from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.render.page import render
from nsyswrap.render.page.html import Subject
from nsyswrap.render.page.sections import timeline
from nsyswrap.render.page.sections.tables import latencies
from nsyswrap.render.page.timeline import KeptEvents, density, level, pack
from nsyswrap.render.timeline.lanes import ranges_left_out, streams, threads

SPAN = st.tuples(st.integers(0, 1000), st.integers(0, 300), st.integers(0, 2))


def contents(page: str) -> list[dict[str, Any]]:
    """Return the data that the script of a page draws, with the columns and texts that it unpacks."""
    found = []
    for text in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page):
        content = json.loads(text)
        columns, texts = unpack(content)
        found.append({**content, **columns, **texts})
    return found


def unpack(content: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], Any]:
    """Return the columns and the texts of ``pack``, as the page's script does."""
    raw = zlib.decompress(base64.b64decode(content["packed"]), -15)
    columns, place = {}, 0
    for name, count, size, base, ascending in content["columns"]:
        planes = np.frombuffer(raw, np.uint8, count * size, place).reshape(size, count)
        place += count * size
        parts = (planes[i].astype(np.int64) << (8 * i) for i in range(size))
        values = base + sum(parts, np.zeros(count, int))
        columns[name] = np.cumsum(values) if ascending else values
    return columns, json.loads(raw[place:])


@given(st.lists(st.integers(-(2**52), 2**52), max_size=30), st.booleans())
def test_columns_come_back_as_they_were(values: list[int], ascending: bool) -> None:  # noqa: FBT001
    packed = pack({"a": np.array(values, np.int64), "b": np.arange(3)}, ["x"], frozenset("a" * ascending))
    columns, texts = unpack(packed)
    assert columns["a"].tolist() == values
    assert (columns["b"].tolist(), texts) == ([0, 1, 2], ["x"])


def test_a_bin_says_how_much_of_it_is_taken_and_what_begins_in_it() -> None:
    of = level(100, 140, 4)
    assert of == (100, 10, 4)
    start, end = np.array([100, 105, 118]), np.array([103, 125, 118])
    found = density(start, end, np.array([0, 1, 0]), 2, of)
    rows = zip(*(part.tolist() for part in found), strict=True)
    assert list(rows) == [(0, 0, 3, 1), (0, 1, 0, 1), (1, 0, 5, 1), (1, 1, 10, 0), (1, 2, 5, 0)]


@given(st.lists(SPAN, min_size=1, max_size=40), st.integers(1, 64))
def test_bins_of_the_whole_time_add_up(spans: list[tuple[int, int, int]], bins: int) -> None:
    start, length, series = (np.array(part) for part in zip(*spans, strict=True))
    end = start + length
    of = level(int(start.min()), int(end.max()), bins)
    assert of.bins <= bins
    assert of.end_ns >= end.max()
    found = density(start, end, series, 3, of)
    for number in range(3):
        mine = found.series == number
        assert found.taken_ns[mine].sum() == length[series == number].sum()
        inside = (series == number) & (start < of.end_ns)
        assert found.begun[mine].sum() == inside.sum()


@given(st.lists(SPAN, min_size=1, max_size=40), st.integers(0, 900), st.integers(1, 300))
def test_bins_of_a_part_hold_that_part(spans: list[tuple[int, int, int]], first: int, size: int) -> None:
    start, length, series = (np.array(part) for part in zip(*spans, strict=True))
    of = level(first, first + size, 7)
    found = density(start, start + length, series, 3, of)
    inside = np.clip(start + length, of.start_ns, of.end_ns) - np.clip(start, of.start_ns, of.end_ns)
    assert found.taken_ns.sum() == inside.sum()
    assert (found.taken_ns >= 0).all()


def lanes_of(capture: CaptureReader) -> dict[tuple[str, str], list[tuple[int, int, str]]]:
    return {
        (lane.group, lane.title): [
            (start, end, lane.names[name])
            for start, end, name in zip(
                lane.start_ns.tolist(), lane.end_ns.tolist(), lane.name.tolist(), strict=True
            )
        ]
        for lane in (*streams(capture), *threads(capture))
    }


def test_lanes_of_streams_and_threads(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        *(call("cudaLaunchKernel_v7000", 0, 10, 1), kernel("k", 20, 30, 1, streamId=7)),
        *(call("cuLaunchKernel", 1, 9, 1), call("cudaMemcpyAsync", 12, 15, 2)),
        memcpy(1, 40, 50, 8, correlationId=2, streamId=8),
        memcpy(11, 60, 70, 8, streamId=0, contextId=0),
        *(nvtx("outer", 0, 100), nvtx("inner", 0, 40), nvtx("next", 40, 50), nvtx("empty", 100, 100)),
        call("cudaFree", 20, 20, 3),
    )
    gpu, thread = "GPU 0", "thread 100"
    assert lanes_of(capture) == {
        (gpu, "stream 7"): [(20, 30, "k")],
        (gpu, "stream 8"): [(40, 50, "[CUDA memcpy Host-to-Device]")],
        (gpu, "unified memory"): [(60, 70, "[CUDA memcpy Unified Host-to-Device]")],
        (thread, "NVTX"): [(0, 100, "outer"), (100, 100, "empty")],
        (thread, "NVTX level 2"): [(0, 40, "inner"), (40, 50, "next")],
        (thread, "CUDA API"): [
            (0, 10, "cudaLaunchKernel"),
            (12, 15, "cudaMemcpyAsync"),
            (20, 20, "cudaFree"),
        ],
    }
    assert ranges_left_out(capture, threads(capture)) == 0


def test_ranges_that_have_no_lane_are_counted(tmp_path: Path) -> None:
    deep = [nvtx(f"level {i}", i, 100 - i) for i in range(15)]
    crossing = nvtx("crossing", 0, 5, endGlobalTid=1, eventType=60)
    capture = opened(tmp_path, *deep, crossing)
    assert ranges_left_out(capture, threads(capture)) == 3 + 1


def test_ranges_that_cross_do_not_overlap_in_their_lanes(tmp_path: Path) -> None:
    spans = [("run", 0, 100), ("a", 0, 40), ("hand a", 5, 45), ("b", 40, 90), ("in b", 50, 60)]
    every = lanes_of(opened(tmp_path, *(nvtx(*span) for span in spans)))
    assert sum(map(len, every.values())) == len(spans)
    for lane in every.values():
        assert all(before[1] <= after[0] for before, after in pairwise(lane))


def test_all_events_of_a_small_capture_are_kept(tmp_path: Path) -> None:
    capture = open_capture(run_folder("add2/both", tmp_path))
    [content] = contents(render({"both": capture}))
    assert content["levels"] == content["cells"] == []
    assert all(lane["kept"] == lane["count"] for lane in content["lanes"])
    assert sum(call >= 0 for call in content["call"]) == capture.count("kernel") + capture.count("memcpy")


def launched_kernels(tmp_path: Path, count: int = 400) -> CaptureReader:
    rows = []
    for i in range(count):
        begin = 1000 * i + (10**6 if i >= count // 2 else 0)  # a gap in the middle
        rows += [call("cudaLaunchKernel", begin, begin + 10, i), kernel("k", begin + 20, begin + 500 + i, i)]
    return opened(tmp_path, *rows)


def test_all_events_around_a_spot_are_kept_the_longest_and_their_launches(tmp_path: Path) -> None:
    capture = launched_kernels(tmp_path)
    lanes = [*streams(capture), *threads(capture)]
    kept = KeptEvents(lanes, [(1_100_000, 1_110_000)], 100)
    assert not kept.whole
    kernels, calls = kept.rows
    assert {399, 398, 390} <= set(kernels.tolist())  # the longest
    [(start, end)] = kept.windows  # wider than the spot, as there was room
    assert (start, end) < (1_100_000, end)
    for lane, rows in zip(lanes, kept.rows, strict=True):
        inside = np.flatnonzero((lane.start_ns < end) & (lane.end_ns > start))
        assert set(inside.tolist()) <= set(rows.tolist())
    assert 10 < len(kernels) + len(calls) <= 130
    assert set(kernels.tolist()) <= set(calls.tolist())


def test_a_spot_with_too_many_events_keeps_its_middle(tmp_path: Path) -> None:
    lanes = [*streams(launched_kernels(tmp_path))]
    [(start, end)] = KeptEvents(lanes, [(0, 199_000)], 100).windows
    assert 0 < start < 99_500 < end < 199_000


def test_many_events_add_up_in_bins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "_EVENTS", 1_000)
    count = 12_000
    rows = [kernel(f"gemm {i % 3}", 100 * i, 100 * i + 40, i) for i in range(count)]
    [content] = contents(render({"x": opened(tmp_path, *rows)}))
    first = 0
    begun: dict[str, int] = {}
    taken: dict[str, float] = {}
    for number, _, series, size in content["cells"]:
        part = slice(first, first := first + size)
        if number == 0:
            name = content["series"][series]["name"]
            begun[name] = int(content["begun"][part].sum())
            taken[name] = content["share"][part].sum() * content["levels"][0][1] / 1000
    assert begun["other products"] == count
    assert taken["other products"] == pytest.approx(40 * count, rel=0.01)
    assert content["length"] == 100 * (count - 1) + 40
    assert len(content["start"]) < count / 2


def test_bins_are_fine_where_the_page_opens_and_events_are_kept_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "_EVENTS", 100)
    [content] = contents(render({"x": launched_kernels(tmp_path)}))
    opens, end = content["opens"]
    assert 0 <= opens < end <= content["length"]
    assert content["why"] == "the chosen step"
    start, width, bins = content["levels"][-1]
    assert width <= 20_000
    assert start <= opens
    assert start + width * bins >= end
    assert any(first <= opens < end <= last for first, last in content["detail"])


def test_what_is_told_of_events_is_that_of_the_capture(tmp_path: Path) -> None:
    shape = {"gridX": 4, "gridY": 1, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1}
    more = {"registersPerThread": 32, "staticSharedMemory": 1000, "dynamicSharedMemory": 24}
    capture = opened(
        tmp_path,
        *(nvtx("step", 0, 100), call("cudaLaunchKernel", 1, 9, 1), call("cudaMemcpyAsync", 10, 12, 2)),
        *(kernel("k", 20, 30, 1, **shape, **more), memcpy(1, 40, 50, 80, correlationId=2)),
    )
    [content] = contents(render({"x": capture}))
    events = {content["names"][content["looks"][look][1]]: i for i, look in enumerate(content["look"])}
    i = events["k"]
    times = "\N{MULTIPLICATION SIGN}"
    shown = content["shapes"][content["shape"][i]]
    assert shown.startswith(
        f"grid 4 {times} 1 {times} 1, block 128 {times} 1 {times} 1, 32 registers per thread"
    )
    assert "1.02 kB shared memory" in shown
    assert content["paths"][content["path"][i]] == "step"
    assert (content["correlation"][i], content["bytes"][i]) == (1, 0)
    assert content["bytes"][events["[CUDA memcpy Host-to-Device]"]] == 80


def test_a_kernel_whose_launch_is_unknown_is_said_to_have_none(tmp_path: Path) -> None:
    [content] = contents(render({"x": opened(tmp_path, kernel("k", 20, 30, 1), call("cudaFree", 0, 10, 2))}))
    assert content["call"].tolist() == [-1, -1]


def test_latencies_are_those_of_the_report(tmp_path: Path) -> None:
    capture = open_capture(run_folder("add2/both", tmp_path))
    repeat, first = latencies(capture)
    table = capture.report("launch_overhead")
    assert len(repeat) == table.data["uncontended"][0]
    assert np.median(repeat) == table.data["latency_med_ns"][0]
    assert len(first) == 2 == table.data["first_launches"][0]


def test_latencies_of_nothing_or_one_have_a_histogram(tmp_path: Path) -> None:
    for latency_ns in (0, 1):
        folder = tmp_path / str(latency_ns)
        folder.mkdir()
        launch, start = call("cudaLaunchKernel", 0, 5, 1), latency_ns
        page = render({"x": opened(folder, launch, kernel("k", start, start + 9, 1))})
        assert "<h3>0 repeat launches, 1 first launch</h3>" in page
        ends = "0 ns to 1 ns" if latency_ns == 0 else "1 ns to 2 ns"
        assert f"<title>{ends}: 1 first launch</title>" in page


def test_a_report_is_made_once_and_what_is_missing_says_why(tmp_path: Path) -> None:
    subject = Subject({"x": open_capture(write(tmp_path / "x.sqlite", nvtx("step", 0, 5)))})
    assert subject.tables("diagnostics")["x"] is subject.tables("diagnostics")["x"]
    assert subject.table("cuda_gpu_kern_sum") is None
    assert "--trace cuda,nvtx" in subject.missing("cuda_gpu_kern_sum")[0]


def test_the_page_of_a_selection_holds_that(tmp_path: Path) -> None:
    rows = [kernel(f"k{i}", 1000 * i, 1000 * i + 500, i) for i in range(10)]
    page = render({"x": opened(tmp_path, *rows).select(time="2000ns/4600ns")})
    [content] = contents(page)
    assert [name for name in content["names"] if name[0] == "k"] == ["k2", "k3", "k4"]
    assert content["opens"] == [0, content["length"]]
    assert "Selected: " in page

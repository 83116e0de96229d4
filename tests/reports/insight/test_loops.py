from pathlib import Path

import pytest
from report_tables import records_of, table_of
from tiny_export import GRAPH, PID, Row, call, graph, kernel, nvtx, opened

from nsyswrap.analysis.answer import answer_of
from nsyswrap.api import CaptureReader
from nsyswrap.reports.answer.lines import loop_lines

DECODES = (9, 7, 8, 10, 5, 6, 12, 9, 11, 8, 7, 10)
DECODE, PREFILL = 1_000, 4_000  # ns
GPU_NS = 600 * sum(DECODES) + 3500 * len(DECODES)


# CPU   prefill[0 ...................... 4000) decode[4000 ......... 5000) decode[5000 ...
#          L[10,20) L[30,40)                      G[4010,4020)                G[5010,5020)
# GPU          a[100 . 1100) b[1100 . 3600)         graph[4100 . 4700)         graph[5100 . 5700)
def serving() -> list[Row]:
    """Return a server that reads prompts by two kernels, and then writes some tokens by a CUDA graph each."""
    rows: list[Row] = []
    now = number = 0
    for decodes in DECODES:
        rows += [nvtx("prefill", now, now + PREFILL)]
        for name, called, begin, end in (("a", 10, 100, 1100), ("b", 30, 1100, 3600)):
            number += 1
            rows.append(call("cudaLaunchKernel", now + called, now + called + 10, number))
            rows.append(kernel(name, now + begin, now + end, number))
        now += PREFILL
        for _ in range(decodes):
            number += 1
            rows += [nvtx("decode", now, now + DECODE)]
            rows.append(call("cudaGraphLaunch", now + 10, now + 20, number))
            rows.append(graph(now + 100, now + 700, number))
            now += DECODE
    return rows


def loops(capture: CaptureReader) -> dict[object, dict[str, object]]:
    return {one["loop"]: one for one in records_of(table_of(capture, "loops"))}


def test_prefill_and_decode(tmp_path: Path) -> None:
    capture = opened(tmp_path, *serving())
    found = loops(capture)
    assert list(found) == ["'decode'", "'prefill'", "launches of CUDA graphs", "outside the steps above"]
    decode, prefill, graphs, warm_up = found.values()
    assert decode == {
        "loop": "'decode'",
        "process_id": PID,
        "steps": sum(DECODES) - 1,  # the first is warm-up
        **dict.fromkeys(("avg_ns", "med_ns", "p99_ns"), DECODE),
        "gap_med_ns": 400,
        "gap_p99_ns": 300 + PREFILL + 100,  # a prompt is read between two tokens
        "busy_percent": 60,
        "outside_graphs_percent": 0,
        "gpu_time_percent": pytest.approx(100 * 600 * (sum(DECODES) - 1) / GPU_NS),
    }
    assert (prefill["steps"], prefill["med_ns"], prefill["outside_graphs_percent"]) == (
        len(DECODES),
        PREFILL,
        100,
    )
    between = sorted(400 + DECODE * many + 100 for many in DECODES[:-1])
    assert (prefill["gap_med_ns"], prefill["gap_p99_ns"]) == (between[len(between) // 2], between[-1])
    assert (graphs["steps"], graphs["med_ns"], graphs["gap_p99_ns"]) == (sum(DECODES), 600, 4400)
    assert warm_up["steps"] is None
    assert warm_up["gpu_time_percent"] == pytest.approx(100 * 600 / GPU_NS)
    [line] = loop_lines(answer_of(capture))
    assert str(line) == "Another loop: 12 x 'prefill', mean 4.00 µs (48.0 µs): GPU busy 88 % (-r loops)"


def test_the_closing_sentence_is_about_the_judged_loop(tmp_path: Path) -> None:
    """Though graphs are launched once more: in the warm-up step, too."""
    verdict = opened(tmp_path, *serving()).report("loops").verdict
    text = "steps of 'decode': the gap between two is 400 ns (median), at most 4.40 µs for 99 % of them."
    assert verdict == f"{sum(DECODES) - 1} {text}"


def test_it_names_steps_of_an_optimizer(tmp_path: Path) -> None:
    rows = []
    for number in range(1, 141):  # each twentieth kernel is an update; the others of a step come in no order
        name = "adam" if number % 20 == 0 else f"k{number * number % 7}"
        rows.append(call("cudaLaunchKernel", 1000 * number, 1000 * number + 10, number))
        rows.append(kernel(name, 1000 * number + 100, 1000 * number + 900, number))
    verdict = opened(tmp_path, *rows).report("loops").verdict
    assert verdict.startswith("6 optimizer steps: the gap between two is 200 ns (median)")


def test_without_a_judged_loop_it_is_about_launches_of_graphs(tmp_path: Path) -> None:
    rows = []
    for i in range(10):
        start = 1000 * 4**i  # the time of a step grows, so that none is judged
        rows.append(call("cudaGraphLaunch", start, start + 10, i + 1))
        rows.append(graph(start + 100, start + 700, i + 1))
    verdict = opened(tmp_path, *rows).report("loops").verdict
    assert verdict.startswith("10 launches of CUDA graphs: the gap between two is 767 µs (median)")


def test_a_capture_without_graphs_has_no_share_outside_of_them(tmp_path: Path) -> None:
    rows = [row for row in serving() if row.table != GRAPH]
    assert {one["outside_graphs_percent"] for one in loops(opened(tmp_path, *rows)).values()} == {None}


def test_threads_that_launch_graphs_at_the_same_time(tmp_path: Path) -> None:
    rows = []
    for start in range(0, 3000, 1000):
        for stream, until in ((7, 900), (8, 500)):
            number = start + stream
            rows.append(call("cudaGraphLaunch", start, start + 10, number, tid=stream))
            rows.append(graph(start + 100, start + until, number, streamId=stream))
    graphs = loops(opened(tmp_path, *rows))["launches of CUDA graphs"]
    assert (graphs["steps"], graphs["med_ns"], graphs["gap_p99_ns"]) == (6, 600, 200)

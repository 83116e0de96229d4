"""Captures of some hundred kB that would take minutes or gigabytes: an answer, or the reason why not."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tiny_export import Row, call, kernel, nvtx, opened

from nsyswrap.analysis.arrays.spans import Spans, closest, enclosures
from nsyswrap.analysis.correlation import launch_pairs_of
from nsyswrap.analysis.gpu_gaps import gaps_of
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.timing_audit import audit
from nsyswrap.base.errors import NotInCapture
from nsyswrap.render.timeline.lanes import disjoint
from nsyswrap.reports import find_report
from nsyswrap.reports.summary import summarize


def launches(
    count: int, *, processes: bool = False, devices: bool = False, threads: bool = False
) -> list[Row]:
    """Launch a kernel of 50 ns every 100 ns; each has its own process, device or calling thread if asked."""
    rows = []
    for i in range(count):
        pid = i + 1 if processes else 1
        rows.append(
            call("cudaLaunchKernel", 100 * i, 100 * i + 10, i + 1, pid=pid, tid=i + 1 if threads else pid)
        )
        rows.append(kernel("k", 100 * i + 20, 100 * i + 70, i + 1, pid=pid, deviceId=i if devices else 0))
    return rows


def test_operations_and_calls_with_one_correlation_id(tmp_path: Path) -> None:
    rows = [*(call("cudaLaunchKernel", i, i + 1, 7) for i in range(3_000))]
    rows += [kernel("k", 4_000 + i, 4_001 + i, 7) for i in range(3_000)]
    capture = opened(tmp_path, *rows)
    with pytest.raises(
        NotInCapture, match=r"KERNEL and API calls with the same correlationId: 9,000,000 pairs"
    ):
        launch_pairs_of(capture)


def test_spans_in_so_many_others_that_their_pairs_fill_the_memory() -> None:
    numbers = np.arange(4_300)
    deep = Spans(np.ones_like(numbers), numbers, 10_000 - numbers)
    crossing = deep._replace(end=10_000 + numbers)
    for pair, many in ((enclosures, deep), (partial(closest, distance=numbers), crossing)):
        with pytest.raises(NotInCapture, match=r"9,24\d,\d{3} pairs of 8,\d{3} events are too many"):
            pair(many, many)
    assert closest(deep, deep, deep.end).tolist() == numbers.tolist()


@pytest.mark.parametrize(
    ("processes", "reason"),
    [(256, ""), (257, "257 processes with GPU work: at most 256 are judged; select some with --process")],
)
def test_many_processes(tmp_path: Path, processes: int, reason: str) -> None:
    capture = opened(tmp_path, *launches(processes, processes=True))
    if not reason:
        assert len(judged_processes(capture)) == processes
        return
    with pytest.raises(NotInCapture) as error:
        judged_processes(capture)
    assert error.value.message == reason
    assert reason in " ".join(str(line).strip() for line in summarize(capture).lines)


def test_many_devices(tmp_path: Path) -> None:
    with pytest.raises(NotInCapture, match="1,025 pairs of a process and a GPU: at most 1,024 are judged"):
        gaps_of(opened(tmp_path, *launches(1_025, devices=True)))


def test_many_threads_with_ranges(tmp_path: Path) -> None:
    """Each thread with ranges would be compared with each thread with calls."""
    ranges = [
        nvtx(
            "step",
            100 * i,
            100 * i + 90,
            i + 1,
            globalTid=call("", 0, 1, pid=1, tid=i + 1).cells["globalTid"],
        )
        for i in range(1_025)
    ]
    capture = opened(tmp_path, *launches(1_025, threads=True), *ranges)
    with pytest.raises(NotInCapture, match="1,025 threads with NVTX ranges: at most 1,024 are judged"):
        audit(capture)
    assert "GPU" in str(summarize(capture))


@pytest.mark.parametrize(("threads", "said"), [(64, False), (65, True)])
def test_pairs_of_threads_that_are_not_compared(tmp_path: Path, threads: int, said: bool) -> None:  # noqa: FBT001 - a value of the table
    """64 threads with ranges and calls are 4,096 pairs."""
    rows = launches(threads, threads=True)
    ranges = [
        nvtx("step", 0, 99, globalTid=row.cells["globalTid"]) for row in rows if "globalTid" in row.cells
    ]
    table = find_report("timing_audit").make(opened(tmp_path, *rows, *ranges))
    assert any(note.startswith("more than 4,096 pairs of threads") for note in table.notes) == said


def test_bars_at_one_time_get_the_first_free_lanes() -> None:
    """Bars 0 to 9,999 last to time 1, 3, 5, ...; those from 10,000 on start when one of these ends."""
    count = 10_000
    start = np.concatenate((np.zeros(count, np.int64), 2 * np.arange(count) + 1))
    end = np.concatenate((2 * np.arange(count) + 1, np.full(count, 4 * count)))
    order = np.lexsort((-end, start))
    lanes = np.empty_like(start)
    lanes[order] = disjoint(start[order], end[order])
    assert lanes[:count].tolist() == list(range(count))[::-1]  # of equal starts the longest first
    assert lanes[count:].tolist() == list(range(count))[::-1]

"""A window of a large capture is judged by what lies near it, as it is judged in the whole."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import recorded
from click.testing import CliRunner
from conditioned import run_folder
from sampled import sampled
from table_folders import as_parquet
from tiny_export import PID, Row, allocation, call, diagnostic, global_id, kernel, memcpy, nvtx, row, write

from nsyswrap.analysis import nearby
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.program_language import framework_of, language_of
from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import RUN
from nsyswrap.capture import partial, sqlite_pages, stored_times
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import PAGEABLE, PINNED
from nsyswrap.capture.stream import BlockTimes
from nsyswrap.cli import cli

MS = 10**6


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[bool]:
    """Take small, new files for large ones. Return which windows were read with what lies near them alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(stored_times, "LARGE_LEAVES", 1)
    monkeypatch.setattr(stored_times, "_SETTLED_S", -60)
    monkeypatch.setattr(sqlite_pages, "FEW_LEAVES", 1)
    monkeypatch.setattr(nearby, "_LEAST_NS", MS)
    monkeypatch.setattr(nearby, "_MOST", 0.99)
    were_near: list[bool] = []
    near_window = nearby.near_window

    def noted(capture: Capture) -> Capture:
        found = near_window(capture)
        were_near.append(found is not capture)
        return found

    monkeypatch.setattr(nearby, "near_window", noted)
    return were_near


def windows(path: Path, count: int) -> list[str]:
    """Return options that select times with GPU work."""
    draw, start = random.Random(path.name), gpu_operations_of(open_capture(path)).start_ns  # noqa: S311
    found = []
    for _ in range(count):
        first, share = int(start[draw.randrange(len(start))]), draw.choice((0.002, 0.01, 0.05))
        found.append(f"--time={first}ns/{first + int((start[-1] - start[0]) * share)}ns")
    return found


def screen(path: Path, *selected: str) -> str:
    done = CliRunner().invoke(cli, ["report", str(path), *selected])
    assert done.exit_code == 0
    return done.output


OFTEN = {"add2/both", "gelu/compile", "graphs/nodes", "overlap/four_streams"}  # near what is recorded


@sampled("name", sorted({*recorded.capture_names()} - {"nvtx/host", "hybrid/threads"}), fast=recorded.DOZEN)
def test_the_screen_says_the_same(
    name: str, read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = recorded.run_folder(name, tmp_path)
    check(path, windows(path, 6), monkeypatch)
    if name in OFTEN:
        assert sum(read) >= 3


def check(path: Path, windows: list[str], monkeypatch: pytest.MonkeyPatch, *more: str) -> None:
    """Compare screens of windows with those that are judged in the whole, which also stores its facts."""
    options = [(one, *others) for one in windows for others in ((), *((other,) for other in more))]
    with monkeypatch.context() as without:
        without.setattr(nearby, "near_window", lambda capture: capture)
        expected = [screen(path, *one) for one in options]
    assert [screen(path, *one) for one in options] == expected


@pytest.mark.parametrize("selected", ["--nvtx=step/3", "--nvtx=step/2-4"])
def test_a_window_of_ranges(
    selected: str, read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [nvtx("step", n * MS, n * MS + 900_000) for n in range(40)]
    check(write(tmp_path / "c.sqlite", *launches(*ranges)), [selected], monkeypatch)
    assert read == [True]


COUNT, FIRST_ID, WINDOW = 4000, 10, "--time=20ms/20200us"


def context(pid: int = PID, device: int = 0) -> Row:
    return row("TARGET_INFO_CUDA_CONTEXT_INFO", processId=pid, deviceId=device)


def launches(*others: Row, skip: tuple[int, ...] = ()) -> list[Row]:
    """Return kernels of a name in ten, each 10 us after the one before and 3 us after its call."""
    rows = [context(), *others]
    for n in range(COUNT):
        start = 10_000 * n
        rows.append(call("cudaLaunchKernel", start, start + 2000, n + FIRST_ID))
        if n not in skip:
            rows.append(kernel(f"k{n % 10}", start + 3000, start + 8000, n + FIRST_ID))
    return rows


def replay(start: int, correlation: int, *nodes: int) -> list[Row]:
    """Return the launch of a graph, and kernels of it that start at these times."""
    parts = [kernel("node", at, at + 9, correlation, graphNodeId=(7 << 32) + n) for n, at in enumerate(nodes)]
    return [call("cudaGraphLaunch", start, start + 9, correlation), *parts]


IN, FAR = 20 * MS + 9000, 39 * MS  # in the window, where there is nothing else; far behind it
LATE = call("cudaLaunchKernel", IN, IN + 9, 9001)
EPOCHS = (nvtx("epoch", 100, FAR), nvtx("epoch", 200, FAR + 500))
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def other(start: int, correlation: int, name: str = "other", pid: int = PID, tid: int = 7) -> list[Row]:
    """Return a launch in another thread, and its kernel."""
    return [
        call("cudaLaunchKernel", start, start + 9, correlation, pid=pid, tid=tid),
        kernel(name, start + 20, start + 29, correlation, pid=pid),
    ]


def copies(start: int, kind: int) -> list[Row]:
    """Return a large copy to the GPU from memory of this kind."""
    begin, end = start + 8000, start + 108_000
    moved = memcpy(1, begin, end, 4 * 10**6, correlationId=start, srcKind=kind, dstKind=2, streamId=8)
    return [call("cudaMemcpyAsync", start, begin, start, tid=8), moved]


def timed(*others: Row) -> list[Row]:
    """Return ranges that synchronize after a launch; one of them begins before the window."""
    rows = list(others)
    for start in range(MS - 60_000, FAR, 100_000):
        rows += [
            nvtx("timed", start, start + 90_000, 11),
            call("cudaLaunchKernel", start + 100, start + 109, start, tid=11),
            kernel("measured", start + 41_000, start + 75_000, start, streamId=8),
            call("cudaDeviceSynchronize", start + 200, start + 80_000, 0, tid=11),
        ]
    return rows


EARLIER = (  # the second one begins in a range, and was launched long before; both end before the window
    call("cudaLaunchKernel", 100, 109, 1),
    call("cudaLaunchKernel", 200, 209, 2),
    kernel("slow", 15 * MS, 20 * MS - 60_000, 1, streamId=8),
    kernel("slow", 20 * MS - 59_000, 20 * MS - 20_000, 2, streamId=8),
)


def handed_on() -> list[Row]:
    """Return launches of a thread while another one waits in a range."""
    rows = []
    for start in range(103_000, FAR, 100_000):
        rows += [
            nvtx("step", start, start + 90_000, 12),
            call("cudaLaunchKernel", start + 2000, start + 2009, start, tid=13),
            kernel("k", start + 20_000, start + 100_000, start, streamId=8),
            call("cudaDeviceSynchronize", start + 85_000, start + 89_000, 0, tid=12),
        ]
    return rows


def trained(name: str) -> list[Row]:
    """Return steps of a thread that launches, hands on to a thread of this name, and waits for all."""
    rows = [context(), row("ThreadNames", nameId=name, priority=20, globalTid=global_id(PID, 13))]
    for start in range(103_000, FAR, 100_000):
        rows += [
            nvtx("step", start, start + 90_000, 12),
            call("cudaLaunchKernel", start + 2000, start + 2009, start, tid=12),
            kernel("forward", start + 3000, start + 9000, start),
            call("cudaLaunchKernel", start + 20_000, start + 20_009, start + 1, tid=13),
            kernel("backward", start + 21_000, start + 84_000, start + 1),
            call("cudaDeviceSynchronize", start + 60_000, start + 85_000, start + 2, tid=12),
        ]
    return rows


def allocated() -> list[Row]:
    """Return memory that nearly fills the GPU, allocated in a range."""
    size = 2**30
    return [
        row("TARGET_INFO_GPU", id=0, name="GPU", totalMemory=size),
        nvtx("weights", 5, 90),
        call("cudaMalloc", 10, 20, 9001),
        allocation(1, 15, size - 1, correlationId=9001),
    ]


def ran_out() -> list[Row]:
    """Return an allocation of PyTorch that fails, and succeeds much later."""
    return [
        *other(5, 9001, "void at::native::vectorized_elementwise_kernel<4>()"),
        call("cudaMalloc", IN, IN + 9, 9002, tid=7, returnValue=2),
        call("cudaFree", IN + 10, IN + 15, 9003, tid=7),
        call("cudaMalloc", FAR, FAR + 9, 9004, tid=7),
    ]


FORMATS = ("--format=json", "--format=brief", "--format=markdown")  # which have the answer, too
CASES = {
    "plain": (launches(), True),
    "a call that was captured into a graph": (
        launches(
            call("cudaStreamBeginCapture", 5, 9, 9001),
            call("cudaStreamEndCapture", FAR, FAR + 9, 9002),
            skip=(2001,),
        ),
        False,
    ),
    "a copy that started nothing": (launches(call("cudaMemcpyAsync", IN, IN + 9, 9001)), True),
    "a call from before the window whose kernel comes much later": (
        launches(call("cudaLaunchKernel", 20 * MS - 5, 20 * MS + 5, 9001), kernel("k", FAR, FAR + 9, 9001)),
        False,
    ),
    "a call whose kernel comes much later": (launches(LATE, kernel("k", FAR, FAR + 9, 9001)), False),
    "a kernel that was launched much earlier": (
        launches(call("cudaLaunchKernel", 5, 9, 9001), kernel("late", 20 * MS + 1, 20 * MS + 9, 9001)),
        False,
    ),
    "graphs": (
        launches(
            *replay(IN, 9001, IN + 20, IN + 30),
            *replay(IN + MS, 9002, IN + MS + 20, IN + MS + 30),
            *replay(FAR, 9003, FAR + 20),
        ),
        True,
    ),
    "graphs that were launched long before": (
        launches(
            *replay(5, 9001, 25, 35),
            *replay(IN, 9002, IN + 20, IN + 30),
            *replay(IN + MS, 9003, IN + MS + 20, IN + MS + 30),
        ),
        True,
    ),
    "a kernel that was launched long before": (
        launches(*other(5, 9001, tid=8), *other(IN, 9002, tid=1)),
        True,
    ),
    "a graph that is replayed far away alone": (
        launches(*replay(IN, 9001, IN + 20, IN + 30), *replay(FAR, 9002, FAR + 20, FAR + 30)),
        False,
    ),
    "a graph that ends much later": (
        launches(*replay(IN, 9001, IN + 20, FAR + 9), *replay(FAR, 9002, FAR + 20, FAR + 30)),
        False,
    ),
    "a graph with more and less nodes": (
        launches(*replay(IN, 9001, IN + 20), *replay(FAR, 9002, FAR + 20, FAR + 30)),
        False,
    ),
    "a range that reaches farther": (launches(EPOCHS[0]), True),
    "a range of several that reaches farther": (launches(*EPOCHS), False),
    "a call that began much earlier": (
        launches(call("cudaLaunchKernel", 5, IN, 9001), kernel("late", IN + 1, IN + 9, 9001)),
        False,
    ),
    "a thread that launched long before": (launches(*other(5, 9001), *other(IN, 9002)), False),
    "a thread that did not": (launches(*other(IN, 9002)), True),
    "a thread that waited long before": (
        launches(call("cudaDeviceSynchronize", 5, 9, 9001, tid=7), *other(IN, 9002)),
        False,
    ),
    "pageable copies": (launches(*copies(20 * MS, PAGEABLE), *copies(FAR, PINNED)), True),
    "a range that begins with earlier work": (launches(*timed(*EARLIER)), False),
    "a thread that another one starts": (launches(*handed_on()), False),
    "a thread of autograd": (trained("pt_autograd_0"), True),
    "a thread that could be started by another one": (trained("worker"), False),
    "memory near its limit": (launches(*allocated()), False),
    "memory that ran out": (launches(*ran_out()), False),
    "two processes": (launches(context(101), *other(IN - MS, 1, pid=101), *other(IN + MS, 2, pid=101)), True),
    "a process that was recorded at another time": (launches(context(101), *other(5, 1, pid=101)), False),
    "ranks": (launches(context(101), *other(IN - MS, 1, NCCL, 101), *other(IN + MS, 2, NCCL, 101)), False),
    "nothing for long before": (launches(skip=tuple(range(100, 2001))), False),
    "nothing for long afterwards": (launches(skip=tuple(range(2010, 3900))), False),
    "a kernel without a call": (
        launches(kernel("k", IN, IN + 9, 9001), call("cudaFree", IN + MS, IN + MS + 9, 9002)),
        True,
    ),
    "a kernel whose call would be the last one": (launches(kernel("k", IN, IN + 9, 9001)), False),
    "a GPU that was used at another time": (
        launches(
            context(device=1),
            call("cudaLaunchKernel", FAR, FAR + 9, 9001),
            kernel("k", FAR + 9, FAR + 20, 9001, deviceId=1),
        ),
        False,
    ),
    "lost events": (launches(diagnostic("Not all CUDA events might have been collected.")), False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_lies_far_away_is_read_where_it_matters(
    case: str, read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, is_near = CASES[case]
    check(write(tmp_path / "c.sqlite", *rows), [WINDOW], monkeypatch, "--advice", *FORMATS)
    assert set(read) == {is_near}


def test_a_screen_that_is_refused_says_why(
    read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "c.sqlite", *launches())
    check(path, [WINDOW], monkeypatch)
    assert "no NVTX events in this capture" in screen(path, WINDOW, "--nvtx-names")
    assert read == [True, False]


def test_a_selection_without_work_says_where_there_is_some(
    read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = *other(IN - MS, 1, pid=101), *other(IN + MS, 2, pid=101)
    path = write(tmp_path / "c.sqlite", *launches(context(101), *others))
    check(path, [WINDOW], monkeypatch)
    selected = (WINDOW, "--process=101", "--advice")
    assert "has GPU work from 3.00 µs to 40.0 ms" in screen(path, *selected)
    assert read == [True, False]


def test_a_folder_of_tables(read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_parquet(write(tmp_path / "c.sqlite", *launches()), tmp_path / "tables")
    check(path, [WINDOW], monkeypatch, "--advice")
    assert read == [True, True]


def test_a_process_that_did_little_is_not_missing(
    read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(tmp_path / "run", launches(call("cudaMalloc", 5, 9, 9001, pid=55)), None, None)
    user = {"pid": 55, "name": "worker", "parent": 1, "forked": False}
    (folder / RUN).write_text(json.dumps({"gpu_processes": [user]}), encoding="utf-8")
    check(folder, [WINDOW], monkeypatch)
    assert read == [True]


def test_where_threads_meet_it_is_not_tried_again(
    read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [nvtx("step", n * MS, n * MS + 900_000) for n in range(40)]
    path = write(tmp_path / "c.sqlite", *launches(*ranges, *other(IN, 9001), *other(FAR, 9002)))
    tried: list[Capture] = []
    judged = nearby._judged_time  # noqa: SLF001

    def noted(near: Capture) -> tuple[int, int]:
        tried.append(near)
        return judged(near)

    monkeypatch.setattr(nearby, "_judged_time", noted)
    check(path, ["--time=20ms/21500us"], monkeypatch)
    assert (read, len(tried)) == ([False], 1)


def test_the_language_is_that_of_all_kernels(read: list[bool], tmp_path: Path) -> None:
    far = other(FAR, 9001, "void at::native::vectorized_elementwise_kernel<4>()", tid=1)
    path = write(tmp_path / "c.sqlite", *launches(*far))
    near = nearby.near_window(open_capture(path).select(time=WINDOW.removeprefix("--time=")))
    assert read == [True]
    assert (framework_of(near.whole), language_of(near.whole)) == ("pytorch", "pytorch")


def test_what_lies_beyond_is_the_rest(read: list[bool], tmp_path: Path) -> None:
    path = write(tmp_path / "c.sqlite", *launches(*other(5, 9001, tid=1)))
    near = nearby.near_window(open_capture(path).select(time=WINDOW.removeprefix("--time="))).whole
    here = near.columns("kernel", "start_ns")["start_ns"].tolist()
    before, after = (
        [
            start
            for block in near.beyond("kernel", "start_ns", later=later)
            for start in block["start_ns"].tolist()
        ]
        for later in (False, True)
    )
    every = near.recorded.columns("kernel", "start_ns")["start_ns"].tolist()
    assert read == [True]
    assert (len(before), len(here), len(after)) == (1901, 220, 1880)
    assert sorted(before + here + after) == sorted(every)


def test_blocks_beyond_a_time_come_from_near_to_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "_FIRST_BLOCKS", 1)
    capture = open_capture(write(tmp_path / "c.sqlite", *launches()))
    count, first, last = np.full(4, 2), np.array([0, 10, 5, 30]), np.array([9, 19, 12, 39])
    partial._KNOWN[capture.original] = {"KERNEL": BlockTimes(count, first, last)}  # noqa: SLF001
    rows = {
        later: [block.tolist() for block in partial.rows_beyond(capture.original, "KERNEL", 15, later=later)]
        for later in (False, True)
    }
    assert rows == {False: [[2, 3], [0, 1, 4, 5]], True: [[2, 3], [6, 7]]}

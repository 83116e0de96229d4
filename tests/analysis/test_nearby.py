"""A window of a large capture is judged by what lies near it, as it is judged in the whole."""

import random
from pathlib import Path

import pytest
import recorded
from click.testing import CliRunner
from sampled import sampled
from tiny_export import PID, Row, call, diagnostic, kernel, nvtx, write

from nsyswrap.analysis import nearby
from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.api import open_capture
from nsyswrap.capture import sqlite_pages, stored_times
from nsyswrap.capture.capture import Capture
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
    monkeypatch.setattr(nearby, "_MOST", 1.0)
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


def check(path: Path, options: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare screens of windows with those that are judged in the whole, which also stores its facts."""
    with monkeypatch.context() as without:
        without.setattr(nearby, "near_window", lambda capture: capture)
        expected = [screen(path, one) for one in options]
    assert [screen(path, one) for one in options] == expected


@pytest.mark.parametrize("selected", ["--nvtx=step/3", "--nvtx=step/2-4"])
def test_a_window_of_ranges(
    selected: str, read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = [nvtx("step", n * MS, n * MS + 900_000) for n in range(40)]
    check(write(tmp_path / "c.sqlite", *launches(*ranges)), [selected], monkeypatch)
    assert read == [True]


COUNT, WINDOW = 4000, "--time=20ms/20200us"


def launches(*others: Row, skip: tuple[int, ...] = ()) -> list[Row]:
    """Return kernels of a name in ten, each 10 us after the one before and 3 us after its call."""
    rows = list(others)
    for n in range(COUNT):
        start = 10_000 * n
        rows.append(call("cudaLaunchKernel", start, start + 2000, n + 1))
        if n not in skip:
            rows.append(kernel(f"k{n % 10}", start + 3000, start + 8000, n + 1))
    return rows


def replay(start: int, correlation: int, *nodes: int) -> list[Row]:
    """Return the launch of a graph, and kernels of it that start at these times."""
    parts = [kernel("node", at, at + 9, correlation, graphNodeId=(7 << 32) + n) for n, at in enumerate(nodes)]
    return [call("cudaGraphLaunch", start, start + 9, correlation), *parts]


IN, FAR = 20 * MS + 9000, 39 * MS  # in the window, where there is nothing else; far behind it
LATE = call("cudaLaunchKernel", IN, IN + 9, 9001)
EPOCHS = (nvtx("epoch", 100, FAR), nvtx("epoch", FAR + 100, FAR + 500))
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def other(start: int, correlation: int, name: str = "other", pid: int = PID, tid: int = 7) -> list[Row]:
    """Return a launch in another thread, and its kernel."""
    return [
        call("cudaLaunchKernel", start, start + 9, correlation, pid=pid, tid=tid),
        kernel(name, start + 20, start + 29, correlation, pid=pid),
    ]


CASES = {
    "plain": (launches(), True),
    "a call that started nothing": (launches(skip=(2001,)), True),
    "a call whose kernel comes much later": (launches(LATE, kernel("k", FAR, FAR + 9, 9001)), False),
    "a kernel that was launched much earlier": (
        launches(call("cudaLaunchKernel", 5, 9, 9001), kernel("late", 20 * MS + 1, 20 * MS + 9, 9001)),
        False,
    ),
    "graphs": (launches(*replay(IN, 9001, IN + 20, IN + 30), *replay(FAR, 9002, FAR + 20, FAR + 30)), True),
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
    "two processes": (launches(*other(IN - MS, 1, pid=101), *other(IN + MS, 2, pid=101)), True),
    "ranks": (launches(*other(IN - MS, 1, NCCL, 101), *other(IN + MS, 2, NCCL, 101)), False),
    "nothing for long before": (launches(skip=tuple(range(100, 2001))), False),
    "nothing for long afterwards": (launches(skip=tuple(range(2010, 3900))), False),
    "a kernel without a call": (launches(kernel("k", 20 * MS + 1, 20 * MS + 9, 9001)), True),
    "a GPU that was used at another time": (
        launches(
            call("cudaLaunchKernel", FAR, FAR + 9, 9001), kernel("k", FAR + 9, FAR + 20, 9001, deviceId=1)
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
    check(write(tmp_path / "c.sqlite", *rows), [WINDOW], monkeypatch)
    assert read == [is_near]


def test_the_advice_on_it_is_the_same(
    read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "c.sqlite", *launches())
    screen(path)
    with monkeypatch.context() as without:
        without.setattr(nearby, "near_window", lambda capture: capture)
        expected = screen(path, WINDOW, "--advice")
    assert screen(path, WINDOW, "--advice") == expected
    assert read == [False, True]


@pytest.mark.parametrize("content", [b"", b"no JSON", b"[]", b"null", b"[1, 2, 3, 4, 5, 6, 7, 8, 9]"])
def test_damaged_facts_are_not_used(
    content: bytes, read: list[bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "c.sqlite", *launches())
    screen(path)
    with monkeypatch.context() as damaged:
        damaged.setattr(stored_times.StoredFile, "read", lambda _: content)
        assert "k1" in screen(path, WINDOW)
    assert "k1" in screen(path, WINDOW)
    assert read == [False, False, True]

"""What each process of a program does, told by its ranges and its GPU work."""

from pathlib import Path

from tiny_export import Row, call, global_id, kernel, nvtx, opened, row

from nsyswrap.analysis.answer import answer_of
from nsyswrap.reports.answer import answer_lines

PARENT, *WORKERS = 200, 201, 202


def ranges(pid: int, *names: str) -> list[Row]:
    """Ranges of 100 ns, one after another, each with one of 50 ns inside."""
    spans = [(name, 100 * number, 100 * number + 100) for number, name in enumerate(names)]
    spans += [("inner", start, start + 50) for _, start, _ in spans]
    return [nvtx(name, start, end, globalTid=global_id(pid, pid)) for name, start, end in spans]


def work(pid: int, number: int) -> list[Row]:
    return [
        call("cudaLaunchKernel", 10, 20, number, globalTid=global_id(pid, pid)),
        kernel("k", 30, 80, number, globalPid=global_id(pid)),
    ]


def lines(folder: Path, *rows: Row) -> list[str]:
    capture = opened(folder, *rows)
    return [str(line) for line in answer_lines(capture, answer_of(capture)) if "rocess" in str(line)]


def test_workers_and_a_parent_that_coordinates(tmp_path: Path) -> None:
    rows = [
        *ranges(PARENT, "hand out"),
        row("PROCESSES", globalPid=global_id(PARENT), pid=PARENT, name="/bin/main"),
    ]
    for number, worker in enumerate(WORKERS):
        rows += [*ranges(worker, f"worker {number}", "load"), *work(worker, number + 1)]
    assert lines(tmp_path, *rows)[-3:-1] == [
        "Process 200 (main): no GPU work, hand out 100 ns",
        "Processes 201, 202: GPU work 100 ns, load 200 ns, worker * 200 ns",
    ]


def test_without_gpu_work(tmp_path: Path) -> None:
    rows = [
        *ranges(PARENT, "train"),
        *(one for worker in range(300, 340) for one in ranges(worker, "decode")),
    ]
    assert lines(tmp_path, *rows) == [
        "Process 200: train 100 ns",
        "Processes 300, 301, 302, 303, 304, …: decode 4.00 µs",
    ]


def test_processes_that_do_the_same_have_no_line(tmp_path: Path) -> None:
    rows = [
        one for n, worker in enumerate(WORKERS) for one in (*ranges(worker, "step"), *work(worker, n + 1))
    ]
    assert not [line for line in lines(tmp_path, *rows) if line.startswith("Process")]


def test_a_process_whose_ranges_take_no_time_does_nothing(tmp_path: Path) -> None:
    empty = nvtx("mark", 10, 10, globalTid=global_id(PARENT, PARENT))
    rows = [empty, *(one for worker in WORKERS for one in ranges(worker, f"load {'ab'[worker % 2]}"))]
    assert lines(tmp_path, *rows) == ["Process 201: load b 100 ns", "Process 202: load a 100 ns"]
    (tmp_path / "one").mkdir()
    assert not lines(tmp_path / "one", empty, *ranges(WORKERS[0], "load"))


def test_ranges_without_a_name(tmp_path: Path) -> None:
    unnamed = nvtx(None, 0, 50, globalTid=global_id(PARENT, PARENT))
    rows = [unnamed, *ranges(WORKERS[0], "load"), *work(WORKERS[0], 1)]
    assert lines(tmp_path, *rows)[0] == "Process 200: no GPU work, (no name) 50 ns"

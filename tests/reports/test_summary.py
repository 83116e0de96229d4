"""The summary screen: what ran, whether to trust it, and the tables, on one screen."""

import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Cli
from rich.cells import cell_len
from tiny_export import GRAPH, Row, call, diagnostic, kernel, memcpy, memset, nvtx, opened, row, write

from nsyswrap import open_capture
from nsyswrap.analysis.no_gpu_work import has_gpu_work, no_gpu_work
from nsyswrap.api import CaptureReader
from nsyswrap.render import summary_screen as screen
from nsyswrap.reports.summary import summarize
from nsyswrap.reports.wording.checks import worded

PUBLIC = Path(__file__).resolve().parents[3] / "shared" / "exports"
RECORDED = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded"
EXPORTS = [*sorted(RECORDED.glob("*/*/report.sqlite")), *sorted(PUBLIC.glob("*.sqlite"))]


def screen_of(capture: CaptureReader, width: int = 100, **options: Any) -> list[str]:
    return screen.render(summarize(capture, **options), width=width).splitlines()


def graph(start: int) -> Row:
    return row(GRAPH, start=start, end=start + 5, deviceId=0, streamId=7, correlationId=1, globalPid=1)


def busy(folder: Path) -> CaptureReader:
    """More of everything than a screen holds."""
    names = [f"void kernel_{'x' * 90}<{i}>(漢字, [red]float *[/])" for i in range(60)]
    kernels = [kernel(name, 20, 30 + i, i) for i, name in enumerate(names)]
    calls = [call(f"cudaCall{i}", 0, 10 + i, i) for i in range(60)]
    copies = [memcpy(kind, 0, 10, 10**kind) for kind in range(1, 14)]
    warnings = [diagnostic(f"Dropped {i} events " + "because " * 30) for i in range(9)]
    said = [
        row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="/usr/bin/" + "漢" * 200),
        *(row("TARGET_INFO_GPU", id=i, name=f"NVIDIA {'GPU' * 9} {i % 2}") for i in range(8)),
    ]
    return opened(folder, *kernels, *calls, *copies, memset(0, 1, 1), graph(0), *warnings, *said)


def test_the_screen_is_short_and_no_wider_than_asked(tmp_path: Path) -> None:
    capture = busy(tmp_path)
    assert len(screen_of(capture)) <= 55
    for width in range(40, 201, 5):
        assert max(map(cell_len, screen_of(capture, width))) <= width, width


@pytest.mark.parametrize("export", EXPORTS, ids=[f"{path.parent.name}-{path.stem}" for path in EXPORTS])
def test_the_screen_of_a_real_capture(export: Path) -> None:
    lines = screen_of(open_capture(export))
    assert 2 <= len(lines) <= 55
    assert max(map(cell_len, lines)) <= 100
    assert any(re.match(r"[\d,]+ kernels?\b.*; ", line) for line in lines)
    assert "\x1b" not in "".join(lines)


def test_the_tables_that_the_capture_can_answer(tmp_path: Path) -> None:
    full = opened(tmp_path, kernel("k", 20, 30, 1), call("f", 0, 10, 1), memcpy(1, 0, 5, 8))
    (tmp_path / "part").mkdir()
    part = opened(tmp_path / "part", memcpy(1, 0, 5, 8))
    names = ["cuda_gpu_sum", "memcpy_bandwidth", "launch_overhead", "cuda_api_sum"]
    assert [table.schema.name for table, _ in summarize(full).tables] == names
    assert [table.schema.name for table, _ in summarize(part).tables] == names[:2]


def test_each_table_shows_a_number_of_rows(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(kernel(f"k{i}", 0, i + 1) for i in range(30)))
    assert sum("  k" in line for line in screen_of(capture)) == 5
    assert sum("  k" in line for line in screen_of(capture, sections=[("cuda_gpu_sum", 3)])) == 3
    assert "CUDA GPU Summary (Kernels/MemOps)  cuda_gpu_sum, 5 of 30 rows" in screen_of(capture)


def test_a_warning_that_is_just_as_wide_as_the_screen_is_whole(tmp_path: Path) -> None:
    capture = opened(tmp_path, kernel("k", 0, 5), diagnostic("x" * 52), diagnostic("y" * 53))
    lines = screen_of(capture, 60)
    assert "  nsys: " + "x" * 52 in lines
    assert "  nsys: " + "y" * 51 + "…" in lines


def test_what_moves_the_cursor_is_written_as_an_escape(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202eevil"
    capture = opened(
        tmp_path,
        kernel("k", 0, 5),
        diagnostic(evil),
        row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value=f"/bin/{evil}"),
        row("TARGET_INFO_GPU", id=0, name=evil),
    )
    content = "\n".join(screen_of(capture))
    assert "\x1b" not in content
    assert "\u202e" not in content
    assert content.count(r"\x1b[2J\u202eevil") == 3


def test_where_it_ran(tmp_path: Path) -> None:
    summary = summarize(
        opened(
            tmp_path,
            kernel("k", 0, 5, deviceId=1),
            *(row("TARGET_INFO_GPU", id=i, name="NVIDIA H200") for i in range(4)),
            row("META_DATA_CAPTURE", name="PROCESS_0:COMMAND", value="/opt/env/bin/python"),
            row("META_DATA_CAPTURE", name="PROCESS_0:ARGUMENT_0", value="a file.py"),
            row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2025.3.2.0"),
        )
    )
    assert summary.command == "python 'a file.py'"
    assert summary.origin == "1 of 4 x NVIDIA H200 · nsys 2025.3.2.0"


@pytest.mark.parametrize(
    ("gpus", "used", "said"),
    [
        (["A"], [0], "A"),
        (["A", "A"], [0, 1], "2 x A"),
        (["A", "A"], [1], "1 of 2 x A"),
        (["A", "B"], [0, 1], "A + B"),
        (["A", "B", "B"], [2], "1 of 3 GPUs: A + 2 x B"),
        (["A", "A"], [], "2 x A"),
        (["A", "A"], [0, 0], "2 x A"),  # of two processes: it may be both
    ],
)
def test_how_many_gpus_did_something(tmp_path: Path, gpus: list[str], used: list[int], said: str) -> None:
    named = [row("TARGET_INFO_GPU", id=i, name=name) for i, name in enumerate(gpus)]
    work = [
        kernel("k", 0, 5, deviceId=device, pid=100 + used[:i].count(device)) for i, device in enumerate(used)
    ]
    work = work or [nvtx("step", 0, 5)]
    assert summarize(opened(tmp_path, *named, *work)).origin == f"{said} · nsys before 2022"


def test_an_old_export_says_little(tmp_path: Path) -> None:
    summary = summarize(opened(tmp_path, kernel("k", 0, 5)))
    assert (summary.command, summary.origin) == ("", "GPU unknown · nsys before 2022")


def test_without_gpu_work_the_other_causes_are_named_on_stderr(tmp_path: Path, cli: Cli) -> None:
    done = cli("report", write(tmp_path / "x.sqlite", nvtx("step", 0, 5)))
    assert done.returncode == 0
    assert done.stdout.startswith("No GPU work: nsys recorded no CUDA call")
    assert "Other likely causes:\n  - possibly the work was in workers that were forked" in done.stderr
    assert "recorded no CUDA call" not in done.stderr  # said once


@pytest.mark.parametrize(
    ("rows", "run", "first"),
    [
        (
            [nvtx("a", 0, 5)],
            {"gpu_error": "no driver"},
            "this machine has no usable GPU: no driver; record where a GPU is, or see nsyswrap demo",
        ),
        (
            [nvtx("a", 0, 5)],
            {"nsys": {"trace": "nvtx"}},
            "CUDA was not traced: --trace=nvtx; use nsyswrap profile --trace cuda,nvtx",
        ),
        ([nvtx("a", 0, 5)], {}, "nsys recorded no CUDA call"),
        ([call("cudaFree", 0, 5)], {}, "nsys recorded 1 CUDA API call, but no launch"),
        (
            [nvtx("a", 0, 5)],
            {"nsys": {"trace": "cuda", "capture_range": "nvtx:x"}},
            (
                "the capture range nvtx:x was open for an unknown time, and no launch was recorded in it; "
                "open the range before the GPU work and close it after a synchronization"
            ),
        ),
        (
            [
                row("META_DATA_EXPORT", name="EXPORT_PRODUCT_VERSION", value="2024.5.1.113"),
                row("TARGET_INFO_SYSTEM_ENV", name="CudaDriverVersion", value="13000"),
            ],
            {},
            "possibly nsys 2024.5.1.113 is too old for CUDA 13.0; record with nsys 2025.3 or newer",
        ),
    ],
    ids=["no GPU", "not traced", "no call", "no work", "range", "old nsys"],
)
def test_the_likeliest_cause_comes_first(
    tmp_path: Path, rows: list[Row], run: dict[str, Any], first: str
) -> None:
    capture = opened(tmp_path, *rows)
    assert not has_gpu_work(capture)
    assert str(worded(no_gpu_work(capture, run)[first.startswith("possibly")])) == first  # a fact comes first

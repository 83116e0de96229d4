"""`print(table)`, `repr(capture)` and `repr(run)`: what Python shows of them, cheap and without an error."""

from pathlib import Path

import pytest
from recorded import run_folder
from tiny_export import kernel, opened, write

from nsyswrap.api import CaptureReader, Run, open_capture
from nsyswrap.base.run_folder import Status
from nsyswrap.render import notebook


@pytest.fixture
def capture(tmp_path: Path) -> CaptureReader:
    return opened(tmp_path, *(kernel(f"k{i:02}", 100 * i, 100 * i + 50 - i) for i in range(22)))


def test_a_table_shows_its_first_rows(capture: CaptureReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    table = capture.report("cuda_gpu_kern_sum")
    title, head, first, *rows, left_out = str(table).splitlines()
    assert title == "CUDA GPU Kernel Summary  cuda_gpu_kern_sum"
    assert head.endswith("  Name")
    # 50 + 49 + ... + 29 = 869 ns; the longest has 50, 5.8 %.
    assert (first.split()[:3], first.split()[-1]) == (["5.8", "50", "ns"], "k00")
    assert len(rows) == 19
    assert left_out.startswith("… 2 more rows (.frame has all)")
    assert max(map(len, str(table).splitlines())) <= 80
    assert repr(table) == str(table)


def test_the_notes_of_a_table_are_under_it(capture: CaptureReader) -> None:
    table = capture.select(time="1s/2s").report("cuda_gpu_kern_sum")
    assert str(table).splitlines()[-1] == "note: no events in the selection"


def test_findings_are_paragraphs(tmp_path: Path) -> None:
    table = open_capture(run_folder("add/grid", tmp_path)).report("advice")
    assert str(table).splitlines()[2].startswith("1. ")


def test_a_capture_is_one_line(capture: CaptureReader) -> None:
    # 869 ns of the 2129 from the start of the first kernel to the end of the last: 40.8 %.
    line = f"<Capture {capture.source}: 22 kernels, GPU busy 40.8 % of the whole capture>"
    assert repr(capture) == line


def test_a_capture_names_program_and_gpu(tmp_path: Path) -> None:
    text = repr(open_capture(run_folder("add/grid", tmp_path)))
    assert "python3 add.py" in text
    assert ", NVIDIA H200, 1 kernel, GPU busy " in text


def test_a_large_capture_is_not_judged(capture: CaptureReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "_MOST_EVENTS", 21)
    assert repr(capture).endswith(": 22 kernels, GPU busy: see .answer>")


def test_a_damaged_capture_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", *(kernel(f"k{i}", i, i + 1) for i in range(5_000)))
    capture = open_capture(path)
    path.write_bytes(path.read_bytes()[:4096].ljust(path.stat().st_size, b"x"))
    assert repr(capture).startswith(f"<Capture {path}: cannot be shown: ")


def test_names_have_no_control_characters(tmp_path: Path) -> None:
    path = write(tmp_path / "x\x1b[2A\n.sqlite", kernel("k\x1b[2A\n", 0, 5))
    capture = open_capture(path)
    for text in (repr(capture), repr(capture.report("cuda_gpu_kern_sum"))):
        assert "\x1b" not in text
    assert "\n" not in repr(capture)
    assert r"k\x1b[2A\n" in repr(capture.report("cuda_gpu_kern_sum"))


def test_a_run_is_one_line() -> None:
    assert repr(Run(Path("runs/a"), Status("done", 0, 0, 0))) == "<Run runs/a: done>"
    failed = Status("program_failed", 3, 0, 3, "the program ended with code 3")
    assert repr(Run(Path("runs/a"), failed)) == "<Run runs/a: program_failed: the program ended with code 3>"


def test_a_with_block(tmp_path: Path) -> None:
    with open_capture(write(tmp_path / "x.sqlite", kernel("k", 0, 5))) as capture:
        table = capture.report("cuda_gpu_kern_sum")
    assert list(table.frame["name"]) == ["k"]
    assert capture.report("cuda_gpu_kern_sum").frame.equals(table.frame)

"""When no verdict is given: the times of a capture contradict each other."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tiny_export import Row, call, changed, diagnostic, kernel, memcpy, nvtx, opened

from nsyswrap.analysis.answer import answer_of
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.api import CaptureReader
from nsyswrap.render.page import render
from nsyswrap.reports.answer import answer_lines, as_dict
from nsyswrap.reports.wording.advice import words


def test_operations_that_end_before_they_start_withhold_the_verdict(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaLaunchKernel", 0, 5, 1), kernel("k", 50, 20, 1), kernel("k", 60, 90))
    answer = answer_of(capture)
    assert answer.withheld is not None
    assert answer.withheld.kind == "operations_end_early"
    assert answer.withheld.numbers == {"backwards": 1, "operations": 2}
    assert answer.findings == ()
    assert f"no verdict: {words(answer.withheld).what}" in capture.report("advice").notes


def test_a_window_without_a_launch_of_its_own_has_no_figures_of_launches(tmp_path: Path) -> None:
    # The call returned as the window begins, and the launch was on its way to the GPU until 120.
    starts = (0, 100, 200)
    rows = [call("cudaLaunchKernel", at + 5, at + 10, at + 1) for at in starts]
    rows += [kernel("k", at + 20, at + 50, at + 1) for at in starts]
    findings = answer_of(opened(tmp_path, *rows).select(time="110ns/190ns", clip=True)).findings
    assert [finding.kind for finding in findings if "nan" in words(finding).what] == []
    assert "idle_launch" in {finding.kind for finding in findings}


STOPPED = "Not all CUDA events might have been collected."
BEGAN = "Process was launched by the profiler, see /tmp/stdout.log for program output"


def recorded(folder: Path, launches: int, kernels: int, *more: Row, lost: int | None = None) -> CaptureReader:
    """Return a recording of a program that went on: nsys has no kernels of the last launches.

    Nor has it that of launch ``lost``.
    """
    rows = [call("cudaLaunchKernel", 100 * n, 100 * n + 5, n + 1) for n in range(launches)]
    rows += [kernel("k", 100 * n + 20, 100 * n + 60, n + 1) for n in range(kernels) if n != lost]
    given = (
        "Number of CUPTI events produced: 400, CUPTI buffers: 49 of 50. Some CUPTI events might be missing."
    )
    said = (f"Number of CUDA events collected: {len(rows)}.", given)
    rows += [diagnostic(STOPPED), *(diagnostic(text, severity=1) for text in said), *more]
    return opened(folder, *rows, changed(diagnostic(BEGAN, severity=1), timestamp=-1_000_000_000))


def test_a_recording_of_a_program_at_work_has_a_verdict(tmp_path: Path) -> None:
    answer = answer_of(recorded(tmp_path, 200, 199))
    assert answer.withheld is None
    [doubt] = [finding for finding in answer.findings if finding.kind == "lost_events"]
    assert words(doubt).heading == "Cut off at its end"


def test_work_that_is_missing_before_the_end_is_no_cut(tmp_path: Path) -> None:
    answer = answer_of(recorded(tmp_path, 200, 200, lost=50))
    [doubt] = [finding for finding in answer.findings if finding.kind == "lost_events"]
    assert words(doubt).heading == "Events are missing from this capture"


@pytest.mark.parametrize(
    ("kernels", "more"),
    [
        (190, ()),
        (199, (diagnostic("Dropped 12 events", severity=3),)),
        (
            198,
            (diagnostic("Number of CUDA events collected: 1.", severity=1),),
        ),  # by a process that was killed
        (199, (diagnostic("Number of incomplete CUPTI events dropped: 1,770.", severity=1),)),
        (199, (diagnostic("CUPTI buffers: 3 of 50. Some CUPTI events might be missing.", severity=1),)),
        (
            199,
            (  # what one process handed over twice says nothing of another one
                diagnostic("Number of CUPTI events produced: 400, CUPTI buffers: 50.", severity=1),
                changed(diagnostic("Number of CUDA events collected: 0.", severity=1), globalPid=7 << 24),
            ),
        ),
    ],
)
def test_a_recording_that_lacks_more_has_none(tmp_path: Path, kernels: int, more: tuple[Row, ...]) -> None:
    withheld = answer_of(recorded(tmp_path, 200, kernels, *more)).withheld
    assert (withheld and withheld.kind) == "events_missing"


def test_a_recording_without_the_kernels_has_no_figures(tmp_path: Path) -> None:
    copies = [call("cudaMemcpyAsync", 50, 55, 999), memcpy(1, 60, 80, 8, correlationId=999)]
    capture = recorded(tmp_path, 200, 0, *copies)
    answer = answer_of(capture)
    first, remedy, *_ = map(str, answer_lines(capture, answer))
    assert first == "No verdict: nsys recorded none of the kernels that the program launched"
    assert "--graphs node" in remedy
    assert [as_dict(answer)[name] for name in ("part", "busy_percent", "idle_percent")] == [None] * 3
    known = capture.brief()
    assert (known["busy_percent"], known["busy_ms"], known["idle_ms"]) == (None, {}, {})
    assert [one["what"] for one in known["unknown"]] == ["how busy the GPU was: no kernel was recorded"]
    assert first.partition(": ")[2] in render({"x": capture})
    [finding] = capture.report("advice").records()
    assert finding["example"] == "nsyswrap session launch --graphs node"


@pytest.mark.parametrize("backwards", [(3,), range(8)])
def test_operations_that_end_before_they_start_take_no_time(tmp_path: Path, backwards: Sequence[int]) -> None:
    rows = []
    for number in range(8):
        at = 1000 * number
        end = at + (90 if number in backwards else 900)
        rows += [nvtx("step", at, at + 1000), call("cudaLaunchKernel", at + 10, at + 20, number + 1)]
        rows += [kernel("k", at + 100, end, number + 1)]
    capture = opened(tmp_path, *rows)
    answer = answer_of(capture)
    assert answer.withheld is not None
    assert answer.withheld.kind == "operations_end_early"
    [process] = judged_processes(capture)
    [budget] = process.budgets
    busy = 7 - len({*backwards} - {0})  # of seven steps, the first is warm-up
    assert budget.busy_ns.sum() == 800 * busy
    assert sum(cause.sum() for cause in budget.idle_ns.values()) == 7000 - 800 * busy
    assert answer.steps is not None
    assert answer.steps.gpu_percent == pytest.approx(100 * busy / max(busy + (0 not in backwards), 1))
    assert all(0 <= share <= 100 for share in capture.report("loops").frame["gpu_time_percent"])


@pytest.mark.parametrize("why", ["they failed", "they were captured into a CUDA graph"])
def test_launches_that_run_no_kernels_lack_none(tmp_path: Path, why: str) -> None:
    failed = 209 if why == "they failed" else 0
    rows = [call("cudaLaunchKernel", 10 * i, 10 * i + 5, i + 1, returnValue=failed) for i in range(1, 4)]
    rows += [call("cudaMemcpyAsync", 50, 55, 9), memcpy(1, 60, 80, 8, correlationId=9)]
    rows += [diagnostic("Dropped 12 events", severity=3)]
    if not failed:
        rows += [call("cudaStreamBeginCapture", 0, 5, 20), call("cudaStreamEndCapture", 40, 45, 21)]
    answer = answer_of(opened(tmp_path, *rows))
    assert answer.withheld is not None
    assert answer.withheld.kind == "events_missing"


def test_copies_say_nothing_of_kernels_that_nsys_left_out_without_a_word(tmp_path: Path) -> None:
    rows = [call("cudaLaunchKernel", 10 * i, 10 * i + 5, i + 1) for i in range(1, 4)]
    copy = [call("cudaMemcpyAsync", 50, 55, 9), memcpy(1, 60, 80, 8, correlationId=9)]
    answer = answer_of(opened(tmp_path, *rows, *copy))
    assert answer.lacks_kernels
    assert not answer.devices

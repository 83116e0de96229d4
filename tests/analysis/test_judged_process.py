"""Which part of a capture is judged: the steady part of each process, what is selected, or the whole."""

from pathlib import Path

import pytest
from tiny_export import Row, call, changed, global_id, kernel, nvtx, opened

from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.judged_process import judged_processes, main_steps, whole_processes
from nsyswrap.api import CaptureReader
from nsyswrap.render.page import render
from nsyswrap.reports.wording.notes import note_text


def program(pid: int = 100, steps: int = 5, device: int = 0) -> list[Row]:
    """Steps of 100 ns with a kernel from 20 to 50 each, after another kernel at -500."""
    thread = global_id(pid, pid)
    rows = [
        call("cudaLaunchKernel", -500, -490, 99, pid=pid),
        kernel("k", -480, -470, 99, pid=pid, deviceId=device),
    ]
    for i, start in enumerate(range(0, 100 * steps, 100)):
        rows += [nvtx("step", start, start + 90, globalTid=thread)]
        rows += [call("cudaLaunchKernel", start + 10, start + 15, i + 1, pid=pid)]
        rows += [kernel("k", start + 20, start + 50, i + 1, pid=pid, deviceId=device)]
    return rows


def judged(capture: CaptureReader) -> list[tuple[int, list[tuple[int, int]], str]]:
    """Return process, window and the reason for no steady part of each judged part."""
    return [
        (
            part.process_id,
            list(zip(part.window.start.tolist(), part.window.end.tolist(), strict=True)),
            note_text(part.steps.why_none or ""),
        )
        for part in judged_processes(capture)
    ]


def test_the_steady_part_is_judged(tmp_path: Path) -> None:
    capture = opened(tmp_path, *program())
    [part] = judged_processes(capture)
    assert judged(capture) == [(100, [(0, 490)], "")]
    assert part.window_ns == 490
    [budget] = part.budgets
    assert budget.start_ns.tolist() == [0, 100, 200, 300, 400]
    assert budget.busy_ns.tolist() == [30] * 5
    assert [times.tolist() for times in part.typical] == [[0, 100, 200, 300, 400], [100, 200, 300, 400, 490]]


def test_outliers_are_judged_but_not_typical(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(later(row) for row in program(steps=9)))
    [part] = judged_processes(capture)
    assert part.steps.duration_ns.tolist() == [100, 100, 400, 100, 100, 100, 100, 100, 90]
    assert len(part.budgets[0].start_ns) == 9
    assert part.typical[0].tolist() == [0, 100, 600, 700, 800, 900, 1000, 1100]


def test_the_process_with_most_gpu_work_is_the_main_one_not_that_with_the_longest_part(
    tmp_path: Path,
) -> None:
    idle = [
        changed(row, end=row.cells["start"] + 5) if "deviceId" in row.cells else row  # type: ignore[operator]
        for row in program(200, steps=9)
    ]
    steps = main_steps(opened(tmp_path, *program(100, steps=4), *idle))
    assert steps is not None
    assert (steps.global_pid, len(steps)) == (global_id(100), 4)


def later(row: Row, since: int = 300) -> Row:
    """Move what begins at 300 ns or later by 300 ns."""
    times: dict[str, int] = {key: row.cells[key] for key in ("start", "end")}  # type: ignore[misc]
    return changed(row, **{key: ns + 300 for key, ns in times.items()}) if times["start"] >= since else row


def test_without_steps_the_whole_is_judged(tmp_path: Path) -> None:
    capture = opened(tmp_path, *program(steps=1))
    nothing = "nothing that repeats holds 25 % of the launches"
    assert judged(capture) == [(100, [(-480, 50)], nothing)]


def test_without_a_launch_call_there_are_no_steps(tmp_path: Path) -> None:
    why = "no GPU operation has a recorded launch call"
    assert judged(opened(tmp_path, kernel("k", 0, 10))) == [(100, [(0, 10)], why)]


@pytest.mark.parametrize("clip", [None, True, False])
def test_what_is_selected_is_judged_clipped(clip: bool | None, tmp_path: Path) -> None:  # noqa: FBT001
    capture = opened(tmp_path, *program()).select(time="30/330", clip=clip)
    assert judged(capture) == [(100, [(30, 330)], "the selected part is judged")]
    assert judged_processes(capture)[0].budgets[0].busy_ns.tolist() == [20 + 30 + 30 + 10]


@pytest.mark.parametrize("others", [[], program(200)])
def test_what_touches_the_selected_time_is_not_judged(others: list[Row], tmp_path: Path) -> None:
    """Whole rows are selected as by nsys: those that end where the selection begins, too."""
    capture = opened(tmp_path, kernel("k", 0, 20, 98), *others).select(time="20/90", clip=False)
    assert 100 in {process >> 24 & 0xFFFFFF for process in gpu_operations_of(capture).processes}
    expected = [200] if others else []
    assert [part.process_id for part in judged_processes(capture)] == expected
    assert [part.process_id for part in whole_processes(capture)] == expected
    assert sum(capture.answer.busy_ns.values()) == (30 if others else 0)
    assert render({"x": capture})


def test_other_parts_of_a_view_share_its_budgets(tmp_path: Path) -> None:
    capture = opened(tmp_path, *program())
    [part] = judged_processes(capture)
    part.finish()
    operations = gpu_operations_of(part.view)
    assert judged_processes(capture)[0].budgets is part.budgets
    part.finish()
    assert gpu_operations_of(part.view) is not operations


def test_each_process_has_a_part(tmp_path: Path) -> None:
    rows = [*program(100), *program(200, steps=8, device=1)]
    capture = opened(tmp_path, *rows)
    assert judged(capture) == [(100, [(0, 490)], ""), (200, [(0, 790)], "")]
    assert judged(capture.select(process=200)) == [(200, [(0, 790)], "")]
    assert judged(capture.select(device=0)) == [(100, [(0, 490)], "")]


def test_steps_in_which_nothing_ran(tmp_path: Path) -> None:
    # Launched in the steps, but by a clock that puts the work before them.
    rows = [nvtx("step", start, start + 90) for start in range(0, 500, 100)]
    for i, start in enumerate(range(0, 500, 100)):
        rows += [
            call("cudaLaunchKernel", start + 10, start + 15, i + 1),
            kernel("k", start - 1000, start - 980, i + 1),
        ]
    capture = opened(tmp_path, *rows)
    assert judged(capture) == [(100, [(-1000, -580)], "no GPU work in 'step'")]


def test_chosen_steps_are_judged(tmp_path: Path) -> None:
    capture = opened(tmp_path, *program()).viewed(steps="1-2")
    assert judged(capture) == [(100, [(100, 300)], "")]

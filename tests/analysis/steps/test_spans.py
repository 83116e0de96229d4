"""How long a step lasts: until its GPU work is complete and the host begins the next one."""

from pathlib import Path

from step_drawings import LENGTH, Drawing, every, numbers, only, starts, training
from tiny_export import PID, call, memcpy


def queued(steps: int, host_ns: int, gpu_ns: int) -> Drawing:
    """A host that launches a step each ``host_ns``, and a GPU that needs ``gpu_ns`` for each."""
    drawing = Drawing()
    for i, start in enumerate(every(steps, length=host_ns)):
        drawing.range("step", start, start + host_ns - 10)
        drawing.queue("a", start, (5 + i * gpu_ns, 5 + (i + 1) * gpu_ns))
    return drawing


def test_a_host_that_waits_sets_the_time(tmp_path: Path) -> None:
    steps = only(tmp_path, training(12))
    assert steps.duration_ns.tolist() == [*[LENGTH] * 11, 5000]


def test_the_gpu_sets_the_time_of_a_host_that_runs_ahead(tmp_path: Path) -> None:
    steps = only(tmp_path, queued(20, 1000, 5000))
    assert steps.duration_ns[1:].tolist() == [5000] * 19
    assert numbers(steps.outlier) == []


def test_steps_are_disjoint_and_add_up(tmp_path: Path) -> None:
    steps = only(tmp_path, queued(20, 1000, 5000))
    assert steps.start_ns[1:].tolist() == steps.end_ns[:-1].tolist()
    assert int(steps.duration_ns.sum()) == int(steps.end_ns[-1] - steps.start_ns[0])


def test_a_pause_of_the_host_stays_in_its_step(tmp_path: Path) -> None:
    drawing = Drawing()
    for start in (*every(6), *every(6, 6 * LENGTH + 30_000)):
        drawing.range("step", start, start + 5000)
        drawing.launch("a", start + 10)
    steps = only(tmp_path, drawing)
    assert steps.duration_ns[5] == LENGTH + 30_000
    assert numbers(steps.outlier) == [5]


def test_work_of_a_rare_stream_is_in_the_background(tmp_path: Path) -> None:
    drawing = training(12)
    start = 3 * LENGTH + 4000
    drawing.queue("save", start, (start + 10, start + 35_000), stream=99)
    assert only(tmp_path, drawing).duration_ns.tolist() == [*[LENGTH] * 11, 5000]


def test_a_prefetched_copy_does_not_hold_its_step(tmp_path: Path) -> None:
    drawing = training(12)
    for i, start in enumerate(every(12)):
        copy = 1000 + i
        drawing.rows.append(call("cudaMemcpyAsync", start + 20, start + 25, copy, tid=PID))
        drawing.rows.append(memcpy(1, start + 30, start + LENGTH + 2000, 8, correlationId=copy, streamId=9))
    assert only(tmp_path, drawing).duration_ns.tolist() == [*[LENGTH] * 11, 5000]


def test_a_first_step_begins_when_earlier_work_is_done(tmp_path: Path) -> None:
    drawing = training(12)
    drawing.launch("set up", -100, gpu_ns=2100)
    steps = only(tmp_path, drawing)
    assert starts(steps) == [2005, *every(11, LENGTH)]


def test_one_step_less_changes_nothing_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    fewer, many = only(tmp_path, queued(19, 1000, 5000)), only(tmp_path / "more", queued(20, 1000, 5000))
    assert fewer.start_ns.tolist() == many.start_ns[:-1].tolist()
    assert fewer.end_ns.tolist() == many.end_ns[:-1].tolist()

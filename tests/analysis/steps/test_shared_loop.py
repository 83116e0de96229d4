"""Equal runs, ranks of a job and processes of a capture are judged by one loop."""

from pathlib import Path

from step_drawings import LENGTH, Drawing, every, phases
from tiny_export import Row, changed, global_id, opened

from nsyswrap.analysis.steps import judged_alike, steps_of
from nsyswrap.analysis.steps.loops import Choice, shared_loop
from nsyswrap.capture.capture import Capture


def of_process(pid: int, rows: list[Row]) -> list[Row]:
    """Return the rows of a process as those of another one."""
    threads = {name: global_id(pid, pid) for name in ("globalTid", "globalPid")}
    threads["globalPid"] = global_id(pid)
    return [changed(row, **{name: threads[name] for name in row.cells.keys() & threads}) for row in rows]


def run(folder: Path, *rows: Row) -> Capture:
    folder.mkdir()
    return opened(folder, *rows)


def labels(captures: list[Capture]) -> list[str]:
    return [steps.label for capture in captures for steps in steps_of(capture)]


def test_runs_that_judge_another_loop_each_are_judged_by_one(tmp_path: Path) -> None:
    times = {"a": (5000, 4000), "b": (5000, 4000), "c": (4000, 5000)}
    runs = [run(tmp_path / name, *phases(*ns).rows) for name, ns in times.items()]
    assert labels(runs) == ["'train'", "'train'", "'eval'"]
    alike, label = judged_alike(runs)
    assert (labels(list(alike)), label) == (["'train'"] * 3, "'train'")
    [last] = steps_of(alike[2])
    assert [other.label for other in last.others] == ["'eval'"]
    assert judged_alike(runs[:2]) == (runs[:2], "")


def test_processes_of_a_capture_are_judged_by_one_loop(tmp_path: Path) -> None:
    other = of_process(200, phases(4000, 4200).rows)
    capture = opened(tmp_path, *phases(5000, 4000).rows, *other)
    assert labels([capture]) == ["'train'", "'train'"]


def test_sequences_that_begin_elsewhere_are_one_loop(tmp_path: Path) -> None:
    """The longest pause of a step lies before another kernel in each run."""
    runs = []
    for number, pauses in enumerate(((900, 300), (300, 900))):
        drawing, now = Drawing(), 0
        for _ in range(20):
            for names, pause in zip(("abc", "xyz"), pauses, strict=True):
                drawing.kernels(names, now)
                now += 90 + pause
        runs.append(run(tmp_path / str(number), *drawing.rows))
    assert len({steps.loop for one in runs for steps in steps_of(one)}) == 2
    alike, label = judged_alike(runs)
    assert label == ""  # each has as many operations
    assert len({(steps.loop, len(steps)) for one in alike for steps in steps_of(one)}) == 1


def test_a_range_that_only_one_run_takes_as_the_step(tmp_path: Path) -> None:
    """Ten batches are steps, nine are not: then what they hold is."""
    runs = []
    for count in (10, 9):
        drawing = Drawing()
        for start in every(count):
            drawing.range("batch", start, start + LENGTH - 100)
            for micro in every(4, start, 2000):
                drawing.range("micro", micro, micro + 1990)
                drawing.launch("a", micro + 10, gpu_ns=1900)
        runs.append(run(tmp_path / str(count), *drawing.rows))
    assert labels(runs) == ["'batch'", "'micro'"]
    alike, _ = judged_alike(runs)
    assert labels(list(alike)) == ["'batch'"] * 2
    assert [len(steps) for one in alike for steps in steps_of(one)] == [10, 9]


def test_a_small_loop_is_not_judged_because_it_is_shared() -> None:
    one = {"a": Choice("a", 1.8, judged=True), "c": Choice("c", 0.2)}
    other = {"b": Choice("b", 1.8, judged=True), "a": Choice("a", 0.2), "c": Choice("c", 0.2)}
    assert shared_loop([one, other]) == ""
    assert shared_loop([]) == ""


def test_a_loop_that_no_run_is_judged_by_is_not_judged() -> None:
    one = {"a": Choice("a", 1.0, judged=True), "part": Choice("part", 1.9)}
    other = {"b": Choice("b", 1.0, judged=True), "part": Choice("part", 1.9)}
    assert shared_loop([one, other]) == ""

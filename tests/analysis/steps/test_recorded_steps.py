"""The steps of every labelled and recorded capture: what each holds, and what changes nothing in them."""

import lzma
import shutil
import sqlite3
import sys
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import recorded
from altered import renamed, scaled
from sampled import sampled
from shuffled import shuffled

from nsyswrap.analysis.gpu_operations import gpu_operations_of
from nsyswrap.analysis.judged_process import judged_processes
from nsyswrap.analysis.steps import Steps, steps_of
from nsyswrap.api import open_capture
from nsyswrap.capture.schema import PROCESS_MASK

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LABELLED = Path(__file__).resolve().parents[2] / "labelled"
PACKED = {
    f"{path.parent.parent.name}/{path.name.removesuffix('.sqlite.xz')}": path
    for path in sorted(LABELLED.glob("**/captures/*.sqlite.xz"))
}
NAMES = sorted({*PACKED, *recorded.capture_names()})
FAST = (
    *("steps/heat_all_ahead", "steps/async_checkpoint", "steps/llm_generate", "steps/ddp_two_processes"),
    *("labelled/healthy_two_threads", "labelled/ranks2", "graphs/nodes", "ladder/loader"),
)
every = sampled("name", NAMES, fast=FAST)
LABELS = tomllib.loads((LABELLED / "steps" / "labels.toml").read_text(encoding="utf-8"))
LEAST = 12  # steps, so that without one of them they still are the loop
TABLES = ("RUNTIME", "KERNEL", "MEMCPY", "MEMSET", "SYNCHRONIZATION", "GRAPH_TRACE")


@cache
def export(name: str, scratch: Path) -> Path:
    if name not in PACKED:
        return open_capture(recorded.run_folder(name, scratch)).path
    path = scratch / f"{name.replace('/', '_')}.sqlite"
    path.write_bytes(lzma.decompress(PACKED[name].read_bytes()))
    return path


class Launched(NamedTuple):
    """A GPU operation: start of its call, its stream, its end, and whether it computes."""

    at: int
    stream: int
    end: int
    computes: bool


def launched_by(path: Path, process: int) -> list[Launched]:
    """Return the operations of a process that have a call, in order of their calls."""
    capture = open_capture(path)
    operations = gpu_operations_of(capture)
    api = capture.columns("api", "start_ns", "global_tid")
    rows = [
        Launched(int(api["start_ns"][call]), int(stream), int(end), bool(computes))
        for call, stream, end, computes in zip(
            *(operations.call, operations.stream, operations.end_ns, operations.computes), strict=True
        )
        if call >= 0 and api["global_tid"][call] & PROCESS_MASK == process
    ]
    return sorted(rows, key=lambda one: one.at)


def work_of(steps: Steps, launches: list[Launched]) -> list[list[Launched]]:
    """Return the operations that are launched in the window of each step on the host."""
    work: list[list[Launched]] = [[] for _ in range(len(steps))]
    windows = list(zip(steps.host_start_ns.tolist(), steps.host_ns.tolist(), strict=True))
    number = 0
    for one in launches:
        while number < len(windows) and one.at >= sum(windows[number]):
            number += 1
        if number < len(windows) and one.at >= windows[number][0]:
            work[number].append(one)
    return work


def main_streams(work: list[list[Launched]]) -> set[int]:
    """Return the streams that compute in half of the steps; else those that work in half; else all."""
    for computing in (True, False):
        streams = [{one.stream for one in step if one.computes or not computing} for step in work]
        often = {
            stream
            for stream in set().union(*streams)
            if 2 * sum(stream in step for step in streams) >= len(work)
        }
        if often:
            return often
    return {one.stream for step in work for one in step}


def loops(path: Path) -> list[Steps]:
    return [steps for one in steps_of(open_capture(path)) for steps in (one, *one.others) if len(steps)]


@every
def test_a_step_ends_with_the_work_that_is_launched_in_it(name: str, scratch: Path) -> None:
    for steps in loops(export(name, scratch)):
        work = work_of(steps, launched_by(export(name, scratch), steps.global_pid))
        main, before = main_streams(work), None
        starts, ends = steps.start_ns.tolist(), steps.end_ns.tolist()
        for number, operations in enumerate(work):
            host = int(steps.host_start_ns[number])
            begins_next = host + int(steps.host_ns[number])
            complete = max([begins_next, *(one.end for one in operations if one.stream in main)])
            follows = before is not None and host == before
            assert starts[number] >= host if not follows else starts[number] == ends[number - 1]
            assert ends[number] == max(starts[number], complete)
            assert steps.runs_ahead_ns[number] == complete - begins_next
            before = begins_next


@every
def test_steps_and_the_time_between_them_are_the_part(name: str, scratch: Path) -> None:
    for steps in loops(export(name, scratch)):
        between = steps.start_ns[1:] - steps.end_ns[:-1]
        assert (steps.duration_ns >= 0).all()
        assert (between >= 0).all()
        assert steps.end_ns[-1] - steps.start_ns[0] == steps.duration_ns.sum() + between.sum()
    for part in judged_processes(open_capture(export(name, scratch))):
        if part.steps.has_steady:
            lasting = part.steps.duration_ns[part.steps.steady]
            assert part.window_ns == lasting.sum()
            for budget in part.budgets:
                assert budget.duration_ns.tolist() == lasting.tolist()
                states = np.sum(list(budget.state_ns.values()), axis=0)
                assert states.tolist() == lasting.tolist()


def said(path: Path) -> list[tuple[str, int, list[bool]]]:
    """Return what steps are without times."""
    return [(one.label, one.warm_up, one.steady.tolist()) for one in loops(path)]


def lasting(path: Path, factor: float = 1) -> list[float]:
    """Return the durations of all steps in tens of ns, which other clocks keep."""
    return [ns / factor / 10 for one in loops(path) for ns in one.duration_ns.tolist()]


some = pytest.mark.parametrize(
    "name",
    [name for number, name in enumerate(sorted(PACKED)) if name.startswith("steps/") or number % 4 == 0],
)


@pytest.mark.slow
@some
def test_the_order_of_rows_changes_nothing(name: str, scratch: Path, tmp_path: Path) -> None:
    path = export(name, scratch)
    other = shuffled(path, tmp_path / "shuffled.sqlite")
    assert said(other) == said(path)
    assert lasting(other) == lasting(path)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.1, 10])
@some
def test_another_clock_changes_no_step(name: str, factor: float, scratch: Path, tmp_path: Path) -> None:
    path = export(name, scratch)
    other = scaled(path, tmp_path / "scaled.sqlite", factor)
    assert said(other) == said(path)
    assert lasting(other, factor) == pytest.approx(lasting(path), abs=2)


@pytest.mark.slow
@some
def test_other_names_change_no_step(name: str, scratch: Path, tmp_path: Path) -> None:
    path = export(name, scratch)
    if name == "steps/optimizer_marks" or any(one.label == "optimizer step" for one in loops(path)):
        pytest.skip("kernels of an optimizer are known by their names")
    other = renamed(path, tmp_path / "renamed.sqlite")
    assert [rest for _, *rest in said(other)] == [rest for _, *rest in said(path)]
    assert lasting(other) == lasting(path)


def without(path: Path, target: Path, first_ns: int, last_ns: int) -> Path:
    """Write a copy of an export without what the host does in a window, and the GPU work of that."""
    shutil.copyfile(path, target)
    with closing(sqlite3.connect(target)) as db, db:
        there = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        runtime = "CUPTI_ACTIVITY_KIND_RUNTIME"
        window = f"start >= {first_ns} AND start < {last_ns}"
        gone = f"SELECT correlationId FROM {runtime} WHERE {window}"  # noqa: S608 - no input
        for table in TABLES[1:]:
            if (full := f"CUPTI_ACTIVITY_KIND_{table}") in there:
                db.execute(f"DELETE FROM {full} WHERE correlationId IN ({gone})")  # noqa: S608
        db.execute(f"DELETE FROM {runtime} WHERE {window}")  # noqa: S608
        if "NVTX_EVENTS" in there:
            db.execute(f"DELETE FROM NVTX_EVENTS WHERE {window} AND eventType <> 75")  # noqa: S608
    return target


def ends_alike(name: str) -> bool:
    """Return True for a program of many steps that its ranges part, in one process."""
    label = LABELS[name.partition("/")[2]]
    [count] = [loop["count"] for loop in label["loops"] if loop["label"] == label["judged"]] or [0]
    return "range" in label and label.get("cut", count) >= LEAST and "processes" not in label["program"]


@pytest.mark.parametrize("last", [pytest.param(True, id="last"), pytest.param(False, id="first")])
@sampled("name", [name for name in sorted(PACKED) if name.startswith("steps/") and ends_alike(name)], FAST)
def test_the_other_steps_stay_without_the_first_or_the_last(
    name: str,
    last: bool,  # noqa: FBT001 - a parameter
    scratch: Path,
    tmp_path: Path,
) -> None:
    path = export(name, scratch)
    [steps] = steps_of(open_capture(path))
    cut = len(steps) - 1 if last else 0
    begin = int(steps.host_start_ns[cut])
    copy = without(path, tmp_path / "less.sqlite", begin, begin + int(steps.host_ns[cut]))
    [less] = steps_of(open_capture(copy))
    assert (less.label, len(less)) == (steps.label, len(steps) - 1)
    # A step begins or ends where its neighbor that is gone did.
    kept, same = (slice(cut - 1), slice(cut - 1)) if last else (slice(2, None), slice(1, None))
    for times in ("start_ns", "end_ns", "host_start_ns", "host_ns"):
        assert getattr(less, times)[same].tolist() == getattr(steps, times)[kept].tolist()

"""The part of a capture that an NVTX range selects: its time, and what its thread or process did."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny_export import OSRT, PID, call, domain, kernel, nvtx, on_cpu, opened, um_cpu_fault

from nsyswrap.api import CaptureReader
from nsyswrap.base.errors import NotInCapture, UsageError
from nsyswrap.capture.intervals import MOST
from nsyswrap.capture.selection import parse_selection, resolve

WORKER = 101  # a thread that is not its process' first


def names(capture: CaptureReader, kind: str = "kernel") -> list[str | None]:
    return [capture.text(i) for i in capture.name_ids(kind).tolist()]


RANGES = (
    nvtx("step", 100, 110, tid=WORKER),
    nvtx("step", 10, 20, tid=WORKER),
    nvtx("step", 50, 60, domainId=1),
    nvtx("step", 30, 40, eventType=60, domainId=2),
    nvtx("step", 5, None, eventType=34),  # a mark
    nvtx(None, 70, 80, textId="step"),
    nvtx("a/b", 1, 2, WORKER),
    nvtx("a/1", 3, 4, WORKER),
    nvtx("2", 6, 7, WORKER),
    nvtx("open", 90, None, WORKER),
    nvtx("", 91, 92),
    nvtx(None, 93, 94),
    nvtx("own", 95, 96, textId="registered"),
    nvtx("nowhere", 97, 98, domainId=None),
    domain("lib", 1),
    domain(None, 2),
    domain("other", 1, pid=5),
    domain("none", None),
)


@pytest.mark.parametrize(
    ("asked", "times"),
    [
        ("step", [(10, 20), (30, 40), (70, 80), (100, 110)]),
        ("step/0", [(10, 20)]),
        ("step/1", [(30, 40)]),  # in a domain without a name
        ("step/2", [(70, 80)]),
        ("step/3", [(100, 110)]),
        ("step/1-2", [(30, 40), (70, 80)]),
        ("step/0-3", [(10, 20), (30, 40), (70, 80), (100, 110)]),
        ("step@lib", [(50, 60)]),
        ("step@lib/0", [(50, 60)]),
        ("a/b", [(1, 2)]),
        ("a/1/0", [(3, 4)]),  # what follows the last slash is the number
        ("a/1/0-0", [(3, 4)]),
        ("2", [(6, 7)]),
        ("open", [(90, MOST)]),
        ("/0", [(91, 92)]),  # a range without a name
        ("own", [(95, 96)]),  # rather than the string registered
        ("nowhere", [(97, 98)]),
    ],
)
def test_the_ranges_of_a_name_a_domain_and_numbers(
    tmp_path: Path, asked: str, times: list[tuple[int, int]]
) -> None:
    window = resolve(parse_selection(nvtx=asked), opened(tmp_path, *RANGES))
    assert list(zip(window.starts.tolist(), window.ends.tolist(), strict=True)) == times
    assert (window.start_ns, window.end_ns) == (times[0][0], times[-1][1])


@pytest.mark.parametrize(("asked", "start"), [("step", 10), ("step/1", 30), ("step/2-3", 70)])
def test_nsys_takes_the_first_of_the_ranges_asked_for(tmp_path: Path, asked: str, start: int) -> None:
    selection = parse_selection(nvtx=asked).decided(as_nsys=True)
    assert resolve(selection, opened(tmp_path, *RANGES)).starts.tolist() == [start]


@pytest.mark.parametrize(
    ("asked", "ours", "as_nsys"),
    [
        ("step", "all 4 instances", "instance 0 of 4, as nsys"),
        ("step/2", "instance 2 of 4", "instance 2 of 4"),
        ("step/1-2", "instances 1 to 2 of 4", "instance 1 of 4, as nsys"),
        ("step/1-1", "instance 1 of 4", "instance 1 of 4"),
        ("step@lib", "its only instance", "its only instance"),
    ],
)
def test_a_selection_says_how_many_ranges_it_takes(
    tmp_path: Path, asked: str, ours: str, as_nsys: str
) -> None:
    capture = opened(tmp_path, *RANGES, kernel("k", 0, 200)).select(nvtx=asked)
    name = asked.partition("/")[0]
    ends = "their ends" if "instances" in ours else "its ends"
    said = f"NVTX range '{name}': {ours}; rows cut at {ends} (--clip yes)"
    assert capture.report("gpu_time").selection == said
    said = f"NVTX range '{name}': {as_nsys}; whole rows (--clip no)"
    assert capture.report("cuda_gpu_kern_sum").selection == said


@pytest.mark.parametrize(
    ("asked", "problem", "hint"),
    [
        (
            "step/4",
            "no NVTX range 'step/4'; instances named 'step': 4",
            "numbers start at 0; the last is step/3",
        ),
        (
            "step/2-4",
            "no NVTX range 'step/2-4'; instances named 'step': 4",
            "numbers start at 0; the last is step/3",
        ),
        (
            "step@lib/1",
            "no NVTX range 'step@lib/1'; instances named 'step@lib': 1",
            "numbers start at 0; the last is step@lib/0",
        ),
        ("step@other", "no NVTX range named 'step@other'", "names: a/b, a/1, 2, step, step@lib, "),
        ("Step", "no NVTX range named 'Step'", "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, "),
        ("step@", "no NVTX range named 'step@'", "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, "),
        (
            "step/-1",
            "no NVTX range named 'step/-1'",
            "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, ",
        ),
        (
            "step/1-",
            "no NVTX range named 'step/1-'",
            "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, ",
        ),
        (
            "step/²",
            "no NVTX range named 'step/²'",
            "did you mean 'step'? names: a/b, a/1, 2, step, step@lib, ",
        ),
        ("a/1", "no NVTX range named 'a'", "use a/1/0-0 for all ranges named 'a/1'; names: a/b, "),
    ],
)
def test_a_range_that_there_is_not(tmp_path: Path, asked: str, problem: str, hint: str) -> None:
    capture = opened(tmp_path, *RANGES, kernel("k", 0, 5)).select(nvtx=asked)
    with pytest.raises(NotInCapture, match=problem) as caught:
        capture.report("cuda_gpu_kern_sum")
    assert hint in caught.value.hint
    assert str(caught.value).endswith(caught.value.hint)


def test_numbers_in_the_wrong_order() -> None:
    with pytest.raises(UsageError, match="'step/5-2': instance 2 is before 5") as caught:
        parse_selection(nvtx="step/5-2")
    assert caught.value.hint == "use step/2-5"


def test_the_names_of_many_ranges_are_cut_short(tmp_path: Path) -> None:
    capture = opened(tmp_path, *(nvtx(f"range {i:04}", i, i + 1) for i in range(1000)))
    with pytest.raises(NotInCapture) as caught:
        resolve(parse_selection(nvtx="none"), capture)
    assert len(caught.value.hint) < 600
    assert caught.value.hint.endswith(" …")


def test_a_capture_without_ranges(tmp_path: Path) -> None:
    bare = opened(tmp_path, kernel("k", 0, 5))
    with pytest.raises(NotInCapture, match="no NVTX events in this capture") as caught:
        resolve(parse_selection(nvtx="step"), bare)
    assert "--trace cuda,nvtx" in caught.value.hint


def test_a_domain_that_was_created_twice_counts_each_of_its_ranges_twice(tmp_path: Path) -> None:
    # As nsys does: /1 is the first range again, /2 the second.
    ranges = [nvtx("a", start, start + 1, domainId=1) for start in (10, 20)]
    capture = opened(tmp_path, *ranges, domain("lib", 1), domain("lib", 1, tid=WORKER))
    starts = [resolve(parse_selection(nvtx=f"a@lib/{number}"), capture).start_ns for number in range(4)]
    assert starts == [10, 10, 20, 20]
    every = resolve(parse_selection(nvtx="a@lib"), capture)
    assert (every.starts.tolist(), every.total) == ([10, 20], 2)  # and all of them are two


def test_a_range_of_a_worker_selects_what_its_thread_did_and_what_its_process_did_on_the_gpu(
    tmp_path: Path,
) -> None:
    capture = opened(
        tmp_path,
        nvtx("step", 10, 20, WORKER),
        *(call(f"{pid}.{tid}", 12, 15, pid=pid, tid=tid) for pid in (PID, 200) for tid in (WORKER, 300)),
        call("later", 20, 25, tid=WORKER),
        *(kernel(f"{pid}", 12, 15, pid=pid) for pid in (PID, 200)),
        on_cpu(OSRT, "poll", 0, 100, WORKER),
        on_cpu(OSRT, "read", 0, 100, 300),
    ).select(nvtx="step")
    assert names(capture, "api") == [f"{PID}.{WORKER}"]
    assert names(capture) == [f"{PID}"]
    assert names(capture, "osrt") == ["poll"]


def test_a_range_of_the_first_thread_selects_its_whole_process(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        nvtx("step", 10, 20, PID),
        *(call(f"{pid}.{tid}", 12, 15, pid=pid, tid=tid) for pid in (PID, 200) for tid in (WORKER, 300)),
    ).select(nvtx="step")
    assert names(capture, "api") == [f"{PID}.{WORKER}", f"{PID}.300"]


def test_a_trimmed_export_does_not_say_whose_its_kernels_are(tmp_path: Path) -> None:
    rows = (nvtx("step", 10, 20), kernel("k", 12, 15), kernel("l", 30, 40))
    assert names(opened(tmp_path, *rows, without=["globalPid"]).select(nvtx="step")) == ["k"]


def test_what_has_a_start_alone_is_cut_as_what_lasts(tmp_path: Path) -> None:
    rows = (kernel("k", 0, 20), um_cpu_fault(4096, 7), um_cpu_fault(8192, 70), nvtx("a", 5, 50))
    selection = replace(parse_selection(nvtx="a"), clip=True)
    capture = opened(tmp_path, *rows, call("cudaLaunchKernel", 6, 9)).viewed(selection=selection)
    assert capture.columns("um_cpu_fault", "start_ns")["start_ns"].tolist() == [7]
    assert capture.columns("kernel", "start_ns")["start_ns"].tolist() == [5]

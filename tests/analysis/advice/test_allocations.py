"""What recorded allocations say: memory that is nearly full, grows, or is allocated in each step."""

import lzma
from pathlib import Path

import pytest
from advised import STEP_NS, looped, new
from copy_examples import gpu
from tiny_export import MEMORY_USE, PID, Row, allocation, call, changed, global_id, kernel, nvtx

from nsyswrap.analysis.advice import advice_of
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.capture.schema import FREED
from nsyswrap.reports.wording.advice import words

STEPS, STEADY = 8, 7
RECORDED = Path(__file__).parents[2] / "data" / "memory"
GPU_BYTES = 1000


def memory(address: int, start: int, size: int) -> list[Row]:
    """An allocation with its call."""
    number = 100_000 + start
    return [
        allocation(address, start, size, correlationId=number),
        call("cudaMalloc", start - 1, start + 1, number),
    ]


def freed(address: int, start: int) -> Row:
    return allocation(address, start, 0, memoryOperationType=FREED)


def said(folder: Path, *rows: Row, steps: int = STEPS) -> dict[str, str]:
    """The facts on memory of a loop with these rows beside it, by kind."""
    loop = looped(call("cudaLaunchKernel", 0, 10, 1), kernel("k", 10, 900, 1), steps=steps)
    return _facts(new(folder, *loop, *rows, gpu(totalMemory=GPU_BYTES)))


def _facts(capture: CaptureReader) -> dict[str, str]:
    facts = advice_of(capture).facts
    return {one.kind: words(one).what for one in facts if one.kind.startswith("memory_")}


def at(step: int, offset: int = 500) -> int:
    return step * STEP_NS + offset


def test_without_recorded_memory_nothing_is_said(tmp_path: Path) -> None:
    assert said(tmp_path) == {}


@pytest.mark.parametrize(("size", "is_near"), [(900, True), (899, False), (1000, True), (1001, False)])
def test_memory_is_nearly_full_from_90_percent_on(tmp_path: Path, size: int, *, is_near: bool) -> None:
    """More than the GPU has means that frees are missing: nothing is said."""
    facts = said(tmp_path, *memory(1, 500, size))
    texts = [f"GPU memory nearly full: allocations hold up to {size} B of 1.00 kB, most in 'step'"]
    if size == GPU_BYTES:
        texts = ["GPU memory nearly full: allocations hold up to 1.00 kB of 1.00 kB, most in 'step'"]
    assert list(facts.values()) == (texts if is_near else [])


def test_the_fullest_of_two_gpus_is_named(tmp_path: Path) -> None:
    rows = (*memory(1, 500, 920), allocation(2, 500, 990, deviceId=1))
    assert said(tmp_path, *rows) == {
        "memory_near_limit": "GPU memory nearly full: allocations hold up to 990 B of 1.00 kB"
    }


def test_memory_that_grows_in_each_step(tmp_path: Path) -> None:
    rows = [row for step in range(STEPS) for row in memory(step + 1, at(step), 10)]
    # Step 0 is warm-up; seven steps keep 10 bytes each.
    assert said(tmp_path, *rows) == {
        "memory_grows": "GPU memory grows: 70 B more after 7 steps, no step ends with less, most in 'step'; "
        "free or reuse what steps keep"
    }


def test_memory_that_stops_growing_is_no_growth(tmp_path: Path) -> None:
    """A caching allocator takes memory in the first steps, and has enough then."""
    rows = [row for step in range(5) for row in memory(step + 1, at(step), 10)]
    assert said(tmp_path, *rows) == {}


def test_memory_that_shrinks_once_is_no_growth(tmp_path: Path) -> None:
    rows = [row for step in range(STEPS) for row in memory(step + 1, at(step), 10)]
    assert said(tmp_path, *rows, freed(3, at(5, 100)), freed(4, at(5, 101))) == {}


def test_few_steps_show_no_trend(tmp_path: Path) -> None:
    rows = [row for step in range(5) for row in memory(step + 1, at(step), 10)]
    assert said(tmp_path, *rows, steps=5) == {}


def test_frees_of_unknown_memory_leave_growth_open(tmp_path: Path) -> None:
    rows = [row for step in range(STEPS) for row in memory(step + 1, at(step), 10)]
    assert said(tmp_path, *rows, freed(99, at(2))) == {}


def test_memory_that_each_step_allocates_and_frees(tmp_path: Path) -> None:
    rows = [row for step in range(STEPS) for row in (*memory(1, at(step), 100), freed(1, at(step, 700)))]
    assert said(tmp_path, *rows) == {
        "memory_in_steps": "Allocations in the steps: a step allocates 100 B in 1 call and frees most "
        "of it, most in 'step'; allocate before the loop or from a pool"
    }


def test_memory_from_a_pool_is_no_finding(tmp_path: Path) -> None:
    """cudaMallocAsync takes it from a pool of CUDA, which is what one would advise."""
    rows = [
        changed(one, localMemoryPoolAddress=0x7000) if one.table == MEMORY_USE else one
        for step in range(STEPS)
        for one in (*memory(1, at(step), 100), freed(1, at(step, 700)))
    ]
    assert said(tmp_path, *rows) == {}


def test_one_large_step_is_not_what_a_step_allocates(tmp_path: Path) -> None:
    sizes = [100] * (STEPS - 1) + [800]
    rows = [
        row
        for step, size in enumerate(sizes)
        for row in (*memory(1, at(step), size), freed(1, at(step, 700)))
    ]
    assert "a step allocates 100 B in 1 call" in said(tmp_path, *rows)["memory_in_steps"]


def test_memory_that_few_steps_free_again_is_not_freed(tmp_path: Path) -> None:
    """Steps keep 10 bytes each. Two of them free 200 more, which is most of all bytes."""
    rows = [row for step in range(STEPS) for row in memory(step + 10, at(step), 10)]
    rows += [row for step in (3, 5) for row in (*memory(1, at(step, 510), 200), freed(1, at(step, 700)))]
    assert list(said(tmp_path, *rows)) == ["memory_grows"]


def test_allocations_of_some_steps_are_not_those_of_each(tmp_path: Path) -> None:
    rows = [
        row for step in range(0, STEPS, 2) for row in (*memory(1, at(step), 100), freed(1, at(step, 700)))
    ]
    assert said(tmp_path, *rows) == {}


def test_growth_in_one_of_numbered_ranges_names_it(tmp_path: Path) -> None:
    """Ranges of steps count as one. What a single range holds keeps its number."""
    inner = [nvtx(f"block {step // 8}", at(step, 490), at(step, 520)) for step in range(STEPS)]
    rows = [row for step in range(STEPS) for row in memory(step + 1, at(step), 10)]
    assert "most in 'step/block 0'; free" in said(tmp_path, *rows, *inner)["memory_grows"]
    inner = [nvtx(f"part {step}/forward", at(step, 490), at(step, 520)) for step in range(STEPS)]
    assert "most in 'step/part */forward'; free" in said(tmp_path, *rows, *inner)["memory_grows"]


# One step of a PyTorch program: what each call on memory returned, and the retries with the ns in their calls
@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([("cudaMalloc", 2), ("cudaFree", 0), ("cudaFree", 0), ("cudaMalloc", 0)], [40]),
        ([("cudaMalloc", 2), ("cudaFree", 0), ("cudaMalloc", 2), ("cudaFree", 0), ("cudaMalloc", 0)], [50]),
        ([("cuMemCreate", 2), ("cuMemRelease", 0), ("cuMemCreate", 0)], [30]),
        ([("cudaMalloc", 2), ("cudaMalloc", 0), ("cudaFree", 0), ("cudaMalloc", 0)], []),
        ([("cudaMalloc", 2), ("cudaFree", 0), ("cudaMalloc", 2)], []),
        ([("cudaMalloc", 0), ("cudaFree", 0), ("cudaMalloc", 0)], []),
        ([("cudaMallocHost", 2), ("cudaFreeHost", 0), ("cudaMalloc", 0)], []),
        ([("cudaMalloc", 1), ("cudaFree", 0), ("cudaMalloc", 0)], []),
        ([("cudaMalloc", 2), ("cudaLaunchKernel", 0), ("cudaFree", 0), ("cudaMalloc", 0)], []),
        ([("cudaMalloc", 2), ("cudaFree", 0), ("cudaGraphLaunch", 0), ("cudaMalloc", 0)], []),
        ([("cudaLaunchKernel", 0), ("cudaMalloc", 2), ("cudaFree", 0), ("cudaMalloc", 0)], [30]),
    ],
)
def test_retries_of_an_allocator(tmp_path: Path, calls: list[tuple[str, int]], expected: list[int]) -> None:
    rows = [
        call(name, at(1, 100 + 20 * number), at(1, 110 + 20 * number), 50 + number, returnValue=result)
        for number, (name, result) in enumerate(calls)
    ]
    loop = looped(call("cudaLaunchKernel", 0, 10, 1), kernel("at::native::k", 10, 900, 1), steps=STEPS)
    facts = advice_of(new(tmp_path, *loop, *rows)).facts
    found = [one.numbers for one in facts if one.kind == "memory_retries"]
    assert found == [{"retries": 1, "calls_ns": spent} for spent in expected]


def test_the_driver_call_inside_a_call_takes_no_time_of_its_own(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 2), ("cudaFree", 0), ("cudaMalloc", 0)]
    rows = [
        call(name, at(1, 100 + 20 * number), at(1, 110 + 20 * number), 50 + number, returnValue=result)
        for number, (name, result) in enumerate(calls)
    ]
    inner = call("cuMemAlloc_v2", at(1, 102), at(1, 108), 50, returnValue=2)
    loop = looped(call("cudaLaunchKernel", 0, 10, 1), kernel("at::native::k", 10, 900, 1), steps=STEPS)
    facts = advice_of(new(tmp_path, *loop, *rows, inner)).facts
    assert [one.numbers for one in facts if one.kind == "memory_retries"] == [{"retries": 1, "calls_ns": 30}]


def test_a_failure_on_one_thread_is_not_retried_by_another(tmp_path: Path) -> None:
    calls = [("cudaMalloc", 2, PID), ("cudaFree", 0, PID + 1), ("cudaMalloc", 0, PID + 1)]
    rows = [
        call(name, at(1, 100 + 20 * number), at(1, 110 + 20 * number), 50 + number, returnValue=result)
        for number, (name, result, _) in enumerate(calls)
    ]
    rows = [changed(one, globalTid=global_id(PID, tid)) for one, (*_, tid) in zip(rows, calls, strict=True)]
    loop = looped(call("cudaLaunchKernel", 0, 10, 1), kernel("at::native::k", 10, 900, 1), steps=STEPS)
    facts = advice_of(new(tmp_path, *loop, *rows)).facts
    assert "memory_retries" not in {one.kind for one in facts}


def test_of_processes_that_retry_the_one_is_named_that_takes_longest(tmp_path: Path) -> None:
    rows = []
    for number, pid in enumerate((PID, PID + 1), start=1):
        launch = call("cudaLaunchKernel", 0, 10, pid, pid=pid)
        rows += looped(launch, kernel("at::native::k", 10, 900, pid, pid=pid), steps=STEPS, pid=pid)
        for turn in range(number):
            for place, (name, result) in enumerate([("cudaMalloc", 2), ("cudaFree", 0), ("cudaMalloc", 0)]):
                start = at(1 + turn, 100 + 20 * place)
                rows.append(call(name, start, start + 10, 50 + place, pid=pid, returnValue=result))
    facts = advice_of(new(tmp_path, *rows)).facts
    found = [one.numbers["retries"] for one in facts if one.kind == "memory_retries"]
    assert found == [2]


def test_other_programs_that_run_out_of_memory_have_no_allocator_of_pytorch(tmp_path: Path) -> None:
    failed = call("cudaMalloc", at(1, 100), at(1, 110), 50, returnValue=2)
    rows = (
        failed,
        call("cudaFree", at(1, 120), at(1, 130), 51),
        call("cudaMalloc", at(1, 140), at(1, 150), 52),
    )
    assert said(tmp_path, *rows) == {}


def recorded(folder: Path, name: str) -> CaptureReader:
    (folder / "x.sqlite").write_bytes(lzma.decompress((RECORDED / f"{name}.sqlite.xz").read_bytes()))
    return open_capture(folder / "x.sqlite")


def test_a_recorded_program_whose_memory_grows(tmp_path: Path) -> None:
    """Each of its steps keeps 48 MiB; step 0 is warm-up."""
    (fact,) = (one for one in advice_of(recorded(tmp_path, "leak")).facts if one.kind.startswith("memory_"))
    grown, place = 23 * (48 << 20), "step */forward/remember"
    assert (fact.kind, fact.numbers) == (
        "memory_grows",
        {"grown_bytes": grown, "of_steps": 23, "range": place},
    )


def test_a_recorded_program_whose_allocator_retries(tmp_path: Path) -> None:
    """PyTorch counted five. The finding on the idle time that they cost says it."""
    advice = advice_of(recorded(tmp_path, "retries"))
    assert [one.kind for one in advice.facts if one.kind.startswith("memory_")] == ["memory_near_limit"]
    (finding,) = (one for one in advice.findings if one.kind == "allocating")
    assert finding.numbers["retries"] == 5
    assert words(finding).what.endswith("PyTorch ran out of memory 5 times")
    assert words(finding).do.startswith("use smaller batches")


def test_a_caching_allocator_that_settles_is_not_blamed(tmp_path: Path) -> None:
    """The recorded program holds at most 8 % of the GPU, and its cache grows in its first steps alone."""
    assert _facts(recorded(tmp_path, "report")) == {}

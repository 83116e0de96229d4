"""What API calls returned, and what profiling cost them, on paper."""

from pathlib import Path

import pytest
from diagnostics_found import ELSEWHERE, LAUNCH, found, launch
from tiny_export import PID, Row, call, global_id, kernel, opened, row


def overhead(label: str, start: int, end: int, *, tid: int = PID, kind: int | None = None) -> Row:
    """What the profiler did; ``kind`` is what CUPTI numbers it, from 2025.5 on."""
    more = {} if kind is None else {"overheadType": kind}
    return row("PROFILER_OVERHEAD", start=start, end=end, globalTid=global_id(PID, tid), nameId=label, **more)


def by_cuda(label: str, start: int, end: int, kind: int) -> Row:
    thread = global_id(PID, PID)
    return row(
        "CUPTI_ACTIVITY_KIND_OVERHEAD",
        start=start,
        end=end,
        globalTid=thread,
        nameId=label,
        overheadType=kind,
    )


ANSWER = "a regular result, not a failure"
UNDONE = "the call had no effect; its time still counts"


@pytest.mark.parametrize(
    ("name", "code", "level", "what", "meaning"),
    [
        ("cudaEventQuery_v3020", 600, "info", "not ready", ANSWER),
        ("cuStreamQuery", 600, "info", "not ready", ANSWER),
        ("cudaDeviceEnablePeerAccess_v4000", 704, "info", "peer access already enabled", ANSWER),
        ("cuGetProcAddress_v2", 500, "info", "not found", ANSWER),
        ("cudaFree_v3020", 4, "info", "shutting down", ANSWER),
        ("cudaGetLastError", 2, "info", "out of memory", "repeats the error of an earlier call"),
        ("cudaMalloc_v3020", 2, "warning", "out of memory", UNDONE),
        ("cudaMalloc_v3020", 600, "warning", "not ready", UNDONE),
        (
            *("cudaDeviceSynchronize", 700, "warning", "illegal address"),
            "the CUDA context is lost; no later work ran in it",
        ),
        ("cudaFree", 12345, "warning", "an error", UNDONE),
    ],
)
def test_results_of_api_calls(  # noqa: PLR0913, PLR0917 - what comes out
    tmp_path: Path, name: str, code: int, level: str, what: str, meaning: str
) -> None:
    calls = [call(name, 10 * i, 10 * i + 5, i, returnValue=code) for i in range(1, 4)]
    first, *rest = found(opened(tmp_path, *calls, call("cudaFree", 1, 2)), "API results")
    shown = name[:-6] if name[-6:-4] == "_v" else name
    assert first == (level, 3, None, f"{shown} returned {code} ({what}): {meaning}")
    succeeded = ("ok", 0, None, "no API call failed; 1 API call returned success")
    assert rest == ([] if level == "warning" else [succeeded])


def test_a_result_that_is_missing_is_no_failure(tmp_path: Path) -> None:
    calls = [call("cudaFree", 1, 2, returnValue=None), call("cudaFree", 3, 4)]
    said = "no API call failed; 1 API call returned success"
    assert found(opened(tmp_path, *calls), "API results") == [("ok", 0, None, said)]


def test_results_that_are_not_said(tmp_path: Path) -> None:
    capture = opened(tmp_path, call("cudaFree", 1, 5), without=["returnValue"])
    assert found(capture, "API results") == [
        ("info", None, None, "this export has no return values of API calls")
    ]


def test_profiler_overhead_once_per_thread_and_where_it_lies(tmp_path: Path) -> None:
    # 0        100       200       300       400       500
    # API      [100 ------ 200)                          thread 100
    # GPU                      [250-300)      [400-450)  idle: 300-400
    # flush    [120 - 150)
    #             [140 -- 210)                           union 90, 80 in the call
    # init  [10-60)                                      thread 100
    # flush                           [320 - 340)        thread 101, in no call of its own
    capture = opened(
        tmp_path,
        *(call(LAUNCH, 100, 200, 1), kernel("k", 250, 300, 1), kernel("k", 400, 450, 1)),
        *(overhead("flush", 120, 150), overhead("flush", 140, 210), overhead("init(lib.so)", 10, 60)),
        overhead("flush", 320, 340, tid=101),
    )
    in_all = (
        "in total, 80 ns in API calls (80.0 % of that time) and 20 ns while a GPU was idle (20.0 % of "
        "that time)"
    )
    assert found(capture, "profiler overhead") == [
        ("warning", 4, 160, f"{in_all}: these times may be shorter without a profiler"),
        ("info", 3, 110, "flush: 80 ns in API calls and 20 ns while a GPU was idle"),
        ("info", 1, 50, "init: none in API calls or while a GPU was idle"),
    ]


def test_overhead_that_lengthens_nothing(tmp_path: Path) -> None:
    capture = opened(tmp_path, *launch(1, 100), overhead("init", 10, 60))
    in_all, _ = found(capture, "profiler overhead")
    assert in_all == ("info", 1, 50, "in total, 0 ns in API calls (0.0 % of that time)")
    (tmp_path / "alone").mkdir()
    [(*_, meaning), _] = found(
        opened(tmp_path / "alone", overhead("init", 10, 60), ELSEWHERE), "profiler overhead"
    )
    assert meaning == "in total, without API calls or GPU idle time to affect"


def test_what_cuda_does_by_itself_is_no_cost_of_profiling(tmp_path: Path) -> None:
    capture = opened(
        tmp_path,
        call(LAUNCH, 100, 200, 1),
        overhead("flush", 110, 115, kind=3),
        by_cuda("flush", 110, 115, 3),  # stands in both tables: counts once
        by_cuda("Lazy Function Loading", 120, 180, 7),
    )
    assert [(level, count, time) for level, count, time, _ in found(capture, "profiler overhead")] == [
        ("info", 1, 5),
        ("info", 1, 5),
    ]
    said = "Lazy Function Loading: 60 ns in API calls; also present without a profiler"
    assert found(capture, "CUDA overhead") == [("info", 1, 60, said)]


def test_names_that_the_export_lacks(tmp_path: Path) -> None:
    whole = opened(tmp_path, *launch(1, 100), kernel("a", 0, 5), kernel("b", 5, 9))
    assert found(whole, "names") == []
    (tmp_path / "cut").mkdir()
    cut = opened(tmp_path / "cut", *launch(1, 100), kernel("a", 0, 5), kernel(77, 5, 9), kernel(78, 5, 9))
    again = "reports cannot tell these events apart. Export the .nsys-rep again"
    assert found(cut, "names") == [
        ("loss", 2, None, f"the export lacks the names of 2 of {cut.count('kernel')} kernels; {again}")
    ]

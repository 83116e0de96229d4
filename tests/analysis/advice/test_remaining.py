"""Idle time without another finding: no GPU that is idle for long goes without one."""

import random
from pathlib import Path

import numpy as np
import pytest
from advised import STEP_NS, check, findings_of, launched, looped, new, stakes
from drawn_programs import Program
from sampled import sampled
from tiny_export import PID, Row, call, global_id, kernel, memcpy, memset, row

from nsyswrap.analysis.advice import advise_processes
from nsyswrap.analysis.gpu_gaps import CAUSES
from nsyswrap.analysis.gpu_operations import gpu_operations_of, owners_of_gpus
from nsyswrap.analysis.judged_process import JudgedProcess, judged_processes
from nsyswrap.capture.intervals import difference, joined, union

MOSTLY_PERCENT = 20


# CPU  |La 0-10|Lb 10-20|
# GPU          a[10, 300)     b[300 + gap ... 1000): launched long before
def queued(gap: int) -> list[Row]:
    return [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        *(call("cudaLaunchKernel", 10, 20, 2), kernel("b", 300 + gap, STEP_NS, 2)),
    ]


@pytest.mark.parametrize(("gap", "expected"), [(49, {}), (50, {"idle_queued": 150})])
def test_the_gpu_is_idle_between_queued_operations(
    gap: int, expected: dict[str, int], tmp_path: Path
) -> None:
    assert stakes(tmp_path, *looped(*queued(gap))) == expected


def test_what_is_said_of_queued_operations(tmp_path: Path) -> None:
    one = findings_of(new(tmp_path, *looped(*queued(100))))["idle_queued"]
    assert one.numbers == {"steps": 3, "idle_ns": 300, "cause": "queued", "computes": True}


# CPU  |L 0-4|record 4-6|La 6-10|await 10-12|Lb 12-20|
# GPU 0                   a[10, 300)                     b[600 ... 1000)
# GPU 1   remote[10 ..................... 600)
def test_queued_work_that_waits_for_another_gpu(tmp_path: Path) -> None:
    there, here = (
        {"deviceId": 1, "contextId": 2, "streamId": 9},
        {"deviceId": 0, "contextId": 1, "streamId": 7},
    )
    step = [
        *(call("cudaLaunchKernel", 0, 4, 5), kernel("remote", 10, 600, 5, **there)),
        call("cudaEventRecord", 4, 6, 3),
        *(call("cudaLaunchKernel", 6, 10, 1), kernel("a", 10, 300, 1, **here)),
        call("cudaStreamWaitEvent", 10, 12, 4),
        *(call("cudaLaunchKernel", 12, 20, 2), kernel("b", 600, STEP_NS, 2, **here)),
    ]
    events: list[Row] = []
    for i in range(4):
        own = {"globalPid": global_id(PID), "eventSyncId": i + 1}
        record, wait = ({**own, "correlationId": number + 1000 * i} for number in (3, 4))
        times = {"start": 1000 * i + 10, "end": 1000 * i + 12, "syncType": 2}
        events.append(row("CUPTI_ACTIVITY_KIND_CUDA_EVENT", **record, **there))
        events.append(row("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", **times, **wait, **here))
    one = findings_of(new(tmp_path, *looped(*step), *events))["idle_queued"]
    assert (one.numbers["blocked_ns"], one.numbers["blocker_kernel"]) == (3 * 300, "remote")
    without = findings_of(new(tmp_path, *looped(*step)))["idle_queued"]
    assert "blocked_ns" not in without.numbers


def test_queued_copies_get_no_advice_on_kernels(tmp_path: Path) -> None:
    # As queued(100), with copies. Steps need launches: all four are judged.
    copies = [
        *(call("cudaMemcpyAsync", 0, 10, 1), memcpy(1, 10, 300, 10**6, correlationId=1, srcKind=1)),
        *(call("cudaMemcpyAsync", 10, 20, 2), memcpy(1, 400, STEP_NS, 10**6, correlationId=2, srcKind=1)),
    ]
    one = findings_of(new(tmp_path, *looped(*copies)))["idle_queued"]
    assert one.numbers == {"steps": 4, "idle_ns": 400, "cause": "queued", "computes": False}


def test_the_profiler_leaves_the_gpu_idle(tmp_path: Path) -> None:
    thread = global_id(PID, PID)
    overhead = row("PROFILER_OVERHEAD", start=0, end=90, globalTid=thread, nameId="CUDA profiling")
    rows = looped(*launched(100, host=90, length=4), overhead)
    assert stakes(tmp_path, *rows) == {"idle_profiler": 3 * 90}


def test_kernels_without_a_recorded_launch(tmp_path: Path) -> None:
    rows = [kernel("a", 0, 100, None), kernel("b", 150, 250, None)]
    assert stakes(tmp_path, *rows) == {"idle_unknown": 50}


# CPU  |L 0-10|     host     |
# GPU         k[10 ... 940)    until the step ends
def test_short_host_code_after_the_last_launch_of_all_ends_with_no_launch(tmp_path: Path) -> None:
    step = [call("cudaLaunchKernel", 0, 10, 1), kernel("k", 10, 940, 1)]
    # 60 before each launch but the first one, and 10 in each; the last 60 are 2 %
    assert stakes(tmp_path, *looped(*step)) == {"launch_bound": 2 * 60 + 3 * 10}


# What the host does in the first quarter of a step, and what ends it; the kernel lasts until the end.
MS = 10**6
GAP, END = 250 * MS, STEP_NS * MS
LATE = [call("cudaLaunchKernel", GAP, GAP, 1), kernel("k", GAP, END, 1)]
QUARTERS: dict[str, list[Row]] = {
    "profiler": [
        row("PROFILER_OVERHEAD", start=0, end=GAP, globalTid=global_id(PID, PID), nameId="CUDA"),
        *LATE,
    ],
    "load": [call("cuModuleLoadData", 0, GAP), *LATE],
    "allocate": [call("cudaMalloc", 0, GAP), *LATE],
    "synchronise": [call("cudaDeviceSynchronize", 0, GAP), *LATE],
    "launch": [call("cudaLaunchKernel", 0, GAP, 1), kernel("k", GAP, END, 1)],
    "copy": [
        *(call("cudaMemset", 0, GAP, 1), memset(GAP, GAP + 2, 8, correlationId=1)),
        *(call("cudaLaunchKernel", GAP, GAP + 1, 2), kernel("k", GAP + 2, END, 2)),
    ],
    "call": [call("cudaGetDevice", 0, GAP), *LATE],
    "host": LATE,
    "queued": [
        *(call("cudaLaunchKernel", 0, 1, 1), kernel("a", 1, 2, 1)),
        *(call("cudaLaunchKernel", 1, 2, 2), kernel("k", GAP + 2, END, 2)),
    ],
    "migration": [
        *(call("cudaLaunchKernel", 0, 1, 1), kernel("a", 1, 2, 1)),
        memcpy(11, GAP + 2, END, 4096, streamId=0),
    ],
    "unknown": [*(call("cudaLaunchKernel", 0, 1, 1), kernel("a", 1, 2, 1)), kernel("b", GAP + 2, END, None)],
}


def test_every_cause_is_drawn() -> None:
    assert tuple(QUARTERS) == CAUSES


@pytest.mark.parametrize("cause", CAUSES)
def test_a_mostly_idle_gpu_has_a_finding_though_nothing_is_worth_one(cause: str, tmp_path: Path) -> None:
    capture = new(tmp_path, *looped(*QUARTERS[cause], every=END))
    [one] = advise_processes(capture, judged_processes(capture), least_percent=30).findings
    check(one)
    assert (one.kind, one.ceiling_ns) == (f"idle_{cause}", 3 * GAP)
    assert (one.numbers["idle_ns"], one.numbers["cause"]) == (3 * GAP, cause)


@pytest.mark.parametrize(("gap", "expected"), [(199, []), (200, ["idle_host"])])
def test_a_gpu_is_mostly_idle_from_a_fifth_on(gap: int, expected: list[str], tmp_path: Path) -> None:
    rows = looped(call("cudaLaunchKernel", gap, gap, 1), kernel("k", gap, STEP_NS, 1))
    assert list(findings_of(new(tmp_path, *rows), least_percent=30)) == expected


def test_operations_without_duration_leave_no_gpu_idle(tmp_path: Path) -> None:
    assert stakes(tmp_path, kernel("k", 50, 50, None)) == {}


def test_what_other_findings_explain_is_not_left(tmp_path: Path) -> None:
    # 100 queued, and 100 of host code that is a finding
    step = [
        *(call("cudaLaunchKernel", 100, 104, 1), kernel("a", 104, 300, 1)),
        *(call("cudaLaunchKernel", 104, 108, 2), kernel("b", 400, STEP_NS, 2)),
    ]
    assert stakes(tmp_path, *looped(*step)) == {"host_bound": 300, "idle_queued": 300}


def idle_ns(part: JudgedProcess) -> int:
    """The time of a part in which a device is idle, without outlier steps; several devices count once."""
    whole, typical, idle = part.view.whole, union(*part.typical), []
    every = gpu_operations_of(whole)
    for process, device, _ in gpu_operations_of(part.view).by_device():
        rows = np.concatenate([every.rows_of[pair] for pair in owners_of_gpus(whole)[process, device]])
        idle.append(difference(typical, union(every.start_ns[rows], every.end_ns[rows])))
    return joined(*idle).length


@sampled("seed", range(60), fast=10)
def test_no_mostly_idle_gpu_of_a_drawn_program_goes_without_a_finding(seed: int, tmp_path: Path) -> None:
    capture = new(tmp_path, *Program(random.Random(seed)).rows)  # noqa: S311 - no secret
    parts = judged_processes(capture)
    busy = all(100 * idle_ns(part) < MOSTLY_PERCENT * part.window_ns for part in parts)
    for least_percent in (5, 100):
        assert findings_of(capture, least_percent) or busy

"""All findings together: their order, several devices and processes, and what holds in any capture."""

import random
from pathlib import Path

import pytest
import recorded
from advised import STEP_NS, findings_of, launched, looped, new, stakes
from drawn_programs import Program
from sampled import sampled
from tiny_export import Row, call, changed, global_id, kernel, memcpy, memset, row

from nsyswrap.analysis.advice import WORTH_PERCENT
from nsyswrap.analysis.answer import answer_of
from nsyswrap.analysis.finding import Finding
from nsyswrap.api import CaptureReader, open_capture
from nsyswrap.capture.intervals import intersection

FIRST, LAST = {"lost_events"}, {"timed_launch_only", "timed_earlier_work"}


pytestmark = pytest.mark.slow


def test_the_largest_stands_first(tmp_path: Path) -> None:
    # 200 ns of loading, or 201, and 200 of host code before a second launch
    def two(loading: int) -> list[Row]:
        return looped(
            *(call("cuModuleLoadData", 0, loading), call("cudaLaunchKernel", loading, loading, 1)),
            *(kernel("a", loading, 500, 1), call("cudaLaunchKernel", 700, 700, 2)),
            kernel("b", 700, STEP_NS, 2),
        )

    assert list(stakes(tmp_path, *two(199)).items()) == [("host_bound", 600), ("loading_in_loop", 597)]
    assert list(stakes(tmp_path, *two(201)).items()) == [("loading_in_loop", 603), ("host_bound", 600)]


# Device 0, and device 1 that another thread launches on:
# CPU  |L 0-100|           CPU  |L 0-100|
# 0            k[100 ...   1            k[150 ...
# The step cannot be shorter than what device 0 computes.
def test_time_on_two_devices_is_at_most_that_of_the_one_that_computes_longest(tmp_path: Path) -> None:
    here = launched(100, length=90)
    there = [call("cudaLaunchKernel", 0, 90, 2, tid=101), kernel("k", 150, STEP_NS, 2, deviceId=1)]
    assert stakes(tmp_path, *looped(*here, *there)) == {"launch_bound": 3 * 100}


# 0            k[500 ..... 1000)
# 1  c[5 .... 505)
def test_devices_that_take_turns_save_at_most_what_each_is_idle(tmp_path: Path) -> None:
    here = launched(500, host=490, length=4)
    there = [call("cudaLaunchKernel", 0, 4, 2, tid=101), kernel("k", 5, 505, 2, deviceId=1)]
    assert stakes(tmp_path, *looped(*here, *there)) == {"host_bound": 3 * 500}


def test_a_device_that_always_computes_leaves_nothing_to_save(tmp_path: Path) -> None:
    always = [call("cudaLaunchKernel", 0, 4, 2, tid=101), kernel("k", 0, STEP_NS, 2, deviceId=1)]
    assert stakes(tmp_path, *looped(*launched(400, host=390), *always)) == {}


def test_of_a_finding_in_two_processes_the_larger_share_counts(tmp_path: Path) -> None:
    def process(pid: int, every: int, gap: int) -> list[Row]:
        step = [call("cudaLaunchKernel", 0, 50, 1, pid=pid)]
        step += [kernel("k", gap, every, 1, pid=pid, deviceId=pid)]
        return looped(*step, every=every, pid=pid)

    large, small = (1, 500, 90), (2, 1000, 100)  # 270 of 1500 ns, and 300 of 3000
    for processes in ((large, small), (small, large)):
        pids = zip((1, 2), processes, strict=True)  # in either order of process ids
        rows = [row for pid, (_, every, gap) in pids for row in process(pid, every, gap)]
        found = findings_of(new(tmp_path, *rows))
        assert list(found) == ["launch_bound"]
        assert (found["launch_bound"].ceiling_ns, found["launch_bound"].window_ns) == (270, 1500)


# 4242  |L 0-8|  k[8 ....... 500)
# 5555                      |L 490-498|  k[500 + gap ...... 1000 + 8)
@pytest.mark.parametrize(("gap", "busy"), [(0, 100.0), (100, 90.0)])
def test_processes_that_take_turns_on_one_gpu_are_judged_together(
    gap: int, busy: float, tmp_path: Path
) -> None:
    one = [call("cudaLaunchKernel", 0, 8, 1, pid=4242), kernel("k", 8, 500, 1, pid=4242)]
    other = [call("cudaLaunchKernel", 490, 498, 1, pid=5555)]
    other += [kernel("k", 500 + gap, STEP_NS + 8, 1, pid=5555)]
    rows = [*looped(*one, steps=20, pid=4242), *looped(*other, steps=20, pid=5555)]
    answer = answer_of(new(tmp_path, *rows))
    [device] = answer.devices
    assert (device.process_id, device.shared_with) == (4242, (5555,))
    assert answer.share(sum(answer.busy_ns.values())) == pytest.approx(busy, abs=0.1)
    assert bool(answer.findings) == (gap > 0)
    assert all((finding.ceiling_percent or 0) <= 100 - busy + 0.1 for finding in answer.findings)
    two = [row("TARGET_INFO_GPU", id=i, name="GPU", smCount=0) for i in range(2)]
    (tmp_path / "two").mkdir()
    apart = answer_of(new(tmp_path / "two", *rows, *two))  # equal numbers can be two GPUs
    assert [device.shared_with for device in apart.devices] == [(), ()]


# 4242  |L 0-8|  k[8 ... 300)
# 5555               |L 280-288|  memset[310 .... 800)
def test_what_another_process_does_on_the_gpu_cannot_be_saved(tmp_path: Path) -> None:
    one = [call("cudaLaunchKernel", 0, 8, 1, pid=4242), kernel("k", 8, 300, 1, pid=4242)]
    other = [
        call("cudaMemsetAsync", 280, 288, 1, pid=5555),
        memset(310, 800, 8, correlationId=1, globalPid=global_id(5555)),
    ]
    rows = [*looped(*one, steps=20, pid=4242), *looped(*other, steps=20, pid=5555)]
    answer = answer_of(new(tmp_path, *rows))
    [device] = answer.devices
    assert device.shared_with == (5555,)
    [finding] = answer.findings
    assert finding.kind == "host_bound"
    # 490 of the 700 ns after the kernel are the other's memset
    assert (finding.evidence.length, finding.ceiling_ns) == (19 * 700, 19 * 210)
    assert sum(answer.idle_ns.values()) == 19 * 210 + 370


def of_another(begin: int, start: int, end: int, number: int = 1) -> list[Row]:
    """Work of another process on the same GPU, and the call that starts it."""
    return [
        call("cudaMemsetAsync", begin, begin + 8, number, pid=5555),
        memset(start, end, 8, correlationId=number, globalPid=global_id(5555)),
    ]


# 4242  |L 0-8|S 10 ............... 990|   k[8 ... 300)
# 5555               |L 280-288|  memset[310 .... 800)
def test_no_wait_saves_what_another_process_does_on_the_gpu(tmp_path: Path) -> None:
    one = [
        call("cudaLaunchKernel", 0, 8, 1, pid=4242),
        call("cudaDeviceSynchronize", 10, 990, 2, pid=4242),
        kernel("k", 8, 300, 1, pid=4242),
    ]
    other = looped(*of_another(280, 310, 800), steps=20, pid=5555)
    answer = answer_of(new(tmp_path, *looped(*one, steps=20, pid=4242), *other))
    [waits] = [finding for finding in answer.findings if finding.kind == "synchronizing"]
    # 218 of each of 19 steps are idle: [0, 8), [300, 310) and [800, 1000)
    assert waits.ceiling_ns == 19 * 218


# 4242  |C 0 .... 310|           |L 900-908|   copy[8 ... 300)          k[910 ... 1000)
# 5555  |L 0-8|  memset[10 .............. 800)
def test_no_pageable_copy_saves_what_another_process_does_on_the_gpu(tmp_path: Path) -> None:
    one = [
        call("cudaMemcpy", 0, 310, 1, pid=4242),
        memcpy(1, 8, 300, 1 << 20, correlationId=1, globalPid=global_id(4242), srcKind=0, dstKind=2),
        call("cudaLaunchKernel", 900, 908, 2, pid=4242),
        kernel("k", 910, 1000, 2, pid=4242),
    ]
    other = looped(*of_another(0, 10, 800), steps=20, pid=5555)
    answer = answer_of(new(tmp_path, *looped(*one, steps=20, pid=4242), *other))
    [copies] = [finding for finding in answer.findings if finding.kind == "pageable_copies"]
    # 120 of each of 19 steps are without other work: [0, 10) and [800, 910)
    assert copies.ceiling_ns == 19 * 120


# 4242  copy[10 ....... 500)k[500 .... 1000)
# 5555   k[10 ........ 490)
def test_no_overlap_saves_time_in_which_another_process_computes(tmp_path: Path) -> None:
    one = [
        call("cudaMemcpyAsync", 0, 8, 1, pid=4242),
        memcpy(1, 10, 500, 1 << 20, correlationId=1, globalPid=global_id(4242), srcKind=1, dstKind=2),
        call("cudaLaunchKernel", 10, 18, 2, pid=4242),
        kernel("k", 500, 1000, 2, pid=4242),
    ]
    other = [call("cudaLaunchKernel", 0, 8, 1, pid=5555), kernel("z", 10, 490, 1, pid=5555)]
    rows = looped(*one, steps=20, pid=4242)
    [alone] = answer_of(new(tmp_path, *rows)).findings
    assert (alone.kind, alone.ceiling_ns) == ("copies_not_overlapped", 19 * 490)
    (tmp_path / "shared").mkdir()
    shared = answer_of(new(tmp_path / "shared", *rows, *looped(*other, steps=20, pid=5555)))
    assert shared.findings == ()  # 10 of each 1000 ns are left


def test_steps_are_no_spikes_because_another_process_uses_the_gpu(tmp_path: Path) -> None:
    one = [call("cudaLaunchKernel", 0, 8, 1, pid=4242), kernel("k", 8, 900, 1, pid=4242)]
    rows = looped(*one, steps=20, pid=4242, longer={5: 2000, 12: 2000})
    other = [*of_another(5900, 5910, 7900, 1), *of_another(14900, 14910, 16900, 2)]
    assert "spikes" in findings_of(new(tmp_path, *rows))
    (tmp_path / "shared").mkdir()
    assert "spikes" not in findings_of(new(tmp_path / "shared", *rows, *other))


# CPU  |La 0-10|C 10 ................. 700|Lb 700-710|
# GPU          a[10, 300)    c[400, 690)             b[720, 1000)
def test_findings_on_the_same_time_name_each_other(tmp_path: Path) -> None:
    step = [
        *(call("cudaLaunchKernel", 0, 10, 1), kernel("a", 10, 300, 1)),
        call("cudaMemcpy", 10, 700, 2),
        memcpy(2, 400, 690, 10**6, correlationId=2, srcKind=2, dstKind=0),
        *(call("cudaLaunchKernel", 700, 710, 3), kernel("b", 720, STEP_NS, 3)),
    ]
    found = findings_of(new(tmp_path, *looped(*step)))
    # The 100 ns before the copy are of both; the copy is of the one, 30 after it are of the other.
    assert {name: one.ceiling_ns for name, one in found.items()} == {
        "pageable_copies": 3 * (100 + 290),
        "synchronizing": 30 + 2 * (10 + 100 + 30),  # the first copy is no earlier than recorded
    }
    assert found["pageable_copies"].shares == ("synchronizing",)
    assert found["synchronizing"].shares == ("pageable_copies",)


def test_findings_on_different_time_name_none(tmp_path: Path) -> None:
    step = [
        *(call("cudaLaunchKernel", 100, 104, 1), kernel("a", 104, 300, 1)),
        *(call("cudaLaunchKernel", 104, 108, 2), kernel("b", 400, STEP_NS, 2)),
    ]
    found = findings_of(new(tmp_path, *looped(*step)))
    assert {name: one.shares for name, one in found.items()} == {"host_bound": (), "idle_queued": ()}


def test_a_gpu_that_is_always_busy_has_none(tmp_path: Path) -> None:
    assert stakes(tmp_path, call("cudaLaunchKernel", 0, 10, 1), kernel("k", 15, 1000, 1)) == {}


def ranked(capture: CaptureReader) -> list[Finding]:
    """Return the findings after a look at their order and at what each has in common with the others."""
    found = list(findings_of(capture).values())
    names = [one.kind for one in found]
    with_stakes = [one for one in found if one.ceiling_percent is not None]
    shares = [one.ceiling_percent or 0.0 for one in with_stakes]
    assert shares == sorted(shares, reverse=True)
    first, last = (sum(name in group for name in names) for group in (FIRST, LAST))
    assert FIRST.issuperset(names[:first])
    assert LAST.issuperset(names[len(names) - last :])
    for one in with_stakes:
        for other in with_stakes:
            if other.kind in one.shares:
                assert one.kind in other.shares
                assert intersection(one.evidence, other.evidence).length
        assert (one.ceiling_percent or 0) >= WORTH_PERCENT or names == [one.kind]
    return found


@sampled("name", recorded.capture_names(), fast=recorded.DOZEN)
def test_the_findings_of_a_recorded_capture(name: str, tmp_path: Path) -> None:
    ranked(open_capture(recorded.run_folder(name, tmp_path)))


@sampled("seed", range(1000, 1060), fast=10)
def test_the_findings_of_a_drawn_program(seed: int, tmp_path: Path) -> None:
    capture = new(tmp_path, *Program(random.Random(seed)).rows)  # noqa: S311 - no secret
    ranked(capture)
    ranked(capture.select(time="100/400"))


def test_most_findings_are_among_what_is_drawn(tmp_path: Path) -> None:
    names: set[str] = set()
    for seed in range(60):
        names |= findings_of(new(tmp_path, *Program(random.Random(seed)).rows)).keys()  # noqa: S311 - no secret
    assert names >= {"launch_bound", "host_bound", "synchronizing", "allocating", "loading_in_loop", "spikes"}
    assert names >= {"exposed_communication", "idle_queued", "idle_migration"}


def scaled(row: Row, factor: int) -> Row:
    times = {name: row.cells.get(name) for name in ("start", "end")}
    return changed(row, **{name: at * factor for name, at in times.items() if isinstance(at, int)})


@pytest.mark.parametrize("factor", [3, 1000])
def test_the_unit_of_time_changes_no_finding(factor: int, tmp_path: Path) -> None:
    for seed in range(12):
        rows = Program(random.Random(seed)).rows  # noqa: S311 - no secret
        usual = stakes(tmp_path, *rows)
        longer = stakes(tmp_path, *(scaled(row, factor) for row in rows))
        # Ranges are wrong by more than the error of the clocks, which is in ns.
        names = [name for name in usual if not name.startswith("timed_")]
        assert [name for name in longer if not name.startswith("timed_")] == names
        assert [longer[name] for name in names] == [factor * (usual[name] or 0) for name in names]

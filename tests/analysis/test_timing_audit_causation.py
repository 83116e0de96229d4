"""Which launches of other threads count for a range, worked out on paper. Times are in microseconds."""

from pathlib import Path

import pytest
from tiny_export import OSRT, PID, Row, call, global_id, kernel, nvtx, on_cpu, opened, row

from nsyswrap.analysis.timing_audit import VERDICTS, audit
from nsyswrap.api import CaptureReader

WORKER = 101


def launch(  # noqa: PLR0913, PLR0917 - when, where, and by whom
    number: int, at: float, start: float, end: float, tid: int = PID, stream: int = 7
) -> list[Row]:
    """A launch call of 2 us, and when its kernel ran."""
    return [
        call("cudaLaunchKernel", round(at * 1000), round((at + 2) * 1000), number, tid=tid),
        kernel("k", round(start * 1000), round(end * 1000), number, streamId=stream),
    ]


def sync(start: int, end: int, tid: int = PID) -> Row:
    return call("cudaStreamSynchronize", start * 1000, end * 1000, 0, tid=tid)


def ranged(name: str, start: int, end: int, tid: int = PID, **more: object) -> Row:
    return nvtx(name, start * 1000, end * 1000, tid, **more)


def wait(name: str, start: int, end: int) -> Row:
    return on_cpu(OSRT, name, start * 1000, end * 1000)


def thread_name(name: str, tid: int) -> Row:
    return row("ThreadNames", nameId=name, priority=20, globalTid=global_id(PID, tid))


def judged(capture: CaptureReader) -> list[tuple[str, int, int]]:
    """Verdict, launches and launches by other threads of each range."""
    found = audit(capture)
    verdicts = [VERDICTS[i] for i in found.verdict]
    return list(zip(verdicts, found.launches.tolist(), found.adopted.tolist(), strict=True))


def training(*, backward_at: int = 30, numbers: range = range(3), tid: int = WORKER) -> list[Row]:
    """Steps of 100 us: forward 2-20 launches at 4 and 10; backward 22-60 calls another thread; sync 62-90.

    That thread launches three times, 6 us apart; all kernels are over by 88.
    """
    rows = []
    for i in numbers:
        at, first = 100 * i, 1 + 10 * i
        rows += [
            *(ranged("step", at, at + 95), ranged("forward", at + 2, at + 20)),
            ranged("backward", at + 22, at + 60),
            *launch(first, at + 4, at + 8, at + 12),
            *launch(first + 1, at + 10, at + 14, at + 20),
            *(
                one
                for n in range(3)
                for one in launch(
                    first + 2 + n, at + backward_at + 6 * n, at + 60 + 8 * n, at + 68 + 8 * n, tid
                )
            ),
            sync(at + 62, at + 90),
        ]
    return rows


def test_a_thread_that_launches_while_the_caller_waits_for_it_counts(tmp_path: Path) -> None:
    # step: its two launches and three of the other thread; backward: the other thread's, over at 84
    step, forward, backward = judged(opened(tmp_path, *training()))[:3]
    assert step == ("complete", 5, 3)
    assert forward == ("complete", 2, 0)
    assert backward == ("launch only", 3, 3)


def test_launches_during_the_callers_own_calls_do_not_count(tmp_path: Path) -> None:
    # the same, but the other thread launches at 65, 71 and 77, while the caller synchronizes from 62 to 90
    step, _, backward = judged(opened(tmp_path, *training(backward_at=65)))[:3]
    assert (step, backward) == (("complete", 2, 0), ("no GPU work", 0, 0))


def steady_worker(stream: int, tid: int = WORKER) -> list[Row]:
    """One kernel every 20 us from -40 to 400, each running for 19 us: the GPU is never idle."""
    times = range(-40, 400, 20)
    return [one for i, at in enumerate(times) for one in launch(100 + i, at, at + 3, at + 22, tid, stream)]


def step_rows() -> list[Row]:
    """Four ranges of 90 us: a launch at 4, its kernel from 10 to 20, a synchronize from 7 to 25."""
    return [
        one
        for i in range(4)
        for one in (
            ranged("step", 100 * i, 100 * i + 90),
            *launch(1 + i, 100 * i + 4, 100 * i + 10, 100 * i + 20),
            sync(100 * i + 7, 100 * i + 25),
        )
    ]


def test_a_worker_on_its_own_stream_changes_no_verdict(tmp_path: Path) -> None:
    # most of its launches lie in the host code of the steps, but it goes on at its pace across their borders
    capture = opened(tmp_path, *step_rows(), *steady_worker(stream=13))
    assert judged(capture) == [("complete", 1, 0)] * 4
    # each window of 20 us has 19 us of the worker: 3-22 and so on, in the first 90 us 2+19+19+19+19+7
    assert audit(capture).uncaused_ns[0] == 85_000
    assert (audit(capture).other_ns == audit(capture).uncaused_ns).all()


def test_the_report_says_that_a_worker_overlaps_and_what_would_tell(tmp_path: Path) -> None:
    table = opened(tmp_path, *step_rows(), *steady_worker(stream=13)).report("timing_audit")
    [note] = [note for note in table.notes if "without ranges" in note]
    assert note.startswith("ranges overlapped by GPU work of a thread without ranges: 4;")
    assert "trace OS runtime calls (nsyswrap profile --trace cuda,nvtx,osrt)" in note
    assert table.verdict.startswith(
        "1 of 1 range names time their GPU work correctly; GPU work of another thread"
    )
    assert "overlaps 4 ranges and is not counted" in table.verdict
    assert "--trace cuda,nvtx,osrt" in table.verdict


def test_a_worker_in_the_same_stream_is_waited_for(tmp_path: Path) -> None:
    verdicts = {verdict for verdict, _, _ in judged(opened(tmp_path, *step_rows(), *steady_worker(stream=7)))}
    assert verdicts == {"includes earlier work"}


def test_a_worker_with_ranges_of_its_own_needs_no_note(tmp_path: Path) -> None:
    rows = [*step_rows(), *steady_worker(stream=13), ranged("load", -50, 450, WORKER)]
    capture = opened(tmp_path, *rows)
    assert judged(capture)[1:] == [("complete", 1, 0)] * 4
    assert not audit(capture).uncaused_ns.any()
    assert not [note for note in capture.report("timing_audit").notes if "without ranges" in note]


def one_burst_of(*more: Row) -> list[Row]:
    """Four steps; in the host code of the third one another thread launches twice, 12 us apart."""
    return [
        *step_rows(),
        *launch(90, 240, 244, 300, WORKER, 13),
        *launch(91, 252, 300, 310, WORKER, 13),
        *more,
    ]


def test_a_burst_that_falls_into_one_of_many_ranges_is_no_pattern(tmp_path: Path) -> None:
    assert judged(opened(tmp_path, *one_burst_of())) == [("complete", 1, 0)] * 4


@pytest.mark.parametrize(
    ("name", "start", "end", "counts"),
    [
        ("pthread_cond_wait", 230, 270, True),
        ("sem_wait", 230, 270, True),
        ("poll", 230, 270, True),
        ("pthread_cond_wait", 230, 250, False),  # over before the second launch
        ("pthread_cond_timedwait", 230, 270, False),  # may be for the lock of Python's interpreter
        ("read", 230, 270, False),
    ],
)
def test_a_wait_for_the_burst_is_evidence(
    name: str,
    start: int,
    end: int,
    counts: bool,  # noqa: FBT001
    tmp_path: Path,
) -> None:
    third = judged(opened(tmp_path, *one_burst_of(wait(name, start, end))))[2]
    assert third == (("launch only", 3, 2) if counts else ("complete", 1, 0))


def test_the_note_asks_for_no_trace_that_is_there(tmp_path: Path) -> None:
    notes = opened(tmp_path, *one_burst_of(wait("read", 0, 1))).report("timing_audit").notes
    [note] = [note for note in notes if "without ranges" in note]
    assert note.endswith("to tell, add NVTX ranges to that thread")


def test_autograds_thread_is_known_by_its_name(tmp_path: Path) -> None:
    # alone the burst in the third step is no pattern; of this thread each burst counts that is enclosed
    rows = one_burst_of(thread_name("pt_autograd_0", WORKER))
    assert judged(opened(tmp_path, *rows)) == [
        *[("complete", 1, 0)] * 2,
        ("launch only", 3, 2),
        ("includes earlier work", 1, 0),  # until 310
    ]


def test_autograd_with_ranges_of_its_own_counts_for_both(tmp_path: Path) -> None:
    # emit_nvtx writes ranges around what autograd launches: here from 28 to 50 of each step
    own = [ranged("MmBackward0, seq = 1", 100 * i + 28, 100 * i + 50, WORKER) for i in range(3)]
    found = judged(opened(tmp_path, *training(), *own))
    assert found[:4] == [("complete", 5, 3), ("complete", 2, 0), ("launch only", 3, 3), ("launch only", 3, 0)]


def test_ranges_of_the_other_thread_that_reach_beyond_the_wait_keep_its_launches(tmp_path: Path) -> None:
    own = [ranged("job", 100 * i + 15, 100 * i + 61, WORKER) for i in range(3)]
    found = judged(opened(tmp_path, *training(), *own))
    assert found[0] == ("complete", 2, 0)
    assert ("mixed", 3, 0) in found  # job: forward's kernel runs until 20


def test_two_threads_with_ranges_count_each_for_itself(tmp_path: Path) -> None:
    # both launch at their own pace in steps of their own: every 100 us and every 70 us
    rows = [
        one
        for i in range(7)
        for one in (
            ranged("there", 70 * i + 5, 70 * i + 60, WORKER),
            *launch(500 + i, 70 * i + 10, 70 * i + 14, 70 * i + 30, WORKER, 13),
            sync(70 * i + 13, 70 * i + 40, WORKER),
        )
    ]
    found = audit(opened(tmp_path, *step_rows(), *rows))
    assert found.launches.tolist() == [1] * 11
    assert {VERDICTS[i] for i in found.verdict} == {"complete"}
    assert not found.adopted.any()
    assert not found.uncaused_ns.any()


def test_an_idle_thread_with_a_long_range_takes_nothing(tmp_path: Path) -> None:
    found = judged(opened(tmp_path, ranged("server", -50, 500, 99), *training()))
    assert found[0][1:] == (0, 0)  # neither what the step launches, nor what its backward causes
    assert found[1] == ("complete", 5, 3)


def test_a_thread_with_ranges_inside_one_long_range_of_another_keeps_its_launches(tmp_path: Path) -> None:
    found = judged(opened(tmp_path, ranged("server", -50, 500, 99), *step_rows()))
    assert found == [("no GPU work", 0, 0), *[("complete", 1, 0)] * 4]

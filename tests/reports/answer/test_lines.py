"""The lines of an answer, from answers written down by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from answer_parts import LAUNCH_BOUND, LAUNCHES, MS, answer, device, fact, finding, outlier, spikes, steps
from conftest import Cli
from rich.cells import cell_len
from tiny_export import call, kernel, nvtx, opened, write

from nsyswrap.analysis.answer import Answer, OtherLoop
from nsyswrap.analysis.finding import Finding
from nsyswrap.analysis.steps.occurrences import LoopLabel
from nsyswrap.api import CaptureReader
from nsyswrap.render.summary_screen import answer_texts
from nsyswrap.reports.answer import answer_lines, screen_texts
from nsyswrap.reports.answer.line import apportioned, shares_of, whole_percent

NASTY = ["\x1b[2J\nstep\u202e", "漢" * 90, "a" * 300, "a-b " * 60, "[red]<b>|`*"]


@pytest.fixture
def capture(tmp_path: Path) -> CaptureReader:
    """Any capture: the answers of these tests do not come from it."""
    return opened(tmp_path, kernel("k", 0, 5))


def waiting_for(name: str, ceiling_ms: float | None) -> Finding:
    return finding(
        "waiting_for_rank",
        ceiling_ms,
        waits="7",
        late=name,
        waited_ns=20 * MS,
        outcome="doubtful",
        doubt=name,
    )


def missing(loss: str) -> Finding:
    return finding("events_missing", None, loss=loss)


def lines(capture: CaptureReader, one: Answer) -> list[str]:
    return [text for line in answer_lines(capture, one) for text in screen_texts(line)]


def test_the_answer_of_a_launch_bound_program(capture: CaptureReader) -> None:
    assert lines(capture, answer()) == [
        "GPU busy 15 % of the steady part: 30 x 'step', 2.00 ms each (60.0 ms)",
        "  idle 85 %: launch latency 50 %, host code 30 %, synchronizing 5 %",
        "Launch-bound: median launch 4.60 µs for 1.20 µs of GPU work",
        "  CUDA graphs or fusion would save at most 50 % of a step (1.00 of 2.00 ms)",
        "Start-up: 3.50 s before the first step, 150 ms of it loading modules",
        "Advice with a line of code for each: --advice",
    ]


def test_the_bar_has_the_shares(capture: CaptureReader) -> None:
    [_, idle, *_] = map(str, answer_texts(answer_lines(capture, answer())))
    # 15 %, 50 % and 35 % of 11 characters: 1.65, 5.5 and 3.85; they end at 1.65, 7.15 and 11.
    assert (
        idle
        == "  idle 85 %: launch latency 50 %, host code 30 %, synchronizing 5 %  "
        + "█" * 2
        + "▒" * 5
        + "░" * 4
    )
    assert cell_len(idle) == 80


def test_a_busy_gpu_says_with_what(capture: CaptureReader) -> None:
    busy = device(
        busy={"gemm_kernel": 30, "memcpy": 12, "communication": 6, "other_kernel": 6}, idle={"host": 6}
    )
    assert lines(capture, answer(busy, findings=()))[:6] == [
        "GPU busy 90 % of the steady part: 30 x 'step', 2.00 ms each (60.0 ms)",
        "  busy 90 %: gemm 50 %, copies 20 %, communication 10 %, other kernels 10 %",
        "  idle 10 %: host code 10 %",
        "Largest cause of idle time: host code, 10 % of the steady part",
        "  list the gaps: -r gpu_idle",
        "20 % of the steady part only moves data: copies (-r memcpy_bandwidth)",
    ]


def test_nothing_worth_a_finding(capture: CaptureReader) -> None:
    busy = device(busy={"other_kernel": 58}, idle={"launch": 2})
    shown = lines(capture, answer(busy, findings=(), start_up=None))
    assert shown == [
        "GPU busy 97 % of the steady part: 30 x 'step', 2.00 ms each (60.0 ms)",
        "  busy 97 %: kernels 97 %",
        "  idle 3 %: launch latency 3 %",
        "No single cause costs 5 % or more (idle time, copies; 97 % in unknown kernels)",
    ]


def test_a_copy_is_never_busy_without_a_word(capture: CaptureReader) -> None:
    copying = device(
        busy={"memcpy": 40, "copy_kernel": 17, "memset": 0, "gemm_kernel": 2}, idle={"launch": 1}
    )
    shown = lines(capture, answer(copying, findings=(), start_up=None))
    assert shown[3:] == [
        "95 % of the steady part only moves data: copies 67 %, copy kernels 28 %",
        "  (-r memcpy_bandwidth)",
    ]
    known = finding("tiny_copies", 40, copies=9, median_bytes=4.0, most_bytes=64, cost_ns=4)
    assert "28 % of the steady part only moves data: copy kernels (-r cuda_gpu_kern_sum)" in lines(
        capture, answer(copying, findings=(known,))
    )


@pytest.mark.parametrize(
    ("busy", "unknown", "looked"),
    [
        ({"gemm_kernel": 60}, 0, "idle time, copies, precision, fusion"),
        ({"gemm_kernel": 60}, 24, "idle time, copies; 40 % in unknown kernels"),
        (
            {"gemm_kernel": 30, "graph": 18, "other_kernel": 12},
            6,
            "idle time, copies; 60 % in unknown kernels",
        ),
        ({"gemm_kernel": 59, "graph": 1}, 0, "idle time, copies, precision, fusion"),
    ],
)
def test_a_healthy_program_is_told_what_was_looked_at(
    busy: dict[str, int], unknown: int, looked: str, capture: CaptureReader
) -> None:
    facts = (fact("unknown_products", unknown),) if unknown else ()
    healthy = answer(device(busy=busy, idle={}), findings=(), start_up=None, facts=facts)
    assert f"No single cause costs 5 % or more ({looked})" in lines(capture, healthy)


def test_the_kernel_that_is_the_program(capture: CaptureReader) -> None:
    busy = device(busy={"other_kernel": 60}, idle={})
    kernel = fact("one_kernel", 59, kernel="void forces<(int)4>(float *)")
    drift = fact("kernel_drifts", 59, kernel="forces(float *)", first_ns=9e6, last_ns=11e6)
    shown = lines(capture, answer(busy, findings=(), start_up=None, facts=(kernel, drift)))
    assert shown[3:] == [
        "forces takes 98.3 % of the time",
        "  command for Nsight Compute: --ncu",
        "forces: median 9.00 ms in the first third of the steps, 11.0 ms in the last",
        "  (-r cuda_kern_exec_trace)",
    ]


def test_small_shares_are_summed_and_parts_add_up() -> None:
    idle = {"launch": 500, "host": 3, "call": 4, "copy": 2}  # of 1000 ms
    shares = shares_of(answer(device(busy={"memcpy": 491}, idle=idle)))
    assert (shares.busy, shares.idle) == (49, 51)
    assert shares.idle_parts == {"launch": 50, "other": 1}
    assert apportioned({"a": 1, "b": 1, "c": 1}, 100) == {"a": 34, "b": 33, "c": 33}
    assert apportioned({"a": 0}, 100) == {"a": 0}


@pytest.mark.parametrize(
    ("busy_ms", "idle_ms", "shown"),
    [
        (3, 997, ("0.3", "99.7")),
        (0, 10, ("0", "100")),
        (99_999, 1, ("99.9", "0.1")),
        (1, 99_999, ("0.1", "99.9")),
    ],
)
def test_little_is_shown_in_tenths(busy_ms: int, idle_ms: int, shown: tuple[str, str]) -> None:
    shares = shares_of(answer(device(busy={"memcpy": busy_ms}, idle={"host": idle_ms})))
    assert (shares.text(shares.busy), shares.text(shares.idle)) == shown
    assert shares.busy + shares.idle == shares.units


def test_mean_and_median_that_differ(capture: CaptureReader) -> None:
    uneven = answer(steps=steps(mean_ns=2.0 * MS, median_ns=1.8 * MS))
    assert lines(capture, uneven)[:2] == [
        "GPU busy 15 % of the steady part: 30 x 'step' (60.0 ms)",
        "  step time: mean 2.00 ms, median 1.80 ms",
    ]
    even = answer(steps=steps(mean_ns=2.0 * MS, median_ns=1.9 * MS))
    assert "2.00 ms each" in lines(capture, even)[0]


@pytest.mark.parametrize(("count", "named"), [(464, "GPU operations"), (20_078, "operations")])
def test_a_sequence_of_operations_keeps_its_words(capture: CaptureReader, count: int, named: str) -> None:
    label = LoopLabel.of_sequence(40)
    one = answer(steps=steps(label=label, count=count, mean_ns=2.51 * MS, median_ns=2.51 * MS))
    first, *more = lines(capture, replace(one, other_loops=(OtherLoop(label, 464, 0.564 * MS, 3, 0.4),)))
    assert first == f"GPU busy 15 % of the steady part: {count:,} steps of 40 {named}, 2.51 ms each"
    assert "Another loop: 464 steps of 40 operations, mean 564 µs: GPU busy 3 % (-r loops)" in more


def test_without_a_steady_part(capture: CaptureReader) -> None:
    whole = answer(
        scope="whole capture",
        why_whole="'step' repeats only 2 times",
        steps=None,
        start_up=None,
        findings=(LAUNCHES,),
    )
    assert lines(capture, whole)[:5] == [
        "GPU busy 15 % of the whole capture: 60.0 ms from first to last GPU operation",
        "  idle 85 %: launch latency 50 %, host code 30 %, synchronizing 5 %",
        "No steady part: 'step' repeats only 2 times; the whole capture is judged",
        "Launch-bound: median launch 4.60 µs for 1.20 µs of GPU work",
        "  CUDA graphs or fusion would save at most 50 % (30.0 of 60.0 ms)",
    ]


def test_warm_up_steps_are_left_out(capture: CaptureReader) -> None:
    warm = answer(steps=steps(warm_up=3, first=3, total=33))
    assert lines(capture, warm)[4] == (
        "Start-up: 3.50 s before step 3, 150 ms of it loading; 3 warm-up steps left out"
    )


@pytest.mark.parametrize(
    ("percent", "ends"),
    [
        (89.6, "; 3 warm-up steps, 10 % of GPU time left out"),
        (0.4, "; 3 warm-up steps, 99.6 % of GPU time left out"),
        (90.0, ", 150 ms of it loading; 3 warm-up steps left out"),
    ],
)
def test_much_gpu_time_outside_of_the_steps_is_said(
    capture: CaptureReader, percent: float, ends: str
) -> None:
    part = answer(steps=steps(warm_up=3, first=3, total=33, gpu_percent=percent))
    assert lines(capture, part)[4] == f"Start-up: 3.50 s before step 3{ends}"


def test_steps_beyond_a_break_are_no_start_up(capture: CaptureReader) -> None:
    later = answer(steps=steps(warm_up=1, first=21, total=51, gpu_percent=60.0))
    assert lines(capture, later)[4:6] == [
        "Start-up: 3.50 s before step 1; 1 warm-up step, 40 % of GPU time left out",
        "20 steps left out: other work lies between them and those judged",
    ]
    few = answer(steps=steps(warm_up=1, first=1, total=33))
    assert not any("other work" in line for line in lines(capture, few))


def test_steps_that_the_user_chose(capture: CaptureReader) -> None:
    chosen = answer(steps=steps(chosen=True, first=10, last=39, total=50), start_up=None)
    assert lines(capture, chosen)[0].startswith("GPU busy 15 % of steps 10 to 39: 30 x 'step', 2.00 ms each")


@pytest.mark.parametrize(
    ("outliers", "shown"),
    [
        (
            [outlier(24, 12, idle_host=9, memcpy=1)],
            "Outlier: step 24 takes 10.0 ms longer: host code 9.00 ms, copies 1.00 ms",
        ),
        (
            [outlier(number, 12, memcpy=10) for number in (4, 9, 14, 19)],
            "Outliers: every 5 steps from step 4 on (4) take 10.0 ms longer on average: copies 10.0 ms",
        ),
        (
            [outlier(3, 12, idle_host=10), outlier(5, 6, idle_host=4)],
            "Outliers: steps 3, 5 take 7.00 ms longer on average: host code 7.00 ms",
        ),
        (
            [outlier(number, 12, idle_load=10) for number in (1, 2, 5, 6, 11, 19)],
            "Outliers: 6 of 30 steps (1, 2, 5, …) take 10.0 ms longer: mostly loading modules",
        ),
    ],
)  # fmt: skip
def test_outlier_steps(capture: CaptureReader, outliers: list[Any], shown: str) -> None:
    text = lines(capture, answer(steps=steps(outliers=tuple(outliers))))[5]
    if len(shown) > 80:
        shown = shown.replace(" on average: copies 10.0 ms", ": mostly copies")
    assert text == shown


@pytest.mark.parametrize(
    ("saved", "shown"),
    [
        (59.7, "99.5 % of a step (1.99 of"),
        (59.99, "99.9 % of a step (2.00 of"),
        (60, "100 % of a step (2.00 of"),
    ],
)
def test_almost_all_of_the_time_does_not_read_100_percent(
    saved: float, shown: str, capture: CaptureReader
) -> None:
    one = answer(
        findings=(
            finding(
                "few_blocks",
                saved,
                median_blocks=1.0,
                multiprocessors=9,
                kernels=1,
                kernels_ns=1,
                longest_kernel="k",
            ),
        )
    )
    assert f"  More blocks would save at most {shown}" in lines(capture, one)[3]


def test_a_finding_about_steps_of_another_duration_has_no_times_of_a_step(capture: CaptureReader) -> None:
    # 30 steps of 2 ms are shown; the finding is about 80 ms of another process
    other = replace(LAUNCHES, window_ns=80 * MS)
    assert lines(capture, answer(findings=(other,)))[3] == (
        "  CUDA graphs or fusion would save at most 38 % of a step"
    )


def test_where_the_host_runs_ahead_an_outlier_has_no_figures_of_its_step_on_the_host(
    capture: CaptureReader,
) -> None:
    # 10 ms longer on the GPU, but its step on the host has 30 ms more gemm
    one = answer(steps=steps(outliers=(outlier(24, 12, gemm_kernel=30, memcpy=1),)))
    assert lines(capture, one)[5] == "Outlier: step 24 takes 10.0 ms longer: mostly gemm"


def test_a_state_with_little_of_the_extra_time_is_not_named(capture: CaptureReader) -> None:
    one = answer(steps=steps(outliers=(outlier(24, 102, idle_launch=98, memcpy=2),)))
    assert lines(capture, one)[5] == "Outlier: step 24 takes 100 ms longer: launch latency 98.0 ms"


def test_what_fills_spikes_is_told_without_their_numbers_if_these_leave_no_room(
    capture: CaptureReader,
) -> None:
    four = tuple(outlier(number, 12, idle_host=7, memcpy=3) for number in (4, 9, 14, 19))
    shown = lines(
        capture, answer(steps=steps(outliers=four), findings=(spikes(4, 9, 14, 19, ceiling_ms=10),))
    )
    assert "  Outliers take 10.0 ms longer on average: host code 7.00 ms, copies 3.00 ms" in shown


def test_outlier_steps_stand_with_the_finding_about_them(capture: CaptureReader) -> None:
    findings = (LAUNCHES, spikes(24, ceiling_ms=10))
    one = answer(steps=steps(outliers=(outlier(24, 12, memcpy=10),)), findings=findings)
    shown = lines(capture, one)
    place = shown.index("Outlier: step 24, 1 of 30 steps, takes 6.0 x the median: costs at most 17 %")
    assert shown[place + 1] == "  Outlier: step 24 takes 10.0 ms longer: copies 10.0 ms"
    assert sum("longer" in text for text in shown) == 1


def test_further_findings_and_doubts(capture: CaptureReader) -> None:
    hosts = {"gaps": 30, "median_ns": 4e5, "idle_ns": 12 * MS}
    findings = (
        finding("timed_launch_only", None, tolerance_percent=10.0, ranges=()),
        LAUNCHES,
        replace(finding("host_bound", 12, bounds=True, **hosts), shares=("launch_bound",)),
        finding("idle_load", 6, cause="load", idle_ns=6 * MS),
        finding("idle_copy", 6, cause="copy", idle_ns=6 * MS),
        finding("idle_call", 6, cause="call", idle_ns=6 * MS),
        finding("idle_host", 6, cause="host", idle_ns=6 * MS),
    )
    notes = (finding("ranges_not_judged", None, reason="second"), finding("slowed_by_marks", None))
    shown = lines(capture, answer(findings=findings, remarks=(("n" * 100,),), notes=notes))
    assert shown[5:] == [
        "Host-bound: host code leaves the GPU idle, median 400 µs per gap",
        "  Less host code between launches: at most 20 % of a step, partly the same time",
        "Loading modules leaves the GPU idle (6.00 ms): costs at most 10 % of a step",
        "Copy and memset calls leave the GPU idle (6.00 ms): costs at most 10 % of a step",
        "2 more findings, and advice on all: --advice",
        "Check: NVTX ranges time the launch, not the GPU work (-r gpu_idle)",
        "Note: " + "n" * 74,
        "  " + "n" * 26,
        "Note: second",
    ]


def test_two_shares_in_one_line_are_told_apart(capture: CaptureReader) -> None:
    """Of the time of a cause, and of the time that a change saves."""
    numbers = {"time_percent": 16.6, "kernels": 3, "kernels_ns": 10 * MS, "longest_kernel": "gemm"}
    products = replace(finding("fp32_products", 8.4, **numbers), status="estimate")
    shown = lines(capture, answer(findings=(LAUNCHES, products)))
    assert shown[5:7] == [
        "FP32 products without tensor cores: 16.6 % of the time",
        "  TF32 would save about 14 % of a step (estimate)",
    ]


def test_a_withheld_verdict_says_why_and_what_to_do(capture: CaptureReader) -> None:
    shown = lines(capture, answer(findings=(), withheld=missing("5 dropped")))
    assert shown[2:4] == [
        "No verdict: nsys reported missing events: 5 dropped",
        "  Record again; list the problems: -r diagnostics",
    ]
    assert not any("No single cause" in text or "--advice" in text for text in shown)


def test_several_devices_and_processes(capture: CaptureReader) -> None:
    two = device(1, busy={"memcpy": 30}, idle={"host": 30})
    assert lines(capture, answer(LAUNCH_BOUND, two))[:3] == [
        "GPUs busy 33 % of the steady part: 30 x 'step', 2.00 ms each (60.0 ms)",  # 39 of 120 ms: 32.5 %
        "  idle 67 %: host code 40 %, launch latency 25 %, synchronizing 2 %",
        "  GPU 0: 15 %, GPU 1: 50 %",
    ]
    other = device(0, 8, busy={"memcpy": 30}, idle={"other_process": 30})
    shown = lines(capture, answer(LAUNCH_BOUND, other))
    assert shown[0].startswith("GPU busy")
    assert shown[2] == "  GPU 0 in process 7: 15 %, GPU 0 in process 8: 50 %"
    assert "Compare the 2 processes: --by rank" in shown
    waiting = waiting_for("8", 20)
    shown = lines(capture, answer(LAUNCH_BOUND, other, findings=(waiting,)))
    assert "  compare all ranks: --by rank" in shown
    assert not any("processes:" in text for text in shown)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        (range(8), "  GPU 0 to 7: 50, 50, 50, 50, 50, 50, 50, 50 %"),
        (range(0, 16, 2), "  GPU 0: 50 %, GPU 2: 50 %, GPU 4: 50 %, GPU 6: 50 %, 4 more (-r gpu_time)"),
        (range(30), "  GPU 0: 50 %, GPU 1: 50 %, GPU 2: 50 %, GPU 3: 50 %, 26 more (-r gpu_time)"),
    ],
)
def test_many_devices_take_one_line(capture: CaptureReader, numbers: range, shown: str) -> None:
    many = [device(number, busy={"memcpy": 30}, idle={"host": 30}) for number in numbers]
    assert lines(capture, answer(*many))[3] == shown


@pytest.mark.parametrize("name", NASTY)
def test_no_name_widens_a_line_or_moves_the_cursor(capture: CaptureReader, name: str) -> None:
    other = replace(waiting_for(name, 12), shares=("waiting_for_rank",))
    one = answer(
        LAUNCH_BOUND, device(1, busy={"memcpy": 30}, idle={"host": 30}),
        steps=steps(label=LoopLabel.of_range(name), count=10**6),
        findings=(waiting_for(name, 30), other, waiting_for(name, None)), remarks=((name,),),
    )  # fmt: skip
    for shown in (
        one,
        answer(why_whole=name, steps=None, scope="whole capture"),
        answer(withheld=missing(name), findings=()),
    ):
        for text in lines(capture, shown):
            assert cell_len(text) <= 80
            assert text.isprintable()


def test_another_loop_keeps_its_words_rather_than_its_report(capture: CaptureReader) -> None:
    loops = (OtherLoop(LoopLabel.of_sequence(10), 47, 4.61e6, 99.6, 3.0, before=True),)
    shown = lines(capture, answer(other_loops=loops))
    assert "Another loop: 47 steps of 10 GPU operations, mean 4.61 ms: GPU busy 99.6 %" in shown


def test_the_start_up_of_several_loops_takes_one_line(capture: CaptureReader) -> None:
    loops = (OtherLoop(LoopLabel.of_range("eval"), 47, 12e6, 4.0, 3.0, before=True),)
    shown = lines(capture, answer(other_loops=loops, steps=steps(warm_up=12, total=42, gpu_percent=68.0)))
    assert "Start-up: 3.50 s before the loops; 12 warm-up steps, 32 % of GPU time left out" in shown


def test_without_gpu_work_the_rest_is_shown(tmp_path: Path, cli: Cli) -> None:
    rows = [nvtx("load", 0, 3000), nvtx("fit", 3000, 10_000), call("cudaFree", 0, 500, tid=5)]
    done = cli("report", write(tmp_path / "x.sqlite", *rows))
    assert done.stdout.splitlines()[:4] == [
        "No GPU work: nsys recorded 1 CUDA API call, but no launch",
        "NVTX ranges: fit 7.00 µs, load 3.00 µs",
        "CUDA API calls: cudaFree 500 ns",
        "GPU unknown · nsys before 2022",
    ]
    done = cli("report", tmp_path / "x.sqlite", "--time", "0/5us")
    assert done.stdout.startswith("No GPU work in the selection\n")


def test_sentences_are_whole(capture: CaptureReader) -> None:
    one = answer(remarks=(("a note " * 30,),))
    assert answer_lines(capture, one)[-1].text == f"Note: {'a note ' * 30}"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 %"),
        (0.04, "0.04 %"),
        (1, "1 %"),
        (98.6, "99 %"),
        (99, "99 %"),
        (99.04, "99.0 %"),
        (99.97, "99.9 %"),
        (100, "100 %"),
    ],
)
def test_a_share_reads_100_percent_only_if_it_is_all(value: float, text: str) -> None:
    assert whole_percent(value) == text

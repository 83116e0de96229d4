"""The course through all scenarios in docs/scenarios.md, with figures of the runs recorded on a GPU.

Each lesson's function checks what its answer states on the recorded figures, and puts these into the answer.
"""

import math
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import course_rungs

from nsyswrap.analysis.peaks import peak_of
from nsyswrap.api import open_capture
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.base.units import duration
from nsyswrap.capture.schema import GPUS
from nsyswrap.cli.scenarios import closing_tables
from nsyswrap.record.scenarios import find_scenario, measured


@dataclass(frozen=True)
class Figures:
    """The rows of a scenario's closing tables and what its programs measured, and these as texts."""

    rows: tuple[dict[Any, Any], ...]

    def value(self, variant: str, column: str, operator: str = "") -> float:
        """Return the first figure of a variant in a column."""
        found = [
            row[column]
            for row in self.rows
            if row["variant"] == variant and column in row and operator in (row.get("operator", ""), "")
        ]
        return float(found[0])

    def text(self, variant: str, column: str) -> str:
        """Return the first text of a variant in a column."""
        return next(str(row[column]) for row in self.rows if row["variant"] == variant and column in row)

    def time(self, variant: str, column: str, operator: str = "") -> str:
        """Return the same figure as a time."""
        return duration(self.value(variant, column, operator))


Value: TypeAlias = Callable[..., float]  # of a variant, a column, and an operator where there are several
Time: TypeAlias = Callable[..., str]  # the same
Answer: TypeAlias = Callable[[Value, Time], str]


@dataclass(frozen=True)
class Lesson:
    """A scenario's question, the figure to look at, and the function that checks and writes the answer."""

    scenario: str
    question: str
    look: str
    answer: Answer


LESSONS: list[Lesson] = []
PROGRAM, LAUNCHES, API, STEP = "program_med_ns", "launches", "api_med_ns", "step_ns"
TENSOR_CORES, PEAK = "tensor_core_percent", "peak of the kernel in TFLOP/s"
KERNEL, COPY, QUEUED = "kernel_med_ns", "copy_med_ns", "queued_med_ns"


def lesson(scenario: str, question: str, look: str) -> Callable[[Answer], Answer]:
    """Put a lesson at the end of the course."""

    def kept(answer: Answer) -> Answer:
        LESSONS.append(Lesson(scenario, question, look, answer))
        return answer

    return kept


@lesson("add", "Why is my first kernel slow?", "Kernel Time of each variant")
def _add(v: Value, t: Time) -> str:
    assert v("1x1", "kernel_ns") > 10 * v("1x256", "kernel_ns")
    assert v("grid", "kernel_ns") > 100 * v("prefetch", "kernel_ns")
    return (
        f"It has too few threads, and waits for its memory. One thread takes {t('1x1', 'kernel_ns')}, a "
        f"block of 256 {t('1x256', 'kernel_ns')}, a grid of blocks {t('grid', 'kernel_ns')}. Almost all of "
        f"the last time is waiting for pages of managed memory: with the pages prefetched, the kernel "
        f"takes {t('prefetch', 'kernel_ns')}."
    )


@lesson("add2", "What does a timer around a launch measure?", "Program against Kernel Med, and the verdicts")
def _add2(v: Value, t: Time) -> str:
    assert v("none", PROGRAM, "cuda") > v("none", API, "cuda")
    assert v("none", "error_med_percent", "cuda") < -10
    assert v("both", "error_med_percent", "cuda") == 0
    assert v("both", PROGRAM, "cuda") > v("both", KERNEL, "cuda") + v("none", PROGRAM, "cuda")
    return (
        f"Without a synchronize it measures the launch alone: {t('none', PROGRAM, 'cuda')}. With one before "
        f"and one after, it measures launch, kernel and wait: {t('both', PROGRAM, 'cuda')}, for a kernel of "
        f"{t('both', KERNEL, 'cuda')}."
    )


@lesson("events", "Which clock should I use?", "Program of each clock against Kernel Med")
def _events(v: Value, t: Time) -> str:
    assert v("nosync", PROGRAM) < v("sync", KERNEL) < v("event", PROGRAM)
    assert v("event", PROGRAM) < v("sync", PROGRAM)
    assert abs(v("profiler", PROGRAM) / v("sync", KERNEL) - 1) < 0.05
    return (
        f"The kernel takes {t('sync', KERNEL)}. A timer with a synchronize says {t('sync', PROGRAM)}, "
        f"CUDA events say {t('event', PROGRAM)}, torch.profiler says {t('profiler', PROGRAM)}. A timer "
        f"without a synchronize says {t('nosync', PROGRAM)}, which is the launch."
    )


@lesson("vector_add", "What does torch.profiler see?", "Operators and Kernels against Launches, nsys Med")
def _vector_add(v: Value, t: Time) -> str:
    assert (v("schedule", "kernels"), v("schedule", LAUNCHES), v("schedule", "traces")) == (6, 10, 2)
    assert abs(v("schedule", KERNEL) / v("schedule", "nsys_med_ns") - 1) < 0.1
    assert v("toggle_cuda", "kernels") < v("toggle_cuda", LAUNCHES)
    assert v("toggle_cpu", "cpu_ops") < v("toggle_cpu", LAUNCHES)
    return (
        f"A schedule of two cycles records {v('schedule', 'kernels'):.0f} of "
        f"{v('schedule', LAUNCHES):.0f} kernels, and leaves a trace of each cycle. Their median is "
        f"{t('schedule', KERNEL)}, that of nsys {t('schedule', 'nsys_med_ns')}. "
        f"With CUDA toggled off midway it sees {v('toggle_cuda', 'kernels'):.0f} of "
        f"{v('toggle_cuda', LAUNCHES):.0f} kernels, with the CPU toggled off "
        f"{v('toggle_cpu', 'cpu_ops'):.0f} of {v('toggle_cpu', LAUNCHES):.0f} operators."
    )


@lesson("square", "Do three ways of writing the same cost the same?", "Kernel Med")
def _square(v: Value, t: Time) -> str:
    assert abs(v("pow", KERNEL) / v("mul", KERNEL) - 1) < 0.05
    assert abs(v("square", KERNEL) / v("mul", KERNEL) - 1) < 0.05
    assert v("inline", KERNEL) > 1.5 * v("mul", KERNEL)
    return (
        f"On the GPU they do: `torch.square(a)` takes {t('square', KERNEL)}, `a * a` {t('mul', KERNEL)}, and "
        f"`a ** 2` {t('pow', KERNEL)}, as no power is computed. A kernel written by hand with one element "
        f"per thread takes {t('inline', KERNEL)}."
    )


@lesson("cdist", "What is inside one call?", "Launches, API Med")
def _cdist(v: Value, t: Time) -> str:
    assert v("direct", LAUNCHES) == 1 < v("mm", LAUNCHES)
    assert v("mm", KERNEL) < v("direct", KERNEL) / 50
    assert v("mm", PROGRAM) < v("direct", PROGRAM) / 20
    return (
        f"Several kernels, or one, and several can be faster. `torch.cdist` launches "
        f"{v('mm', LAUNCHES):.0f} kernels that take {t('mm', KERNEL)} together, or one that takes "
        f"{t('direct', KERNEL)}."
    )


@lesson("gelu", "What does fusing kernels bring?", "Launches, Kernel Med")
def _gelu(v: Value, t: Time) -> str:
    assert (v("manual", LAUNCHES), v("compile", LAUNCHES)) == (8, 1)
    assert v("manual", KERNEL) > 8 * v("compile", KERNEL)
    return (
        f"Eight kernels take {t('manual', KERNEL)}. torch.compile makes one kernel of them, which reads and "
        f"writes the vector once: {t('compile', KERNEL)}."
    )


@lesson("softmax", "How far is a kernel from the memory's limit?", "Kernel Med, and the bytes in the JSON")
def _softmax(v: Value, t: Time) -> str:
    assert v("triton", KERNEL) < v("torch", KERNEL) < v("naive", KERNEL) / 3
    assert (v("naive", "moved"), v("triton", "moved"), v("naive", LAUNCHES)) == (4, 1, 5)
    reached = 1e9 * v("triton", "least_bytes") / v("triton", KERNEL)
    limit = v("triton", "memory_bandwidth")
    assert 0.7 < reached / limit < 1
    return (
        f"One pass in Triton gets {reached / 1e12:.1f} of {limit / 1e12:.1f} TB/s, "
        f"{100 * reached / limit:.0f} %: it moves the matrix in and out in {t('triton', KERNEL)}. Five "
        f"operations move {v('naive', 'moved'):.0f} times the bytes and take {t('naive', KERNEL)}."
    )


@lesson(
    "triton_debug",
    "Why does my Triton kernel give wrong results?",
    "what 'interpreter' prints, Kernel Med of wrong and right",
)
def _triton_debug(v: Value, t: Time) -> str:
    assert abs(v("triton", KERNEL, "wrong") / v("triton", KERNEL, "right") - 1) < 0.2
    assert v("interpreter", "outside") == 24
    assert v("interpreter", "inside") - v("interpreter", "columns") == 24
    assert v("interpreter", PROGRAM, "right") > 20 * v("triton", PROGRAM, "right")
    return (
        f"The GPU reports nothing: the wrong kernel takes {t('triton', KERNEL, 'wrong')}, the right one "
        f"{t('triton', KERNEL, 'right')}. The interpreter names program "
        f"{v('interpreter', 'wrong_program'):.0f} and its mask, which is True for "
        f"{v('interpreter', 'outside'):.0f} numbers too many. It takes {t('interpreter', PROGRAM, 'right')} "
        "for eight rows, so it is for answers, not for times."
    )


@lesson(
    "matmul", "Which kernel does a matrix product get, and how fast is it?", "the kernels' names, Kernel Med"
)
def _matmul(v: Value, t: Time) -> str:
    assert v("odd", KERNEL) > 5 * v("bf16", KERNEL)
    on_tensor_cores = [v(variant, TENSOR_CORES) for variant in ("float32", "tf32", "bf16", "odd")]
    assert on_tensor_cores == [0, 100, 100, 100]  # percent, by the kernels' names
    assert v("float32", KERNEL) > 5 * v("tf32", KERNEL) > 5 * v("bf16", KERNEL)
    shares = []
    for variant in ("float32", "bf16"):
        tflops = v(variant, "flop") / v(variant, KERNEL) / 1e3
        shares.append(f"{100 * tflops / v(variant, PEAK):.0f} %")
        assert 0.5 < tflops / v(variant, PEAK) < 1
    return (
        f"Another one for each type: by their names, all but that of float32 use the tensor cores. float32 "
        f"takes {t('float32', KERNEL)}, {shares[0]} of the peak of the CUDA cores. tf32 "
        f"takes {t('tf32', KERNEL)} and bfloat16 {t('bf16', KERNEL)}, {shares[1]} of the tensor "
        f"cores' peak. With sizes of 4095 instead of 4096, bfloat16 takes "
        f"{v('odd', KERNEL) / v('bf16', KERNEL):.2g} times the time, as rows are no longer aligned."
    )


@lesson("autograd_op", "Does an operation of my own pay, backward included?", "Launches, Kernel Med")
def _autograd_op(v: Value, t: Time) -> str:
    assert (v("torch", LAUNCHES, "backward"), v("cuda", LAUNCHES, "backward")) == (4, 1)
    assert (v("torch", LAUNCHES, "forward"), v("cuda", LAUNCHES, "forward")) == (2, 1)
    assert v("cuda", KERNEL, "forward") < v("torch", KERNEL, "forward")
    assert v("cuda", KERNEL, "backward") < v("torch", KERNEL, "backward") / 2
    return (
        f"Yes, and most in the backward: one kernel of {t('cuda', KERNEL, 'backward')} instead of four that "
        f"take {t('torch', KERNEL, 'backward')}. In the forward it is one of {t('cuda', KERNEL, 'forward')} "
        f"instead of two that take {t('torch', KERNEL, 'forward')}."
    )


@lesson("storm", "What does a launch cost?", "API Med by Launches")
def _storm(v: Value, t: Time) -> str:
    each = v("empty", API) / v("empty", LAUNCHES)
    assert v("busy", API) > 2 * v("empty", API)
    assert v("busy", LAUNCHES) == v("empty", LAUNCHES)
    assert v("busy", KERNEL) > v("empty", API) > v("empty", KERNEL)
    return (
        f"A launch takes {duration(each)} of CPU time under nsys. If kernels take longer than that, the "
        f"launch queue fills up and the calls wait: {v('busy', LAUNCHES):,.0f} launches take "
        f"{t('busy', API)} instead of {t('empty', API)}. This wait is not overhead."
    )


@lesson("graphs", "What does a CUDA graph save?", "Launches, Program")
def _graphs(v: Value, t: Time) -> str:
    assert (v("eager", LAUNCHES), v("graph", LAUNCHES)) == (40, 1)
    assert v("graph", PROGRAM) < v("eager", PROGRAM) / 5
    return f"Forty launches become one: Program falls from {t('eager', PROGRAM)} to {t('graph', PROGRAM)}."


@lesson("inference", "Why does a language model write slowly?", "Launches, API Med against Kernel Med")
def _inference(v: Value, t: Time) -> str:
    assert v("decode", API) > v("decode", KERNEL)
    assert (v("decode", "tokens"), v("prefill", "prompt")) == (4, 512)
    assert v("graph", PROGRAM) < v("decode", PROGRAM) / 4
    assert v("prefill", PROGRAM) < v("decode", PROGRAM) / 4
    return (
        f"The GPU waits for launches. Four tokens take {t('decode', PROGRAM)}, of which the kernels take "
        f"{t('decode', KERNEL)}: there are {v('decode', LAUNCHES):.0f} launches. With a CUDA graph for each "
        f"token they take {t('graph', PROGRAM)}. Reading the whole prompt of 512 tokens takes "
        f"{t('prefill', PROGRAM)}."
    )


@lesson("copies", "Why are my copies slow?", "Copy Med of pageable and pinned")
def _copies(v: Value, t: Time) -> str:
    assert v("pageable", COPY, "h2d 64 MiB") > 3 * v("pinned", COPY, "h2d 64 MiB")
    assert v("pageable", COPY, "d2h 64 MiB") > 3 * v("pinned", COPY, "d2h 64 MiB")
    return (
        f"They begin or end in pageable memory. 64 MiB to the GPU take "
        f"{t('pageable', COPY, 'h2d 64 MiB')} from pageable memory and "
        f"{t('pinned', COPY, 'h2d 64 MiB')} from pinned memory."
    )


@lesson("overlap", "Do copies and kernels run at the same time?", "Program against Kernel Med + Copy Med")
def _overlap(v: Value, t: Time) -> str:
    work = {variant: v(variant, KERNEL) + v(variant, COPY) for variant in ("one_stream", "four_streams")}
    assert v("one_stream", PROGRAM) > work["one_stream"]
    assert v("four_streams", PROGRAM) < work["four_streams"]
    return (
        f"On four streams they do: {duration(work['four_streams'])} of copies and kernels take "
        f"{t('four_streams', PROGRAM)}. On one stream they do not: {duration(work['one_stream'])} take "
        f"{t('one_stream', PROGRAM)}."
    )


@lesson("rules", "What do nsys' own rules find?", "`-r cuda_api_sync` and the other rules; Program")
def _rules(v: Value, t: Time) -> str:
    assert v("careful", PROGRAM) < v("wasteful", PROGRAM) / 100
    return (
        f"Blocking copies, synchronizing and an idle GPU. Each of nsys' CUDA rules finds something in "
        f"'wasteful', which takes {t('wasteful', PROGRAM)}. The same work without it takes "
        f"{t('careful', PROGRAM)}."
    )


@lesson("nvtx", "Which part of my program is it?", "the ranges of nvtx_sum and nvtx_kern_sum")
def _nvtx(v: Value, t: Time) -> str:
    assert v("kernels", LAUNCHES, "forward") == 1
    return (
        f"The range `forward` takes {t('kernels', PROGRAM, 'forward')} and launches one kernel of "
        f"{t('kernels', KERNEL, 'forward')}. Without changing a program, `profile --modules` does the same."
    )


@lesson("ladder_cuda", "How does a kernel get faster, step by step?", "the rungs: Step, Largest Part")
def _ladder_cuda(v: Value, t: Time) -> str:
    assert v("naive", STEP) > 5 * v("coalesced", STEP)
    assert v("shared", KERNEL) < v("vectorized", KERNEL) < v("coalesced", KERNEL) < v("naive", KERNEL) / 5
    assert v("streams", PROGRAM) < v("streams", KERNEL) + v("streams", COPY)
    return (
        f"The step falls from {t('naive', STEP)} to {t('streams', STEP)}. For the first rungs nsys sees that "
        "the time is the kernel's, not why: that is for Nsight Compute. What the last rung repairs is a "
        "finding: copies that run beside no kernel."
    )


@lesson("ladder", "How do I repair a slow training step?", "the rungs: Repairs, Share, Step, Largest Part")
def _ladder(v: Value, t: Time) -> str:
    assert v("graph", LAUNCHES) < 5 < v("no_item", LAUNCHES) < v("start", LAUNCHES) / 2
    busy = max(v(rung, "busy_percent") for rung in ("start", "loader", "fused", "optimizer", "no_item"))
    assert busy < 30
    assert v("graph", "busy_percent") > 90
    return (
        f"One thing after the other, and the same losses on every rung. The step falls from "
        f"{t('start', STEP)} to {t('graph', STEP)}, its launches from {v('start', LAUNCHES):.0f} to "
        f"{v('graph', LAUNCHES):.0f}. One run a rung is no verdict: until `graph` the GPU is busy at most "
        f"{busy:.0f} % of the time, and the host sets the pace, which varies from run "
        "to run."
    )


@lesson("hybrid", "What do MPI and OpenMP look like?", "mpi_event_sum, openmp_sum")
def _hybrid(v: Value, t: Time) -> str:
    assert v("gpu", LAUNCHES, "rank 0") == 1
    assert v("gpu", KERNEL, "rank 0") + v("gpu", COPY, "rank 0") < v("gpu", "sync_med_ns", "rank 0")
    return (
        f"Each call and each parallel region has its time: `mpi_event_sum` has "
        f"{v('gpu', 'MPI_Barrier'):.0f} calls of MPI_Barrier, `openmp_sum` {v('gpu', 'Parallel Region'):.0f} "
        f"parallel regions. A step of rank 0 takes {t('gpu', PROGRAM, 'rank 0')}, its kernel "
        f"{t('gpu', KERNEL, 'rank 0')}. The rest is calls, copies and waiting."
    )


@lesson("ddp", "Which rank holds the others up?", "Kernel Med of rank 0; `nsyswrap report DIR --by rank`")
def _ddp(v: Value, t: Time) -> str:
    assert v("straggler", KERNEL, "rank 0") > 10 * v("even", KERNEL, "rank 0")
    return (
        f"Here it is rank 1, which computes more, but the kernels of rank 0 grow, too: from "
        f"{t('even', KERNEL, 'rank 0')} to {t('straggler', KERNEL, 'rank 0')}. NCCL's kernel waits for the "
        "other rank, and this wait counts as kernel time."
    )


@lesson("p2p", "How do GPUs exchange data?", "Program by size")
def _p2p(v: Value, t: Time) -> str:
    assert v("direct", PROGRAM, "copy 64 MiB") < v("host", PROGRAM, "copy 64 MiB") / 5
    assert v("direct", PROGRAM, "copy 64 MiB") < v("staged", PROGRAM, "copy 64 MiB") / 5
    return (
        f"Directly, staged by the driver, or through the host. 64 MiB take "
        f"{t('direct', PROGRAM, 'copy 64 MiB')} directly, {t('staged', PROGRAM, 'copy 64 MiB')} staged and "
        f"{t('host', PROGRAM, 'copy 64 MiB')} through the host."
    )


def answer(item: Lesson, folders: Mapping[str, Path], scratch: Path) -> str:
    """Return the answer of a lesson, after checking it on what was recorded, and the table of a ladder."""
    figures = _figures(item.scenario, folders)
    return (
        f"{item.answer(figures.value, figures.time)}\n{course_rungs.table(item.scenario, figures, scratch)}"
    )


def _figures(name: str, folders: Mapping[str, Path]) -> Figures:
    scenario = find_scenario(name)
    rows: list[dict[Any, Any]] = [
        row for table in closing_tables(scenario, folders) for row in table.frame.to_dict("records")
    ]
    for variant, folder in folders.items():
        result = measured(folder)
        recorded_too = _of_capture(folder / EXPORT) if (folder / EXPORT).exists() else {}
        rows += [*result.get("timings", ()), {"variant": variant, **recorded_too, **result}]
    return Figures(tuple(rows))


def _of_capture(export: Path) -> dict[str, float]:
    """Return bytes/s of the GPU, the share of gemm on tensor cores, MPI calls and OpenMP regions by name."""
    with closing(sqlite3.connect(f"file:{export}?mode=ro", uri=True)) as db:
        bandwidths = db.execute(f"SELECT memoryBandwidth FROM {GPUS}").fetchall()  # noqa: S608 - a constant
    facts = {"memory_bandwidth": float(bandwidths[0][0])} if bandwidths else {}
    capture = open_capture(export)
    if capture.has("kernel"):
        frame = capture.report("kernel_class_sum").frame
        gemms = capture.report("cuda_gpu_kern_sum").frame["name"]
        facts[PEAK] = (peak_of(capture, gemms.iloc[0]) or math.nan) / 1e12
        facts[TENSOR_CORES] = float(frame[frame["class"] == "gemm"][TENSOR_CORES].sum())
    for events, report, count in (
        ("mpi_collective", "mpi_event_sum", "instances"),
        ("openmp", "openmp_sum", "count"),
    ):
        if capture.has(events):
            frame = capture.report(report).frame
            facts |= dict(zip(frame["name"], map(float, frame[count]), strict=True))
    return facts

"""The words of each kind of finding, from numbers written down by hand."""

import re
from typing import Any, get_args

import pytest

from nsyswrap.analysis.finding import Finding, FindingKind
from nsyswrap.analysis.program_language import CUDA, LANGUAGES, PYTORCH
from nsyswrap.capture.intervals import NOTHING
from nsyswrap.reports.wording.advice import Wording, words

MOST_CODE = 100  # characters of a line of code

STEPS = {"steps": 3}
AT_START, LATER = {"before_kernels": True}, {"before_kernels": False}
LAUNCHES = {
    "launches": 3,
    "median_launch_ns": 90.0,
    "median_work_ns": 900.0,
    "inside_ns": 300,
    "between_ns": 0,
}
OUTLIERS = {"median_ns": 1000.0, "outlier_ns": 2000.0, "more_ns": 6000, "steps": 39}
RANGE = ("a", 3, 3, 190_000.0, 940_000.0)
RANGES = {"tolerance_percent": 10.0, "ranges": (RANGE,)}
MANY_RANGES = {"tolerance_percent": 10.0, "ranges": ((None, 1, 2000, 1.0, 2.0), RANGE, RANGE, RANGE)}
LATE = {
    "outcome": "one rank",
    "waits": "process 200",
    "late": "process 300",
    "waited_ns": 2800,
    "last_times": 7,
    "last_of": 7,
    "exposed_ns": 2800,
    "exposed_percent": 38.2,
    "own_ns": 6700,
    "others_ns": 3900.0,
    "other": "process 200",
    "hidden_percent": 0.0,
}
IDLE = {"idle_ns": 300, "computes": True}
PRODUCTS = {"kernels": 3, "kernels_ns": 300, "time_percent": 60.0, "longest_kernel": "k<{0}>"}
LAUNCH = {**IDLE, "cause": "launch"}

KERNELS = {"kernels": 30, "kernels_ns": 3_000_000, **STEPS}
COPIES = {
    **dict.fromkeys(("conversions_ns", "strided_ns", "concatenations_ns", "clones_ns"), 1000),
    **KERNELS,
}

WHOLE = {"gaps": 3000, "median_ns": 5.0, "idle_ns": 922_000_000}
LOADED = {"calls": 3, "idle_ns": 690, "loading_ns": 15, "host_ns": 600, "steps": 39}
CASES: list[tuple[FindingKind, dict[str, Any]]] = [
    ("launch_bound", {"bounds": False, **LAUNCHES}),
    ("launch_bound", {"bounds": True, **LAUNCHES, "launches": 2}),
    ("host_bound", {"bounds": True, "gaps": 3, "median_ns": 390.0, "idle_ns": 1170, **STEPS}),
    (
        "host_bound",
        {"bounds": False, "gaps": 3000, "median_ns": 5.0, "idle_ns": 7, "gil_held_ns": 4, "gil_waited_ns": 2},
    ),
    (
        "host_bound",
        {"bounds": True, "gaps": 3, "median_ns": 5.0, "idle_ns": 7000, "longest_ns": 6000, **AT_START},
    ),
    (
        "host_bound",
        {"bounds": False, "gaps": 3, "median_ns": 5.0, "idle_ns": 7000, "longest_ns": 6000, **LATER},
    ),
    ("host_bound", {"bounds": True, **WHOLE, "before_loading_ns": 863_000_000}),
    ("host_bound", {"bounds": False, **WHOLE, "half_gaps": 3, "shorter_ns": 59_200_000}),
    (
        "waiting_for_input",
        {
            "os_calls_traced": False,
            "waits": 3,
            "median_ns": 5.0,
            "idle_ns": 7000,
            "longest_ns": 6000,
            **LATER,
        },
    ),
    (
        "waiting_for_input",
        {"os_calls_traced": False, "waits": 3, "median_ns": 300.0, "idle_ns": 960, **STEPS},
    ),
    (
        "waiting_for_input",
        {"os_calls_traced": True, "waits": 3, "median_ns": 390.0, "idle_ns": 1200, **STEPS},
    ),
    ("synchronizing", {"after_every_operation": False, "gaps": 3, "idle_ns": 270, **STEPS}),
    (
        "synchronizing",
        {"after_every_operation": False, "gaps": 3, "idle_ns": 270, "alone_percent": 2.5, **STEPS},
    ),
    ("synchronizing", {"after_every_operation": True, "gaps": 7, "idle_ns": 300, **STEPS}),
    ("allocating", {"gaps": 3, "idle_ns": 690, "inside_ns": 600, **STEPS}),
    ("allocating", {"gaps": 3, "idle_ns": 690, "inside_ns": 600, "retries": 2, **STEPS}),
    ("loading_in_loop", {"calls": 3, "idle_ns": 690, "loading_ns": 15, "host_ns": 600, **STEPS}),
    ("loading_in_loop", {**LOADED, "step_numbers": (1019,)}),
    ("loading_in_loop", {**LOADED, "step_numbers": (5, 11)}),
    ("loading_in_loop", {"calls": 0, "idle_ns": 110, "loading_ns": 0, "host_ns": 90, "steps": 0}),
    ("garbage_collection", {"collections": 6, "collecting_ns": 6_000_000, "idle_ns": 5_500_000, **STEPS}),
    ("spikes", {**OUTLIERS, "step_numbers": (5, 11, 17, 23, 29, 35)}),
    ("spikes", {**OUTLIERS, "step_numbers": (5,), "outlier_ns": 3000.0}),
    (
        "pageable_copies",
        {
            "copies": 3,
            "moved_bytes": 3_000_000,
            "rate_bytes_per_s": 1e13,
            "copies_ns": 300,
            **STEPS,
            "hiding_ns": 9,
            "ahead_ns": 210,
        },
    ),
    (
        "pageable_copies",
        {
            "copies": 3,
            "moved_bytes": 3_000_000,
            "rate_bytes_per_s": 1e13,
            "copies_ns": 300,
            "hiding_ns": 9,
            **STEPS,
        },
    ),
    (
        "copies_not_overlapped",
        {"copies": 3, "exposed_ns": 900, "copies_ns": 900, "kernels_alone_ns": 2070, **STEPS},
    ),
    ("tiny_copies", {"copies": 102, "median_bytes": 8.0, "most_bytes": 64_000, "cost_ns": 1020, **STEPS}),
    (
        "faulting_kernels",
        {"migrations": 3, "migrated_bytes": 196_608, "migrating_ns": 600, "kernels_ns": 2970},
    ),
    ("waiting_for_pages", {"gaps": 3, "idle_ns": 300}),
    ("unfused_attention", {"softmaxes": 12, **KERNELS}),
    ("parameter_updates", KERNELS),
    ("parameter_updates", {"foreach": True, **KERNELS}),
    ("casts", {"trains": False, **KERNELS}),
    ("casts", {"trains": True, **KERNELS}),
    ("layout_copies", {**COPIES, "conversions_ns": 2000}),
    ("layout_copies", {**COPIES, "strided_ns": 2000}),
    ("layout_copies", {**COPIES, "concatenations_ns": 2000}),
    ("layout_copies", {**COPIES, "clones_ns": 2000}),
    (
        "elementwise_chains",
        {
            "chains": 3,
            "names": ("norm vectorized_layer_norm<float>", "elementwise add<bf16> strided"),
            **KERNELS,
        },
    ),
    (
        "elementwise_chains",
        {
            "chains": 3,
            "names": ("norm batch_norm_transform_channels_last", "norm batch_norm_backward_channels_last"),
            **KERNELS,
        },
    ),
    (
        "last_wave",
        {"kernel": "gemm", "blocks": 264, "waves": 1.0, "resident": 2, "multiprocessors": 132, **KERNELS},
    ),
    (
        "copy_bound",
        {
            "copies": 3,
            "moved_bytes": 2_000_000,
            "rate_bytes_per_s": 5e9,
            "exposed_ns": 3000,
            "kernels_ns": 1000,
            **STEPS,
        },
    ),
    ("fp32_products", PRODUCTS),
    ("fp64_kernels", PRODUCTS),
    (
        "misaligned_products",
        {
            **PRODUCTS,
            "longest_kernel": "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x256_8x4_nt_align1>(T1)",
        },
    ),
    ("misaligned_products", PRODUCTS),
    ("outside_graphs", {"time_percent": 30.0}),
    ("gpu_counters", {"sm_percent": 85.94, "tensor_percent": 26.1, "dram_percent": 0.0}),
    ("slow_link", {"rate_bytes_per_s": 6e9, "link_bytes_per_s": 64e9}),
    ("memory_near_limit", {"held_bytes": 950, "size_bytes": 1000, "range": ""}),
    ("memory_grows", {"grown_bytes": 70, "of_steps": 7, "range": "net/layer"}),
    ("memory_in_steps", {"allocations": 3, "allocated_bytes": 90, "range": ""}),
    ("memory_retries", {"retries": 1, "calls_ns": 40}),
    ("uses_fp64", {"time_percent": 30.0}),
    ("unknown_products", {"time_percent": 30.0}),
    ("one_kernel", {"kernel": "void a::forces<(int)4>(float *)", "time_percent": 98.0}),
    ("kernel_drifts", {"kernel": "forces(float *)", "first_ns": 900.0, "last_ns": 1100.0}),
    ("kernel_varies", {"kernel": "forces(float *)", "median_ns": 900.0, "p99_ns": 2000.0}),
    (
        "copies_not_overlapped",
        {
            "copies": 3,
            "exposed_ns": 900,
            "copies_ns": 900,
            "kernels_alone_ns": 2070,
            **STEPS,
            "blocked_ns": 800,
            "blocked_kernel": "",
            "same_stream": False,
        },
    ),
    ("idle_queued", {**IDLE, "cause": "queued", "computes": True, "blocked_ns": 200, "blocker_kernel": ""}),
    (
        "few_blocks",
        {
            "median_blocks": 2.5,
            "multiprocessors": 10,
            "kernels": 3,
            "kernels_ns": 300,
            "longest_kernel": "few<{0}>",
        },
    ),
    ("exposed_communication", {"exposed_ns": 600, "running_ns": 1200, "overlapped_ns": 600}),
    (
        "waiting_for_rank",
        {
            "waits": "process 200",
            "late": "process 300",
            "waited_ns": 2800,
            "outcome": "doubtful",
            "doubt": "why",
        },
    ),
    ("waiting_for_rank", LATE),
    ("waiting_for_rank", {**LATE, "own_ns": 4000, "other": "", "hidden_percent": 9.0}),
    ("idle_profiler", {**IDLE, "cause": "profiler"}),
    ("idle_queued", {**IDLE, "cause": "queued"}),
    ("idle_queued", {**IDLE, "cause": "queued", "computes": False}),
    ("idle_load", {**IDLE, "cause": "load"}),
    ("idle_allocate", {**IDLE, "cause": "allocate"}),
    ("idle_synchronise", {**IDLE, "cause": "synchronise"}),
    ("idle_launch", {**LAUNCH, "all_first": False, "all_graphs": False}),
    ("idle_launch", {**LAUNCH, "all_first": True, "all_graphs": False}),
    ("idle_launch", {**LAUNCH, "all_first": False, "all_graphs": True}),
    ("idle_copy", {**IDLE, "cause": "copy"}),
    ("idle_host", {**IDLE, "cause": "host"}),
    ("idle_call", {**IDLE, "cause": "call"}),
    ("idle_migration", {**IDLE, "cause": "migration"}),
    ("idle_pages_to_host", {**IDLE, "cause": "migration"}),
    ("idle_unknown", {**IDLE, "cause": "unknown"}),
    ("lost_events", {"losses": ("some", "more"), "first_step": None, "last_step": None}),
    ("timed_launch_only", RANGES),
    ("timed_earlier_work", MANY_RANGES),
    ("ranges_differ", {"names": ("a", "b", "c", "d")}),
    (
        "ranges_differ",
        {"names": ("aten::mm, sizes = [[4], []]", "aten::mm, sizes = [[8], []]", f"aten::{'long' * 20}")},
    ),
    ("ranges_not_judged", {"reason": "why"}),
    ("slowed_by_marks", {}),
    ("events_missing", {"loss": "5 dropped"}),
    ("kernels_missing", {"began_before": True}),
    ("operations_end_early", {"backwards": 1, "operations": 2000}),
    ("clocks_disagree", {"early_percent": 12.5, "median_early_ns": 5000.0}),
]
# Of each case: kind, heading, sentence and evidence; - for none.
WORDS = """\
launch_bound: Launch latency leaves the GPU idle | median 90 ns for 900 ns of GPU work | 3 repeated
    launches; GPU idle for 300 ns of launch latency and 0 ns of short host code and other calls between
    launches
launch_bound: Launch-bound | median launch 90 ns for 900 ns of GPU work | 2 repeated launches; GPU idle for
    300 ns of launch latency and 0 ns of short host code and other calls between launches
host_bound: Host-bound | host code leaves the GPU idle, median 390 ns per gap | gaps with the launching
    thread outside CUDA calls: 1 per step, 1.17 µs in total
host_bound: Host code leaves the GPU idle | median 5 ns per gap | gaps with the launching thread outside
    CUDA calls: 3,000, 7 ns in total; Python's GIL held for 4 ns, waited for 2 ns
host_bound: Host-bound | host code leaves the GPU idle, 6.00 µs before the first kernel | gaps with the
    launching thread outside CUDA calls: 3, 7.00 µs in total
host_bound: Host code leaves the GPU idle | 6.00 µs in one gap | gaps with the launching thread outside CUDA
    calls: 3, 7.00 µs in total
host_bound: Host-bound | host code leaves the GPU idle, 863 ms of it before modules load | gaps with the
    launching thread outside CUDA calls: 3,000, 922 ms in total
host_bound: Host code leaves the GPU idle | half of it in 3 gaps over 59.2 ms | gaps with the launching
    thread outside CUDA calls: 3,000, 922 ms in total
waiting_for_input: Waiting for input or other host code | 6.00 µs before one copy to the GPU | waits: 3,
    7.00 µs in total; use --trace cuda,nvtx,osrt to tell waiting from computing
waiting_for_input: Waiting for input or other host code | median 300 ns before a copy to the GPU | waits: 1
    per step, 960 ns in total; use --trace cuda,nvtx,osrt to tell waiting from computing
waiting_for_input: Waiting for input | OS calls leave the GPU idle, median 390 ns per gap | waits: 1 per
    step, 1.20 µs in total; mostly in blocking OS calls
synchronizing: - | Waiting for the GPU (synchronizing) leaves it idle | gaps after a wait for the GPU: 1 per
    step; GPU idle for 270 ns until the wait returned and the next launch arrived
synchronizing: - | Waiting for the GPU (synchronizing) delays launches (waits alone: 2.5 %) | gaps after a
    wait for the GPU: 1 per step; GPU idle for 270 ns until the wait returned and the next launch arrived
synchronizing: - | Waiting for the GPU after every operation leaves it idle | gaps after a wait for the GPU:
    2.33 per step; GPU idle for 300 ns until the wait returned and the next launch arrived
allocating: Allocating | the GPU is idle for 690 ns while memory is allocated or freed | gaps with calls
    that allocate or free memory: 1 per step; GPU idle for 600 ns in these calls; cudaFree also waits for
    the GPU
allocating: Allocating | the GPU is idle for 690 ns; PyTorch ran out of memory 2 times | gaps with calls
    that allocate or free memory: 1 per step; GPU idle for 600 ns in these calls; cudaFree also waits for
    the GPU
loading_in_loop: JIT compiling or module loading | the GPU is idle for 690 ns in the steps | loading calls:
    1 per step; 15 ns in loading, 600 ns in host code in the same gaps
loading_in_loop: JIT compiling or module loading | the GPU is idle for 690 ns in step 1,019 | loading calls:
    3 in 39 steps; 15 ns in loading, 600 ns in host code in the same gaps
loading_in_loop: JIT compiling or module loading | the GPU is idle for 690 ns in 2 of 39 steps | loading
    calls: 3 in 39 steps; 15 ns in loading, 600 ns in host code in the same gaps
loading_in_loop: JIT compiling or module loading | the GPU is idle for 110 ns at first use | loading calls:
    0; 0 ns in loading, 90 ns in host code in the same gaps
garbage_collection: Garbage collection | the GPU is idle for 5.50 ms while Python collects garbage |
    collections of 0.1 ms or longer: 2 per step, 6.00 ms in total
spikes: Outliers | 6 of 39 steps take 2.0 x the median (steps 5, 11, 17, 23, ...) | median step 1.00 µs,
    outliers 2.00 µs on average; 6.00 µs more idle or copying than usual
spikes: Outlier | step 5, 1 of 39 steps, takes 3.0 x the median | median step 1.00 µs, outliers 3.00 µs on
    average; 6.00 µs more idle or copying than usual
pageable_copies: Pageable copies | 3.00 MB at 10.0 TB/s block the host | copies from or to pageable memory:
    1 per step, 300 ns on the GPU; pinned ones take the same link, and 9 ns of kernels could hide them; the
    launches after them come earlier, which saves up to 210 ns more
pageable_copies: Pageable copies | 3.00 MB at 10.0 TB/s block the host | copies from or to pageable memory:
    1 per step, 300 ns on the GPU; pinned ones take the same link, and 9 ns of kernels could hide them
copies_not_overlapped: Exposed copies | 900 ns of copies not overlapped with kernels | copies: 1 per step,
    900 ns; kernels without copies 2.07 µs
tiny_copies: Tiny copies | 34 per step, each 8 B (median), take 1.02 µs | 102 copies of at most 64.0 kB;
    call overhead and latency take longer than the transfer
faulting_kernels: Page faults | kernels wait for 197 kB of unified memory to migrate | 3 migrations after
    page faults, under way during 600 ns of 2.97 µs of kernel time
waiting_for_pages: Page faults | the GPU is idle for 300 ns until pages have migrated | 3 gaps ending with a
    migration after a page fault, before a kernel
unfused_attention: Attention not fused | 3.00 ms of softmax, masks, scaling and copies of heads |
    softmax between two products: 4 per step; kernels between these products, and copies beside them: 10 per
    step; those between read and write all scores
parameter_updates: Parameters updated one by one | 3.00 ms in separate kernels (10 per step) | kernels of
    bursts in which each comes once for a parameter: 10 per step, 3.00 ms in total
parameter_updates: Parameters updated in several passes | 3.00 ms in foreach kernels (10 per step) | kernels
    that do one operation on all parameters: 10 per step, 3.00 ms in total; each operation reads and writes
    them again
casts: Casts between types | 3.00 ms for casts of weights and activations (10 per step) | casts: 10 per
    step, 3.00 ms in total; no kernel of a backward pass or an optimizer needs the wider type
casts: Casts between types | 3.00 ms for casts of activations (10 per step) | casts of as many elements as
    other kernels have: 10 per step, 3.00 ms in total; casts of weights do not count
layout_copies: Layout conversions | 2.00 µs between NCHW and NHWC (10 per step) | copies inside the GPU: 10
    per step; conversions 2.00 µs, strided copies 1.00 µs, concatenations 1.00 µs, copies as they are 1.00
    µs; that norms and pooling can be faster in NHWC, too, is not counted
layout_copies: Strided copies | 2.00 µs for copies to another layout (10 per step) | copies inside the GPU:
    10 per step; conversions 1.00 µs, strided copies 2.00 µs, concatenations 1.00 µs, copies as they are
    1.00 µs
layout_copies: Concatenations | 2.00 µs for joining tensors (10 per step) | copies inside the GPU: 10 per
    step; conversions 1.00 µs, strided copies 1.00 µs, concatenations 2.00 µs, copies as they are 1.00 µs
layout_copies: Copies inside the GPU | 2.00 µs for copies as they are (10 per step) | copies inside the GPU:
    10 per step; conversions 1.00 µs, strided copies 1.00 µs, concatenations 1.00 µs, copies as they are
    2.00 µs
elementwise_chains: Unfused kernels | 3.00 ms in chains such as vectoriz…_norm, add | chains of kernels over
    the same elements, back to back: 1 per step; their kernels: 10 per step, 3.00 ms in total; a fused
    kernel need not write and read what lies between
elementwise_chains: Unfused kernels | 3.00 ms in chains such as batc…rm_trans…, batc…rm_backw… | chains of
    kernels over the same elements, back to back: 1 per step; their kernels: 10 per step, 3.00 ms in total;
    a fused kernel need not write and read what lies between
last_wave: Last wave of blocks | 3.00 ms in kernels whose last wave leaves SMs idle | 30 kernel executions
    of 1 to 3 waves; most time lost in gemm: 264 blocks, 2 at a time on each of 132 SMs, make 1.00 waves
copy_bound: Copy-bound | 3.00 µs of copies with no kernels left to overlap | copies: 1 per step, 2.00 MB at
    5.00 GB/s, near the best rate of this run; kernels take 1.00 µs, mostly beside copies
fp32_products: FP32 products without tensor cores | 60.0 % of the time | 3 kernel executions, 300 ns in
    total; most time in k<{0}>
fp64_kernels: FP64 kernels | 60.0 % of the time, although the default is FP32 | 3 kernel executions, 300 ns
    in total; most time in k<{0}>
misaligned_products: Misaligned products | 60.0 % of the time, loading less than 16 bytes at once | 3 kernel
    executions, 300 ns in total; most time in gemm f32 128x256x8 nt
misaligned_products: Misaligned products | 60.0 % of the time, loading less than 16 bytes at once | 3 kernel
    executions, 300 ns in total; most time in k<{0}>
outside_graphs: - | Kernels outside CUDA graphs take 30.0 % of the time | -
gpu_counters: - | SMs active 85.9 % of the busy time, tensor cores 26.1 %, DRAM 0.0 % | -
slow_link: - | large pinned copies reach 6.00 GB/s; the PCIe link gives 64.0 GB/s | -
memory_near_limit: GPU memory nearly full | allocations hold up to 950 B of 1.00 kB | -
memory_grows: GPU memory grows | 70 B more after 7 steps, no step ends with less, most in 'net/layer'; free
    or reuse what steps keep | -
memory_in_steps: Allocations in the steps | a step allocates 90 B in 3 calls and frees most of it; allocate
    before the loop or from a pool | -
memory_retries: GPU memory ran out | PyTorch's allocator freed its cache and allocated again 1 time (40 ns
    in calls); use smaller batches, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against
    fragmentation | -
uses_fp64: - | FP64 kernels take 30.0 % of the time | -
unknown_products: - | precision unknown for 30.0 % of the time | -
one_kernel: - | forces takes 98.0 % of the time | -
kernel_drifts: - | forces: median 900 ns in the first third of the steps, 1.10 µs in the last | -
kernel_varies: - | forces: 99th percentile 2.00 µs, median 900 ns | -
copies_not_overlapped: Exposed copies | 900 ns of copies not overlapped with kernels | copies: 1 per step,
    900 ns; kernels without copies 2.07 µs; launched work waits 800 ns for them, by an event
idle_queued: - | Gaps between queued operations leave the GPU idle (300 ns) | idle 300 ns: between queued
    operations: dependency or GPU latency; 200 ns of it waiting for a copy on another GPU
few_blocks: Few blocks | the median of these kernels uses 2.5 blocks; the GPU has 10 SMs | 3 kernel
    executions, 300 ns in total; most time in few<{0}>
exposed_communication: Exposed communication | 600 ns of NCCL kernels not overlapped with compute |
    communication kernels ran for 1.20 µs, 600 ns of it overlapped with compute; this includes waiting for
    slower ranks
waiting_for_rank: Waiting for a rank | process 200 waited 2.80 µs for process 300 | cannot tell which rank
    delays the others: why
waiting_for_rank: Waiting for a rank | process 200 waited 2.80 µs for process 300 | process 300 was last in
    7 of 7 collectives; process 200 waited 2.80 µs for it, 38.2 % of its GPU time, because process 300's own
    GPU work takes 6.70 µs against 3.90 µs of process 200
waiting_for_rank: Waiting for a rank | process 200 waited 2.80 µs for process 300 | process 300 was last in
    7 of 7 collectives; process 200 waited 2.80 µs for it, 38.2 % of its GPU time, but process 300's own GPU
    work takes 4.00 µs against 3.90 µs (median of the others), which points to its host code; waiting under
    a rank's own kernels is not counted: up to 9.0 % of that rank's GPU time
idle_profiler: Profiler overhead | nsys itself leaves the GPU idle (300 ns) | idle 300 ns: profiler overhead
idle_queued: - | Gaps between queued operations leave the GPU idle (300 ns) | idle 300 ns: between queued
    operations: dependency or GPU latency
idle_queued: - | Gaps between queued copies and memsets leave the GPU idle (300 ns) | idle 300 ns: between
    queued operations: dependency or GPU latency
idle_load: - | Loading modules leaves the GPU idle (300 ns) | idle 300 ns: loading modules or contexts
idle_allocate: - | Allocating or freeing memory leaves the GPU idle (300 ns) | idle 300 ns: allocating or
    freeing memory
idle_synchronise: - | Synchronizing calls leave the GPU idle (300 ns) | idle 300 ns: synchronizing
idle_launch: - | Launch latency leaves the GPU idle (300 ns) | idle 300 ns: launch latency
idle_launch: - | First launches leave the GPU idle (300 ns) | idle 300 ns: launch latency
idle_launch: - | Launches of CUDA graphs leave the GPU idle (300 ns) | idle 300 ns: launch latency
idle_copy: - | Copy and memset calls leave the GPU idle (300 ns) | idle 300 ns: copy or memset calls
idle_host: - | Host code between GPU operations (300 ns) | idle 300 ns: host code outside CUDA calls
idle_call: - | Other CUDA calls leave the GPU idle (300 ns) | idle 300 ns: other CUDA calls
idle_migration: Unified memory | the GPU is idle until pages have migrated (300 ns) | idle 300 ns: page
    migration of unified memory
idle_pages_to_host: Unified memory | the GPU is idle while the host fetches pages (300 ns) | idle 300 ns:
    page migration of unified memory
idle_unknown: Unexplained GPU idle time | launches are not recorded (300 ns) | idle 300 ns: unexplained: no
    recorded call launched the next operation
lost_events: Events are missing from this capture | counts and times may be too low | some; more
timed_launch_only: - | NVTX ranges time the launch, not the GPU work | off by more than 10 % after warm-up:
    'a' (3 of 3): 190 µs, expected 940 µs
timed_earlier_work: - | NVTX ranges include waiting for GPU work launched before them | off by more than 10
    % after warm-up: unnamed ranges (1 of 2,000): 1 ns, expected 2 ns; 'a' (3 of 3): 190 µs, expected 940
    µs; 'a' (3 of 3): 190 µs, expected 940 µs; and 1 more names
ranges_differ: - | NVTX ranges and their GPU work differ in duration: 'a', 'b', 'c', ... | -
ranges_differ: - | NVTX ranges and their GPU work differ in duration: 'aten::mm', 'aten::longlo…onglong' | -
ranges_not_judged: - | why | -
slowed_by_marks: - | the marks of --modules slow host code: judge idle time in a run without them | -
events_missing: - | nsys reported missing events: 5 dropped | -
kernels_missing: - | nsys recorded none of the kernels that the program launched | -
operations_end_early: - | 1 of 2,000 GPU operations end before they start | -
clocks_disagree: - | 12.5 % of the launches start on the GPU before their call (median 5.00 µs): the clocks
    of CPU and GPU disagree | -
"""


def made(kind: FindingKind, numbers: dict[str, Any]) -> Wording:
    return words(Finding(kind, numbers, NOTHING, None, "bound", "gpu_idle"))


@pytest.mark.parametrize(
    ("kind", "numbers", "expected"),
    [(*case, entry) for case, entry in zip(CASES, re.split(r"\n(?=\S)", WORDS), strict=True)],
)
def test_words(kind: FindingKind, numbers: dict[str, Any], expected: str) -> None:
    wording = made(kind, numbers)
    heading, sentence, evidence = wording.heading, wording.sentence, wording.evidence
    assert f"{kind}: {heading or '-'} | {sentence} | {evidence or '-'}" == " ".join(expected.split())
    report = f" (-r {wording.report})" if wording.report else ""
    assert wording.what == (f"{heading}: {sentence}" if heading else f"{sentence}{report}")


def test_every_kind_has_words() -> None:
    assert {case[0] for case in CASES} == {*get_args(FindingKind)}, "CASES and WORDS need one of each kind"


# Causes of the busy GPU of a framework have words that depend on their own numbers.
_OF_FRAMEWORKS = {
    *("casts", "layout_copies", "unfused_attention", "parameter_updates", "elementwise_chains"),
    *("fp64_kernels", "copy_bound", "garbage_collection"),
}
_OF_PYTORCH = re.compile(r"(?i)torch|DataLoader|\btensor|pin_memory|non_blocking")
_OF_CUDA = re.compile(r"cuda[A-Z]\w+\(|<<<|std::")


@pytest.mark.parametrize("language", LANGUAGES)
def test_advice_is_for_what_the_program_is_written_with(language: str) -> None:
    for kind, numbers, *_ in CASES:
        if kind in _OF_FRAMEWORKS:
            continue
        wording = words(Finding(kind, numbers, NOTHING, None, "bound", "gpu_idle", language=language))
        texts = f"{wording.remedy} {wording.do} {wording.example}"
        assert language == PYTORCH or not _OF_PYTORCH.search(texts), (kind, texts)
        assert len(wording.example) <= MOST_CODE, (kind, wording.example)
        if language not in {PYTORCH, CUDA} and "cudaMemPrefetchAsync" not in texts:
            queued_copies = kind == "idle_queued" and not numbers["computes"]
            first = kind == "idle_launch" and numbers["all_first"]
            assert queued_copies or first or not _OF_CUDA.search(wording.example), (kind, wording.example)


def test_a_gpu_in_the_memory_of_the_host_needs_no_copies() -> None:
    for kind, numbers, *_ in CASES:
        if kind in {"pageable_copies", "copies_not_overlapped", "tiny_copies"}:
            wording = made(kind, {**numbers, "integrated": True})
            assert (wording.remedy, wording.unless) == ("No copies", "a library makes the copies")
            assert wording.do.startswith("this GPU shares the memory of the host")


def test_queued_copies_get_no_advice_on_kernels() -> None:
    wording = made("idle_queued", {**IDLE, "cause": "queued", "computes": False})
    assert "kernel" not in wording.do + wording.remedy
    assert wording.example.startswith("cudaMemcpyAsync(")


@pytest.mark.parametrize(
    ("first", "last", "do", "example"),
    [
        (None, None, "--duration, --capture-range or fewer --trace kinds", "--duration 10"),
        (3, 8, "fewer steps or fewer --trace kinds", "--steps 5"),
        (4, 4, "another of the --steps or fewer --trace kinds", "--steps 4"),
    ],
)
def test_where_events_are_lost_fewer_of_the_marked_steps_are_named(
    first: int | None, last: int | None, do: str, example: str
) -> None:
    wording = made("lost_events", {"losses": (), "first_step": first, "last_step": last})
    assert wording.do == f"record again, with less at once: {do}"
    assert wording.example == f"nsyswrap profile {example} -- ..."


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("pytorch", "current, following = following, current  # instead of copy_()"),
        ("jax", "nsyswrap report CAPTURE -r cuda_gpu_trace  # what comes before the copies"),
        ("cuda", "std::swap(current, next);  // pointers, instead of cudaMemcpyAsync"),
    ],
)
def test_code_is_in_the_language_of_the_program(language: str, code: str) -> None:
    numbers = {**COPIES, "clones_ns": 2000}
    finding = Finding("layout_copies", numbers, NOTHING, 1, "bound", "cuda_gpu_sum", language=language)
    assert words(finding).example == code

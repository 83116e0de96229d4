"""The words of findings: heading, sentence and evidence, what to do, and when that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from nsyswrap.analysis.finding import Finding, FindingKind, Numbers, Status
from nsyswrap.analysis.kernel_names.classes import parse
from nsyswrap.analysis.kernel_names.readable import readable
from nsyswrap.analysis.program_language import CUDA, PYTORCH
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.records import dataclass
from nsyswrap.base.text import shorten, shorten_all
from nsyswrap.base.units import duration, percent
from nsyswrap.reports.wording.languages import in_language
from nsyswrap.reports.wording.numbers import filled
from nsyswrap.reports.wording.states import CAUSE_NAMES

with lazy_imports():  # most captures have one process
    from nsyswrap.analysis import range_texts
    from nsyswrap.reports.wording import ranks


_MOST_STEPS = 4  # numbers of steps in a sentence
_MOST_NAMES, _SHORT_RANGE = 3, 20  # ranges in a sentence, and the columns of each
_MOST_OPERATIONS, _OPERATION = 2, 14  # operations of kernels in a sentence, and the columns of each
_KERNEL_WIDTH = 36  # columns of a kernel's name
_RANGE_WIDTH = 30  # columns of a range
# How much a change saves, by how that is known
SAVINGS: Mapping[Status, str] = {
    "measured": "{} (measured)",
    "bound": "at most {}",
    "estimate": "about {} (estimate)",
    "unknown": "saving not known",
}


@dataclass(frozen=True)
class Wording:
    """The texts of a finding. ``heading`` is empty if the sentence says all.

    ``remedy`` names the change, ``do`` says how, ``example`` is a line of code. ``unless`` says when the
    advice is wrong. ``report`` is named at the end of a sentence without a heading.
    """

    heading: str
    sentence: str
    evidence: str = ""
    remedy: str = ""
    do: str = ""
    example: str = ""
    unless: str = ""
    report: str = ""

    @property
    def what(self) -> str:
        """The conclusion with its figure."""
        report = f" (-r {self.report})" if self.report else ""
        return f"{self.heading}: {self.sentence}" if self.heading else f"{self.sentence}{report}"


def words(finding: Finding) -> Wording:
    """Return the texts of a finding."""
    kind, numbers = (
        finding.kind,
        {"written_in": finding.language, "time_percent": finding.time_percent, **finding.numbers},
    )
    wording = replace(WORDINGS[kind], **in_language(kind, finding.language))
    if kind in _VARIANTS:
        changes, more = _VARIANTS[kind](numbers)
        wording, numbers = replace(wording, **changes), {**numbers, **more}
    if numbers.get("integrated"):
        wording = replace(wording, **_NO_COPIES)
    if rank := numbers.get("rank"):  # of a fact in the answer of a job
        wording = replace(wording, heading=f"{wording.heading} on {rank}" if wording.heading else rank)
    return replace(
        wording, sentence=filled(wording.sentence, numbers), evidence=filled(wording.evidence, numbers)
    )


# An integrated GPU works in the memory of the host.
_NO_COPIES = {
    "remedy": "No copies",
    "do": "this GPU shares the memory of the host: let kernels read it where it is, instead of copying",
    "example": "cudaMallocManaged(&data, bytes);  // for host and GPU, without cudaMemcpy",
    "unless": "a library makes the copies",
}
_KERNELS = "{kernels:kernel executions}, {kernels_ns} in total; most time in {longest_kernel}"
WORDINGS: Mapping[FindingKind, Wording] = {
    "launch_bound": Wording(
        "Launch latency leaves the GPU idle",
        "median {median_launch_ns} for {median_work_ns} of GPU work",
        "{launches:repeated launches}; GPU idle for {inside_ns} of launch latency and {between_ns} of short "
        "host code and other calls between launches",
        "CUDA graphs or fusion",
        "reduce the number of launches: CUDA graphs, torch.compile, fused kernels, larger batches",
        "step = torch.compile(step, mode='reduce-overhead')",
        "nsys causes the delay, as it slows every launch: compare run times without nsys",
    ),
    "host_bound": Wording(
        "Host code leaves the GPU idle",
        "median {median_ns} per gap",
        "gaps with the launching thread outside CUDA calls: {gaps:per step}, {idle_ns} in total",
        "Less host code between launches",
        "move host work out of the loop or to a pool of threads, or queue more GPU work ahead",
        "future = pool.submit(prepare); step(batch); batch = future.result()",
        "the program had no work for the GPU, for example between requests",
    ),
    "waiting_for_input": Wording(
        "Waiting for input or other host code",
        "median {median_ns} before a copy to the GPU",
        "waits: {waits:per step}, {idle_ns} in total; use --trace cuda,nvtx,osrt to tell waiting from "
        "computing",
        "Less or earlier host work",
        "load and prepare input in other processes, ahead of the step that needs it; shorten what else the "
        "host does before the copy",
        "DataLoader(dataset, num_workers=8, pin_memory=True)",
        "the host has to wait in that time, for example for requests",
    ),
    "synchronizing": Wording(
        "",
        "Waiting for the GPU (synchronizing) leaves it idle",
        "gaps after a wait for the GPU: {gaps:per step}; GPU idle for {idle_ns} until the wait returned and "
        "the next launch arrived",
        "Synchronizing less often",
        "avoid .item(), .cpu(), printing a tensor and cudaDeviceSynchronize in the loop; wait on "
        "events instead",
        "loss_sum += loss.detach()  # and .item() once after the loop",
        "the host needs each result before it can continue, or synchronizes for timing",
    ),
    "allocating": Wording(
        "Allocating",
        "the GPU is idle for {idle_ns} while memory is allocated or freed",
        "gaps with calls that allocate or free memory: {gaps:per step}; GPU idle for {inside_ns} in these "
        "calls; cudaFree also waits for the GPU",
        "Allocating once",
        "allocate before the loop or from a pool: cudaMallocAsync, or PyTorch's cache without empty_cache()",
        "buffer = torch.empty(shape, device='cuda')  # once, before the loop",
        "the allocation happens once in a long run",
    ),
    "loading_in_loop": Wording(
        "JIT compiling or module loading",
        "the GPU is idle for {idle_ns} at first use",
        "loading calls: {calls:per step}; {loading_ns} in loading, {host_ns} in host code in the same gaps",
        "Compiling and loading once",
        "compile and load before the loop: fixed shapes, cached kernels, one warm-up call per kernel",
        "step = torch.compile(step, dynamic=True)  # called before the loop",
        "the program runs each kernel only once by design",
    ),
    "garbage_collection": Wording(
        "Garbage collection",
        "the GPU is idle for {idle_ns} while Python collects garbage",
        "collections of 0.1 ms or longer: {collections:per step}, {collecting_ns} in total",
        "Collecting less often",
        "after the set-up freeze the objects that stay and disable automatic collections; collect between "
        "epochs, on all ranks at the same step",
        "gc.collect(); gc.freeze(); gc.disable()  # before the loop",
        "the loop leaves reference cycles that fill the memory without collections",
    ),
    "spikes": Wording(
        "Outliers",
        "{outliers} of {steps} steps take {times} x the median (steps {listed})",
        "median step {median_ns}, outliers {outlier_ns} on average; {more_ns} more idle or copying "
        "than usual",
        "Removing the extra work",
        "move the extra work elsewhere: checkpoints and logs to another thread, validation to another job",
        "threading.Thread(target=torch.save, args=(snapshot, path)).start()",
        "the extra work is needed in these steps",
    ),
    "pageable_copies": Wording(
        "Pageable copies",
        "{moved_bytes} at {rate_bytes_per_s} block the host",
        "copies from or to pageable memory: {copies:per step}, {copies_ns} on the GPU; pinned ones take the "
        "same link, and {hiding_ns} of kernels could hide them",
        "Pinned memory",
        "use pinned memory and asynchronous copies: cudaMallocHost, or pin_memory=True in PyTorch",
        "batch = batch.pin_memory().to('cuda', non_blocking=True)",
        "the data is copied only once: pinning costs more than one copy",
    ),
    "copies_not_overlapped": Wording(
        "Exposed copies",
        "{exposed_ns} of copies not overlapped with kernels",
        "copies: {copies:per step}, {copies_ns}; kernels without copies {kernels_alone_ns}",
        "Overlapping copies",
        "copy the next part on a separate stream, from pinned memory, while a kernel works on this one",
        "with torch.cuda.stream(copy): x = batch.to('cuda', non_blocking=True)",
        "each kernel needs the data copied before it, and no other work can run meanwhile",
    ),
    "copy_bound": Wording(
        "Copy-bound",
        "{exposed_ns} of copies with no kernels left to overlap",
        "copies: {copies:per step}, {moved_bytes} at {rate_bytes_per_s}, near the best rate of this run; "
        "kernels take {kernels_ns}, mostly beside copies",
        "Copying less",
        "copy a smaller type, only what changed, or nothing that can stay on the GPU; or compute more for "
        "each copy",
        "batch = images.to('cuda', non_blocking=True).half()  # copied as uint8",
        "all of the data is needed, in this type and once",
    ),
    "tiny_copies": Wording(
        "Tiny copies",
        "{copies:per step}, each {median_bytes} (median), take {cost_ns}",
        "{copies:copies} of at most {most_bytes}; call overhead and latency take longer than the transfer",
        "One copy instead of many",
        "combine the data in one copy, or create it on the GPU",
        "values = torch.tensor(numbers, device='cuda')  # all in one tensor",
        "each copied result is needed immediately",
    ),
    "faulting_kernels": Wording(
        "Page faults",
        "kernels wait for {migrated_bytes} of unified memory to migrate",
        "{migrations:migrations} after page faults, under way during {migrating_ns} of {kernels_ns} of "
        "kernel time",
        "Prefetching pages",
        "prefetch the pages that the kernel needs, or use cudaMalloc and explicit copies",
        "cudaMemPrefetchAsync(data, bytes, device, stream);",
        "the kernel touches few pages, and these are not known in advance",
    ),
    "waiting_for_pages": Wording(
        "Page faults",
        "the GPU is idle for {idle_ns} until pages have migrated",
        "{gaps:gaps} ending with a migration after a page fault, before a kernel",
        "Prefetching pages",
        "prefetch pages to the processor that needs them next; avoid sharing pages between CPU and GPU",
        "cudaMemPrefetchAsync(data, bytes, cudaCpuDeviceId, stream);",
        "the host computes on these pages in that time; then host work is the cause",
    ),
    "unfused_attention": Wording(
        "Attention not fused",
        "{kernels_ns} of softmax, masks, scaling and copies of heads",
        "softmax between two products: {softmaxes:per step}; kernels between these products, and copies "
        "beside them: {kernels:per step}; those between read and write all scores",
        "Fused attention",
        "call F.scaled_dot_product_attention, which keeps the scores on the chip; in transformers, "
        "attn_implementation='sdpa'",
        "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "the program needs the attention weights themselves, or no fused kernel takes its bias",
    ),
    "parameter_updates": Wording(
        "Parameters updated one by one",
        "{kernels_ns} in separate kernels ({kernels:per step})",
        "kernels of bursts in which each comes once for a parameter: {kernels:per step}, {kernels_ns} in "
        "total",
        "One pass over the parameters",
        "let the optimizer pass over each parameter once: fused=True; foreach=True saves launches, but no "
        "reads and writes; compile an own update, such as a moving average, with torch.compile",
        "optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
        "the optimizer has no such option; then compile its step with torch.compile",
    ),
    "casts": Wording(
        "Casts between types",
        "{kernels_ns} for casts of activations ({kernels:per step})",
        "casts of as many elements as other kernels have: {kernels:per step}, {kernels_ns} in total; casts "
        "of weights do not count",
        "One type from layer to layer",
        "run the whole model under autocast instead of .half() and .float() in it, or convert it: "
        "model.to(torch.bfloat16); torch.compile fuses the casts that stay",
        "with torch.autocast('cuda', dtype=torch.bfloat16): loss = model(batch)",
        "the values need the range or the precision of the wider type",
    ),
    "layout_copies": Wording(
        "Layout conversions",
        "{conversions_ns} between NCHW and NHWC ({kernels:per step})",
        "copies inside the GPU: {kernels:per step}; {listed}; that norms and pooling can be faster in NHWC, "
        "too, is not counted",
        "One layout throughout",
        "keep images in NHWC, the layout of the tensor cores, from the input to the last layer",
        "model = model.to(memory_format=torch.channels_last)  # and the input",
        "the kernels that read the copies save more time than the copies take",
    ),
    "elementwise_chains": Wording(
        "Unfused kernels",
        "{kernels_ns} in chains such as {listed}",
        "chains of kernels over the same elements, back to back: {chains:per step}; their kernels: "
        "{kernels:per step}, {kernels_ns} in total; a fused kernel need not write and read what lies "
        "between",
        "Fusing them",
        "compile the function with torch.compile, or write one Triton kernel for the chain",
        "model = torch.compile(model)",
        "shapes change from call to call, or other code needs the values between",
    ),
    "few_blocks": Wording(
        "Few blocks",
        "the median of these kernels uses {blocks}; the GPU has {multiprocessors} SMs",
        "{kernels:kernel executions}, {kernels_ns} in total; most time in {longest_kernel}",
        "More blocks",
        "use more blocks: process more elements per launch, use smaller blocks, or batch small problems",
        "kernel<<<(n + 255) / 256, 256>>>(data, n);",
        "other streams use the idle SMs, or the problem allows no more blocks",
    ),
    "last_wave": Wording(
        "Last wave of blocks",
        "{kernels_ns} in kernels whose last wave leaves SMs idle",
        "{kernels:kernel executions} of 1 to 3 waves; most time lost in {kernel}: {blocks} blocks, "
        "{resident} at a time on each of {multiprocessors} SMs, make {listed} waves",
        "Full waves",
        "choose sizes that fill whole waves, or share the work among as many blocks as fit at once",
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, 0);  // grid: blocks x SMs",
        "other streams use the idle SMs, or memory limits the kernel",
    ),
    "fp32_products": Wording(
        "FP32 products without tensor cores",
        "{time_percent} of the time",
        _KERNELS,
        "TF32",
        "allow TF32, whose tensor cores round inputs to a mantissa of 10 bits; for convolutions "
        "torch.backends.cudnn.allow_tf32 = True",
        "torch.set_float32_matmul_precision('high')",
        "the results need all 23 bits of FP32's mantissa: compare them",
    ),
    "fp64_kernels": Wording(
        "FP64 kernels",
        "{time_percent} of the time, although the default is FP32",
        _KERNELS,
        "FP32 with TF32 products",
        "compute in FP32, with TF32 allowed: arrays of NumPy are FP64, and so are the tensors made from them",
        "x = torch.from_numpy(array).float().to('cuda')",
        "the results need FP64: compare them",
    ),
    "misaligned_products": Wording(
        "Misaligned products",
        "{time_percent} of the time, loading less than 16 bytes at once",
        _KERNELS,
        "Aligned dimensions",
        "pad dimensions to multiples of 16 bytes: 8 elements of FP16 or BF16, 4 of FP32 or TF32",
        "vocabulary = (vocabulary + 63) // 64 * 64  # before layers are created",
        "padding adds more work than it saves, as to small dimensions",
    ),
    "outside_graphs": Wording("", "Kernels outside CUDA graphs take {time_percent} of the time"),
    "gpu_counters": Wording(
        "", "SMs active {sm_percent} of the busy time, tensor cores {tensor_percent}, DRAM {dram_percent}"
    ),
    "slow_link": Wording(
        "", "large pinned copies reach {rate_bytes_per_s}; the PCIe link gives {link_bytes_per_s}"
    ),
    "memory_near_limit": Wording(
        "GPU memory nearly full", "allocations hold up to {held_bytes} of {size_bytes}{where}"
    ),
    "memory_grows": Wording(
        "GPU memory grows",
        "{grown_bytes} more after {of_steps:steps}, no step ends with less{where}; free or reuse what steps "
        "keep",
    ),
    "memory_in_steps": Wording(
        "Allocations in the steps",
        "a step allocates {allocated_bytes} in {allocations:calls} and frees most of it{where}; allocate "
        "before the loop or from a pool",
    ),
    "memory_retries": Wording(
        "GPU memory ran out",
        "PyTorch's allocator freed its cache and allocated again {retries:times} ({calls_ns} in calls); use "
        "smaller batches, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True against fragmentation",
    ),
    "uses_fp64": Wording("", "FP64 kernels take {time_percent} of the time"),
    "one_kernel": Wording("", "{short} takes {time_percent} of the time"),
    "kernel_drifts": Wording(
        "", "{short}: median {first_ns} in the first third of the steps, {last_ns} in the last"
    ),
    "kernel_varies": Wording("", "{short}: 99th percentile {p99_ns}, median {median_ns}"),
    "unknown_products": Wording("", "precision unknown for {time_percent} of the time"),
    "exposed_communication": Wording(
        "Exposed communication",
        "{exposed_ns} of NCCL kernels not overlapped with compute",
        "communication kernels ran for {running_ns}, {overlapped_ns} of it overlapped with compute; this "
        "includes waiting for slower ranks",
        "Overlapping communication",
        "overlap it with compute (gradient buckets, a separate stream), communicate less, or find the "
        "late rank",
        "model = DistributedDataParallel(model, bucket_cap_mb=25)",
        "the compute that could overlap needs the result of the communication",
    ),
    "waiting_for_rank": Wording(
        "Waiting for a rank",
        "{waits} waited {waited_ns} for {late}",
        "{sentence}",
        "Equal work on all ranks",
        "balance the work between ranks, or find the cause of the delay: --by rank compares all ranks",
        "nsyswrap report CAPTURE --by rank",
        "the ranks have unequal work by design",
    ),
    "idle_profiler": Wording(
        "Profiler overhead",
        "nsys itself leaves the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Recording less",
        "record fewer kinds of events, or only part of the run",
        "nsyswrap profile --trace cuda --capture-range cudaProfilerApi -- ...",
        "only the run time without nsys matters, which has no profiler overhead",
    ),
    "idle_queued": Wording(
        "",
        "Gaps between queued operations leave the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Fewer, longer kernels",
        "fuse short kernels, launch them as a CUDA graph, or remove dependencies between streams",
        "step = torch.compile(step)",
        "the operations wait for another device or process",
    ),
    "idle_load": Wording(
        "",
        "Loading modules leaves the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Loading once",
        "load modules and create contexts before the loop; -r gpu_idle lists the gaps",
        "step()  # once before the loop: the first call of a kernel loads it",
        "the loading happens once in a long run",
    ),
    "idle_allocate": Wording(
        "",
        "Allocating or freeing memory leaves the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Allocating once",
        "allocate before the loop or from a pool: cudaMallocAsync; -r gpu_idle lists the gaps",
        "buffer = torch.empty(shape, device='cuda')  # before the loop",
        "the allocation happens once in a long run",
    ),
    "idle_synchronise": Wording(
        "",
        "Synchronizing calls leave the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Synchronizing less often",
        "move these calls out of the loop; -r gpu_idle lists the gaps",
        "loss_sum += loss.detach()  # and .item() once after the loop",
        "the host needs each result before it can continue",
    ),
    "idle_launch": Wording(
        "",
        "Launch latency leaves the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "CUDA graphs or fusion",
        "reduce the number of launches: CUDA graphs, torch.compile, fused kernels; -r gpu_idle lists "
        "the gaps",
        "step = torch.compile(step, mode='reduce-overhead')",
        "nsys causes the delay, as it slows every launch: compare run times without nsys",
    ),
    "idle_copy": Wording(
        "",
        "Copy and memset calls leave the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Fewer copy calls",
        "copy more per call, asynchronously and from pinned memory; -r gpu_idle lists the gaps",
        "batch = batch.pin_memory().to('cuda', non_blocking=True)",
        "each copied result is needed immediately",
    ),
    "idle_host": Wording(
        "",
        "Host code between GPU operations ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Less host code between launches",
        "move host work out of the loop or to a pool of threads, or queue more GPU work ahead",
        "future = pool.submit(prepare); step(batch); batch = future.result()",
        "the program had no work for the GPU in that time",
    ),
    "idle_call": Wording(
        "",
        "Other CUDA calls leave the GPU idle ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Fewer CUDA calls",
        "move these calls out of the loop; -r cuda_api_sum lists them",
        "nsyswrap report CAPTURE -r cuda_api_sum",
        "the calls belong to a phase that runs once",
    ),
    "idle_migration": Wording(
        "Unified memory",
        "the GPU is idle until pages have migrated ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Prefetching pages earlier",
        "start prefetches earlier, on a separate stream, so that kernels run in the meantime",
        "cudaMemPrefetchAsync(following, bytes, device, copies);",
        "the host computes on these pages in that time",
    ),
    "idle_pages_to_host": Wording(
        "Unified memory",
        "the GPU is idle while the host fetches pages ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Prefetching to the host",
        "move results to the host in one piece: prefetch or copy them; -r gpu_idle lists the gaps",
        "cudaMemPrefetchAsync(results, bytes, cudaCpuDeviceId, stream);",
        "the host computes on these pages in that time",
    ),
    "idle_unknown": Wording(
        "Unexplained GPU idle time",
        "launches are not recorded ({idle_ns})",
        "idle {idle_ns}: {cause}",
        "Recording the launches",
        "record from the start, and trace CUDA in all processes",
        "nsyswrap profile --trace cuda,nvtx,osrt -- ...",
        "events were removed from the capture",
    ),
    "lost_events": Wording(
        "Events are missing from this capture",
        "counts and times may be too low",
        "{listed}",
        "Recording less at once",
        "record again, with less at once: --duration, --capture-range or fewer --trace kinds",
        "nsyswrap profile --duration 10 -- ...",
        "the missing events are not GPU events",
    ),
    "timed_launch_only": Wording(
        "",
        "NVTX ranges time the launch, not the GPU work",
        "off by more than {tolerance} % after warm-up: {listed}",
        "Timing the work",
        "synchronize before the range ends, or use CUDA events",
        "torch.cuda.synchronize()  # as the last line of the range",
        "the range is meant to measure host time only",
    ),
    "timed_earlier_work": Wording(
        "",
        "NVTX ranges include waiting for GPU work launched before them",
        "off by more than {tolerance} % after warm-up: {listed}",
        "Timing the work",
        "synchronize before the range begins",
        "torch.cuda.synchronize()  # as the last line before the range",
        "the range is meant to include earlier work",
    ),
    "ranges_differ": Wording(
        "", "NVTX ranges and their GPU work differ in duration: {listed}", report="timing_audit"
    ),
    "ranges_not_judged": Wording("", "{reason}"),
    "slowed_by_marks": Wording(
        "", "the marks of --modules slow host code: judge idle time in a run without them"
    ),
    "events_missing": Wording("", "nsys reported missing events: {loss}"),
    "kernels_missing": Wording("", "nsys recorded none of the kernels that the program launched"),
    "operations_end_early": Wording("", "{backwards} of {operations} GPU operations end before they start"),
    "clocks_disagree": Wording(
        "",
        "{early_percent} of the launches start on the GPU before their call (median {median_early_ns}): the "
        "clocks of CPU and GPU disagree",
    ),
}

_Variant = tuple[dict[str, str], dict[str, Any]]  # fields of the wording, and further numbers


def _launch_bound(numbers: Numbers) -> _Variant:
    sentence = "median launch {median_launch_ns} for {median_work_ns} of GPU work"
    return {"heading": "Launch-bound", "sentence": sentence} if numbers["bounds"] else {}, {}


def _host_bound(numbers: Numbers) -> _Variant:
    each = _each_gap(numbers)
    changes = {"sentence": each}
    if numbers["bounds"]:
        changes = {"heading": "Host-bound", "sentence": f"host code leaves the GPU idle, {each}"}
    if numbers.get("before_kernels"):
        changes |= {
            "remedy": "Less host code",
            "do": "read, build and copy less before the first kernel, or record later: --delay 5",
            "example": "nsyswrap profile --delay 5 PROGRAM",
            "unless": "the program runs for so long that its start does not matter",
        }
    if "before_loading_ns" in numbers:
        changes |= {
            "remedy": "Less compiling or other host code",
            "do": "compilers, also those of libraries, run before modules load: keep shapes fixed, cache "
            "what they make, and try fewer variants",
            "example": "nsyswrap report CAPTURE -r gpu_idle  # lists the gaps",
            "unless": "the program runs for so long that its start does not matter",
        }
    elif "half_gaps" in numbers:
        changes["remedy"] = "Less host code"
    if "gil_held_ns" in numbers:
        gil = "; Python's GIL held for {gil_held_ns}, waited for {gil_waited_ns}"
        changes["evidence"] = WORDINGS["host_bound"].evidence + gil
    return changes, {}


def _each_gap(numbers: Numbers) -> str:
    if "before_loading_ns" in numbers:
        return "{before_loading_ns} of it before modules load"
    if "half_gaps" in numbers:
        return "half of it in {half_gaps:gaps} over {shorter_ns}"
    if "longest_ns" not in numbers:
        return "median {median_ns} per gap"
    return "{longest_ns} " + ("before the first kernel" if numbers["before_kernels"] else "in one gap")


def _waiting_for_input(numbers: Numbers) -> _Variant:
    if not numbers["os_calls_traced"]:
        once = "{longest_ns} before one copy to the GPU"
        return {"sentence": once} if "longest_ns" in numbers else {}, {}
    return {
        "heading": "Waiting for input",
        "remedy": "Loading input ahead",
        "sentence": f"OS calls leave the GPU idle, {_each_gap(numbers)}",
        "evidence": "waits: {waits:per step}, {idle_ns} in total; mostly in blocking OS calls",
    }, {}


def _synchronizing(numbers: Numbers) -> _Variant:
    where = " after every operation" if numbers["after_every_operation"] else " (synchronizing)"
    effect = "leaves it idle"
    if "alone_percent" in numbers:
        effect = f"delays launches (waits alone: {percent(numbers['alone_percent'])})"
    return {"sentence": f"Waiting for the GPU{where} {effect}"}, {}


_ON_A_GPU_OF_ITS_OWN = {
    "remedy": "A GPU of its own or less extra work",
    "do": "run again on a GPU of its own, as other processes had this one open; move work that is still "
    "extra elsewhere: checkpoints and logs to another thread",
}


def _loading_in_loop(numbers: Numbers) -> _Variant:
    """Return the words for steps, and for a few of them: what they load later ones have."""
    few = numbers.get("step_numbers", ())
    if not few:
        return {"sentence": "the GPU is idle for {idle_ns} in the steps"} if numbers["steps"] else {}, {}
    where = f"step {few[0]:,}" if len(few) == 1 else f"{len(few):,} of {numbers['steps']:,} steps"
    return {
        "sentence": f"the GPU is idle for {{idle_ns}} in {where}",
        "remedy": "Compiling and loading before the loop",
        "unless": "the loop runs for so long that its first uses do not matter",
    }, {}


def _spikes(numbers: Numbers) -> _Variant:
    steps = numbers["step_numbers"]
    more = {
        "outliers": str(len(steps)),
        "steps": str(numbers["steps"]),
        "times": f"{numbers['outlier_ns'] / max(numbers['median_ns'], 1):,.1f}",
        "listed": _listed(list(map(str, steps)), _MOST_STEPS),
    }
    changes = {}
    if "garbage_unknown" in numbers:
        hint = "; --trace cuda,nvtx,python-gc tells whether Python collects garbage in them"
        changes["evidence"] = WORDINGS["spikes"].evidence + hint
    if "gpu_shared" in numbers:
        changes |= _ON_A_GPU_OF_ITS_OWN
    if len(steps) > 1:
        return changes, more
    one = "step {listed}, {outliers} of {steps} steps, takes {times} x the median"
    return {**changes, "heading": "Outlier", "sentence": one}, more


def _waiting_for_rank(numbers: Numbers) -> _Variant:
    """Return the words for a rank that is late although its GPU has no more to do, too."""
    host = {
        "remedy": "Removing the delay of that rank",
        "do": "find what its host code does beyond that of the others: loading data, logging, checkpoints, "
        "or a CPU that is slower or shared",
        "example": "nsyswrap report CAPTURE --by rank -r rank_steps",
        "unless": "that rank has to do this work, and no other time is free for it",
    }
    return host if ranks.is_host_late(numbers) else {}, {"sentence": ranks.waiting_sentence(numbers)}


def _allocating(numbers: Numbers) -> _Variant:
    """Return the words for a program whose allocator frees its cache as memory runs out."""
    if not numbers.get("retries"):
        return {}, {}
    return {**_RETRIED, **(_FITTING if numbers["written_in"] == PYTORCH else {})}, {}


def _parameter_updates(numbers: Numbers) -> _Variant:
    """Return the words for an optimizer that does one operation on all parameters after the other."""
    passes = {
        "heading": "Parameters updated in several passes",
        "sentence": "{kernels_ns} in foreach kernels ({kernels:per step})",
        "evidence": "kernels that do one operation on all parameters: {kernels:per step}, {kernels_ns} in "
        "total; each operation reads and writes them again",
        "do": "let the optimizer pass over them once: fused=True; for a large embedding with few rows "
        "in a batch, use sparse=True and torch.optim.SparseAdam",
    }
    return passes if numbers.get("foreach") else {}, {}


def _casts(numbers: Numbers) -> _Variant:
    """Return the words for a program that does not train: its weights could be cast once."""
    once = {
        "sentence": "{kernels_ns} for casts of weights and activations ({kernels:per step})",
        "evidence": "casts: {kernels:per step}, {kernels_ns} in total; no kernel of a backward pass or an "
        "optimizer needs the wider type",
        "remedy": "Casting once",
        "do": "convert the model once before the loop, instead of its weights in each call or under autocast",
        "example": "model = model.to(torch.bfloat16)  # and its input",
    }
    return {} if numbers["trains"] else once, {}


def _with_range(numbers: Numbers) -> _Variant:
    """Return where most of the memory was allocated, if that is in a range or module."""
    most = shorten(numbers["range"], _RANGE_WIDTH)
    return {}, {"where": f", most in '{most}'" if most else ""}


_COPIES = {
    "conversions_ns": "conversions",
    "strided_ns": "strided copies",
    "concatenations_ns": "concatenations",
    "clones_ns": "copies as they are",
}
_COPIES_INSIDE = "copies inside the GPU: {kernels:per step}; {listed}"


def _layout_copies(numbers: Numbers) -> _Variant:
    """Return the words for what takes most of the time, with code in the program's language."""
    most, language = max(_COPIES, key=lambda key: numbers[key]), numbers["written_in"]
    listed = [f"{name} {duration(numbers[key])}" for key, name in _COPIES.items() if numbers[key]]
    more = {"listed": ", ".join(listed)}
    changes = {} if most == "conversions_ns" else {"evidence": _COPIES_INSIDE}
    if most == "strided_ns":
        changes |= {
            "heading": "Strided copies",
            "sentence": "{strided_ns} for copies to another layout ({kernels:per step})",
            "do": "keep one layout: no .contiguous(), .permute() or .transpose() between kernels; for "
            "convolutions, channels_last for the model and its input",
            "example": "x = x.to(memory_format=torch.channels_last)  # once, and no .contiguous()",
        }
    elif most == "concatenations_ns":
        changes |= {
            "heading": "Concatenations",
            "sentence": "{concatenations_ns} for joining tensors ({kernels:per step})",
            "remedy": "Writing in place",
            "do": "write the parts into one tensor that is allocated once",
            "example": "cache[:, position] = key  # instead of torch.cat",
        }
    elif most == "clones_ns":
        changes |= {
            "heading": "Copies inside the GPU",
            "sentence": "{clones_ns} for copies as they are ({kernels:per step})",
            "remedy": "Using the data where it is",
            "do": "use the tensor itself instead of .clone() or .copy_()",
            "example": "current, following = following, current  # instead of copy_()",
            "unless": "both copies are needed, because one of them changes",
        }
    if language in {PYTORCH, ""}:
        return changes, more
    if most == "clones_ns":
        changes |= {
            "do": "swap references to buffers, or let the kernel write to its destination",
            "example": "std::swap(current, next);  // pointers, instead of cudaMemcpyAsync"
            if language == CUDA
            else "nsyswrap report CAPTURE -r cuda_gpu_trace  # what comes before the copies",
        }
    else:
        changes |= {
            "do": "keep one layout from kernel to kernel; for convolutions it is NHWC",
            "example": "nsyswrap report CAPTURE -r cuda_gpu_kern_sum  # which kernels copy",
        }
    return changes, more


def _elementwise_chains(numbers: Numbers) -> _Variant:
    operations = list(dict.fromkeys(name.split("<")[0].split()[-1] for name in numbers["names"]))
    return {}, {"listed": _listed(shorten_all(operations, _OPERATION), _MOST_OPERATIONS)}


def _few_blocks(numbers: Numbers) -> _Variant:
    median = numbers["median_blocks"]
    blocks = f"{median:g} block{'' if median == 1 else 's'}"
    changes = {}
    if "blocked_ns" in numbers:
        changes = {
            "evidence": f"{WORDINGS['few_blocks'].evidence}; launched work of other streams waits "
            "{blocked_ns} for them",
            "unless": "the problem allows no more blocks",
        }
    return changes, {"blocks": blocks, "multiprocessors": str(numbers["multiprocessors"])}


def _pageable_copies(numbers: Numbers) -> _Variant:
    ahead = "; the launches after them come earlier, which saves up to {ahead_ns} more"
    evidence = WORDINGS["pageable_copies"].evidence
    return {"evidence": evidence + ahead} if "ahead_ns" in numbers else {}, {}


def _held_up(kind: FindingKind, blocker: str, numbers: Numbers) -> _Variant:
    """Return evidence that launched work waits on the GPU, and in which stream."""
    if not numbers.get("blocked_ns"):
        return {}, {}
    who = ", mostly {waiter}" if numbers["blocked_kernel"] else ""
    where = "in the same stream" if numbers["same_stream"] else "by an event"
    held = f"; launched work waits {{blocked_ns}} for {blocker}, {where}{who}"
    return {"evidence": WORDINGS[kind].evidence + held}, {"waiter": readable(numbers["blocked_kernel"])}


def _of_a_kernel(numbers: Numbers) -> _Variant:
    name = numbers["kernel"]
    short = readable(name)
    return {}, {"short": shorten(parse(name).base if short == name else short, _KERNEL_WIDTH)}


def _idle(numbers: Numbers) -> _Variant:
    return {}, {"cause": CAUSE_NAMES[numbers["cause"]]}


def _idle_launch(numbers: Numbers) -> _Variant:
    """Return other advice where graphs are in use, and for a part that launches each kernel once."""
    changes = {}
    if numbers["all_first"]:
        changes = {
            "sentence": "First launches leave the GPU idle ({idle_ns})",
            "remedy": "Launching each kernel before",
            "do": "launch each kernel once before the part that counts: a first launch can load it",
            "example": "kernel<<<1, 1>>>(data, 0);  // before the loop",
            "unless": "the program runs each kernel only once by design",
        }
    elif numbers["all_graphs"]:
        changes = {
            "sentence": "Launches of CUDA graphs leave the GPU idle ({idle_ns})",
            "remedy": "Fewer, larger graphs",
            "do": "capture more in one graph, such as several steps; -r gpu_idle lists the gaps",
            "example": "with torch.cuda.graph(graph): [step() for _ in range(4)]"
            if numbers.get("written_in") in ("", PYTORCH)
            else "nsyswrap report CAPTURE -r gpu_idle",
        }
    return changes, _idle(numbers)[1]


def _idle_queued(numbers: Numbers) -> _Variant:
    """Return other advice for a part without kernels."""
    copies = {
        "sentence": "Gaps between queued copies and memsets leave the GPU idle ({idle_ns})",
        "remedy": "Fewer, larger operations",
        "do": "combine small copies, or queue independent copies in different streams",
        "example": "cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream_2);",
    }
    changes = {} if numbers["computes"] else copies
    if "blocked_ns" in numbers:
        what = readable(numbers["blocker_kernel"]) if numbers["blocker_kernel"] else "a copy"
        waits = "; {blocked_ns} of it waiting for {blocker} on another GPU"
        changes = {**changes, "evidence": WORDINGS["idle_queued"].evidence + waits}
        return changes, {**_idle(numbers)[1], "blocker": what}
    return changes, _idle(numbers)[1]


# nsys 2025.3 cannot import the texts of XLA's ranges, and loses all kernels of JAX with them.
_WITHOUT_RANGES = {
    "remedy": "Recording without NVTX",
    "do": "record again without NVTX ranges: nsys could not import those of XLA, and lost events with them",
    "example": "nsyswrap profile --trace cuda -- ...",
}


# nsys 2025.3 lost the kernels of a busy server in most recordings, and by node in none.
_BY_NODE = {
    "remedy": "Launching with --graphs node",
    "do": "launch the program again, with --graphs node: later recordings of this session lack kernels, too",
    "example": "nsyswrap session launch --graphs node",
}


_CUT_OFF = {
    "heading": "Cut off at its end",
    "sentence": "the last GPU work can be missing",
    "remedy": "Recording until the GPU has no work",
    "do": "compare without the last step, or record until the load of the program ends",
    "example": "nsyswrap session launch --when-ready 8137 --load 'COMMAND' -- ...",
    "unless": "a part of the run is enough",
}


def _lost_events(numbers: Numbers) -> _Variant:
    """Return how to record less at once. With marked steps it is fewer of these."""
    first, last = numbers["first_step"], numbers["last_step"]
    listed = {"listed": "; ".join(numbers["losses"])}
    if numbers.get("xla_broke_import"):
        return _WITHOUT_RANGES, listed
    if numbers.get("session_lost_kernels"):
        return _BY_NODE, listed
    if numbers.get("cut_at_its_end"):
        return _CUT_OFF, listed
    if first is None or last is None:
        return {}, listed
    less = "fewer steps" if first < last else "another of the --steps"
    return {
        "do": f"record again, with less at once: {less} or fewer --trace kinds",
        "example": f"nsyswrap profile --steps {(first + last) // 2} -- ...",
    }, listed


def _timed(numbers: Numbers) -> _Variant:
    """Return the ranges with the largest errors, each with its median time and the right one."""
    ranges = [
        f"{'unnamed ranges' if name is None else repr(name)} ({count:,} of {of:,}): {duration(host_ns)}, "
        f"expected {duration(should_ns)}"
        for name, count, of, host_ns, should_ns in numbers["ranges"]
    ]
    more = f"; and {len(ranges) - _MOST_NAMES} more names" if len(ranges) > _MOST_NAMES else ""
    listed = f"{'; '.join(ranges[:_MOST_NAMES])}{more}"
    return {}, {"listed": listed, "tolerance": f"{numbers['tolerance_percent']:.0f}"}


def _ranges_differ(numbers: Numbers) -> _Variant:
    """Return the names of the ranges; one operation of PyTorch has a range for each shape of its inputs."""
    names = dict.fromkeys(range_texts.without_fields(str(name)) for name in numbers["names"])
    return {}, {"listed": _listed([repr(shorten(name, _SHORT_RANGE)) for name in names], _MOST_NAMES)}


def _listed(texts: list[str], most: int) -> str:
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "")


_RETRIED = {"sentence": "the GPU is idle for {idle_ns}; PyTorch ran out of memory {retries:times}"}
_FITTING = {
    "remedy": "Staying within the GPU's memory",
    "do": "use smaller batches or activation checkpointing; expandable segments lessen fragmentation",
    "example": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True python train.py",
    "unless": "input of a new size is rare in a long run",
}
_VARIANTS: Mapping[FindingKind, Callable[[Numbers], _Variant]] = {
    "launch_bound": _launch_bound,
    "host_bound": _host_bound,
    "waiting_for_input": _waiting_for_input,
    "synchronizing": _synchronizing,
    "allocating": _allocating,
    "loading_in_loop": _loading_in_loop,
    "spikes": _spikes,
    "parameter_updates": _parameter_updates,
    "casts": _casts,
    "layout_copies": _layout_copies,
    "elementwise_chains": _elementwise_chains,
    "few_blocks": _few_blocks,
    "last_wave": lambda numbers: ({}, {"listed": f"{numbers['waves']:.2f}"}),
    "pageable_copies": _pageable_copies,
    "copies_not_overlapped": partial(_held_up, "copies_not_overlapped", "them"),
    "exposed_communication": partial(_held_up, "exposed_communication", "it"),
    **dict.fromkeys(("one_kernel", "kernel_drifts", "kernel_varies"), _of_a_kernel),
    "waiting_for_rank": _waiting_for_rank,
    **dict.fromkeys(("memory_near_limit", "memory_grows", "memory_in_steps"), _with_range),
    "idle_profiler": _idle,
    "idle_queued": _idle_queued,
    "idle_load": _idle,
    "idle_allocate": _idle,
    "idle_synchronise": _idle,
    "idle_launch": _idle_launch,
    "idle_copy": _idle,
    "idle_host": _idle,
    "idle_call": _idle,
    "idle_migration": _idle,
    "idle_pages_to_host": _idle,
    "idle_unknown": _idle,
    "events_missing": lambda numbers: (_WITHOUT_RANGES if numbers.get("xla_broke_import") else {}, {}),
    "kernels_missing": lambda numbers: (_BY_NODE if numbers["began_before"] else {}, {}),
    "lost_events": _lost_events,
    "timed_launch_only": _timed,
    "timed_earlier_work": _timed,
    "ranges_differ": _ranges_differ,
}

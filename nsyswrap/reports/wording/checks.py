"""The words for the checks of a capture, and for why one lacks GPU work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from nsyswrap.analysis.diagnostics.run_checks import doubts
from nsyswrap.analysis.finding import CheckResult, Numbers
from nsyswrap.analysis.gpu_operations import GRAPH, KERNEL, MEMCPY, MEMSET
from nsyswrap.analysis.names import RESULTS
from nsyswrap.analysis.no_gpu_work import has_gpu_work, no_gpu_work, was_traced
from nsyswrap.base.check import CUDA_BUILD, Check
from nsyswrap.base.lazy import lazy_imports
from nsyswrap.base.nsys.options import SILENT_NVTX
from nsyswrap.base.run_facts import GpuProcess, GpuUser
from nsyswrap.base.run_folder import EXPORT
from nsyswrap.base.text import clip, counted, printable, shorten
from nsyswrap.base.units import duration, percent
from nsyswrap.capture.capture import Capture
from nsyswrap.capture.schema import collecting, events
from nsyswrap.reports.wording.numbers import Words, in_words

with lazy_imports():  # for doctor alone
    from nsyswrap.analysis.diagnostics import examine

_NOUNS = {
    KERNEL: "kernels",
    MEMCPY: "copies",
    MEMSET: "memsets",
    GRAPH: "whole-graph executions",
    "api": "API calls",
}
# Tables that no report reads -> what they hold. The first pattern that matches counts.
_CONTENTS = {
    "COMPOSITE_EVENTS": "CPU samples",
    "SCHED_EVENTS": "thread switches on the CPU",
    "CUDA_GPU_MEMORY_POOL_EVENTS": "memory pools",
    "CUDA_GRAPH_*": "creation of CUDA graphs",
    "CUBLAS_EVENTS": "calls of cuBLAS",
    "CUDNN_EVENTS": "calls of cuDNN",
    "OSRT_FILE_ACCESS_*": "file accesses",
    "NET_*": "network metrics",
    "FECS_EVENTS": "context switches on the GPU",
    "PERF_EVENT_*": "CPU counters",
    "GENERIC_EVENT*": "events of other sources",
    "VULKAN_*": "Vulkan events",
    "OPENGL_*": "OpenGL events",
    "D?1?_*": "Direct3D events",
    "UCP_*": "UCX calls",
}
_NAME_WIDTH = 40  # columns of the name of a process
_ERROR_WIDTH = 200  # columns of a program's last line on stderr
_MOST_NODES = 4
_FOLLOW = "nsyswrap profile --follow-forks"


def worded(result: CheckResult) -> Check:
    """Return the result of a check in words."""
    effect, cure = (_filled(catalogue.get(result.kind, ""), result) for catalogue in (EFFECTS, CURES))
    possibly = "possibly " if result.numbers.get("is_certain") is False else ""
    text = f"{possibly}{finding_text(result)}{effect and '; '}{effect}"
    return Check(result.level, result.subject, text, cure, result.count, result.time_ns)


def examined(path: Path) -> list[Check]:
    """Return the checks of a capture, or why a run folder has none. Raises CaptureError for other files."""
    return list(map(worded, examine.examine_path(path)))


def why_no_gpu_work(capture: Capture) -> list[Check]:
    """Return why nothing ran on a GPU: facts, then what is possible."""
    return list(map(worded, no_gpu_work(capture.whole, capture.run_facts)))


def why_absent(captures: Sequence[Capture], kinds: Sequence[str]) -> str:
    """Return why captures hold no events of these kinds, and how to collect them unless nsys was to."""
    wanted = [events(kind) for kind in kinds]
    if not all(was_traced(capture, wanted[0].trace) for capture in captures):
        return f"none occurred, or they were not collected (collect with {collecting(wanted[0])})"
    if wanted[0].trace == "cuda" and not any(map(has_gpu_work, captures)):
        return f"none were recorded: {why_no_gpu_work(captures[0])[0]}"
    return f"none were recorded, though --trace {wanted[0].trace} was on"


def events_counted(kind: str, count: int) -> str:
    """Return a number of events with their noun: ``1 copy``, ``1,000 copies``."""
    return counted(count, _NOUNS[kind])


def doubt_texts(capture: Capture) -> Iterator[str]:
    """Yield a sentence for each condition of the run that puts the figures in doubt."""
    for doubt, others in doubts(capture):
        also = f"; also on {others} other GPU{'' if others == 1 else 's'}" if others else ""
        yield f"{finding_text(doubt)}{also}"


def finding_text(result: CheckResult) -> str:
    """Return what a check found, without the effect and the cure."""
    return _filled(TEXTS[result.kind], result)


def _filled(text: Words, result: CheckResult) -> str:
    numbers = {"count": result.count, "time_ns": result.time_ns, **result.numbers}
    if "events" in numbers:
        numbers["events"] = events_counted(numbers["events"], numbers["count"])
    return in_words(text, numbers)


def _no_api_calls(n: Numbers) -> str:
    how = "" if n["was_traced"] else f"; collect with {collecting(events('api'))}"
    return f"no API calls recorded{how}"


def _api_result(of: str) -> Words:
    return lambda n: f"{n['name']} returned {n['code']} ({RESULTS.get(n['code'], 'an error')}): {of}"


def _launches_lost(n: Numbers) -> str:
    """Say why the work is missing, as far as that is known, then name the functions called."""
    listed = ", ".join(f"{count:,} {name}" for name, count in n["functions"])
    cause = "events were dropped or removed"
    if n["late"]:
        ended = "recording probably ended before it ran"
        cause = ended if n["late"] == n["count"] else f"of {n['late']:,}, {ended}; of the others, {cause}"
    return f"{counted(n['count'], 'launch calls')} without recorded work: {cause} ({listed})"


def _no_launch_call(n: Numbers) -> str:
    cause = "launched from the GPU, or the call was dropped or removed"
    if n["early"]:
        before = f"{_of_them(n['early'], n['count'])} before the first work with a launch call"
        cause = f"{before}: recording probably began midway"
    return f"{n['events']} without a recorded launch call, so without API time and NVTX range; {cause}"


def _of_them(number: int, count: int) -> str:
    return "all" if number == count else f"{number:,} of them"


def _overhead(n: Numbers) -> str:
    """Compare the profiler's work with the time in API calls, and with that in which the GPU was idle."""
    times = ((n["in_api_ns"], n["api_ns"], _IN_API), (n["in_idle_ns"], n["idle_ns"], _IN_IDLE))
    shares = [
        f"{duration(part)} {where} ({percent(100 * part / whole)} of that time)"
        for part, whole, where in times
        if whole
    ]
    text = f"in total, {' and '.join(shares) or 'without API calls or GPU idle time to affect'}"
    return f"{text}: these times may be shorter without a profiler" if n["is_much"] else text


_IN_API, _IN_IDLE = "in API calls", "while a GPU was idle"


def _overhead_label(n: Numbers) -> str:
    times = ((n["in_api_ns"], _IN_API), (n["in_idle_ns"], _IN_IDLE))
    parts = [f"{duration(part)} {where}" for part, where in times if part]
    more = "; also present without a profiler" if n["of_cuda"] else ""
    return f"{n['label']}: {' and '.join(parts) or f'none {_IN_API} or {_IN_IDLE}'}{more}"


def _throttled(n: Numbers) -> str:
    clock = ""
    if n["least_mhz"] is not None:
        low, high = f"{n['least_mhz']:.0f}", f"{n['most_mhz']:.0f}"
        clock = f": SM clock {low} MHz" if low == high else f": SM clock {low} to {high} MHz"
    reasons = ", ".join(n["reasons"])
    return f"GPU {n['gpu']} throttled ({reasons}) in {percent(n['throttled_percent'])} of samples{clock}"


def _varied(n: Numbers) -> str:
    clock = f"from {n['low_mhz']:.0f} to {n['high_mhz']:.0f} MHz (5th to 95th percentile)"
    return f"GPU {n['gpu']}: SM clock varied {clock}"


def _other_processes(n: Numbers) -> str:
    first, *more = n["processes"]
    doubt = "" if n["is_known"] else "possibly "
    several = f"{len(more) + 1} other processes" if more else "another process"
    name = f"{shorten(printable(first.name), _NAME_WIDTH)}, " if first.name else ""
    rest = f" and {len(more)} more" if more else ""
    return f"{doubt}{several} on GPU {n['gpu']}: {name}pid {first.pid}{rest}"


def _far_from_cores(n: Numbers) -> str:
    nodes = n["core_nodes"]
    listed = f"node{'' if len(nodes) == 1 else 's'} {', '.join(map(str, nodes[:_MOST_NODES]))}"
    return f"GPU {n['gpu']} is on NUMA node {n['node']}, the cores of the program on {listed}"


def _maximum(n: Numbers) -> str:
    return f" (maximum {n['max_mhz']})" if n["max_mhz"] else ""


def _failed_launches(n: Numbers) -> str:
    count = "the only launch" if n["launches"] == 1 else f"all {n['launches']:,} launches"
    return f"{count} failed: {RESULTS.get(n['code'], 'an error')} ({n['code']})"


def _program_error(n: Numbers) -> str:
    line = clip(n["line"], _ERROR_WIDTH)
    return f"{n['ending'] or 'the program ended with an error'}{': ' if line else ''}{line}"


def _recorded(n: Numbers) -> str:
    return "an unknown time" if n["recorded_ns"] is None else duration(n["recorded_ns"])


def _range(n: Numbers) -> str:
    return (
        f"the range of steps {n['steps']}" if n["steps"] else f"the capture range {n['range'] or ''}".strip()
    )


def _range_cure(n: Numbers) -> str:
    if n["steps"]:
        return "record other --steps, or end steps elsewhere with --step-at"
    return "open the range before the GPU work and close it after a synchronization"


def _window(n: Numbers) -> str:
    options = " ".join(f"--{name} {value:g}" for name, value in n["options"].items())
    return f"the GPU work lay outside the {_recorded(n)} that {options} recorded"


def _api_calls(n: Numbers) -> str:
    unused = ", and no process of the run was seen to use CUDA (checked twice a second)"
    if not n["calls"]:
        return f"nsys recorded no CUDA call{unused if n['was_unused'] else ''}"
    launched = f"{n['launches']:,} of them {'a launch' if n['launches'] == 1 else 'launches'}"
    count = f"nsys recorded {counted(n['calls'], 'CUDA API calls')}"
    return f"{count}, {launched if n['launches'] else 'but no launch'}"


def _named(processes: Sequence[GpuUser | GpuProcess]) -> str:
    first = processes[0]
    one = f"{first.pid} ({first.name})" if first.name else str(first.pid)
    return f"process {one}" if len(processes) == 1 else f"{len(processes)} processes such as {one}"


def _forks(n: Numbers) -> str:
    fact = f"nsys does not record forks: {_named(n['processes'])} used CUDA"
    return fact if n["is_certain"] else f"the GPU work was in forks ({fact})"


def _not_followed_cure(n: Numbers) -> str:
    kinds = {user.forked for user in n["processes"]}
    if n["follows_forks"] and kinds != {False}:
        return "call cudaProfilerStop at the end of workers: os._exit loses events"
    if None in kinds:
        return f"if forked, use {_FOLLOW}; else profile it alone"
    return "start workers with the environment of the program, or profile them"


def _unread(n: Numbers) -> str:
    parts = [f"{table}{_content(table)} ({counted(count, 'rows')})" for table, count in n["tables"].items()]
    return f"no report reads {', '.join(parts)}"


def _content(table: str) -> str:
    return next((f": {text}" for pattern, text in _CONTENTS.items() if fnmatchcase(table, pattern)), "")


_AGAIN = "reports cannot tell these events apart. Export the .nsys-rep again"
_SAME_CLOCK = "compare with runs at the same clock, or lock a lower clock with `nvidia-smi -lgc`"
_BY_ID = "operations without a process ({count}; no globalPid) are matched to calls by correlation id alone"
# What to do after a call with such a result, which leaves a program without a GPU.
RESULT_CURES = {
    **dict.fromkeys((35, 222), "update the driver, or use an older CUDA"),
    **dict.fromkeys((98, 200, 209), "build for this GPU, for example with nvcc -arch=native"),
    100: "run nsyswrap doctor",
    101: "choose a device that exists: CUDA_VISIBLE_DEVICES",
    802: "start the fabric manager: systemctl start nvidia-fabricmanager",
    803: "restart the machine: the driver was updated",
}
TEXTS: Mapping[str, Words] = {
    # The file, and how the run ended
    "run_failed": "{ending}",
    "run_cut_short": "{ending}; the capture may end early",
    "run_ended": "the run ended well",
    "no_export": lambda n: n["ending"] or f"the run left no {EXPORT}",
    "log_unreadable": "{log} cannot be read: {error}",
    "nsys_fault": "{fault}",
    "damage_unknown": "looking for damage took longer than {patience_s} s",
    "damaged": "the file is damaged: {damage}",
    "tables_readable": "all tables can be read",
    "undamaged": "SQLite's quick check found no damage",
    "newer_format": "{newer}",
    "newer_row": "{newer}",
    "format_unknown": "nsys version unknown: before 2022, or the file was trimmed",
    "format_unknown_row": "nsys version unknown: written before 2022, or the file was trimmed",
    "format_known": "written by nsys {nsys}, schema {schema}",
    "format_known_row": (
        "written by nsys {nsys} (schema {schema}); not newer than the versions that nsyswrap was tested with"
    ),
    "gpu_work": lambda n: ", ".join(events_counted(kind, count) for kind, count in n["counts"].items()),
    "no_gpu_work": lambda n: f"no GPU work: {worded(n['cause']).text}",
    "not_checked": "not checked: {missing}",
    "not_made": "{missing}",
    "no_problem": lambda n: f"no problem found in {', '.join(n['checks'])}",
    "all_read": "every table with events is read by a report",
    "unread": _unread,
    "size": lambda n: (
        f"{n['bytes'] / 1e6:,.1f} MB, {n['rows']:,} CUDA and NVTX {'event' if n['rows'] == 1 else 'events'}; "
        f"the screen takes roughly {n['screen_s']:,.1f} s"
    ),
    # The contents of the capture
    "no_messages": (
        "this export has no diagnostics (nsys writes them since 2024.2); events may have been dropped"
    ),
    "message": "nsys: {text}",
    "loss": "nsys: {text}. Counts and totals may be too low; record less at once.",
    "loss_by_xla": (
        "nsys: {text}. nsys could not import the NVTX ranges of XLA, and lost events with them; "
        "record with --trace cuda."
    ),
    "no_warnings": "nsys reported no warnings and no dropped events",
    "no_api": _no_api_calls,
    "no_results": "this export has no return values of API calls",
    "no_call_failed": lambda n: f"no API call failed; {events_counted('api', n['calls'])} returned success",
    "api_answer": _api_result("a regular result, not a failure"),
    "api_echo": _api_result("repeats the error of an earlier call"),
    "context_lost": _api_result("the CUDA context is lost; no later work ran in it"),
    "call_failed": _api_result("the call had no effect; its time still counts"),
    "names_lost": "the export lacks the names of {count} of {of} {title}; " + _AGAIN,
    "no_whole_graph": "no CUDA graph is recorded as a whole",
    "whole_graphs": (
        "{events}: the kernels inside are in no kernel report; profile with --graphs node to record them"
    ),
    "no_ranges": "no NVTX ranges",
    "silent_nvtx": (
        "no NVTX ranges, only domains: possibly the package nvtx "
        f"{'.'.join(map(str, SILENT_NVTX))} or newer, which is silent under nsys 2024"
    ),
    "ranges_ended": "all {of} ranges have an end",
    "range_ended": "the only range has an end",
    "ranges_open": "{count} of {of} ranges have no end; nsys' own reports end them at the last NVTX event",
    # Launches and times
    "launches_failed": "{count:launch calls} failed and started nothing; the GPU work is missing",
    "launches_lost": _launches_lost,
    "launches_captured": (
        "{count:launch calls} during CUDA graph capture; the work starts with the launch of the graph"
    ),
    "launches_recorded": "the work of every launch call is recorded",
    "other_launches_recorded": "the work of every other launch call is recorded",
    "no_launch_calls": "no launch calls",
    "no_api_to_check": "no API call to check",
    "no_work_to_check": "no launched GPU operation to check",
    "ids_unique": "no correlation id is shared by two calls of one process",
    "no_launch_call": _no_launch_call,
    "calls_recorded": "every launch call is recorded",
    "ids_shared": (
        "{events} with a correlation id shared by two calls of the process: the API time, latency and NVTX "
        "range may belong to the other call"
    ),
    "by_id_of_several": _BY_ID + "; calls of {processes} processes may be mixed up",
    "by_id_of_one": _BY_ID + "; this is correct for a single process",
    "times_sound": "every operation and API call has a start and an end, in this order",
    "nothing_launched": "no operation with a launch call to compare",
    "before_launch": (
        "{events} began up to {time_ns} before the launch call: the clocks disagree by this much; shorter "
        "latencies and queue times are not reliable"
    ),
    "after_launch": "no operation began before its launch call; shortest delay {delay_ns}",
    "backwards": (
        "{events} ended up to {time_ns} before the start: negative durations make totals and means too low"
    ),
    "before_zero": "{events} started at 0 ns or before: not a measured time, as recording begins at 0",
    "no_overhead": "no overhead recorded; the effect of profiling on API calls is unknown",
    "overhead": _overhead,
    "overhead_label": _overhead_label,
    # The conditions of the run
    "no_conditions": "clocks, throttling and other processes not recorded; record with `nsyswrap profile`",
    "conditions_unknown": "clocks and throttling unknown: {why}",
    "throttled": _throttled,
    "clock_varied": _varied,
    "far_from_cores": _far_from_cores,
    "other_processes": _other_processes,
    "idle_clock": (
        "GPU {gpu} had its idle clock in {idle_percent} of the samples around its work: kernels may begin at "
        "a low clock"
    ),
    "few_samples": (
        "{samples:samples} while GPU {gpu} worked, one every {every_ms} ms: too few to judge its clock "
        "(at least {fewest})"
    ),
    "no_clock": "GPU {gpu} did not report its SM clock",
    "steady_clock": lambda n: (
        f"GPU {n['gpu']}: steady SM clock of {n['median_mhz']:.0f} MHz{_maximum(n)}, median of "
        f"{counted(n['samples'], 'samples')}"
    ),
    "no_throttling": "GPU {gpu} did not report why its clock was reduced",
    "seldom_throttled": "GPU {gpu}: throttled in {throttled_percent} of {samples:samples}",
    "full_clock": "GPU {gpu}: SM clock at its maximum in each of {samples:samples}",
    "no_other_process": "no other process found on the GPUs of the run",
    "processes_unknown": "the processes on the GPUs of the run are not known",
    "host_load": lambda n: (
        f"load of {n['load']:.1f} before the run on {n['cores']} cores: unless an earlier run caused it, "
        "other programs may have delayed the host"
    ),
    # Why there is no GPU work, or none of a process
    "no_gpu": "this machine has no usable GPU: {error}",
    "cuda_not_traced": lambda n: f"CUDA was not traced{': --trace=' if n['trace'] else ''}{n['trace']}",
    "launches_all_failed": _failed_launches,
    "fatal_call": lambda n: f"{n['name']} failed: {RESULTS[n['code']]} ({n['code']})",
    "cpu_torch": "PyTorch {version} of the program's Python is a CPU build, and no CUDA call was recorded",
    "program_error": _program_error,
    "other_profiler": lambda n: (
        f"another profiler used CUPTI{'' if n['pid'] is None else ' in process '}"
        f"{'' if n['pid'] is None else n['pid']}, so nsys could not trace CUDA"
    ),
    "unsupported_driver": "nsys says: {text}",
    "no_permission": "nsys says: {text}",
    "old_nsys": "nsys {nsys} is too old for CUDA {cuda}",
    "range_without_launch": lambda n: (
        f"{_range(n)} was open for {_recorded(n)}, and no launch was recorded in it"
    ),
    "work_outside_range": lambda n: (
        f"the GPU work lay outside {_range(n)}, which was open for {_recorded(n)}"
    ),
    "work_outside_window": _window,
    "client_of_mps": lambda n: (
        f"the program was a client of MPS: {n['variable']} was set"
        if n["variable"]
        else f"the program was a client of MPS: nsys says: {n['text']}"
    ),
    "wsl": "CUDA cannot be traced on this WSL (kernel {kernel})",
    "forks": _forks,
    "not_followed": lambda n: f"nsys has no CUDA events of {_named(n['processes'])}, which used CUDA",
    "unflushed": lambda n: (
        f"nsys reports that CUDA events may be missing from process{'' if len(n['pids']) == 1 else 'es'} "
        f"{', '.join(map(str, n['pids']))}"
    ),
    "cuda_events_lost": "nsys reported missing CUDA events: {text}",
    "events_lost": "CUDA events were lost, nsys says: {text}",
    "api_calls": _api_calls,
    "strangers": lambda n: f"the GPU work ran in {_named(n['processes'])}, which is not part of the run",
    "possible_forks": "the work was in workers that were forked without an exec",
    "raw_timestamps": "nsys cannot read the GPU's raw timestamps here",
    "cannot_trace": "CUDA cannot be traced here: WSL, or a virtual GPU without profiling",
    "elsewhere": (
        "the work was in a process that nsys does not follow: a daemon, a container or another node"
    ),
}
# The effect of a condition of the run, and what to do, which a screen has no room for.
EFFECTS: Mapping[str, Words] = {
    "throttled": lambda n: f"kernels may have been slower than at full clock{_maximum(n)}; {_SAME_CLOCK}",
    "clock_varied": lambda n: f"equal kernels may differ by {n['range_percent']:.0f} %; {_SAME_CLOCK}",
    "far_from_cores": (
        "copies and launches take longer; run it with numactl --cpunodebind={node} --membind={node}"
    ),
    "other_processes": "this may have delayed the work of this program; run again on a GPU of your own",
    "silent_nvtx": "use nsys 2025 or newer, or pip install 'nvtx<0.2.12'",
}
CURES: Mapping[str, Words] = {
    "no_export": "{hint}",
    "nsys_fault": "{cure}",
    "run_cut_short": "profile again",
    "damaged": "export the .nsys-rep again",
    "newer_format": "use a newer nsyswrap",
    "unread": "open the .nsys-rep with nsys-ui",
    "no_gpu_work": lambda n: worded(n["cause"]).cure,
    "no_gpu": "record where a GPU is, or see nsyswrap demo",
    "cuda_not_traced": "use nsyswrap profile --trace cuda,nvtx",
    "launches_all_failed": lambda n: RESULT_CURES.get(n["code"], ""),
    "fatal_call": lambda n: RESULT_CURES[n["code"]],
    "cpu_torch": CUDA_BUILD,
    "program_error": "run the program without nsys first",
    "other_profiler": "turn off the other profiler or CUPTI library of the program",
    "unsupported_driver": "record with a newer nsys",
    "no_permission": "run nsyswrap doctor",
    "old_nsys": "record with nsys {first} or newer",
    "range_without_launch": _range_cure,
    "work_outside_range": _range_cure,
    "work_outside_window": "change --delay and --duration",
    "client_of_mps": "record without MPS",
    "wsl": "update WSL, the driver and nsys, or record on Linux",
    "forks": f"start workers with spawn, or use {_FOLLOW}",
    "not_followed": _not_followed_cure,
    "unflushed": "call cudaProfilerStop at the end: os._exit and signals lose events",
    "strangers": "profile that process, for example the server or the Ray worker",
    "possible_forks": f"use {_FOLLOW}",
    "raw_timestamps": (
        "record with NSYS_CONFIG_DIRECTIVES=CuptiUseRawGpuTimestamps=false in the environment"
    ),
    "cannot_trace": "turn on profiling of the virtual GPU, or record on another machine",
}
